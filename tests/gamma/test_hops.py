import numpy as np
import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.testing import tiny_graph, trained_model


def test_hops_are_powers_of_the_adjacency_and_lie_node_by_node():
    model, graph = trained_model(), mg.unlabelled(tiny_graph())
    hops = model.hops(graph)
    dense = graph.adjacency.matrix.to_dense()
    h = model.encode(graph.x).detach()
    for k in range(model.num_hops + 1):
        torch.testing.assert_close(hops.stack[:, k], torch.linalg.matrix_power(dense, k) @ h)
    assert hops.stack.is_contiguous()
    assert hops.stack.shape == (120, 4, 8)


@pytest.mark.parametrize("num_classes", [3, 9])
def test_class_sums_over_the_hops_of_another_graph(num_classes):
    generator = torch.Generator().manual_seed(0)
    stack, other = torch.randn(2, 40, 4, 16, generator=generator)
    hop_weights, head = torch.randn(4, generator=generator), torch.nn.Linear(16, num_classes)
    hops, over = Hops(stack), Hops(other)
    with torch.no_grad():
        own, _, mass = hops.classify(hop_weights, head)
        probs, sums, same_mass = hops.classify(hop_weights, head, over=over)
    torch.testing.assert_close(probs, own)
    np.testing.assert_allclose(same_mass, mass)
    wanted = torch.einsum("nc,nkd->ckd", own.double(), other.double())
    np.testing.assert_allclose(sums, wanted, atol=1e-4)


def test_a_changed_or_other_head_is_computed_again():
    hops, hop_weights = Hops(torch.randn(50, 3, 8)), torch.randn(3)
    head = torch.nn.Linear(8, 2).requires_grad_(False)
    first = hops.classify(hop_weights, head)[0]
    head.weight.mul_(-1)
    changed = hops.classify(hop_weights, head)[0]
    assert not torch.allclose(first, changed)
    other = torch.nn.Linear(8, 2).requires_grad_(False)
    expected = other(hops.mix(hop_weights)).softmax(-1)
    torch.testing.assert_close(hops.classify(hop_weights, other)[0], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("change", ["graph", "encoder", "batch norm"])
def test_hops_are_never_silently_reused(change):
    model, graph = trained_model(), tiny_graph()
    hops = model.hops(mg.unlabelled(graph))
    if change == "graph":
        graph.x[0, 0] += 1
    elif change == "encoder":
        model.linear.weight.data[0, 0] += 1
    else:
        model.norm.running_mean[0] += 1
    with pytest.raises(mg.IncompatibleError, match="another"):
        mg.gamma.run(model, graph, strategy=mg.Matcha(rounds=1), hops=hops)


def test_hops_are_reused_for_other_gamma_and_head():
    model, graph = trained_model(), tiny_graph()
    hops = model.hops(mg.unlabelled(graph))
    model.gamma.data += 0.1
    fresh = mg.gamma.run(model, graph, strategy=mg.Matcha(rounds=3))
    cached = mg.gamma.run(model, graph, strategy=mg.Matcha(rounds=3), hops=hops)
    assert torch.equal(fresh.probs, cached.probs)


@pytest.mark.parametrize("classes", [3, 9])
def test_squares_that_are_too_large_for_float32_are_taken_in_float64(classes):
    generator = torch.Generator().manual_seed(0)
    stack, weights = torch.randn(40, 3, 8, generator=generator), np.array([0.5, -0.3, 0.2])
    probs = torch.randn(40, classes, generator=generator).softmax(1)
    mass, scale = probs.sum(0).double().numpy(), 1e25
    small, large = Hops(stack), Hops(stack * scale)
    np.testing.assert_allclose(large.gram / scale**2, small.gram, rtol=1e-4, atol=1e-4)
    for of in (Hops.sums, lambda hops, c, p: hops.class_sums(p)):
        slopes = [
            hops.between_slope(
                weights, probs, mass, of(hops, torch.tensor(weights).float(), probs), 0
            )
            for hops in (small, large)
        ]
        np.testing.assert_allclose(slopes[1] / scale**2, slopes[0], rtol=1e-3, atol=1e-4)


def test_pic_of_large_features_is_that_of_small_ones():
    model, graph = trained_model(), tiny_graph()
    probs = torch.eye(3)[graph.y]
    values = []
    for scale in (1.0, 1e20):
        hops = Hops(model.hops(graph).stack * scale)
        view = mg.View(model, mg.unlabelled(graph), hops, model.gamma.detach(), 0)
        values.append(mg.PIC().value(view, mg.Prediction(probs)))
    assert values[1] == pytest.approx(values[0], rel=1e-4)
