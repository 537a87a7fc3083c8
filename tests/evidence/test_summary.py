"""The source summary against NumPy, PyG and scikit-learn."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.utils import homophily

from matcha_gnn.evidence.summarising import (
    class_edge_shares,
    confidence_histogram,
    degree_histogram,
    summarise,
)
from matcha_gnn.evidence.summary import CONFIDENCE_BINS, DEGREE_EDGES
from matcha_gnn.gamma.testing import trained_model

CLASSES = 3
MADE = trained_model().source
PARTS = {"evidence": MADE.evidence, "features": MADE.features}
"""Parts of a summary of three classes that are measured elsewhere."""


def source(num_nodes=200, num_edges=700, labelled_share=0.6, seed=0):
    """Arguments of `summarise` for a random graph."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (num_nodes,), generator=draw)
    logits = torch.randn(num_nodes, CLASSES, generator=draw) + 2 * nn.functional.one_hot(labels)
    return {
        "probs": (3 * logits).softmax(1),
        "labels": labels,
        "trained": torch.rand(num_nodes, generator=draw) < labelled_share,
        "held_out": torch.zeros(num_nodes, dtype=torch.bool),
        "edge_index": torch.randint(num_nodes, (2, num_edges), generator=draw),
        **PARTS,
    }


def test_class_prior_is_the_share_among_labelled_nodes():
    given = source()
    counts = np.bincount(given["labels"][given["trained"]], minlength=CLASSES)
    np.testing.assert_allclose(summarise(**given).class_prior, counts / counts.sum(), rtol=1e-6)


def test_edges_between_classes_are_counted_from_sender_to_receiver():
    labels = torch.tensor([0, 1, 1, 2])
    edges = torch.tensor([[0, 0, 1, 2, 3], [1, 2, 2, 1, 0]])
    shares = class_edge_shares(labels, torch.ones(4, dtype=torch.bool), edges, 3)
    expected = torch.tensor([[0, 2, 0], [0, 2, 0], [1, 0, 0]]) / 5
    torch.testing.assert_close(shares, expected)


def test_edges_with_an_unlabelled_end_do_not_count():
    labels = torch.tensor([0, 1, 1, -1])
    labelled = torch.tensor([True, True, True, False])
    edges = torch.tensor([[0, 1, 3, 0, 3], [1, 2, 0, 3, 3]])
    shares = class_edge_shares(labels, labelled, edges, 2)
    torch.testing.assert_close(shares, torch.tensor([[0, 0.5], [0, 0.5]]))


def test_edge_homophily_is_that_of_pyg():
    given = source(labelled_share=1.1)
    expected = homophily(given["edge_index"], given["labels"], method="edge")
    assert summarise(**given).edge_homophily == pytest.approx(expected, abs=1e-6)


def test_degrees_are_binned_as_by_numpy():
    degree = torch.randint(300, (1000,), generator=torch.Generator().manual_seed(0))
    expected = np.histogram(degree, DEGREE_EDGES.numpy())[0] / 1000
    np.testing.assert_allclose(degree_histogram(degree), expected, rtol=1e-6)


def test_degree_counts_incoming_edges_of_all_nodes():
    given = source(num_nodes=4) | {"edge_index": torch.tensor([[0, 1, 2, 0], [3, 3, 3, 1]])}
    summary = summarise(**given)
    assert summary.degree_histogram[:3].tolist() == [0.5, 0.25, 0.25]
    assert summary.mean_degree == 1


def test_confidence_is_binned_as_by_numpy():
    probs = source()["probs"]
    largest = probs.amax(1).numpy()
    expected = np.histogram(largest, CONFIDENCE_BINS, (0, 1))[0] / len(probs)
    np.testing.assert_allclose(confidence_histogram(probs), expected, rtol=1e-6)


def test_accuracy_is_that_of_the_labelled_nodes():
    given = source()
    labelled = given["trained"]
    right = given["probs"][labelled].argmax(1) == given["labels"][labelled]
    assert summarise(**given).accuracy == pytest.approx(float(right.float().mean()))


def test_labels_of_unlabelled_nodes_are_never_read():
    given = source()
    hidden = given | {"labels": torch.where(given["trained"], given["labels"], -100)}
    for name, expected in summarise(**given).tensors().items():
        assert torch.equal(summarise(**hidden).tensors()[name], expected), name


@pytest.mark.parametrize("num_nodes", [1, 5])
def test_no_edges_and_few_nodes_leave_finite_numbers(num_nodes):
    given = source(num_nodes=num_nodes, num_edges=0, labelled_share=1.1)
    summary = summarise(**given)
    assert summary.edge_homophily == 0
    assert summary.degree_histogram[0] == 1
    for name, value in summary.tensors().items():
        assert value.isfinite().all(), name


def test_statistics_are_taken_on_nodes_not_trained_on_where_there_are_enough():
    given = source()
    others = given | {"held_out": ~given["trained"]}
    summary = summarise(**others)
    on_others = summarise(**(given | {"trained": ~given["trained"]}))
    assert int(summary.held_out) == int((~given["trained"]).sum())
    assert "not trained on" in summary.basis
    for name in ("class_prior", "accuracy"):
        assert torch.equal(getattr(summary, name), getattr(on_others, name)), name
    everyone = torch.ones_like(given["trained"])
    edges = class_edge_shares(given["labels"], everyone, given["edge_index"], CLASSES)
    assert torch.equal(summary.class_edges, edges)
