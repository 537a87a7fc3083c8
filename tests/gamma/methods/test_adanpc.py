"""AdaNPC against a plain vote and scikit-learn, its memory and its edges."""

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


def plain_vote(queries, rows, labels, classes, method):
    """Node by node, with sorted lists."""
    answer = np.zeros((len(queries), classes))
    for i, query in enumerate(queries):
        near = [(float(query @ row), int(c)) for row, c in zip(rows, labels, strict=True)]
        best = sorted(near, key=lambda pair: -pair[0])[: method.k]
        weights = np.array([math.exp((s - best[0][0]) / method.temperature) for s, _ in best])
        for weight, (_, c) in zip(weights / weights.sum(), best, strict=True):
            answer[i, c] += weight
    answer = np.minimum(answer + FLOOR, 1)
    return answer / answer.sum(1, keepdims=True)


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
