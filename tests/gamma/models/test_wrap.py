"""Wrapped networks answer as they are, move by the right gradient, and bad paths are named."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg

import matcha_gnn as mg
import pyg_networks as nets

FOUND = {
    nets.APPNPNet: (("prop.alpha",), "lin2"),
    nets.PropagatesLast: (("prop1.alpha",), None),
    nets.GCN2Net: (("convs.0.alpha", "convs.1.alpha", "convs.2.alpha"), "last"),
    nets.JumpingNet: (("jump",), "lin"),
    nets.SGNet: (("conv",), "conv.lin"),
    nets.TAGNet: (("conv",), "lin"),
    nets.MixHopNet: (("conv",), "lin"),
    nets.SSGNet: (("conv.alpha",), "conv.lin"),
    nets.GPRNet: (("prop.temp",), "lin2"),
}


@pytest.fixture(params=FOUND, ids=lambda build: build.__name__)
def build(request):
    return request.param


def untrained(build):
    torch.manual_seed(0)
    return build().eval()


def test_find_gamma_names_what_mixes_and_what_classifies(build):
    found = mg.find_gamma(untrained(build))
    assert (found.gamma, found.head) == FOUND[build]
    assert all(any(path in remark for remark in found.remarks) for path in found.gamma)
    assert str(found).count("\n") == len(found.gamma)


def test_the_wrapped_network_answers_as_the_network(build):
    net, (_, target) = untrained(build), nets.graphs()
    model = mg.wrap(net)
    expected = nets.answer(net, target)
    got = model(target.x, target.edge_index).log_softmax(1)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    probs = mg.predict(model, target).probs
    torch.testing.assert_close(probs, expected.exp().detach(), rtol=1e-4, atol=1e-5)


def test_a_cached_graph_is_forgotten():
    net, (source, target) = nets.trained(lambda: nets.APPNPNet(cached=True)), nets.graphs()
    stale = net(target.x, target.edge_index)
    fresh = copy.deepcopy(net)
    fresh.prop.cached, fresh.prop._cached_edge_index = False, None
    expected = fresh(target.x, target.edge_index).softmax(1)
    probs = mg.predict(mg.wrap(net), target).probs
    torch.testing.assert_close(probs, expected.detach(), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(stale.softmax(1), expected, atol=1e-2)
    assert net.prop._cached_edge_index is not None, "the caller's keeps its own"
    assert source.num_nodes == target.num_nodes


def test_edge_weights_are_handed_on_or_refused():
    graph = copy.copy(nets.graphs()[1])
    graph.edge_weight = torch.rand(graph.num_edges)
    net = untrained(nets.APPNPNet)
    expected = net(graph.x, graph.edge_index, graph.edge_weight).softmax(1)
    torch.testing.assert_close(mg.predict(mg.wrap(net), graph).probs, expected.detach())
    with pytest.raises(mg.IncompatibleError, match="TAGNet takes none"):
        mg.gamma.run(mg.wrap(untrained(nets.TAGNet)), graph, strategy=mg.Matcha())


# What is refused, and what the line says


@pytest.mark.parametrize(
    ("gamma", "says"),
    [
        ("prop.alfa", r"gamma: got 'prop.alfa' \(did you mean prop.alpha\?"),
        ("xyz", r"gamma: got 'xyz' \(no such path in APPNPNet\)"),
        ("prop.K", r"gamma: got 'prop.K' \(of type int\)"),
        ("lin1", r"gamma: got 'lin1' \(of type Linear\)"),
        ("convs.*.alpha", r"gamma: got 'convs.\*.alpha' \("),
    ],
)
def test_a_path_that_is_none_names_near_ones(gamma, says):
    with pytest.raises(mg.InvalidArgumentError, match=f"^{says}.*; allowed: paths of"):
        mg.wrap(untrained(nets.APPNPNet), gamma=gamma, head="lin2")


def test_a_head_that_is_none_names_near_ones():
    with pytest.raises(mg.InvalidArgumentError, match=r"^head: got 'lin3' \(did you mean lin"):
        mg.wrap(untrained(nets.APPNPNet), gamma="prop.alpha", head="lin3")


def test_a_convolution_cannot_be_the_head():
    with pytest.raises(mg.InvalidArgumentError, match=r"^head: got 'conv2' \(a GCNConv"):
        mg.wrap(untrained(nets.JumpingNet), gamma="jump", head="conv2")


def test_a_network_without_hop_weights_is_told_of_add_hops():
    net = untrained(nets.convolutions(pyg.GCNConv))
    assert mg.find_gamma(net).gamma == ()
    with pytest.raises(mg.IncompatibleError, match="no hop weights.*add_hops"):
        mg.wrap(net)


def adapted(net, **places):
    return mg.gamma.run(mg.wrap(net, **places), nets.graphs()[1], strategy=mg.Matcha(rounds=1))


def test_a_head_that_is_followed_by_propagation_is_refused():
    net = untrained(nets.PropagatesLast)
    with pytest.raises(mg.IncompatibleError, match="'lin2' gives: something follows"):
        adapted(net, gamma="prop1.alpha", head="lin2")


def test_gamma_that_does_not_reach_the_head_is_refused():
    class Detached(nets.APPNPNet):
        def forward(self, x, edge_index):
            return self.lin2(self.prop(self.lin1(x), edge_index).detach())

    with pytest.raises(mg.IncompatibleError, match=r"γ \(prop.alpha\) does not reach the head"):
        adapted(untrained(Detached), gamma="prop.alpha", head="lin2")


def test_a_head_called_twice_is_refused():
    class Twice(nets.APPNPNet):
        def forward(self, x, edge_index):
            return self.lin2(self.prop(self.lin1(x), edge_index)) + self.lin2(self.lin1(x))

    with pytest.raises(mg.InvalidArgumentError, match=r"'lin2' \(called 2 times"):
        adapted(untrained(Twice), gamma="prop.alpha", head="lin2")


def test_tent_tunes_the_batch_norm_of_a_wrapped_network():
    net, (_, target) = nets.trained(nets.APPNPNet), nets.graphs()
    probs = mg.predict(mg.wrap(net), target, mg.Tent(steps=0)).probs
    training = copy.deepcopy(net)
    training.norm.train()
    expected = training(target.x, target.edge_index).softmax(1)
    torch.testing.assert_close(probs, expected.detach(), rtol=1e-4, atol=1e-5)
    with pytest.raises(mg.IncompatibleError, match="tent: SGNet has no batch norm"):
        mg.gamma.run(mg.wrap(untrained(nets.SGNet)), target, mg.Tent(), mg.Matcha())


@pytest.mark.parametrize("make", [mg.wrap, mg.find_gamma, mg.add_hops])
@pytest.mark.parametrize("compiled", ["script", "trace"])
def test_a_compiled_network_is_refused_in_one_line(make, compiled):
    net = torch.nn.Sequential(torch.nn.Linear(4, 2))
    made = torch.jit.script(net) if compiled == "script" else torch.jit.trace(net, torch.ones(3, 4))
    with pytest.raises(mg.InvalidArgumentError, match="net: got a compiled .*; allowed: the torch"):
        make(made)
