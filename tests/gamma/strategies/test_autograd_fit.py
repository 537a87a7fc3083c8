"""The fit for models without cached hops agrees with the one for models that have some."""

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.strategies import Task
from matcha_gnn.gamma.strategies.autograd_fit import fit_by_autograd
from matcha_gnn.gamma.strategies.run import Run
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.gamma.weights import fit_hop_weights


def run_of(model):
    run = Run(Task(model, mg.unlabelled(tiny_graph()), mg.ERM(), 0, None, lambda done, total: None))
    run.predict()
    return run


def appnp():
    model = mg.APPNP(6, 3, hidden_channels=8, K=3)
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=60)
    return model


def wanted():
    """Sure, but not certain, of the true classes."""
    truth = torch.nn.functional.one_hot(tiny_graph().y, 3).float()
    return 0.9 * truth + 0.1 / 3


def cross_entropy(run, gamma, targets):
    """At the best scale of the logits."""
    with torch.no_grad():
        logits = run.logits_at(gamma)
    scales = 2.0 ** torch.linspace(-4, 4, 200)
    return min(float(-(targets * (s * logits).log_softmax(1)).sum(1).mean()) for s in scales)


@pytest.mark.parametrize("make", [appnp, trained_model])
def test_both_fits_reach_the_same_cross_entropy(make):
    run, targets = run_of(make()), wanted()
    reference = fit_hop_weights(run.view, targets, intercept=False).gamma
    found = fit_by_autograd(run, targets)
    start = cross_entropy(run, run.gamma.detach(), targets)
    best, reached = (cross_entropy(run, gamma, targets) for gamma in (reference, found))
    assert start - best > 0.01
    assert reached == pytest.approx(best, abs=0.01 * (start - best) + 1e-4)


def test_gamma_stays_where_nothing_is_finite():
    run = run_of(appnp())
    found = fit_by_autograd(run, torch.full_like(wanted(), torch.nan))
    assert torch.equal(found, run.gamma.detach())


class Valley:
    """A run whose logits bend: the cross entropy is concave where the fit starts."""

    def __init__(self, noise):
        self.gamma = torch.tensor([0.2, 0.2], dtype=torch.float64)
        self.noise = noise

    def logits_at(self, gamma):
        first, second = gamma
        return torch.stack([second**2 - first, first * second * (1 + self.noise)])[None]


def test_rounding_stays_rounding():
    targets = torch.tensor([[0.999, 0.001]], dtype=torch.float64)
    exact, other = (fit_by_autograd(Valley(noise), targets) for noise in (0.0, 1e-15))
    assert (exact - torch.tensor([0.2, 0.2])).abs().max() > 0.5
    torch.testing.assert_close(other, exact, atol=1e-10, rtol=0)
