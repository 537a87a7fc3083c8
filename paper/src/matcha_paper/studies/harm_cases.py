"""The shifts of the harm study: a source to train on, a target to adapt to, and its half.

Rules were made on the tuning half with seeds 10 to 12; the test half is run with seeds 0 to 4.
Within each family every other shift is tuning data; nothing else decided the halves. The first run
of the test half showed harm; the rule was mended with both halves in sight, on seeds 10 to 12, and
only then were the shifts of `confirmation` drawn up, which no rule had seen. `second` has what the
first sets lacked: classes of unequal degree, rare classes, citation and airport networks. No rule
was chosen by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from matcha_gnn.datasets import csbm
from matcha_gnn.io.graphfiles import read_graph
from matcha_gnn.transforms.shifts import shifted
from matcha_paper.datasets.named import make_graph
from matcha_paper.datasets.rawfiles import data_root
from matcha_paper.datasets.twitch import country

if TYPE_CHECKING:
    from torch_geometric.data import Data

TUNING_SEEDS = (10, 11, 12)
TEST_SEEDS = (0, 1, 2, 3, 4)
ATTRIBUTE = 0.8944271909999159
SKEWED, SKEWED_BACK = (0.1, 0.3, 0.6), (0.6, 0.3, 0.1)
EVEN, TEN = (1 / 3, 1 / 3, 1 / 3), (0.1,) * 10
SIGNAL = 1.3416407864998738


@dataclass(frozen=True)
class Source:
    """What a model is trained on.

    Attributes:
        data: csbm, syn_cora, twitch, cora, coauthor_cs, citation or airport.
        options: of the data set.
        train: arguments of `fit` that differ from the published recipe.
        hidden_channels: width.
        num_hops: K.
        shifts: changes of the graph itself, as `transforms.shifts.shifted` takes them.
    """

    data: str
    options: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    hidden_channels: int = 32
    num_hops: int = 9
    shifts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def real(self) -> bool:
        """Whether the graph is measured, not generated."""
        return self.data != "csbm"


@dataclass(frozen=True)
class Case:
    """One shift.

    Attributes:
        family: shifts of one family take turns between the halves.
        name: what the record calls it.
        source: what the model is trained on.
        target: options of the data set that differ on the target.
        shifts: changes on top, as `transforms.shifts.shifted` takes them.
    """

    family: str
    name: str
    source: Source
    target: Mapping[str, Any] = field(default_factory=dict)
    shifts: Mapping[str, Any] = field(default_factory=dict)


def _csbm(homophily: float, degree: float = 2.5, train: Any = None, **options: Any) -> Source:
    own = {"homophily": homophily, "degree": degree, "num_features": 2000, "signal": SIGNAL}
    return Source("csbm", own | options, train or {})


def _structure() -> list[Case]:
    homo, hetero, high, low = _csbm(0.8), _csbm(0.2), _csbm(0.8, 5.0), _csbm(0.8, 1.0)
    moves = {
        "homo-hetero": (homo, {"homophily": 0.2}),
        "hetero-homo": (hetero, {"homophily": 0.8}),
        "high-low": (high, {"degree": 1.0}),
        "low-high": (low, {"degree": 5.0}),
    }
    plain = [Case("structure", name, source, t) for name, (source, t) in moves.items()]
    both = [
        Case("structure and attribute", f"attr-{name}", source, t | {"shift": ATTRIBUTE})
        for name, (source, t) in moves.items()
    ]
    return plain + both


def _labels() -> list[Case]:
    homo, hetero = _csbm(0.8), _csbm(0.2)
    uneven = {"shares": (0.8, 0.2)}
    return [
        Case("labels", "label", homo, uneven),
        Case("labels", "label, hetero", hetero, uneven),
        Case("labels", "label and homo-hetero", homo, uneven | {"homophily": 0.2}),
        Case("labels", "label and hetero-homo", hetero, uneven | {"homophily": 0.8}),
        Case("labels", "label and attribute", hetero, uneven | {"shift": ATTRIBUTE}),
        Case(
            "labels",
            "label, attribute and homo-hetero",
            homo,
            uneven | {"shift": ATTRIBUTE, "homophily": 0.2},
        ),
        Case("none", "none, homo", homo),
        Case("none", "none, hetero", hetero),
        Case("none", "attribute only", homo, {"shift": ATTRIBUTE}),
        Case("none", "attribute only, hetero", hetero, {"shift": -ATTRIBUTE}),
    ]


def _skewed() -> list[Case]:
    homo, hetero = _csbm(0.8, shares=SKEWED), _csbm(0.2, shares=SKEWED)
    even = _csbm(0.8, shares=EVEN)
    return [
        Case("skewed", "skewed, homo-hetero", homo, {"homophily": 0.2}),
        Case("skewed", "skewed, hetero-homo", hetero, {"homophily": 0.8}),
        Case("skewed", "skewed, none", homo),
        Case("skewed", "skewed, none, hetero", hetero),
        Case("skewed", "skewed, label", homo, {"shares": SKEWED_BACK}),
        Case("skewed", "skewed, label, hetero", hetero, {"shares": SKEWED_BACK}),
        Case(
            "skewed",
            "skewed, label and homo-hetero",
            homo,
            {"shares": SKEWED_BACK, "homophily": 0.2},
        ),
        Case(
            "skewed",
            "skewed, attribute and hetero-homo",
            hetero,
            {"shift": ATTRIBUTE, "homophily": 0.8},
        ),
        Case(
            "neighbours",
            "three classes, neighbours",
            even,
            {"homophily": 0.3},
            {"edge-shares": _ring(0.1)},
        ),
        Case(
            "neighbours",
            "skewed, neighbours",
            homo,
            {"homophily": 0.3},
            {"edge-shares": _ring(0.2)},
        ),
    ]


def _ring(homophily: float) -> tuple[tuple[float, ...], ...]:
    """Class-to-class edge shares where class 0 links to 1 four times as often as to 2."""
    shares = np.diag(np.full(3, homophily / 3))
    for a, b, weight in ((0, 1, 4.0), (1, 2, 4.0), (0, 2, 1.0)):
        shares[a, b] = shares[b, a] = (1 - homophily) * weight / 18
    return tuple(map(tuple, shares.tolist()))


def _classes() -> list[Case]:
    even, ten = _csbm(0.8, shares=EVEN), _csbm(0.8, 10.0, shares=TEN, signal=3.0)
    weak = _csbm(0.8, train={"epochs": 15})
    noisy = _csbm(0.2, signal=0.7)
    return [
        Case("classes", "three classes, homo-hetero", even, {"homophily": 0.1}),
        Case("classes", "three classes, none", even),
        Case("classes", "ten classes, homo-hetero", ten, {"homophily": 0.2}),
        Case("classes", "ten classes, none", ten),
        Case("weak", "few epochs, homo-hetero", weak, {"homophily": 0.2}),
        Case("weak", "weak signal, hetero-homo", noisy, {"homophily": 0.8}),
        Case("weak", "few epochs, none", weak),
        Case("weak", "weak signal, none", noisy),
    ]


def _real() -> list[Case]:
    found = []
    order = (0.1, 0.0, 0.3, 0.2, 0.5, 0.4, 0.7, 0.6, 0.9, 1.0)
    for run in (1, 2, 3):
        source = Source("syn_cora", {"homophily": 0.8, "run": run})
        cases = [
            Case(f"syn-cora r{run}", f"syn-cora r{run}, 0.8-{h:g}", source, {"homophily": h})
            for h in order
        ]
        found += cases
    twitch = Source("twitch", {"name": "DE"}, hidden_channels=8, num_hops=5)
    for name, shifts in (
        ("ES", {}),
        ("ENGB", {}),
        ("ES", {"homophily": 0.2}),
        ("ENGB", {"homophily": 0.2}),
    ):
        title = f"twitch DE-{name}" + (", fewer edges" if shifts else "")
        found.append(Case("twitch", title, twitch, {"name": name}, shifts))
    transforms: dict[str, dict[str, Any]] = {
        "homophily": {"homophily": 0.4},
        "degree": {"degree": 1.5},
        "none": {},
        "noise": {"noise": 1.0},
        "class shares": {"class-shares": "skewed"},
        "attribute": {"attribute": 1.0},
    }
    for data in ("cora", "coauthor_cs"):
        source = Source(data, train={"epochs": 100})
        found += [Case(data, f"{data}, {n}", source, {}, s) for n, s in transforms.items()]
    return found


def _confirmation() -> list[Case]:
    return _fresh_csbm() + _fresh_real()


def _fresh_csbm() -> list[Case]:
    mild, mild_back = _csbm(0.7, 4.0), _csbm(0.35, 4.0)
    dense, faint = _csbm(0.75, 8.0), _csbm(0.75, signal=0.9)
    four = _csbm(0.7, 6.0, shares=(0.4, 0.3, 0.2, 0.1), signal=2.0)
    rare = _csbm(0.8, 3.0, shares=(0.85, 0.15))
    found: list[tuple[str, Source, dict[str, Any]]] = [
        ("homophily 0.7-0.35", mild, {"homophily": 0.35}),
        ("homophily 0.7-0.5", mild, {"homophily": 0.5}),
        ("homophily 0.35-0.7", mild_back, {"homophily": 0.7}),
        ("homophily 0.35, none", mild_back, {}),
        ("degree 8-2", dense, {"degree": 2.0}),
        ("degree 8-2 and half an attribute shift", dense, {"degree": 2.0, "shift": ATTRIBUTE / 2}),
        ("faint, none", faint, {}),
        ("faint, homophily 0.75-0.3", faint, {"homophily": 0.3}),
        ("four classes, none", four, {}),
        ("four classes, homophily 0.7-0.2", four, {"homophily": 0.2}),
        ("four classes, shares turned", four, {"shares": (0.1, 0.2, 0.3, 0.4)}),
        ("rare class, none", rare, {}),
        ("rare class, homophily 0.8-0.4", rare, {"homophily": 0.4}),
        ("rare class, less rare", rare, {"shares": (0.6, 0.4)}),
    ]
    return [Case("fresh csbm", name, source, target) for name, source, target in found]


def _fresh_real() -> list[Case]:
    found = []
    for start, ends in ((0.2, (0.0, 0.5, 0.8)), (0.5, (0.1, 0.9))):
        source = Source("syn_cora", {"homophily": start, "run": 2})
        found += [
            Case("fresh syn-cora", f"syn-cora r2, {start:g}-{end:g}", source, {"homophily": end})
            for end in ends
        ]
    for home, others in (("ES", ("DE", "ENGB")), ("ENGB", ("DE", "ES"))):
        source = Source("twitch", {"name": home}, hidden_channels=8, num_hops=5)
        found += [
            Case("fresh twitch", f"twitch {home}-{away}", source, {"name": away}) for away in others
        ]
    transforms = {
        "homophily 0.6": {"homophily": 0.6},
        "half of the edges, noise": {"degree": 2.0, "noise": 0.5},
        "strong noise": {"noise": 2.0},
    }
    for data in ("cora", "coauthor_cs"):
        source = Source(data, train={"epochs": 60})
        found += [
            Case(f"fresh {data}", f"{data}, {n}", source, {}, s) for n, s in transforms.items()
        ]
    return found


def _second() -> list[Case]:
    return _class_degrees() + _rare() + _networks()


def _degrees(first: float, homophily: float) -> dict[str, Any]:
    """Edge shares of two classes of which the first has this share of edges' ends."""
    apart = (1 - homophily) / 2
    return {"edge-shares": ((first - apart, apart), (apart, 1 - first - apart))}


def _class_degrees() -> list[Case]:
    even, hetero = _csbm(0.8), _csbm(0.2)
    hub = replace(_csbm(0.8, 8.0), shifts=_degrees(0.8, 0.8))
    three = _csbm(0.8, 4.0, shares=EVEN)
    of_three = ((0.5, 0.05, 0.05), (0.05, 0.14, 0.01), (0.05, 0.01, 0.14))
    dense = {"degree": 8.0, "homophily": 0.8}
    family = "class degrees"
    return [
        Case(family, "hub class appears", even, dense, _degrees(0.8, 0.8)),
        Case(family, "hub class appears, from hetero", hetero, dense, _degrees(2 / 3, 0.6)),
        Case(family, "hub class, none", hub, dense, _degrees(0.8, 0.8)),
        Case(family, "hub class, homophily 0.8-0.65", hub, dense, _degrees(0.8, 0.65)),
        Case(family, "hub class becomes the other", hub, dense, _degrees(0.2, 0.8)),
        Case(family, "three classes, hub appears", three, dense, {"edge-shares": of_three}),
    ]


def _rare() -> list[Case]:
    five, three = _csbm(0.8, 4.0, shares=(0.95, 0.05)), _csbm(0.8, 4.0, shares=(0.97, 0.03))
    third = _csbm(0.8, 4.0, shares=(0.6, 0.37, 0.03))
    family = "rare classes"
    return [
        Case(family, "5% class, none", five),
        Case(family, "5% class, homophily 0.8-0.5", five, {"homophily": 0.5}),
        Case(family, "3% class, becomes 10%", three, {"shares": (0.9, 0.1)}),
        Case(family, "third class of 3%, homophily 0.8-0.3", third, {"homophily": 0.3}),
    ]


def _networks() -> list[Case]:
    acm, dblp = (
        Source("citation", {"name": name}, {"epochs": 100}) for name in ("acmv9", "dblpv7")
    )
    usa, brazil = (Source("airport", {"name": name}, {"epochs": 200}) for name in ("usa", "brazil"))
    to_acm, to_dblp = {"name": "acmv9"}, {"name": "dblpv7"}
    rare = {"class-shares": (0.25, 0.35, 0.25, 0.02, 0.13)}
    return [
        Case("citation", "ACM-DBLP", acm, to_dblp),
        Case("citation", "DBLP-ACM", dblp, to_acm),
        Case("citation", "ACM-DBLP, fewer edges", acm, to_dblp, {"degree": 1.5}),
        Case("citation", "DBLP-ACM, a class of 2%", dblp, to_acm, rare),
        Case("airport", "USA-Brazil", usa, {"name": "brazil"}),
        Case("airport", "Brazil-USA", brazil, {"name": "usa"}),
    ]


def cases() -> dict[str, list[Case]]:
    """The tuning and the test half, and what was drawn up after both had been seen."""
    halves: dict[str, list[Case]] = {"tuning": [], "test": []}
    halves |= {"confirmation": _confirmation(), "second": _second()}
    turns: dict[str, int] = {}
    for case in _structure() + _labels() + _skewed() + _classes() + _real():
        turn = turns[case.family] = turns.get(case.family, -1) + 1
        halves["tuning" if turn % 2 == 0 else "test"].append(case)
    return halves


def source_graph(source: Source, seed: int) -> "Data":
    """The labelled graph.

    Cora and Coauthor-CS train on a random half of their nodes and have a tenth beside it that is
    neither trained on nor tested; citation and airport networks train on two thirds.
    """
    graph = _masked(source, _load(source.data, dict(source.options), seed), seed)
    if source.data in ("citation", "airport"):
        draw = torch.rand(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
        graph.train_mask = draw < 2 / 3
    return shifted(graph, source.shifts, seed)


def target_graph(case: Case, seed: int) -> "Data":
    """The graph to adapt to, with labels for scoring; `test_mask` where some were trained on."""
    options = dict(case.source.options) | dict(case.target)
    graph = _masked(case.source, _load(case.source.data, options, 1000 + seed), seed)
    shifts = dict(case.shifts)
    if shifts.get("class-shares") == "skewed":
        shifts["class-shares"] = _skewed_shares(graph.y)
    return shifted(graph, shifts, seed) if shifts else graph


def _load(data: str, options: dict[str, Any], seed: int) -> "Data":
    if data == "csbm":
        return csbm(**options, seed=seed)
    if data == "twitch":
        return country(options["name"])
    if data == "syn_cora":
        return make_graph("syn_cora", **options)
    if data in ("citation", "airport"):
        return read_graph(data_root() / data / f"{options['name']}.npz")
    return make_graph(data)


def _masked(source: Source, graph: "Data", seed: int) -> "Data":
    if source.data in ("cora", "coauthor_cs"):
        draw = torch.rand(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
        graph.train_mask, graph.test_mask, graph.val_mask = draw < 0.5, draw >= 0.6, None
    return graph


def _skewed_shares(y: torch.Tensor) -> list[float]:
    """Half of the classes three times rarer against the others than they are."""
    shares = torch.bincount(y).double()
    shares[::2] /= 3
    return (shares / shares.sum()).tolist()
