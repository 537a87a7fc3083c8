"""Small random graphs, and models trained for them, for tests of properties."""

import warnings
from contextlib import suppress
from functools import cache
from typing import NamedTuple

import torch
from hypothesis import Phase, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.gamma.strategies import STRATEGIES

FEATURES, CLASSES = 5, 3
bounded = settings(
    max_examples=10,
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
"""Every property runs with these. To make failures smaller would take minutes: graphs are small."""

FEATURE_KINDS = {
    "normal": lambda x: x,
    "shifted": lambda x: x + 3,
    "of one class": lambda x: 0.1 * x + torch.linspace(2, -2, FEATURES),
    "few values": lambda x: x.sign(),
    "equal": lambda x: x[:1].expand_as(x).clone(),
    "zero": torch.zeros_like,
    "near equal": lambda x: 1 + 1e-6 * x,
}


@st.composite
def graphs(draw, least=1, most=24, kinds=tuple(FEATURE_KINDS), weighted=True):
    """Directed or not, with self loops, repeated edges, isolated nodes and several components.

    N may be below the number of classes.
    """
    nodes = draw(st.integers(least, most))
    numbers = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    # Nodes beyond this one have no edge.
    linked = draw(st.integers(1, nodes))
    edges = torch.randint(linked, (2, draw(st.integers(0, 3 * nodes))), generator=numbers)
    if draw(st.booleans()):
        edges = torch.cat([edges, edges[:, : draw(st.integers(0, 5))]], 1)
    if draw(st.booleans()):
        edges = torch.cat([edges, edges.flip(0)], 1)
    kind = draw(st.sampled_from(kinds))
    x = FEATURE_KINDS[kind](torch.randn(nodes, FEATURES, generator=numbers, dtype=torch.float64))
    graph = Data(x=x, edge_index=edges)
    if weighted and draw(st.booleans()):
        graph.edge_weight = torch.rand(edges.shape[1], generator=numbers, dtype=torch.float64)
    return graph


@cache
def trained(name):
    """A backbone in float64 with all that methods need of the source."""
    source = mg.datasets.csbm(
        120, FEATURES, degree=4, homophily=0.8, signal=2.5, shares=[1 / CLASSES] * CLASSES, seed=0
    )
    source.x = source.x.double()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BACKBONES[name](FEATURES, CLASSES, hidden_channels=6, K=2).double()
    mg.fit(model, source, epochs=40, methods=[method(each) for each in NEED_ARRAYS])
    return model


NEED_ARRAYS = ("adanpc", "graphpatcher")
GIVEN = {
    "gtrans": {"epochs": 5},
    "graphpatcher": {"hidden_channels": 8, "iterations": 20},
    "lame": {"k": 24},
    "matcha": {"rounds": 3},
    "closed_form": {"loss": mg.PIC()},
}
"""Arguments that make a method or a strategy quick, and independent of how nodes are numbered.

LAME takes the first of equally near neighbours, and SURE draws a sign for each node.
"""
SURE, DEFAULT = "sure", "default"
"""The names of the closed form by default, and of the comparison, in ways."""


def method(name):
    return METHODS[name](**GIVEN.get(name, {}))


def strategy(name):
    return mg.ClosedForm() if name == SURE else STRATEGIES[name](**GIVEN.get(name, {}))


class Way(NamedTuple):
    """What runs: names of a backbone, a base method and a strategy."""

    backbone: str
    method: str = "erm"
    strategy: str = "matcha"

    def __str__(self):
        return "-".join(self)

    @property
    def model(self):
        return trained(self.backbone)

    @property
    def draws_at_random(self):
        return self.strategy == SURE or method(self.method).draws_at_random

    def adapt(self, graph, model=None):
        """Without the warning that nothing could be adapted."""
        model = model or self.model
        if self.strategy != DEFAULT:
            return mg.gamma.run(model, graph, method(self.method), strategy(self.strategy))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mg.NotAdaptedWarning)
            return mg.adapt(model, graph)


def ways():
    """Each strategy and the default on each backbone, and each method in Algorithm 1."""
    strategies = (*STRATEGIES, DEFAULT)
    found = [Way(backbone, strategy=each) for backbone in BACKBONES for each in strategies]
    found += [Way("gprgnn", each, "matcha") for each in METHODS]
    found += [Way("gprgnn", "erm", SURE), Way("gprgnn", "t3a", SURE)]
    return [way for way in dict.fromkeys(found) if _possible(way)]


def _possible(way):
    """Whether the backbone has what the strategy needs."""
    if way.strategy != DEFAULT:
        with suppress(mg.IncompatibleError):
            strategy(way.strategy).require(way.model)
            return True
    return way.strategy == DEFAULT
