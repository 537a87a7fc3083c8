import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.metrics import calinski_harabasz_score

from matcha_gnn import metrics
from matcha_gnn.gamma import functional
from matcha_gnn.kernels import reference

TINY = 1e-12


def draw(num_nodes=60, num_hops=4, width=3, num_classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    stack = torch.randn(num_nodes, num_hops, width, generator=generator, dtype=torch.float64)
    probs = torch.rand(num_nodes, num_classes, generator=generator, dtype=torch.float64)
    hop_weights = torch.randn(num_hops, generator=generator, dtype=torch.float64)
    return stack, probs / probs.sum(1, keepdim=True), hop_weights


def forms(stack, probs, min_share=TINY):
    mean = reference.node_sums(stack) / len(stack)
    sums, mass = reference.class_sums(stack, probs), probs.sum(0).numpy()
    return functional.between_form(sums, mass, mean, min_share), reference.gram(stack, mean)


def test_entropy_equals_scipy():
    probs = draw()[1]
    expected = scipy.stats.entropy(probs.numpy(), axis=1)
    np.testing.assert_allclose(functional.entropy(probs), expected, rtol=1e-12)


def test_one_hot_pic_is_the_calinski_harabasz_score_in_disguise():
    stack, probs, hop_weights = draw(num_nodes=80)
    z, labels = reference.mix(stack, hop_weights), probs.argmax(1)
    score = calinski_harabasz_score(z.numpy(), labels.numpy())
    num_classes = probs.shape[1]
    expected = 1 / (1 + score * (num_classes - 1) / (len(z) - num_classes))
    one_hot = torch.eye(num_classes, dtype=torch.float64)[labels]
    assert functional.pic(z, one_hot, TINY).item() == pytest.approx(expected, abs=1e-12)


def test_pic_equals_the_papers_definition_written_out():
    stack, probs, hop_weights = draw()
    z = reference.mix(stack, hop_weights).numpy()
    y = probs.numpy()
    intra = inter = 0.0
    for c in range(y.shape[1]):
        mean = (y[:, c, None] * z).sum(0) / y[:, c].sum()
        intra += sum(y[i, c] * ((z[i] - mean) ** 2).sum() for i in range(len(z)))
        inter += y[:, c].sum() * ((mean - z.mean(0)) ** 2).sum()
    ours = functional.pic(torch.from_numpy(z), probs, TINY).item()
    assert ours == pytest.approx(intra / (intra + inter), abs=1e-12)
    difference = functional.difference(torch.from_numpy(z), probs, TINY).item()
    assert difference == pytest.approx((intra - inter) / len(z), abs=1e-12)


@pytest.mark.parametrize("name", ["pic", "difference"])
@pytest.mark.parametrize("seed", range(5))
def test_sums_form_agrees_with_autograd_in_value_and_gradient(name, seed):
    stack, probs, hop_weights = draw(seed=seed)
    hop_weights.requires_grad_(True)
    plain = getattr(functional, name)(reference.mix(stack, hop_weights), probs, TINY)
    (gradient,) = torch.autograd.grad(plain, hop_weights)
    extra = (len(stack),) if name == "difference" else ()
    fixed = hop_weights.detach().numpy()
    slopes = (form @ fixed for form in forms(stack, probs))
    value, slope = getattr(functional, f"{name}_from_slopes")(fixed, *slopes, *extra)
    assert value == pytest.approx(plain.item(), abs=1e-10)
    np.testing.assert_allclose(slope, gradient, atol=1e-10)


def test_no_gamma_beats_the_top_generalised_eigenvector():
    stack, probs, _ = draw(num_nodes=100, num_hops=5)
    between, total = forms(stack, probs)
    best = functional.best_hop_weights(between, total)
    least, slope = functional.pic_from_forms(best, between, total)
    assert np.abs(slope).max() < 1e-10
    assert best @ total @ best == pytest.approx(1)
    tries = np.random.default_rng(0).standard_normal((2000, 5))
    assert all(functional.pic_from_forms(c, between, total)[0] >= least - 1e-12 for c in tries)


def test_forms_that_are_not_finite_or_zero_have_no_best_gamma():
    between, total = forms(*draw()[:2])
    for bad in (0 * total, total * np.nan):
        assert np.isnan(functional.best_hop_weights(between, bad)).all()


@pytest.mark.parametrize("name", ["entropy_terms", "pseudo_label_terms"])
def test_node_terms_carry_their_own_derivative(name):
    logits = torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    probs = logits.flip(0).softmax(-1)
    arguments = () if name == "entropy_terms" else (probs,)
    logits.requires_grad_(True)
    values, slopes = getattr(functional, name)(logits, *arguments)
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    torch.testing.assert_close(slopes, gradient)


def test_node_terms_equal_torch():
    logits = torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    entropies = torch.distributions.Categorical(logits=logits).entropy()
    torch.testing.assert_close(functional.entropy_terms(logits)[0], entropies)
    probs = logits.flip(0).softmax(-1)
    expected = torch.nn.functional.cross_entropy(logits, probs.argmax(1), reduction="none")
    torch.testing.assert_close(functional.pseudo_label_terms(logits, probs)[0], expected)


def test_recall_f1_and_average_precision_are_those_of_counts():
    hits, true, guessed = (
        torch.tensor([3.0, 0.0, 0.4]),
        torch.tensor([4.0, 2.0, 0.5]),
        torch.ones(3),
    )
    torch.testing.assert_close(metrics.recall(hits, true), torch.tensor([0.75, 0.0, 0.8]))
    expected = torch.tensor([6 / 5, 0.0, 0.8 / 1.5])
    torch.testing.assert_close(metrics.f1(hits, true, guessed), expected)
    # A class of less than half a node has none.
    assert metrics.recall(torch.tensor([0.4]), torch.tensor([0.49])).isnan().all()
    assert metrics.average_precision(torch.tensor([0.3, 0.2]), torch.zeros(2).bool()) == 0
    one = torch.tensor([False, True, False])
    assert metrics.average_precision(torch.tensor([0.9, 0.8, 0.1]), one) == 0.5
