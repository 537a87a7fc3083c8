"""Theorem 4.1 and the lemma for ERM hold on runs of the library."""

import pytest
import torch

import matcha_gnn as mg
from matcha_paper.convergence import (
    gradient_bound,
    lipschitz,
    own_pic,
    smoothness,
    theorem_step,
)


@pytest.fixture(scope="module")
def shifted():
    """Hops of a graph of another homophily, the classifier, and γ, in float64."""
    data = {"num_nodes": 300, "num_features": 20, "signal": 2.0}
    source = mg.datasets.csbm(**data, homophily=0.8, seed=0)
    target = mg.datasets.csbm(**data, homophily=0.2, seed=1)
    for graph in (source, target):
        graph.x = graph.x.double()
    model = mg.GPRGNN(20, 2, hidden_channels=6, K=3).double()
    mg.fit(model, source, epochs=60)
    hops = model.hops(mg.unlabelled(target)).stack
    return hops, model.head.weight.detach(), model.gamma.detach().clone()


def mixed(hops, gamma):
    return torch.einsum("nkd,k->nd", hops, gamma)


def test_beta_is_the_largest_second_derivative():
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(7, 2, generator=generator, dtype=torch.float64)
    weight = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    matrix = torch.autograd.functional.hessian(lambda flat: own_pic(flat.view(7, 2), weight), z)
    largest = torch.linalg.eigvalsh(matrix.reshape(14, 14)).abs().max()
    assert smoothness(z, weight, iterations=500) == pytest.approx(float(largest), rel=1e-3)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_gradient_through_predictions_stays_below_the_lemma(shifted, scale):
    hops, weight, gamma = shifted
    z, weight = mixed(hops, gamma), scale * weight
    through = z.clone().requires_grad_()
    probs = (through @ weight.T).softmax(1)
    loss = mg.gamma.functional.pic(z, probs, mg.PIC().min_share)
    (slope,) = torch.autograd.grad(loss, through)
    # The proof's own constant, which has the loss as a factor, is smaller.
    assert 0 < float(slope.norm()) <= lipschitz(weight) * loss.item() <= lipschitz(weight)


def test_the_theorem_bounds_the_gradients_of_a_run(shifted):
    hops, weight, gamma = shifted
    beta = max(
        smoothness(mixed(hops, at), weight) for at in (gamma, 0.9 * gamma, gamma + 0.02, -gamma)
    )
    step, rounds, slopes = theorem_step(hops, 2 * beta), 40, []
    start = own_pic(mixed(hops, gamma), weight).item()
    for _ in range(rounds):
        moved = gamma.clone().requires_grad_()
        true, used = (
            torch.autograd.grad(own_pic(mixed(hops, moved), weight, through=through), moved)[0]
            for through in (True, False)
        )
        slopes.append(float(true.square().sum()))
        assert smoothness(mixed(hops, gamma), weight) < 2 * beta, "β holds where the run goes"
        gamma = gamma - step * used
    bound = gradient_bound(hops, 2 * beta, start, rounds, lipschitz(weight))
    assert sum(slopes) / rounds <= bound
    without_error = gradient_bound(hops, 2 * beta, start, rounds, 0.0)
    assert 0 < without_error < bound
    assert float(own_pic(mixed(hops, gamma), weight)) < start
