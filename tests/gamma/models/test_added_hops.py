"""Added hops are neutral until adapted, and equal the filter written out afterwards."""

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

import matcha_gnn as mg
import pyg_networks as nets
from matcha_gnn.gamma.networks.added import LinearAddedHops

KINDS = [pyg.GCNConv, pyg.SAGEConv, pyg.GATConv]


def untrained(kind):
    torch.manual_seed(0)
    return nets.Convolutions(kind).eval()


@pytest.mark.parametrize("head", ["lin", None])
@pytest.mark.parametrize("kind", KINDS)
def test_the_model_answers_as_the_network_before_adaptation(kind, head):
    net, (_, target) = untrained(kind), nets.graphs()
    model = mg.add_hops(net, head=head)
    probs = mg.predict(model, target).probs
    expected = net(target.x, target.edge_index).softmax(1)
    torch.testing.assert_close(probs, expected.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model(target.x, target.edge_index).softmax(1), expected)


def written_out(net, head, graph, gamma):
    """Σ_k γ_k P^k Z by dense matrices, on what a hook sees enter the head."""
    seen = []
    handle = net.get_submodule(head).register_forward_pre_hook(lambda _, given: seen.append(given))
    net(graph.x, graph.edge_index)
    handle.remove()
    dense = torch.eye(graph.num_nodes)
    dense[graph.edge_index[1], graph.edge_index[0]] = 1
    scale = dense.sum(1).rsqrt()
    matrix = scale[:, None] * dense * scale
    z = seen[0][0]
    return sum(g * torch.linalg.matrix_power(matrix, k) @ z for k, g in enumerate(gamma))


def test_the_adapted_model_is_the_filter_written_out():
    net, (_, target) = nets.trained(nets.convolutions(pyg.SAGEConv)), nets.graphs()
    result = mg.gamma.run(mg.add_hops(net, head="lin", K=3), target, strategy=mg.Matcha(rounds=10))
    z = written_out(net, "lin", target, result.gamma)
    torch.testing.assert_close(result.probs, net.lin(z).softmax(1).detach(), rtol=1e-3, atol=1e-4)
    assert not torch.allclose(result.gamma, result.gamma_before, atol=0.01)


def curved():
    net = nets.trained(nets.convolutions(pyg.GCNConv))
    torch.manual_seed(0)
    net.lin = nn.Sequential(nn.Linear(nets.WIDTH, 8), nn.Tanh(), nn.Linear(8, nets.CLASSES))
    return net


def test_a_curved_head_goes_by_autograd_on_kept_hops_and_agrees_with_the_sums():
    net, target = curved(), mg.unlabelled(nets.graphs()[1])
    model = mg.add_hops(net, head="lin")
    assert not isinstance(model, mg.LinearBackbone)
    result = mg.gamma.run(model, target, strategy=mg.Matcha(lr=0.5, rounds=1))
    sums = LinearAddedHops(net, "lin", 2)
    torch.testing.assert_close(
        result.gamma,
        mg.gamma.run(sums, target, strategy=mg.Matcha(lr=0.5, rounds=1)).gamma,
        rtol=1e-3,
        atol=1e-4,
    )
    torch.testing.assert_close(
        result.probs, result.model(target.x, target.edge_index).softmax(1), rtol=1e-3, atol=1e-4
    )
