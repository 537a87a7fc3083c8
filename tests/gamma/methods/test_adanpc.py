"""AdaNPC against a plain vote and scikit-learn, its three memories, its passes and its edges."""

import math

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch.nn import functional as F  # noqa: N812

import matcha_gnn as mg
from matcha_gnn.gamma.methods import View
from matcha_gnn.gamma.methods.adanpc import AdaNPC
from matcha_gnn.gamma.testing import tiny_graph, trained_model

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
