"""APPNP, GCNII and JKNet against PyG's own layers, in value and gradient, in double precision."""

import pytest
import torch
import torch_geometric.nn as pyg
from torch.nn import functional as F  # noqa: N812

import matcha_gnn as mg

NODES, FEATURES, CLASSES, WIDTH = 20, 7, 3, 5


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def directed_graph():
    """Features, edges and weights."""
    edges = torch.randint(NODES, (2, 60), generator=torch.Generator().manual_seed(1))
    weights = torch.rand(60, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return draw(NODES, FEATURES), edges, weights


def randomised(model):
    """Every parameter and running statistic away from its start."""
    torch.manual_seed(3)
    model = model.double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "gamma":
                parameter.copy_(torch.randn_like(parameter) / 2)
        for norm in (m for m in model.modules() if isinstance(m, torch.nn.BatchNorm1d)):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
        if len(model.gamma) > 1:
            model.gamma.add_(draw(len(model.gamma), seed=5) / 10)
    return model.eval()


def appnp(model, x, edge_index, edge_weight):
    norm, h = model.norm, F.linear(x, model.linear.weight, model.linear.bias)
    h = F.batch_norm(h, norm.running_mean, norm.running_var, norm.weight, norm.bias).relu()
    return pyg.APPNP(model.num_hops, model.gamma)(h, edge_index, edge_weight) @ model.head.weight.T


def gcnii(model, x, edge_index, edge_weight):
    h = start = model.linear(x).relu()
    for layer, (alpha, weight) in enumerate(zip(model.gamma, model.weight, strict=True), 1):
        conv = pyg.GCN2Conv(WIDTH, alpha, model.theta, layer).double()
        del conv.weight1
        conv.weight1 = weight
        h = conv(h, start, edge_index, edge_weight).relu()
    return model.head(h)


def jknet(model, x, edge_index, edge_weight):
    z, h = 0, x
    for linear, bias, weight in zip(
        [model.linear, *model.later], model.bias, model.gamma, strict=True
    ):
        conv = pyg.GCNConv(linear.in_features, linear.out_features).double()
        del conv.bias, conv.lin.weight
        conv.bias, conv.lin.weight = bias, linear.weight
        h = conv(h, edge_index, edge_weight).relu()
        z = z + weight * h
    return model.head(z)


CASES = [
    *((mg.APPNP, appnp, {"K": k, "alpha": a}) for k in (0, 1, 4) for a in (0.1, 0.7, 1.5)),
    *((mg.GCNII, gcnii, {"K": k, "alpha": 0.3}) for k in (1, 4)),
    *((mg.JKNet, jknet, {"K": k}) for k in (1, 2, 4)),
]


@pytest.mark.parametrize(("kind", "by_pyg", "options"), CASES)
def test_a_model_is_that_of_pyg_in_value_and_gradient(kind, by_pyg, options):
    model = randomised(kind(FEATURES, CLASSES, WIDTH, **options))
    ours, twin = model(*directed_graph()), by_pyg(model, *directed_graph())
    torch.testing.assert_close(ours, twin, rtol=0, atol=1e-6)
    mark, parameters = draw(*ours.shape, seed=9), list(model.parameters())
    slopes = (
        torch.autograd.grad((each * mark).sum(), parameters, materialize_grads=True)
        for each in (ours, twin)
    )
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
