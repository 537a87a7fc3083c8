"""GPRGNN against the same computation written out with dense matrices, and against F.dropout."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from matcha_gnn.gamma.kernels.dropout import MIN_ENTRIES
from matcha_gnn.gamma.models import GPRGNN
from matcha_gnn.gamma.models.encoder import FirstLayer

NODES, FEATURES, CLASSES, WIDTH, HOPS = 20, 7, 3, 5, 4
# The fast dropout path starts at MIN_ENTRIES; these are a shape below it and one above.
SHAPES = [(NODES, FEATURES), (260, 257)]
assert SHAPES[0][0] * SHAPES[0][1] < MIN_ENTRIES <= SHAPES[1][0] * SHAPES[1][1]


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def sparse_features(shape=(NODES, FEATURES)):
    x = draw(*shape)
    return torch.where(x > 0.5, x, 0)


def directed_edges(num_nodes=NODES):
    return torch.randint(num_nodes, (2, 60), generator=torch.Generator().manual_seed(1))


def model_with_random_state(**options):
    """Every parameter and running statistic away from its starting value."""
    torch.manual_seed(2)
    sizes = {"hidden_channels": WIDTH, "K": HOPS}
    model = GPRGNN(FEATURES, CLASSES, **(sizes | options))
    with torch.no_grad():
        model.gamma.copy_(draw(len(model.gamma), seed=3))
        for buffer in (model.norm.running_mean, model.norm.weight, model.norm.bias):
            buffer.normal_()
        model.norm.running_var.uniform_(0.5, 2)
    return model.eval()


def written_out(model, x, edge_index, edge_weight=None):
    """The architecture of the protocol, in evaluation, from its weights and dense matrices."""
    weights = model.state_dict()
    h = x @ weights["linear.weight"].T + weights["linear.bias"]
    spread = (weights["norm.running_var"] + 1e-5).sqrt()
    h = (h - weights["norm.running_mean"]) / spread * weights["norm.weight"] + weights["norm.bias"]
    h = h.clamp_min(0)
    index, value = gcn_norm(edge_index, edge_weight, len(x), dtype=x.dtype)
    matrix = torch.zeros(len(x), len(x), dtype=x.dtype)
    matrix.index_put_((index[1], index[0]), value, accumulate=True)
    z = sum(g * torch.linalg.matrix_power(matrix, k) @ h for k, g in enumerate(weights["gamma"]))
    return z @ weights["head.weight"].T


def gradients(model, x, edge_index):
    model.zero_grad()
    model(x, edge_index).square().sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


# The forward pass in evaluation


@pytest.mark.parametrize("num_hops", [0, 1, HOPS])
def test_logits_equal_the_formula_written_out(num_hops):
    model, x = model_with_random_state(K=num_hops), draw(NODES, FEATURES)
    expected = written_out(model, x, directed_edges())
    torch.testing.assert_close(model(x, directed_edges()), expected, rtol=1e-4, atol=1e-5)


def test_logits_with_edge_weights_equal_the_formula_written_out():
    model, x = model_with_random_state(), draw(NODES, FEATURES)
    weight = torch.rand(60, generator=torch.Generator().manual_seed(4))
    got = model(x, directed_edges(), weight)
    expected = written_out(model, x, directed_edges(), weight)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(got, model(x, directed_edges()))


@pytest.mark.parametrize("training", [True, False])
def test_sparse_features_give_the_gradients_of_dense_ones(training):
    model, x = model_with_random_state(dropout=0.0).train(training), sparse_features()
    dense = gradients(model, x, directed_edges())
    sparse = gradients(model, x.to_sparse_csr(), directed_edges())
    assert set(sparse) == set(dict(model.named_parameters()))
    for name, expected in dense.items():
        torch.testing.assert_close(sparse[name], expected, rtol=1e-4, atol=1e-4, msg=name)


# Starting values of gamma


@pytest.mark.parametrize(
    ("num_hops", "alpha", "expected"),
    [
        (4, 1.0, [1, 0, 0, 0, 0]),
        (3, 0.5, [0.5, 0.25, 0.125, 0.125]),
        (2, 0.1, [0.1, 0.09, 0.81]),
        (0, 0.3, [1]),
    ],
)
def test_gamma_starts_at_the_published_values(num_hops, alpha, expected):
    gamma = GPRGNN(4, 2, K=num_hops, alpha=alpha).gamma
    torch.testing.assert_close(gamma.detach(), torch.tensor(expected, dtype=torch.float32))


# Training mode


def test_without_dropout_training_normalises_by_the_batch_alone():
    model, x = model_with_random_state(dropout=0.0).train(), draw(NODES, FEATURES)
    got = model(x, directed_edges())
    batch = x @ model.linear.weight.T + model.linear.bias
    with torch.no_grad():
        model.norm.running_mean.copy_(batch.mean(0))
        model.norm.running_var.copy_(batch.var(0, unbiased=False))
    expected = written_out(model, x, directed_edges())
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def plain_first_layer(layer, x):
    """By torch's own dropout."""
    return F.linear(F.dropout(x, layer.dropout), layer.weight, layer.bias)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("shape", [(400, FEATURES), SHAPES[1]])
@pytest.mark.parametrize("rate", [0.3, 0.5])
def test_the_first_layer_in_training_has_the_mean_and_spread_of_plain_dropout(sparse, shape, rate):
    torch.manual_seed(0)
    layer = FirstLayer(shape[1], 16, rate).train()
    x = sparse_features(shape)
    runs = 100
    with torch.no_grad():
        expected = F.linear(x, layer.weight, layer.bias)
        given = x.to_sparse_csr() if sparse else x
        ours = torch.stack([layer(given) for _ in range(runs)]).double()
        theirs = torch.stack([plain_first_layer(layer, x) for _ in range(runs)]).double()
    # z values of the mean of all runs; their spread over nodes is one when both laws agree.
    varies = theirs.std(0) > 0
    error = ((ours.mean(0) - expected) / (theirs.std(0) / runs**0.5))[varies]
    assert 0.7 < error.square().mean().sqrt() < 1.4
    torch.testing.assert_close(
        ours.var(0).mean(), theirs.var(0).mean(), rtol=0.15, atol=0, msg="spread"
    )


@pytest.mark.parametrize("rate", [0.3, 0.5])
def test_two_dropouts_act_on_the_hidden_layer(rate):
    torch.manual_seed(0)
    h = torch.ones(400, 50)
    dropped = GPRGNN(4, 2, dropout=rate).train().after_norm(h.clone())
    assert float((dropped == 0).float().mean()) == pytest.approx(1 - (1 - rate) ** 2, abs=0.02)
    assert float(dropped.mean()) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("shape", SHAPES)
def test_two_forward_passes_before_one_backward(shape):
    """As in consistency training: no pass may disturb what another has kept for its gradient."""
    torch.manual_seed(0)
    model = GPRGNN(shape[1], CLASSES, K=2).train()
    x, edges = draw(*shape), directed_edges(shape[0])

    def losses():
        torch.manual_seed(1)
        for _ in range(3):
            yield model(x, edges).square().sum()

    model(x, edges).sum().backward()  # as after an epoch: a buffer is there to be reused
    model.zero_grad()
    sum(list(losses())).backward()
    together = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    for loss in losses():
        loss.backward()
    for got, one_by_one in zip(together, model.parameters(), strict=True):
        torch.testing.assert_close(got, one_by_one.grad, rtol=1e-4, atol=1e-3)


# Construction


def test_the_first_layer_in_evaluation_has_the_value_and_gradients_of_a_linear_layer():
    model = GPRGNN(5, 2, hidden_channels=3).eval()
    generator = torch.Generator().manual_seed(0)
    x, slope = torch.randn(11, 5, generator=generator), torch.randn(11, 3, generator=generator)
    leaves = [model.linear.weight, model.linear.bias]
    ours, plain = model.linear(x), F.linear(x, *leaves)
    torch.testing.assert_close(ours, plain)
    for got, expected in zip(
        torch.autograd.grad(ours, leaves, slope),
        torch.autograd.grad(plain, leaves, slope),
        strict=True,
    ):
        torch.testing.assert_close(got, expected)


def test_the_batch_norm_is_folded_in_evaluation_alone_and_changes_nothing():
    torch.manual_seed(0)
    model = GPRGNN(7, 3, hidden_channels=5)
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.5, 2)
    model.norm.weight.data.normal_()
    model.norm.bias.data.normal_()
    x = torch.randn(20, 7)
    model.eval()
    plain = model.after_norm(model.norm(model.linear(x))).detach()
    with torch.no_grad():
        torch.testing.assert_close(model.encode(x), plain)
        torch.testing.assert_close(model.encode(x.to_sparse_csr()), plain)
        model.norm.train()
        batch = model.after_norm(model.norm(model.linear(x)))
        torch.testing.assert_close(model.encode(x), batch)
    assert model.eval().encode(x).requires_grad


def test_an_encoder_with_parts_of_its_own_is_not_folded():
    class Shifted(GPRGNN):
        def after_norm(self, h):
            return super().after_norm(h) + 1

    model, x = Shifted(7, 3, hidden_channels=5).eval(), torch.randn(4, 7)
    with torch.no_grad():
        expected = torch.relu(model.norm(model.linear(x))) + 1
        torch.testing.assert_close(model.encode(x), expected)
