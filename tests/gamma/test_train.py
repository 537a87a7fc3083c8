"""Source training against a plain PyTorch and PyG loop, and the contract of `fit`."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import matcha_gnn as mg
from matcha_gnn.datasets import csbm
from matcha_gnn.errors import InvalidGraphError
from matcha_gnn.evidence.summary import CONFIDENCE_BINS
from matcha_gnn.gamma.kernels.dropout import MIN_ENTRIES
from matcha_gnn.gamma.models import GPRGNN
from matcha_gnn.gamma.testing import tiny_graph
from matcha_gnn.gamma.train import fit

NODES, FEATURES, WIDE = 150, 8, 512
# Wide features take the fast dropout path, narrow ones torch's own.
assert NODES * FEATURES < MIN_ENTRIES <= NODES * WIDE


def source(num_features=FEATURES, sparse=False, **options):
    graph = csbm(
        **({"num_nodes": NODES, "degree": 4, "signal": 2.0} | options), num_features=num_features
    )
    if sparse:
        graph.x = torch.where(graph.x > 0, graph.x, 0).to_sparse_csr()
    return graph


def network(num_features=FEATURES, **options):
    return GPRGNN(num_features, 2, **({"hidden_channels": 8, "K": 3} | options))


def trained(graph=None, epochs=5, dropout=0.5, **options):
    """A model fitted with `options`, and what `fit` reported."""
    graph = source() if graph is None else graph
    model = network(graph.num_features, dropout=dropout)
    return model, fit(model, graph, **({"epochs": epochs} | options))


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same_weights(first, second):
    for name, value in weights(first).items():
        assert torch.equal(value, weights(second)[name]), name


def same_weights(first, second):
    return all(torch.equal(value, weights(second)[name]) for name, value in weights(first).items())


def nodes(*chosen):
    mask = torch.zeros(NODES, dtype=torch.bool)
    mask[list(chosen)] = True
    return mask


def every(step, start=0):
    return nodes(*range(start, NODES, step))


# The plain loop


class PlainGPRGNN(MessagePassing):
    """The protocol's GPRGNN as anyone would write it with PyG and F.dropout."""

    def __init__(self, num_features, width, num_hops, dropout):
        super().__init__(aggr="add")
        self.linear = nn.Linear(num_features, width)
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 2, bias=False)
        self.gamma = nn.Parameter(torch.tensor([1.0] + [0.0] * num_hops))
        self.rate = dropout

    def forward(self, x, edge_index):
        h = F.dropout(x, self.rate, self.training)
        h = F.dropout(F.relu(self.norm(self.linear(h))), self.rate, self.training)
        h = F.dropout(h, self.rate, self.training)
        index, weight = gcn_norm(edge_index, None, len(x), dtype=x.dtype)
        z = self.gamma[0] * h
        for g in self.gamma[1:]:
            h = self.propagate(index, x=h, weight=weight)
            z = z + g * h
        return self.head(z)

    def message(self, x_j, weight):
        return weight[:, None] * x_j


def plain_loop(graph, epochs, seed, dropout, mask, lr=0.01, weight_decay=5e-4):
    """Train as the protocol says; the losses and the model."""
    torch.manual_seed(seed)
    model = PlainGPRGNN(graph.num_features, 8, 3, dropout)
    # `fit` draws its starting values anew from the seed, in this order.
    torch.manual_seed(seed)
    for part in (model.linear, model.norm, model.head):
        part.reset_parameters()
    steps = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    losses = []
    for _ in range(epochs):
        steps.zero_grad()
        logits = model(graph.x, graph.edge_index)
        loss = F.cross_entropy(logits[mask], graph.y[mask])
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return losses, model.eval()


@pytest.mark.parametrize("num_features", [FEATURES, WIDE])
@pytest.mark.parametrize(
    "recipe", [{}, {"lr": 0.05, "weight_decay": 0.1}], ids=["default", "other"]
)
def test_without_dropout_it_is_the_plain_loop_step_by_step(num_features, recipe):
    graph, mask = source(num_features), every(2)
    losses, plain = plain_loop(graph, 30, seed=3, dropout=0.0, mask=mask, **recipe)
    model, run = trained(graph, epochs=30, seed=3, dropout=0.0, train_mask=mask, **recipe)
    np.testing.assert_allclose(run.loss, losses, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        expected = plain(graph.x, graph.edge_index)
        torch.testing.assert_close(model(graph.x, graph.edge_index), expected, rtol=0.02, atol=0.01)


# Seeds


@pytest.mark.parametrize(
    ("num_features", "sparse"), [(FEATURES, False), (WIDE, False), (FEATURES, True)]
)
def test_the_same_seed_gives_the_same_weights_bit_for_bit(num_features, sparse):
    first, one = trained(source(num_features, sparse), seed=4)
    second, two = trained(source(num_features, sparse), seed=4)
    assert_same_weights(first, second)
    assert one.loss == two.loss
    other, _ = trained(source(num_features, sparse), seed=5)
    assert not same_weights(first, other)


def test_random_numbers_of_the_caller_are_untouched():
    def states():
        return torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002

    model, graph = network(WIDE), source(WIDE)
    before = states()
    fit(model, graph, epochs=5)
    after = states()
    assert torch.equal(before[0], after[0])
    assert (before[1] == after[1]).all()
    assert before[2] == after[2]


# Validation


def test_validation_keeps_the_weights_of_the_best_epoch():
    graph = source(signal=1.0)
    masks = {"train_mask": every(4), "val_mask": every(4, 1)}
    model, run = trained(graph, epochs=40, **masks)
    assert run.best_epoch == int(np.argmax(run.val_accuracy))
    assert run.best_epoch < 39, "otherwise this test shows nothing"
    right = model(graph.x, graph.edge_index).argmax(1) == graph.y
    assert right[masks["val_mask"]].double().mean().item() == pytest.approx(max(run.val_accuracy))
    # Validation draws no random numbers: stopping by hand at that epoch is the same model.
    stopped, _ = trained(graph, epochs=run.best_epoch + 1, train_mask=masks["train_mask"])
    assert_same_weights(model, stopped)


@pytest.mark.parametrize("patience", [1, 4])
def test_patience_stops_after_that_many_epochs_without_a_better_one(patience):
    graph, masks = source(signal=1.0), {"train_mask": every(4), "val_mask": every(4, 1)}
    _, full = trained(graph, epochs=60, **masks)
    _, run = trained(graph, epochs=60, patience=patience, **masks)
    assert len(run.loss) == run.best_epoch + patience + 1 < 60
    assert run.val_accuracy == full.val_accuracy[: len(run.loss)]
    best = run.val_accuracy[run.best_epoch]
    assert all(score <= best for score in run.val_accuracy)


def test_validation_nodes_do_not_train():
    graph, validation = source(), every(4, 1)
    masks = {"train_mask": every(4), "val_mask": validation, "epochs": 1}
    first, _ = trained(graph, **masks)
    graph.y = torch.where(validation, 1 - graph.y, graph.y)
    second, _ = trained(graph, **masks)
    assert_same_weights(first, second)


# Masks and labels


def test_the_mask_of_the_graph_is_the_default_and_an_argument_wins():
    graph = source()
    everything, _ = trained(graph)
    half, _ = trained(graph, train_mask=every(2))
    graph.train_mask = every(2)
    by_graph, _ = trained(graph)
    all_again, _ = trained(graph, train_mask=every(1))
    assert_same_weights(by_graph, half)
    assert_same_weights(all_again, everything)
    assert not same_weights(half, everything)


def test_labels_of_test_nodes_are_never_read():
    graph, mask = source(), every(2)
    graph.test_mask = ~mask
    first, one = trained(graph, train_mask=mask)
    graph.y = torch.where(mask, graph.y, -1)
    second, two = trained(graph, train_mask=mask)
    assert_same_weights(first, second)
    assert one == two
    for name, value in first.source.tensors().items():
        assert torch.equal(second.source.tensors()[name], value), name


def test_with_no_holdout_all_nodes_are_trained_on_and_a_second_training_measures():
    graph = source(signal=1.0)
    model, run = trained(graph, epochs=60, holdout=0)
    again, _ = trained(graph, epochs=60, train_mask=torch.ones(NODES, dtype=torch.bool), holdout=0)
    assert_same_weights(model, again)
    right = model(graph.x, graph.edge_index).argmax(1) == graph.y
    assert run.train_accuracy == pytest.approx(float(right.double().mean()))
    assert int(model.source.evidence.held_out) == pytest.approx(0.2 * NODES, abs=2)
    assert float(model.source.accuracy) < run.train_accuracy


def test_a_summary_of_a_network_trained_elsewhere_is_taken_on_the_other_nodes():
    graph, mask = source(), every(2)
    model, _ = trained(graph, train_mask=mask)
    inside = model.source
    mg.summarise_source(model, graph, trained=mask)
    for name, value in inside.tensors().items():
        assert torch.equal(model.source.tensors()[name], value), name
    graph.train_mask = mask
    mg.summarise_source(model, graph)
    assert int(model.source.held_out) == int((~mask).sum())


def test_a_broken_graph_is_refused_before_the_model_changes():
    model = network()
    before = weights(model)
    edges = torch.tensor([[0], [NODES]])
    with pytest.raises(InvalidGraphError, match=r"^graph\.edge_index: got node number 150"):
        fit(model, Data(x=source().x, edge_index=edges, y=source().y), epochs=1)
    for name, value in weights(model).items():
        assert torch.equal(value, before[name]), name


# Precision and layout


def test_the_source_summary_is_that_of_the_trained_model():
    graph, mask = source(), every(2)
    graph.test_mask = ~mask
    model, _ = trained(graph, epochs=20, train_mask=mask, holdout=0)
    summary = model.source
    with torch.no_grad():
        probs = model(graph.x, graph.edge_index).softmax(1).numpy()
        # Without edges the only hop is the node itself, and c sums over k: undo with gamma.
        alone = model(graph.x, torch.empty(2, 0, dtype=torch.int64)) / model.gamma.sum()
    own, y, known = alone.numpy(), graph.y.numpy(), mask.numpy()
    prior = np.bincount(y[known], minlength=2) / known.sum()
    np.testing.assert_allclose(summary.class_prior, prior, rtol=1e-6)
    within = sum(np.cov(own[known & (y == c)].T, ddof=0) * (known & (y == c)).sum() for c in (0, 1))
    covariance = within / (known.sum() - 2)
    np.testing.assert_allclose(summary.own["logit_covariance"], covariance, rtol=1e-3, atol=1e-4)
    confidence = np.histogram(probs.max(1), CONFIDENCE_BINS, (0, 1))[0] / NODES
    np.testing.assert_allclose(summary.confidence_histogram, confidence, atol=1.5 / NODES)
    assert summary.mean_degree.item() == pytest.approx(graph.num_edges / NODES)
    sender, receiver = graph.edge_index.numpy()
    both = known[sender] & known[receiver]
    shares = np.zeros((2, 2))
    np.add.at(shares, (y[sender[both]], y[receiver[both]]), 1 / both.sum())
    np.testing.assert_allclose(summary.class_edges, shares, rtol=1e-5)


class KeepsRandomNumbers(mg.ERM):
    name = "keeps_random_numbers"

    def source_arrays(self, model, source, labels, labelled, seed):
        return {"drawn": torch.rand(3)}


def test_source_state_follows_the_seed_and_leaves_the_generator_alone():
    models = [mg.GPRGNN(6, 3), mg.GPRGNN(6, 3)]
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    for model in models:
        mg.fit(model, tiny_graph(), epochs=1, methods=[KeepsRandomNumbers()], seed=3)
    assert torch.equal(before, torch.random.get_rng_state())
    first, second = (model.source_arrays["keeps_random_numbers"]["drawn"] for model in models)
    assert torch.equal(first, second)
