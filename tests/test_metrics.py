"""Scores against scikit-learn, graph statistics against PyG."""

import math

import pytest
import torch
from sklearn import metrics as sklearn_metrics
from torch_geometric.utils import degree, homophily

from matcha_gnn.metrics import (
    accuracy,
    average_degree,
    confusion_matrix,
    edge_homophily,
    evaluate,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:y_pred contains classes not in y_true", "ignore:A single label was found"
)


def drawn(num_classes, num_nodes=200, seed=0, skew=1.0):
    """True and predicted classes; a larger skew leaves more classes rare or absent."""
    draw = torch.Generator().manual_seed(seed)
    shares = torch.rand(num_classes, generator=draw) ** skew + 1e-9
    labels = torch.multinomial(shares, num_nodes, replacement=True, generator=draw)
    wrong = torch.rand(num_nodes, generator=draw) < 0.4
    guesses = torch.randint(num_classes, (num_nodes,), generator=draw)
    return labels, torch.where(wrong, guesses, labels)


def drawn_edges(num_nodes, num_edges, seed=0):
    return torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))


def assert_as_scikit_learn(scores, labels, predicted):
    assert scores.accuracy == pytest.approx(sklearn_metrics.accuracy_score(labels, predicted))
    assert scores.macro_f1 == pytest.approx(
        sklearn_metrics.f1_score(labels, predicted, average="macro")
    )
    assert scores.balanced_accuracy == pytest.approx(
        sklearn_metrics.balanced_accuracy_score(labels, predicted)
    )


@pytest.mark.parametrize("num_classes", [2, 3, 10, 40])
@pytest.mark.parametrize("skew", [0.0, 1.0, 6.0])
def test_scores_are_those_of_scikit_learn(num_classes, skew):
    labels, predicted = drawn(num_classes, skew=skew, seed=num_classes)
    assert_as_scikit_learn(evaluate(predicted, labels), labels, predicted)


@pytest.mark.parametrize(
    ("labels", "predicted"),
    [
        ([0, 0, 0], [0, 0, 0]),
        ([0, 0, 0], [1, 1, 1]),
        ([1, 1, 1], [0, 1, 1]),
        ([0, 1, 2], [0, 0, 0]),
        ([0, 0, 1], [2, 2, 1]),
        ([5, 5, 2], [5, 2, 2]),
        ([3], [3]),
    ],
    ids=str,
)
def test_absent_and_never_predicted_classes_count_as_in_scikit_learn(labels, predicted):
    labels, predicted = torch.tensor(labels), torch.tensor(predicted)
    assert_as_scikit_learn(evaluate(predicted, labels), labels, predicted)


def test_probabilities_are_read_as_their_largest_class():
    labels, predicted = drawn(4)
    probs = torch.nn.functional.one_hot(predicted, 4) * 0.4 + 0.15
    assert evaluate(probs, labels) == evaluate(predicted, labels)


def test_a_mask_chooses_the_nodes():
    labels, predicted = drawn(4)
    mask = torch.arange(200) % 3 == 0
    assert_as_scikit_learn(evaluate(predicted, labels, mask), labels[mask], predicted[mask])
    assert accuracy(predicted, labels, mask) == evaluate(predicted[mask], labels[mask]).accuracy


def test_confusion_matrix_is_that_of_scikit_learn():
    labels, predicted = drawn(5)
    expected = sklearn_metrics.confusion_matrix(labels, predicted)
    assert confusion_matrix(labels, predicted).tolist() == expected.tolist()


@pytest.mark.parametrize("num_classes", [2, 5])
@pytest.mark.parametrize("num_edges", [30, 400])
def test_homophily_is_that_of_pyg(num_classes, num_edges):
    labels, _ = drawn(num_classes, num_nodes=100)
    edges = drawn_edges(100, num_edges)
    assert edge_homophily(edges, labels) == pytest.approx(
        homophily(edges, labels, method="edge"), abs=1e-6
    )


def test_homophily_without_edges_is_undefined():
    none = torch.empty(2, 0, dtype=torch.int64)
    labels = torch.zeros(3, dtype=torch.int64)
    assert math.isnan(edge_homophily(none, labels))


def test_average_degree_counts_incoming_edges_per_node():
    edges = drawn_edges(50, 120)
    assert average_degree(edges, 50) == pytest.approx(degree(edges[1], 50).mean().item())
