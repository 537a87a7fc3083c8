"""Finite graphs with extreme numbers: finite probabilities, or a refusal in one line."""

import random
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import torch
from matcha_gnn.adaptation import run_adaptation
from torch import Tensor
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.gamma.strategies import STRATEGIES

NODES, FEATURES, CLASSES = 40, 5, 3
PRECISIONS = {"float32": torch.float32, "float64": torch.float64}
QUICK = {"gtrans": {"epochs": 5, "samples": 2}, "matcha": {"rounds": 3}}
NEED_ARRAYS = ("adanpc", "graphpatcher")


def plain(dtype: torch.dtype, seed: int = 1) -> Data:
    graph = mg.datasets.csbm(
        NODES, FEATURES, degree=3, homophily=0.6, signal=3.0, shares=[1 / 3] * 3, seed=seed
    )
    graph.x = graph.x.to(dtype)
    return graph


def _outlier(x: Tensor, by: float) -> Tensor:
    x = x.clone()
    x[0] *= by
    return x


def _largest(x: Tensor) -> Tensor:
    return x.sign() * torch.finfo(x.dtype).max


FEATURES_OF: dict[str, Callable[[Tensor], Tensor]] = {
    "as they are": lambda x: x,
    "1e6": lambda x: 1e6 * x,
    "1e15": lambda x: 1e15 * x,
    "1e30": lambda x: 1e30 * x,
    "largest": _largest,
    "half of the largest": lambda x: 0.5 * _largest(x),
    "1e-15": lambda x: 1e-15 * x,
    "1e-30": lambda x: 1e-30 * x,
    "denormal": lambda x: x.sign() * torch.finfo(x.dtype).tiny / 8,
    "smallest normal": lambda x: x.sign() * torch.finfo(x.dtype).tiny,
    "zero": torch.zeros_like,
    "negative zero": lambda x: -torch.zeros_like(x),
    "ones": torch.ones_like,
    "equal rows": lambda x: x[:1].expand_as(x).contiguous(),
    "equal but for rounding": lambda x: 1 + torch.finfo(x.dtype).eps * x.round(),
    "rank one": lambda x: x[:, :1].expand_as(x).contiguous(),
    "an outlier of 1e6": lambda x: _outlier(x, 1e6),
    "an outlier of 1e30": lambda x: _outlier(x, 1e30),
    "far from zero": lambda x: 1e7 + x,
}
EDGES_OF: dict[str, Callable[[Data], None]] = {}


def edges(name: str) -> Callable[[Callable[[Data], None]], Callable[[Data], None]]:
    """Register a change of the edges."""

    def added(change: Callable[[Data], None]) -> Callable[[Data], None]:
        EDGES_OF[name] = change
        return change

    return added


@edges("no edges")
def _none(graph: Data) -> None:
    graph.edge_index = graph.edge_index[:, :0]


@edges("loops alone")
def _loops(graph: Data) -> None:
    graph.edge_index = torch.arange(graph.num_nodes).repeat(2, 1)


@edges("one edge, a thousand times")
def _repeated(graph: Data) -> None:
    graph.edge_index = torch.tensor([[0], [1]]).repeat(1, 1000)


@edges("a hub")
def _hub(graph: Data) -> None:
    others = torch.arange(1, graph.num_nodes)
    graph.edge_index = torch.stack([others, torch.zeros_like(others)])


@edges("all pairs")
def _all(graph: Data) -> None:
    graph.edge_index = torch.ones(graph.num_nodes, graph.num_nodes).nonzero().T


@edges("one node")
def _one(graph: Data) -> None:
    graph.x, graph.edge_index = graph.x[:1], graph.edge_index[:, :0]


@edges("two nodes")
def _two(graph: Data) -> None:
    graph.x, graph.edge_index = graph.x[:2], torch.tensor([[0, 1], [1, 0]])


for _name, _weight in {
    "0": 0.0,
    "1e-30": 1e-30,
    "1e-300": 1e-300,
    "1e30": 1e30,
    "1e38": 1e38,
}.items():

    @edges(f"weights of {_name}")
    def _weighted(graph: Data, weight: float = _weight) -> None:
        graph.edge_weight = torch.full((graph.edge_index.shape[1],), weight, dtype=torch.float64)


@edges("weights from 1e-30 to 1e30")
def _mixed(graph: Data) -> None:
    graph.edge_weight = torch.logspace(-30, 30, graph.edge_index.shape[1], dtype=torch.float64)


class Run(NamedTuple):
    """One run: a change of a graph, its precision, and what is done with it."""

    change: str
    precision: str
    backbone: str
    method: str
    strategy: str

    def __str__(self) -> str:
        return ", ".join(self)


def runs() -> Iterator[Run]:
    """All of them, in a fixed order."""
    for change in (*FEATURES_OF, *EDGES_OF):
        for precision in PRECISIONS:
            for method in METHODS:
                for strategy in ("guarded", "matcha"):
                    yield Run(change, precision, "gprgnn", method, strategy)
            for backbone in BACKBONES:
                yield Run(change, precision, backbone, "fit", "none")
                yield Run(change, precision, backbone, "erm", "guarded")
            for strategy in STRATEGIES:
                yield Run(change, precision, "gprgnn", "erm", strategy)


def some(number: int, seed: int) -> list[Run]:
    """A seeded share of them."""
    return random.Random(seed).sample(list(dict.fromkeys(runs())), number)


def graph_of(change: str, dtype: torch.dtype) -> Data:
    """The changed graph; its numbers are finite."""
    graph = plain(dtype)
    if change in FEATURES_OF:
        graph.x = FEATURES_OF[change](graph.x)
    else:
        EDGES_OF[change](graph)
    assert graph.x.isfinite().all()
    return graph


@cache
def trained(backbone: str, precision: str) -> mg.Backbone:
    """On a graph without extreme numbers."""
    dtype = PRECISIONS[precision]
    model = BACKBONES[backbone](FEATURES, CLASSES, hidden_channels=6, K=2).to(dtype)
    patcher = mg.GraphPatcher(hidden_channels=8, iterations=20)
    mg.fit(model, plain(dtype, seed=0), epochs=20, methods=[mg.AdaNPC(), patcher])
    return model


def outcome(run: Run) -> str:
    """ "finite", "refused", or what is wrong."""
    dtype = PRECISIONS[run.precision]
    graph = graph_of(run.change, dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if run.method == "fit":
                model = BACKBONES[run.backbone](FEATURES, CLASSES, hidden_channels=6, K=2)
                return _of_model(model.to(dtype), graph)
            method = METHODS[run.method](**QUICK.get(run.method, {}))
            strategy = STRATEGIES[run.strategy](**QUICK.get(run.strategy, {}))
            model = trained(run.backbone, run.precision)
            return of_result(run_adaptation(model, graph, method, strategy))
    except mg.MatchaError as error:
        return "refused" if "\n" not in str(error) else f"several lines: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _of_model(model: mg.TrainableBackbone, graph: Data) -> str:
    if len(graph.x) < NODES:
        graph.y = graph.y[: len(graph.x)]
    mg.fit(model, graph, epochs=3)
    finite = all(bool(each.isfinite().all()) for each in model.state_dict().values())
    return "finite" if finite else "weights that are not finite"


def of_result(result: mg.Adaptation) -> str:
    """Whether every number of a result is one."""
    for probs in (result.probs, result.probs_before):
        if not bool(probs.isfinite().all()) or not bool((probs >= 0).all()):
            return "probabilities that are not finite, or negative"
        if float((probs.sum(1) - 1).abs().max()) > 1e-4:
            return "probabilities that do not sum to one"
    if not bool(result.gamma.isfinite().all()):
        return "γ that is not finite"
    if not all(0 <= pic <= 1 for pic in (result.pic_before, result.pic_after)):
        return f"PIC of {result.pic_before} and {result.pic_after}"
    return "finite"


def is_good(found: str) -> bool:
    """Finite, or refused in one line."""
    return found in ("finite", "refused")
