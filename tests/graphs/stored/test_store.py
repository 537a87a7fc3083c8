"""A graph in a folder gives what the same graph in memory gives, whatever the blocks."""

import numpy as np
import pytest
import torch
from small_stores import (
    FEATURES,
    WIDTH,
    largest,
    set_blocks,
    source_model,
    target_graph,
)
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.graphs.stored import matrix
from matcha_gnn.graphs.stored.target import planned

UNGUARDED = {"strategy": mg.Matcha(rounds=6)}
CASES = {
    "erm": UNGUARDED,
    "closed form": {"strategy": mg.ClosedForm(mg.PIC(), rounds=2)},
    "difference": {"strategy": mg.Matcha(mg.Difference(), lr=1e-3, rounds=6)},
    "entropy": {"strategy": mg.Matcha(mg.Entropy(), rounds=6)},
    "sure": {"strategy": mg.ClosedForm(mg.SURE())},
    "t3a": {**UNGUARDED, "method": mg.T3A(k=20)},
    "t3a, all": {**UNGUARDED, "method": mg.T3A(k=None, drop_worst=True, scale="model")},
    "tent": {**UNGUARDED, "method": mg.Tent(steps=2)},
    "tent, adam, source": {
        "method": mg.Tent(steps=2, lr=0.01, optimizer="adam", statistics="source"),
        "strategy": mg.Matcha(rounds=6, restart=False),
    },
    "predict": {"strategy": mg.Unadapted()},
    "fitted": {"strategy": mg.Fitted()},
    "default": {},
    "default around t3a": {"method": mg.T3A(k=20)},
    "rounds, guarded": {"strategy": mg.Guarded(strategies=(mg.Matcha(rounds=6),))},
}


@pytest.fixture
def store(tmp_path):
    return mg.GraphStore.create(tmp_path / "store", target_graph())


@pytest.mark.parametrize("name", CASES)
def test_a_store_adapts_as_the_graph_in_memory(name, store, monkeypatch):
    set_blocks(monkeypatch, 500)
    model, given = source_model(), CASES[name]
    inside = mg.adapt(model, target_graph(), **given)
    outside = mg.adapt(model, store, **given)
    assert outside.status is inside.status
    assert largest(inside.probs, outside.probs) < 1e-5
    assert largest(inside.probs_before, outside.probs_before) < 1e-5
    # The solver divides by the smallest eigenvalues of a Gram matrix of float32 hops.
    solved = isinstance(given.get("strategy"), mg.ClosedForm)
    assert largest(inside.gamma, outside.gamma) < (1e-4 if solved else 1e-5)
    for each in ("loss", "expected_accuracy"):
        expected, found = getattr(inside.trace, each), getattr(outside.trace, each)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert len(outside.trace) == len(inside.trace) > 0
    assert abs(inside.pic_after - outside.pic_after) < 1e-5


@pytest.mark.parametrize("name", ["erm", "t3a", "tent", "default"])
@pytest.mark.parametrize("numbers", [64, 10_000_000])
def test_the_size_of_blocks_does_not_matter(name, numbers, store, monkeypatch):
    model, given = source_model(), CASES[name]
    set_blocks(monkeypatch, 500)
    some = mg.adapt(model, store, **given)
    set_blocks(monkeypatch, numbers)
    other = mg.adapt(model, mg.GraphStore(store.folder), **given)
    assert largest(some.probs, other.probs) < 1e-5
    assert largest(some.gamma, other.gamma) < 1e-5


@pytest.mark.parametrize("method", [mg.ERM(), mg.T3A(k=20), mg.Tent()])
def test_many_classes_take_two_passes(method, tmp_path, monkeypatch):
    set_blocks(monkeypatch, 500)
    model, graph = source_model(classes=5), target_graph(classes=5)
    store = mg.GraphStore.create(tmp_path / "store", graph)
    monkeypatch.setattr("matcha_gnn.kernels.whole_sums_pay", lambda *_: False)
    inside, outside = (mg.adapt(model, g, method, **UNGUARDED) for g in (graph, store))
    assert largest(inside.probs, outside.probs) < 1e-5


def awkward_graph():
    """Directed, weighted, with self loops, repeated edges and isolated nodes."""
    generator = torch.Generator().manual_seed(12)
    edges = torch.randint(80, (2, 400), generator=generator)
    edges = torch.cat([edges, edges[:, :30], torch.tensor([[3, 3], [3, 3]])], 1)
    weight = torch.rand(edges.shape[1], generator=generator) + 0.1
    x = torch.randn(100, FEATURES, generator=generator)
    return Data(x=x, edge_index=edges, edge_weight=weight)


def test_the_matrix_is_the_adjacency_of_the_graph(tmp_path, monkeypatch):
    set_blocks(monkeypatch, 60)
    graph = unlabelled(awkward_graph())
    store = mg.GraphStore.create(tmp_path / "store", graph)
    assert not store.symmetric
    h = torch.randn(100, 5, generator=torch.Generator().manual_seed(0))
    p, stored = graph.adjacency, matrix.StoredMatrix(store)
    torch.testing.assert_close(stored @ h, p.matrix @ h)
    torch.testing.assert_close(stored.transposed @ h, p.transposed @ h)
    torch.testing.assert_close(stored @ h[:, 0], (p.matrix @ h)[:, 0])
    torch.testing.assert_close((stored @ h.double()).float(), p.matrix @ h)
    torch.testing.assert_close(stored.transposed.transposed @ h, p.matrix @ h)
    torch.testing.assert_close(stored.neighbour_sums(h), graph.neighbour_sums(h))
    torch.testing.assert_close(store.links, graph.sample_links(20_000, 0))


@pytest.mark.parametrize("method", [mg.ERM(), mg.Tent()])
def test_a_directed_weighted_graph_too(method, tmp_path, monkeypatch):
    set_blocks(monkeypatch, 60)
    store = mg.GraphStore.create(tmp_path / "store", awkward_graph())
    inside, outside = (
        mg.adapt(source_model(), graph, method, **UNGUARDED) for graph in (awkward_graph(), store)
    )
    assert largest(inside.probs, outside.probs) < 1e-5


def test_a_large_sample_of_links_is_the_one_drawn_in_memory(tmp_path):
    edges = torch.randint(300, (2, 50_000), generator=torch.Generator().manual_seed(1))
    graph = unlabelled(Data(x=torch.ones(300, 1), edge_index=edges))
    store = mg.GraphStore.create(tmp_path / "store", graph)
    assert store.links.shape == (2, 20_000)
    assert torch.equal(store.links, graph.sample_links(20_000, 0))


def test_few_columns_at_a_time_give_the_same_hops(store, monkeypatch):
    set_blocks(monkeypatch, 500)
    model = source_model()
    expected = model.hops(unlabelled(target_graph())).stack
    for width in (WIDTH, 3, 1):
        target = planned(store, model, mg.ERM(), mg.Matcha(rounds=1))
        target.__dict__["plan"] = target.plan.__class__(
            **{**vars(target.plan), "block_width": width}
        )
        hops = target.hops(model)
        found = torch.cat([block.clone() for _, block in hops.blocks()])
        assert largest(found, expected) < 1e-5
        for path in (store.folder / "hops").rglob("*.npy"):
            path.unlink()


def test_the_gram_matrix_is_summed_in_float64(store, monkeypatch):
    set_blocks(monkeypatch, 100_000)
    model = source_model()
    hops = planned(store, model, mg.ERM(), mg.Matcha(rounds=1)).hops(model)
    wide = torch.cat([block.double() for _, block in hops.blocks()]).numpy()
    apart = wide - wide.mean(0)
    expected = np.einsum("nkd,nld->kl", apart, apart)
    np.testing.assert_allclose(hops.gram, expected, rtol=1e-10)


def test_weights_of_float64_models_and_features(tmp_path, monkeypatch):
    set_blocks(monkeypatch, 500)
    graph = target_graph().clone()
    graph.x = graph.x.double()
    store = mg.GraphStore.create(tmp_path / "store", graph)
    inside, outside = (mg.adapt(source_model(), g, **UNGUARDED) for g in (target_graph(), store))
    assert largest(inside.probs, outside.probs) < 1e-5


def test_model_and_store_stay_as_they_are(store):
    model = source_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    files = {path: path.read_bytes() for path in store.folder.glob("*")}
    mg.adapt(model, store, mg.Tent(), **UNGUARDED)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    after = {path: path.read_bytes() for path in store.folder.glob("*") if path.is_file()}
    assert after == files


def test_labels_play_no_part(store):
    with_labels = mg.adapt(source_model(), store, **UNGUARDED)
    (store.folder / "y.npy").unlink()
    without = mg.adapt(source_model(), mg.GraphStore(store.folder), **UNGUARDED)
    assert torch.equal(with_labels.probs, without.probs)


def test_labels_and_masks_are_there_for_scores(tmp_path):
    graph = target_graph().clone()
    graph.test_mask = torch.arange(graph.num_nodes) % 2 == 0
    store = mg.GraphStore.create(tmp_path / "store", graph)
    assert torch.equal(store.labels, graph.y)
    assert torch.equal(store.mask("test_mask"), graph.test_mask)
    assert store.mask("val_mask") is None


def test_finished_hops_are_used_again_whatever_the_memory(store, monkeypatch):
    first = mg.adapt(source_model(), mg.GraphStore(store.folder, "2GB"), **UNGUARDED)
    monkeypatch.setattr("matcha_gnn.graphs.stored.target.make_hops", None)
    again = mg.adapt(source_model(), mg.GraphStore(store.folder, "5GB"), **UNGUARDED)
    assert torch.equal(first.probs, again.probs)
