"""A source summary is of one network: others are refused, what the library made of it is taken."""

from functools import cache

import pytest
import torch
from torch import nn
from torch_geometric.nn import APPNP, GCN

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph

SAYS = "^source: the summary is of a network with other weights than this .*: make it again"


class Net(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.norm, self.lin = nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.prop = APPNP(K=2, alpha=0.2)

    def forward(self, x, edge_index):
        return self.prop(self.lin(self.norm(x)), edge_index)


@cache
def summary():
    return mg.summarise_source(Net().eval(), tiny_graph(0.8, seed=0))


def in_a_file(path):
    summary().save(path / "source.safetensors")
    return path / "source.safetensors"


CALLS = {
    "adapt": lambda net, source: mg.adapt(net, tiny_graph(), source=source),
    "estimate": lambda net, source: mg.estimate(net, tiny_graph(), source=source),
    "diagnose": lambda net, source: mg.diagnose(net, tiny_graph(), source=source),
}


@pytest.mark.parametrize("name", CALLS)
def test_another_network_is_refused_in_one_line(name, tmp_path):
    for source in (summary(), in_a_file(tmp_path)):
        with pytest.raises(mg.IncompatibleError, match=SAYS) as error:
            CALLS[name](Net(seed=1).eval(), source)
        assert "\n" not in str(error.value)


def test_statistics_of_a_batch_norm_are_part_of_a_network():
    net = Net().train()
    net(tiny_graph().x, tiny_graph().edge_index)
    with pytest.raises(mg.IncompatibleError, match=SAYS):
        mg.adapt(net.eval(), tiny_graph(), source=summary())


def adapted(strategy=None):
    return lambda net: mg.adapt(net, tiny_graph(), strategy=strategy, source=summary()).model


SAME = {
    "training mode": lambda net: net.train(),
    "frozen": lambda net: net.requires_grad_(False),
    "float64": lambda net: net.double(),
    "compiled": torch.compile,
    "parallel": nn.DataParallel,
    "wrapped": lambda net: mg.wrap(net, gamma="prop.alpha"),
    "added hops": mg.add_hops,
    "adapted": adapted(),
    "adapted by matcha": adapted(mg.Matcha(rounds=2)),
    "tent": adapted(mg.Tent()),
    "tent without a source": lambda net: mg.predict(net, tiny_graph(), "tent").model,
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_network_is_taken_in_every_form(name):
    found = mg.estimate(SAME[name](Net().eval()), tiny_graph(), source=summary())
    assert found.low <= found.value <= found.high


def test_where_it_cannot_be_told_there_is_a_warning():
    class Fixed(nn.Module):
        def forward(self, x, edge_index):
            return x[:, :3]

    made = mg.summarise_source(Fixed(), tiny_graph(0.8, seed=0))
    assert made.network is None
    with pytest.warns(UserWarning, match="^source: .*cannot be told whether .*this Fixed"):
        mg.adapt(Fixed(), tiny_graph(), source=made)
    with pytest.warns(UserWarning, match="has no weights"):
        mg.estimate(GCN(6, 8, 2, 3).eval(), tiny_graph(), source=made)
