"""AdaNPC against a plain vote and scikit-learn, its three memories, its passes and its edges."""

import math

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch.nn import functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode

import matcha_gnn as mg
from matcha_gnn.gamma.methods import View
from matcha_gnn.gamma.methods import lame as search
from matcha_gnn.gamma.methods.adanpc import AdaNPC
from matcha_gnn.gamma.testing import awkward_graphs, check_method, tiny_graph, trained_model

FLOOR = 1e-5


def model_with_memory(method=None, labelled=None, dtype=torch.float32):
    model, source = trained_model().to(dtype), tiny_graph(0.8, seed=0)
    mask = torch.ones(120, dtype=torch.bool) if labelled is None else labelled
    method = method or AdaNPC()
    model.source_arrays = {
        "adanpc": method.source_arrays(model, mg.unlabelled(source), source.y, mask, 0)
    }
    return model.frozen()


def view_of(model, graph=None):
    graph = mg.unlabelled(tiny_graph() if graph is None else graph)
    return View(model, graph, model.hops(graph), model.gamma.detach(), 0)


def probs_of(method, view):
    return method.predict(view, method.start(view, method.prepare(view)))[0].probs


def unit_rows(values):
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def plain_vote(queries, rows, labels, classes, method, own=None):
    """Node by node, with sorted lists; own[i] is the row that node i may not ask."""
    answer = np.zeros((len(queries), classes))
    for i, query in enumerate(queries):
        near = [
            (float(query @ row), int(c))
            for j, (row, c) in enumerate(zip(rows, labels, strict=True))
            if own is None or own[i] != j
        ]
        best = sorted(near, key=lambda pair: -pair[0])[: method.k]
        weights = np.array([math.exp((s - best[0][0]) / method.temperature) for s, _ in best])
        for weight, (_, c) in zip(weights / weights.sum(), best, strict=True):
            answer[i, c] += weight
    answer = np.minimum(answer + FLOOR, 1)
    return answer / answer.sum(1, keepdims=True)


def plain_two_passes(view, method):
    """Predict, append confident nodes, predict again; no node votes for itself."""
    queries = unit_rows(view.z.numpy())
    memory = view.model.source_arrays["adanpc"]
    rows, labels = memory["rows"].numpy(), memory["labels"].numpy()
    first = plain_vote(queries, rows, labels, 3, method)
    sureness = first
    if method.confidence == "softmax_of_prob":
        sureness = np.exp(first) / np.exp(first).sum(1, keepdims=True)
    joins = sureness.max(1) >= method.threshold
    own = np.full(len(queries), -1)
    own[joins] = len(rows) + np.arange(joins.sum())
    rows = np.concatenate([rows, queries[joins]])
    labels = np.concatenate([labels, first.argmax(1)[joins]])
    return plain_vote(queries, rows, labels, 3, method, own)


class LargestTensor(TorchDispatchMode):
    """The size of the largest result of any torch operation inside."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for part in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(part, torch.Tensor):
                self.numel = max(self.numel, part.numel())
        return result


@pytest.mark.parametrize(
    "method",
    [
        AdaNPC(),
        AdaNPC(k=10, temperature=0.001, passes=2),
        AdaNPC(memory="target"),
        AdaNPC(memory="prototype", passes=2),
    ],
    ids=["default", "two passes", "target", "prototype"],
)
def test_battery(method):
    check_method(method, model_with_memory())


@pytest.mark.parametrize("temperature", [0.001, 0.1, 5.0])
@pytest.mark.parametrize("k", [1, 10, 100, 10_000])
def test_one_pass_is_a_weighted_vote(k, temperature):
    method, view = AdaNPC(k, temperature), view_of(model_with_memory(dtype=torch.float64))
    memory = view.model.source_arrays["adanpc"]
    expected = plain_vote(
        unit_rows(view.z.numpy()), memory["rows"].numpy(), memory["labels"], 3, method
    )
    torch.testing.assert_close(probs_of(method, view), torch.from_numpy(expected))


def test_the_vote_is_that_of_scikit_learn():
    view = view_of(model_with_memory(dtype=torch.float64))
    memory = view.model.source_arrays["adanpc"]
    classifier = KNeighborsClassifier(
        12, metric="cosine", algorithm="brute", weights=lambda distance: np.exp(-distance / 0.05)
    )
    classifier.fit(memory["rows"].numpy(), memory["labels"].numpy())
    expected = torch.from_numpy(classifier.predict_proba(view.z.numpy()))
    torch.testing.assert_close(probs_of(AdaNPC(12, 0.05), view), expected, atol=4 * FLOOR, rtol=0)


@pytest.mark.parametrize("confidence", ["max_prob", "softmax_of_prob"])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.9])
def test_two_passes_equal_the_plain_form(threshold, confidence):
    method = AdaNPC(7, 0.05, threshold, passes=2, confidence=confidence)
    view = view_of(model_with_memory(dtype=torch.float64))
    expected = torch.from_numpy(plain_two_passes(view, method))
    torch.testing.assert_close(probs_of(method, view), expected)


def test_the_second_pass_has_an_effect():
    view = view_of(model_with_memory())
    once = probs_of(AdaNPC(10, 0.1), view)
    assert not torch.allclose(once, probs_of(AdaNPC(10, 0.1, passes=2), view), atol=0.05)


def test_no_node_joins_below_the_threshold():
    view = view_of(model_with_memory())
    once = probs_of(AdaNPC(500), view)
    assert torch.equal(once, probs_of(AdaNPC(500, threshold=1.1, passes=2), view))


def test_softmax_of_probabilities_cannot_reach_what_the_released_grid_asks():
    highest = math.e / (math.e + 2)
    view = view_of(model_with_memory())
    quirk = {"k": 10, "temperature": 0.001, "passes": 2, "confidence": "softmax_of_prob"}
    confident = probs_of(AdaNPC(10, 0.001), view)
    assert float(confident.amax()) > 0.99
    assert torch.equal(probs_of(AdaNPC(**quirk, threshold=0.75), view), confident)
    assert torch.equal(probs_of(AdaNPC(**quirk, threshold=highest + 1e-4), view), confident)
    assert not torch.equal(probs_of(AdaNPC(**quirk, threshold=highest - 1e-3), view), confident)
    plain = AdaNPC(10, 0.001, 0.75, passes=2)
    assert not torch.equal(probs_of(plain, view), confident)


def test_a_node_never_votes_for_itself():
    view = view_of(model_with_memory())
    source_labels = view.logits.argmax(1)
    unit = F.normalize(view.z)
    similarity = (unit @ unit.T).fill_diagonal_(-2)
    answer = probs_of(AdaNPC(k=1, memory="target"), view).argmax(1)
    assert torch.equal(answer, source_labels[similarity.argmax(1)])
    assert not torch.equal(answer, source_labels)


def test_the_target_memory_holds_only_sure_nodes():
    view = view_of(model_with_memory(dtype=torch.float64))
    method = AdaNPC(k=3, memory="target", threshold=0.9)
    probs = view.logits.softmax(1)
    joins = probs.amax(1).numpy() >= 0.9
    assert 0 < joins.sum() < len(joins)
    unit = unit_rows(view.z.numpy())
    own = np.where(joins, np.cumsum(joins) - 1, -1)
    expected = plain_vote(unit, unit[joins], probs.argmax(1).numpy()[joins], 3, method, own)
    torch.testing.assert_close(probs_of(method, view), torch.from_numpy(expected))
    unchanged = probs_of(AdaNPC(memory="target", threshold=1.1), view)
    torch.testing.assert_close(unchanged, probs)


def test_prototypes_vote_as_a_cosine_classifier():
    view = view_of(trained_model().double().frozen())
    cosine = F.normalize(view.z) @ F.normalize(view.model.head.weight).T
    expected = (cosine / 0.2).softmax(1)
    probs = probs_of(AdaNPC(k=50, temperature=0.2, memory="prototype"), view)
    torch.testing.assert_close(probs, expected, atol=4 * FLOOR, rtol=0)


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-60])
def test_small_temperatures_leave_the_vote_to_the_nearest(temperature):
    view = view_of(model_with_memory())
    memory = view.model.source_arrays["adanpc"]
    nearest = memory["labels"][(F.normalize(view.z) @ memory["rows"].T).argmax(1)]
    probs = probs_of(AdaNPC(10, temperature), view)
    assert bool(torch.isfinite(probs).all())
    torch.testing.assert_close(probs.sum(1), torch.ones(120))
    agreed = float((probs.argmax(1) == nearest).float().mean())
    assert agreed == 1 if temperature < 1e-3 else agreed > 0.9


def test_the_length_of_gamma_does_not_matter():
    view = view_of(model_with_memory(dtype=torch.float64))
    longer = View(view.model, view.graph, view.hops, 7 * view.gamma, 0)
    torch.testing.assert_close(probs_of(AdaNPC(), view), probs_of(AdaNPC(), longer))


def test_the_memory_is_what_the_source_model_sees_of_labelled_nodes():
    labelled = torch.arange(120) % 3 > 0
    model, source = model_with_memory(labelled=labelled), tiny_graph(0.8, seed=0)
    memory = model.source_arrays["adanpc"]
    assert torch.equal(memory["labels"], source.y[labelled])
    torch.testing.assert_close(
        memory["rows"], F.normalize(view_of(model, source).z)[labelled], rtol=0, atol=0
    )
    torch.testing.assert_close(memory["rows"].norm(dim=1), torch.ones(80))
    assert not memory["rows"].requires_grad


def test_dropout_does_not_reach_the_memory():
    model, source = trained_model(), tiny_graph(0.8, seed=0)
    every = torch.ones(120, dtype=torch.bool)
    model.train()
    noisy = AdaNPC().source_arrays(model, mg.unlabelled(source), source.y, every, 0)
    assert torch.equal(noisy["rows"], model_with_memory().source_arrays["adanpc"]["rows"])
    assert (
        AdaNPC(memory="target").source_arrays(model, mg.unlabelled(source), source.y, every, 0)
        == {}
    )


def test_the_memory_travels_from_training_through_the_model_file(tmp_path):
    model, target = mg.GPRGNN(6, 3, hidden_channels=8, K=3), tiny_graph()
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=20, methods=[AdaNPC()])
    expected = mg.adapt(model, target, AdaNPC(k=10), mg.Matcha(rounds=3)).probs
    mg.save_model(model, tmp_path / "model.safetensors")
    loaded = mg.load_model(tmp_path / "model.safetensors")
    assert torch.equal(mg.adapt(loaded, target, AdaNPC(k=10), mg.Matcha(rounds=3)).probs, expected)


def test_a_model_without_memory_is_refused_in_one_line():
    with pytest.raises(mg.IncompatibleError) as caught:
        mg.adapt(trained_model(), tiny_graph(), AdaNPC(), mg.Matcha(rounds=1))
    message = str(caught.value)
    assert "fit(..., methods=[AdaNPC()])" in message
    assert "matcha train --method adanpc" in message
    assert "\n" not in message
    for memory in ("prototype", "target"):
        mg.predict(trained_model(), tiny_graph(), AdaNPC(memory=memory))


def test_capacity_thins_the_source_in_proportion_to_classes():
    full = model_with_memory().source_arrays["adanpc"]
    few = model_with_memory(AdaNPC(capacity=30)).source_arrays["adanpc"]
    assert len(few["rows"]) == 30
    share = torch.bincount(full["labels"], minlength=3) * 30 / 120
    assert bool(((torch.bincount(few["labels"], minlength=3) - share).abs() <= 1).all())
    where = (few["rows"] @ full["rows"].T).argmax(1)
    assert len(where.unique()) == 30
    assert torch.equal(full["labels"][where], few["labels"])
    view, small = view_of(model_with_memory()), view_of(model_with_memory(AdaNPC(capacity=30)))
    thinned = probs_of(AdaNPC(k=5, capacity=30), view)
    assert torch.equal(thinned, probs_of(AdaNPC(k=5), small))


def test_capacity_admits_the_surest_nodes():
    view = view_of(model_with_memory())
    first = probs_of(AdaNPC(20), view)
    joining = AdaNPC(20, capacity=15)._joining(first)
    assert int(joining.sum()) == 15
    sureness = first.amax(1)
    assert float(sureness[joining].min()) >= float(sureness[~joining].max())
    tied = torch.tensor([[0.9, 0.1]] * 6)
    assert AdaNPC(capacity=2)._joining(tied).tolist() == [True] * 2 + [False] * 4


def test_no_tensor_of_all_pairs_is_made():
    nodes = 3000
    model = trained_model()
    graphs = [
        mg.datasets.csbm(nodes, 6, 4.0, homophily, signal=3.0, shares=[1 / 3] * 3, seed=seed)
        for homophily, seed in ((0.8, 2), (0.2, 3))
    ]
    every = torch.ones(nodes, dtype=torch.bool)
    source = mg.unlabelled(graphs[0])
    model.source_arrays = {"adanpc": AdaNPC().source_arrays(model, source, graphs[0].y, every, 0)}
    view = view_of(model.frozen(), graphs[1])
    assert len(view.logits) == nodes
    with LargestTensor() as largest:
        probs_of(AdaNPC(10, passes=2), view)
    assert largest.numel <= 256 * 2 * nodes < nodes**2 / 5


def test_blocks_of_any_size_vote_the_same(monkeypatch):
    view = view_of(model_with_memory(dtype=torch.float64))
    expected = probs_of(AdaNPC(5, passes=2), view)
    monkeypatch.setattr(search, "_CPU_BLOCK", (7, 1 << 20))
    torch.testing.assert_close(probs_of(AdaNPC(5, passes=2), view), expected)


def test_appended_rows_are_rebuilt_and_those_of_the_source_stay():
    model, graph, method = model_with_memory(), tiny_graph(), AdaNPC(10, passes=2)
    fresh = mg.adapt(model, graph, method, mg.Matcha(rounds=4))
    assert not torch.equal(fresh.gamma, fresh.gamma_before)
    memory, after = model.source_arrays["adanpc"], fresh.model.source_arrays["adanpc"]
    assert torch.equal(memory["rows"], after["rows"])
    alone = mg.predict(fresh.model, graph, method)
    torch.testing.assert_close(alone.probs, fresh.probs)


def test_precision_follows_the_model():
    single, double = (
        mg.predict(model_with_memory(dtype=dtype), tiny_graph(), AdaNPC(10)).probs
        for dtype in (torch.float32, torch.float64)
    )
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    torch.testing.assert_close(single.double(), double, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("options", [{}, {"passes": 2}, {"memory": "target"}])
@pytest.mark.parametrize("name", ["one node", "two nodes", "equal features", "no edges", "a hub"])
def test_degenerate_targets(name, options):
    method = AdaNPC(k=3, **options)
    probs = mg.adapt(model_with_memory(), awkward_graphs()[name], method, mg.Matcha(rounds=2)).probs
    torch.testing.assert_close(probs.sum(1), torch.ones(len(probs)))


def test_one_node_with_itself_as_memory_gets_the_source_prediction():
    model, graph = trained_model(), awkward_graphs()["one node"]
    source = mg.predict(model, graph).probs
    alone = mg.predict(model, graph, AdaNPC(memory="target")).probs
    torch.testing.assert_close(alone, source)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"k": 0}, "k"),
        ({"k": 2.5}, "k"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"threshold": math.nan}, "threshold"),
        ({"memory": "elephant"}, "memory"),
        ({"confidence": "high"}, "confidence"),
        ({"passes": 3}, "passes"),
        ({"passes": 2, "memory": "target"}, "passes"),
        ({"capacity": 0}, "capacity"),
    ],
)
def test_bad_arguments_are_named(options, argument):
    with pytest.raises(mg.InvalidArgumentError, match=f"^{argument}: got"):
        AdaNPC(**options)
