"""PIC where there is nothing to cluster: nodes that are all equal, or one predicted class."""

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma import functional
from matcha_gnn.gamma.methods import Prediction, View
from matcha_gnn.gamma.testing import tiny_graph, trained_model

STRATEGIES = mg.Matcha(rounds=3), mg.ClosedForm(loss=mg.PIC()), mg.Unadapted()
PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def equal_nodes(dtype, spread=0.0):
    graph = tiny_graph()
    noise = torch.randn(graph.x.shape, generator=torch.Generator().manual_seed(0))
    graph.x = (graph.x[:1] + spread * noise).to(dtype)
    # Sums over neighbours of equal nodes differ by rounding alone: each has two.
    ring = torch.arange(len(graph.x))
    graph.edge_index = torch.cat(
        [torch.stack([ring, ring.roll(1)]), torch.stack([ring, ring.roll(-1)])], 1
    )
    return graph


def view_of(graph, dtype):
    model = trained_model().to(dtype).frozen()
    return View(model, mg.unlabelled(graph), model.hops(graph), model.gamma.detach(), 0)


@PRECISIONS
def test_equal_nodes_have_no_clusters(dtype):
    view = view_of(equal_nodes(dtype), dtype)
    probs = torch.eye(3, dtype=dtype)[torch.arange(len(view.graph.x)) % 3]
    value, slope = mg.PIC().from_sums(view, Prediction(probs), None)
    assert value == 1
    assert not slope.any()
    z = view.hops.mix(view.hop_weights).requires_grad_(True)
    plain = mg.PIC()(z, probs, probs)
    assert plain == 1
    assert not torch.autograd.grad(plain, z)[0].any()


@PRECISIONS
@pytest.mark.parametrize("spread", [0.0, 1e-12, 1e-9, 1e-7, 1e-5])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pic_is_a_share_however_near_the_nodes_are(dtype, spread, strategy):
    model = trained_model().to(dtype)
    result = mg.gamma.run(model, equal_nodes(dtype, spread), strategy=strategy)
    assert 0 <= result.pic_before <= 1
    assert 0 <= result.pic_after <= 1
    assert all(0 <= value <= 1 for value in result.trace.loss)


@PRECISIONS
def test_the_closed_form_stays_where_all_hop_weights_are_alike(dtype):
    """One predicted class, equal nodes, or predictions that do not depend on nodes."""
    view = view_of(tiny_graph(), dtype)
    nodes = len(view.graph.x)
    for probs in (
        torch.eye(3, dtype=dtype)[torch.zeros(nodes).long()],
        torch.full((nodes, 3), 1 / 3),
    ):
        best = mg.PIC().minimiser(view, Prediction(probs.to(dtype)), None)
        assert best.tolist() == view.hop_weights_array.tolist()
    equal = view_of(equal_nodes(dtype), dtype)
    best = mg.PIC().minimiser(
        equal, Prediction(torch.eye(3, dtype=dtype)[torch.arange(nodes) % 3]), None
    )
    assert best.tolist() == equal.hop_weights_array.tolist()


def test_rounding_never_makes_clusters_better_than_perfect():
    hop_weights, ones = torch.tensor([1.0]).double().numpy(), torch.tensor([1.0]).double().numpy()
    assert functional.pic_from_slopes(hop_weights, 1.0001 * ones, ones)[0] == 0
    assert functional.pic_from_slopes(hop_weights, -1e-9 * ones, ones)[0] == 1
