"""1, 2 and 4 ranks give the predictions and γ of one process."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from spawning import adapt_on_ranks, results_of
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.graphs.sharded import Ranks
from matcha_gnn.graphs.sharded.shard import shard_of

NODES, FEATURES, CLASSES = 151, 6, 3
ROUNDS = mg.Matcha(lr=0.5, rounds=4)


def small_graph(directed=False):
    """Three noisy classes on a ring with chords; node 7 has no edge."""
    draw = torch.Generator().manual_seed(3)
    classes = torch.arange(NODES) % CLASSES
    x = torch.randn(NODES, FEATURES, generator=draw) + 2 * torch.eye(CLASSES, FEATURES)[classes]
    edges = torch.randint(0, NODES, (2, 500), generator=draw)
    edges = edges[:, (edges != 7).all(0)]
    if not directed:
        edges = torch.cat([edges, edges.flip(0)], 1)
    return Data(x=x, edge_index=edges)


def small_model(**options):
    torch.manual_seed(1)
    model = mg.GPRGNN(FEATURES, CLASSES, 5, K=4, alpha=0.3, **options)
    model.norm.running_mean.uniform_(-0.5, 0.5)
    return model


CASES = {
    "erm": (mg.ERM(), ROUNDS),
    "closed form": (mg.ERM(), mg.ClosedForm(mg.PIC(), rounds=2)),
    "entropy loss": (mg.ERM(), mg.Matcha(mg.Entropy(), lr=0.5, rounds=4)),
    "pseudo labels": (mg.ERM(), mg.Matcha(mg.PseudoLabel(), lr=0.5, rounds=4)),
    "difference by Adam": (
        mg.ERM(),
        mg.Matcha(mg.Difference(), lr=0.01, rounds=4, optimizer="adam"),
    ),
    "stein's estimate": (mg.ERM(), mg.Matcha(mg.SURE(0.3), lr=0.5, rounds=4)),
    "t3a that cuts": (mg.T3A(k=5), ROUNDS),
    "t3a that keeps all but the worst": (mg.T3A(k=None, drop_worst=True), ROUNDS),
    "t3a at the model's scale": (mg.T3A(k=20, scale="model"), ROUNDS),
    "tent": (mg.Tent(steps=2), ROUNDS),
    "tent by Adam": (mg.Tent(steps=2, lr=0.01, optimizer="adam"), ROUNDS),
}
# The closed form divides by small eigenvalues: in float32 it shows how hops were rounded.
PRECISIONS = {"closed form": torch.float64}


def adapted(run, name, **options):
    method, strategy = CASES[name]
    dtype = PRECISIONS.get(name, torch.float32)
    graph, model = small_graph(), small_model().to(dtype)
    graph.x = graph.x.to(dtype)
    return run(model, graph, method, strategy, **options)


def told(result):
    """What is compared, as arrays."""
    return {
        "nodes": result.nodes,
        "probs": result.probs,
        "before": result.probs_before,
        "gamma": result.gamma,
        "loss": np.array(result.trace.loss),
        "expected": np.array(result.trace.expected_accuracy),
        "shares": np.array(result.trace.class_shares),
        "status": str(result.status),
        "changed": result.changed,
        "alarms": result.alarms,
        "pic": np.array([result.pic_before, result.pic_after]),
    }


def all_cases(rank):
    return {name: told(adapted(adapt_on_ranks, name)) for name in CASES}


@pytest.fixture(scope="module")
def answers_of():
    """All cases on some number of ranks, run once."""
    return cache(lambda ranks: results_of(ranks, all_cases))


def assert_equal_to_one_process(answers, alone):
    for answer in answers:
        nodes = answer["nodes"]
        np.testing.assert_allclose(answer["probs"], alone.probs[nodes], atol=1e-5)
        np.testing.assert_allclose(answer["before"], alone.probs_before[nodes], atol=1e-5)
        np.testing.assert_allclose(answer["gamma"], alone.gamma, atol=1e-5)
        np.testing.assert_allclose(answer["loss"], alone.trace.loss, atol=1e-5)
        expected = alone.trace.expected_accuracy
        np.testing.assert_allclose(answer["expected"], expected, atol=1e-5)
        np.testing.assert_allclose(answer["shares"], alone.trace.class_shares, atol=1e-5)
        np.testing.assert_allclose(answer["pic"], [alone.pic_before, alone.pic_after], atol=1e-5)
        assert answer["status"] == str(alone.status)
        assert answer["changed"] == pytest.approx(alone.changed)
        assert answer["alarms"] == alone.alarms
        np.testing.assert_array_equal(answer["gamma"], answers[0]["gamma"])
    everywhere = np.concatenate([answer["nodes"] for answer in answers])
    np.testing.assert_array_equal(np.sort(everywhere), np.arange(len(alone.probs)))


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_ranks_give_what_one_process_gives(name, ranks, answers_of):
    answers = answers_of(ranks)
    assert_equal_to_one_process([answer[name] for answer in answers], adapted(mg.adapt, name))


def trained_model():
    """A model that knows its source, so that the default can estimate accuracy."""
    torch.manual_seed(1)
    model = mg.GPRGNN(16, 2, 8, K=4)
    mg.fit(model, mg.datasets.csbm(600, 16, homophily=0.8, signal=2, seed=10), epochs=60)
    return model.double()


def moved_graph(offset=0.0):
    """The classes of the source, linked the other way, all features moved."""
    graph = mg.datasets.csbm(600, 16, homophily=0.2, signal=2, seed=11)
    graph.x = graph.x.double() + offset
    return graph


def variants(run, model):
    """What is less usual: by name, the result of a run."""
    pic = mg.Matcha(lr=0.5, rounds=3)
    base, on = replace(pic, features="base"), replace(pic, restart=False)
    guarded = mg.Guarded(strategies=(mg.Matcha(rounds=4),))
    odd, straight = small_graph(directed=True), small_model(relu=False)
    sparse = small_graph()
    sparse.x = sparse.x.relu().to_sparse_coo()
    torch.manual_seed(2)
    layers, alpha = mg.JKNet(FEATURES, CLASSES, 5), mg.APPNP(FEATURES, CLASSES, 5)
    return {
        "directed": run(small_model(), odd, mg.Tent(), pic),
        "carried on": run(small_model(), odd, mg.Tent(), on),
        "nothing after the norm": run(straight, odd, mg.Tent(), pic),
        "features of the base method": run(small_model(), odd, mg.Tent(), base),
        "the same, affine": run(straight, odd, mg.Tent(), base),
        "sparse features": run(small_model(), sparse, mg.T3A(), pic),
        "another architecture": run(layers, odd, mg.T3A(k=9), pic),
        "weights that are a function of γ": run(alpha, odd, mg.ERM(), pic),
        "no rounds": run(small_model(), odd, mg.ERM(), mg.Unadapted()),
        "fitted": run(model, moved_graph(), mg.ERM(), mg.Fitted()),
        "by default": run(model, moved_graph()),
        "by default, features moved": run(model, moved_graph(0.5)),
        "by default, around t3a": run(model, moved_graph(), mg.T3A()),
        "rounds, guarded": run(model, moved_graph(), mg.ERM(), guarded),
        "no statistics of the source": run(small_model(), odd),
    }


def all_variants(rank, model):
    return {name: told(result) for name, result in variants(adapt_on_ranks, model).items()}


def test_what_is_less_usual_is_the_same_too():
    model = trained_model()
    alone, answers = variants(mg.adapt, model), results_of(2, all_variants, model)
    taken = {result.decision.chosen for result in alone.values() if result.decision}
    assert {"source", "pool"} <= taken
    for name, result in alone.items():
        assert_equal_to_one_process([answer[name] for answer in answers], result)


def brought_together(rank):
    result = adapted(adapt_on_ranks, "erm", gather=True)
    return type(result).__name__, result.probs, result.probs_before, result.graph.num_nodes


def test_predictions_come_together_on_the_first_rank_in_the_order_of_the_graph():
    first, *others = results_of(3, brought_together)
    alone = adapted(mg.adapt, "erm")
    kind, probs, before, nodes = first
    assert (kind, nodes) == ("Adaptation", NODES)
    np.testing.assert_allclose(probs, alone.probs, atol=1e-5)
    np.testing.assert_allclose(before, alone.probs_before, atol=1e-5)
    assert all(kind == "ShardAdaptation" and len(rows) < NODES for kind, rows, _, _ in others)


def knows_both_ways(rank):
    graphs = small_graph(), small_graph(directed=True)
    return [shard_of(unlabelled(each), Ranks()).reciprocal for each in graphs]


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_know_together_whether_every_edge_has_its_reverse(ranks):
    assert results_of(ranks, knows_both_ways) == [[True, False]] * ranks
