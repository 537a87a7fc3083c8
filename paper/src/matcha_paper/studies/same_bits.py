"""Do two versions of the code give the same? Eight parts, each a table of names and outcomes.

runs: Algorithm 1, the closed form and the default on four backbones and graphs of 2, 5 and 20
classes. methods: every base method alone and inside Matcha. networks: five plain PyG networks,
alone, with `source=`, and with hop weights of their own or added ones. metrics: other metrics than
accuracy. figures: every number of every candidate. questions: their order, and what 20 answers
decide. watch: the figures of four graphs. files: what the command writes.

Arrays are kept as hashes, numbers as hexadecimal text. Only public names are used, whose later
places are in `RENAMED`, so that older and newer code run this file by its path, with PYTHONPATH on
their own `src`. Compare two files made on one machine with one thread. What one side lacks, such as
a candidate that is no longer tried, is listed apart.

Run: python -m matcha_paper.studies.same_bits before.json
     python -m matcha_paper.studies.same_bits after.json --compare before.json
         [--part runs methods]
"""

import argparse
import csv
import hashlib
import inspect
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Data

import matcha_gnn as mg

RENAMED = {"estimate_accuracy": ("estimate",), "Unadapted": ("ERM",)}
"""Later names of public names; a base method becomes a strategy that runs it alone."""
BACKBONES = ("GPRGNN", "APPNP", "JKNet", "GCNII")
METHODS: dict[str, dict[str, Any]] = {
    "ERM": {},
    "T3A": {},
    "Tent": {},
    "AdaNPC": {},
    "SOGA": {},
    "LAME": {},
    "GTrans": {"epochs": 5},
    "GraphPatcher": {"iterations": 30},
}
SHIPPED = ("AdaNPC", "GraphPatcher")
"""Methods that need arrays of the source."""
LARGE = 40_000
"""Nodes from which on the default fits on samples first."""
SIZES: dict[int, dict[str, Any]] = {
    2: {"num_nodes": 300, "degree": 4.0, "signal": 1.5, "shares": (0.5, 0.5)},
    5: {"num_nodes": 600, "degree": 5.0, "signal": 2.5, "shares": (0.3, 0.25, 0.2, 0.15, 0.1)},
    20: {"num_nodes": 1200, "degree": 8.0, "signal": 4.0, "shares": (0.05,) * 20},
}
"""Options of the graphs, by their number of classes."""
FEATURES, WIDTH, ASKED = 24, 8, 20
DIGITS = "0123456789abcdefghij"
NOT_COMPARED = ("date", "time", "seconds", "versions", "result", "alarms", "strategy_version")
SHOWN = 20
"""Differences of a part that are printed."""
Fields = dict[str, str]
Named = Iterator[tuple[str, Callable[[], Fields]]]


class LackingError(Exception):
    """This version has no such name."""


def public(name: str) -> Any:
    """What a name, or the one that it has later, stands for in `mg` or in `mg.gamma`."""
    for place in (mg, getattr(mg, "gamma", None)):
        for each in (name, *RENAMED.get(name, ())):
            if hasattr(place, each):
                return getattr(place, each)
    raise LackingError(name)


def takes(function: Callable[..., Any], argument: str) -> bool:
    """Whether a function has an argument of this name."""
    return argument in inspect.signature(function).parameters


def adapted(model: nn.Module, graph: Data, **options: Any) -> Any:
    """The result of `adapt`; that a source model is kept is in the status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mg.adapt(model, graph, **options)


def alone(name: str) -> dict[str, Any]:
    """Arguments of `adapt` that run a base method around the model as it is."""
    if name == "ERM":
        return {"strategy": public("Unadapted")()}
    method = public(name)(**METHODS[name])
    if takes(mg.adapt, "method"):
        return {"method": method, "strategy": public("Unadapted")()}
    return {"strategy": method}


def inside(name: str, **settings: Any) -> dict[str, Any]:
    """Arguments of `adapt` that run Algorithm 1 around a base method."""
    if name == "ERM":
        return {"strategy": public("Matcha")(**settings)}
    method = public(name)(**METHODS[name])
    if takes(mg.adapt, "method"):
        return {"method": method, "strategy": public("Matcha")(**settings)}
    return {"strategy": public("Matcha")(method, **settings)}


def by_evidence() -> dict[str, Any]:
    """Arguments of `adapt` for the default without candidates that have other hop weights."""
    guarded = getattr(mg, "Guarded", None)
    if guarded is not None and takes(guarded, "strategies") and hasattr(mg, "Belief"):
        return {"strategy": guarded(strategies=(mg.Belief(),))}
    return {}


def bits(values: Any) -> str:
    """A hash of an array, its shape and its type."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    about = f"{array.dtype} {array.shape} ".encode()
    return hashlib.sha256(about + np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def exact(value: Any) -> Any:
    """A value for JSON with every float in hexadecimal."""
    if isinstance(value, Tensor | np.ndarray):
        return bits(value)
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): exact(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [exact(each) for each in value]
    return value if isinstance(value, int | None) else str(value)


def text(value: Any) -> str:
    """The same as text."""
    found = exact(value)
    return found if isinstance(found, str) else json.dumps(found)


def digits(labels: Tensor) -> str:
    """One character for each node."""
    return "".join(DIGITS[label] for label in labels.tolist())


def outcome(result: Any) -> Fields:
    """Status and labels, and what decided them, as far as this version has it."""
    found = {
        "status": str(result.status),
        "labels": digits(result.labels),
        "probs": bits(result.probs),
        "probs_before": bits(result.probs_before),
    }
    compares = not hasattr(result, "gamma")
    decision = getattr(result, "decision", result if compares else None)
    if decision is not None:
        found |= {"chosen": decision.chosen, "obstacle": decision.obstacle}
    for name in ("gamma", "gamma_before", "pic_before", "pic_after"):
        if getattr(result, name, None) is not None:
            found[name] = text(getattr(result, name))
    losses = getattr(getattr(result, "trace", None), "loss", None)
    return found | ({"losses": bits(list(losses))} if losses else {})


def figures(result: Any) -> Fields:
    """The outcome, and every number of every candidate."""
    found, decision = outcome(result), getattr(result, "decision", result)
    for one in decision.candidates:
        about = f"candidate {one.name}, "
        for name in ("accuracy", "goal", "gain", "changed"):
            found[about + name] = text(getattr(one, name))
        if one.probs is not None:
            found[about + "probs"] = bits(one.probs)
        if one.confusion is not None:
            found[about + "confusion"] = bits(one.confusion)
    if decision.posterior is not None:
        found["posterior"] = bits(decision.posterior.probs)
    return found


def drawn(classes: int, seed: int, **options: Any) -> Data:
    """A graph of so many classes."""
    return mg.datasets.csbm(num_features=FEATURES, **SIZES[classes] | options, seed=seed)


def home(classes: int) -> Data:
    """The labelled graph, of homophily 0.8."""
    return drawn(classes, 0, homophily=0.8)


def turned(classes: int) -> tuple[float, ...]:
    """Class shares that differ from the source's."""
    weights = range(classes, 0, -1) if classes > 2 else (4, 1)
    return tuple(each / sum(weights) for each in weights)


def graphs(classes: int) -> dict[str, Data]:
    """Targets that differ from the source: in eleven ways with two classes, else in six."""
    found = {
        "homophily": drawn(classes, 1, homophily=0.2),
        "same": drawn(classes, 2, homophily=0.8),
        "offset": drawn(classes, 3, homophily=0.2, shift=1.0),
        "shares": drawn(classes, 4, homophily=0.3, shares=turned(classes)),
        "sparse graph": drawn(classes, 5, homophily=0.3, degree=1.0),
    }
    if classes != 5:
        # Many classes take blocks of 40,000 numbers; two classes are sampled from `LARGE` on.
        nodes = LARGE if classes == 2 else 6000
        found["large"] = drawn(classes, 1, homophily=0.2, num_nodes=nodes)
    altered = tuple(ALTERED) if classes == 2 else ("weighted",)
    for seed, name in enumerate(altered, 6):
        found[name] = drawn(classes, seed, homophily=0.3)
        ALTERED[name](found[name])
    return found


def _directed(graph: Data) -> None:
    graph.edge_index = graph.edge_index[:, ::2]


def _weighted(graph: Data) -> None:
    graph.edge_weight = torch.linspace(0.1, 2, graph.num_edges)


def _double(graph: Data) -> None:
    graph.x = graph.x.double()


def _sparse(graph: Data) -> None:
    graph.x = graph.x.to_sparse_csr()


def _isolated(graph: Data) -> None:
    graph.edge_index = graph.edge_index[:, :200]


ALTERED: dict[str, Callable[[Data], None]] = {
    "directed": _directed,
    "weighted": _weighted,
    "float64": _double,
    "sparse features": _sparse,
    "isolated": _isolated,
}
"""What is done to a graph that was drawn."""


@cache
def backbone(name: str, classes: int, shipped: bool = False) -> Any:
    """A trained model of this package, with what base methods need of the source if wanted."""
    torch.manual_seed(0)
    model = public(name)(FEATURES, classes, hidden_channels=WIDTH, K=3)
    methods = [public(each)(**METHODS[each]) for each in SHIPPED] if shipped else []
    public("fit")(model, home(classes), epochs=40, methods=methods)
    return model


def _of_layers(*layers: Any) -> nn.Module:
    net: nn.Module = pyg.Sequential("x, edge_index", list(layers))
    return net


def _appnp(classes: int) -> nn.Module:
    return _of_layers(
        (pyg.Linear(FEATURES, WIDTH), "x -> x"),
        (nn.ReLU(), "x -> x"),
        (pyg.APPNP(K=3, alpha=0.1), "x, edge_index -> x"),
        (pyg.Linear(WIDTH, classes), "x -> x"),
    )


def _sgconv(classes: int) -> nn.Module:
    return _of_layers((pyg.SGConv(FEATURES, classes, K=2), "x, edge_index -> x"))


def _of_pyg(kind: Any, classes: int) -> nn.Module:
    net: nn.Module = kind(FEATURES, WIDTH, num_layers=2, out_channels=classes)
    return net


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "GCN": partial(_of_pyg, pyg.GCN),
    "GraphSAGE": partial(_of_pyg, pyg.GraphSAGE),
    "GAT": partial(_of_pyg, pyg.GAT),
    "APPNP": _appnp,
    "SGConv": _sgconv,
}
"""Plain networks, by their number of classes."""


@cache
def network(name: str, classes: int) -> nn.Module:
    """A plain PyG network, trained on a random half of the source."""
    source = trained_on(classes)
    torch.manual_seed(0)
    net = NETWORKS[name](classes).train()
    steps = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(100):
        steps.zero_grad()
        logits = net(source.x, source.edge_index)[source.train_mask]
        nn.functional.cross_entropy(logits, source.y[source.train_mask]).backward()  # type: ignore[no-untyped-call]
        steps.step()
    return net.eval()


def trained_on(classes: int) -> Data:
    """The source with a `train_mask`."""
    source = home(classes)
    chance = torch.rand(source.num_nodes, generator=torch.Generator().manual_seed(0))
    source.train_mask = chance < 0.5
    return source


@cache
def summary(name: str, classes: int) -> Any:
    """Of the source of a plain network."""
    return mg.summarise_source(network(name, classes), trained_on(classes))


def default_around(method: str) -> dict[str, Any]:
    """Arguments of `adapt` that run the default around a base method."""
    if not takes(mg.adapt, "method"):
        raise LackingError("method")
    return {"method": public(method)()}


def runs() -> Named:
    """Six ways on every backbone and graph."""
    ways: dict[str, Callable[[], dict[str, Any]]] = {
        "published": lambda: inside("ERM", rounds=10),
        "published, tent": lambda: inside("Tent", rounds=5),
        "closed form": lambda: {"strategy": public("ClosedForm")()},
        "default": dict,
        "default, by evidence": by_evidence,
        "default, t3a": lambda: default_around("T3A"),
    }
    for classes in SIZES:
        for graph_name, graph in graphs(classes).items():
            for name in BACKBONES:
                for way, options in ways.items():
                    if graph_name == "large" and way in ("published", "default, t3a"):
                        continue
                    title = f"{classes} classes, {name}, {graph_name}, {way}"
                    yield title, partial(_run, name, classes, graph, options)


def _run(
    name: str, classes: int, graph: Data, options: Callable[[], dict[str, Any]], **more: Any
) -> Fields:
    return outcome(adapted(backbone(name, classes, **more), graph, **options()))


def methods() -> Named:
    """Every base method, alone and inside Matcha, on every backbone and two graphs."""
    targets = {
        "two classes": (2, graphs(2)["homophily"]),
        "five, weighted": (5, graphs(5)["weighted"]),
    }
    for method in METHODS:
        ways: dict[str, Callable[[], dict[str, Any]]] = {
            "alone": partial(alone, method),
            "inside Matcha": partial(inside, method, rounds=5),
        }
        for graph_name, (classes, graph) in targets.items():
            for name in BACKBONES:
                for way, options in ways.items():
                    title = f"{method}, {name}, {graph_name}, {way}"
                    yield title, partial(_run, name, classes, graph, options, shipped=True)


def networks() -> Named:
    """Plain networks in every way that a call has."""
    for classes in SIZES:
        every = graphs(classes)
        targets = ("homophily", "same", "shares", "weighted") if classes < 20 else ("homophily",)
        for name in NETWORKS:
            ways = _network_ways(name, classes)
            for graph_name in targets:
                for way, run in ways.items():
                    title = f"{classes} classes, {name}, {graph_name}, {way}"
                    yield title, partial(run, every[graph_name])


def _network_ways(name: str, classes: int) -> dict[str, Callable[[Data], Fields]]:
    def net() -> nn.Module:
        return network(name, classes)

    def told() -> Any:
        return summary(name, classes)

    def with_hops(graph: Data) -> Fields:
        model = public("add_hops")(net())
        return outcome(adapted(model, graph, strategy=public("Matcha")(rounds=3)))

    def with_own(graph: Data) -> Fields:
        model = public("wrap")(net())
        return outcome(adapted(model, graph, strategy=public("Matcha")(rounds=3)))

    def estimated(graph: Data) -> Fields:
        found = public("estimate_accuracy")(net(), graph, source=told())
        return {each: text(getattr(found, each)) for each in ("value", "low", "high")}

    ways: dict[str, Callable[[Data], Fields]] = {
        "alone": lambda graph: outcome(adapted(net(), graph)),
        "alone, by evidence": lambda graph: outcome(adapted(net(), graph, **by_evidence())),
        "source": lambda graph: outcome(adapted(net(), graph, source=told())),
        "source, by evidence": lambda graph: outcome(
            adapted(net(), graph, source=told(), **by_evidence())
        ),
        "source is the graph": lambda graph: outcome(
            adapted(net(), graph, source=trained_on(classes))
        ),
        "estimate": estimated,
        "added hops": with_hops,
    }
    return ways | ({"own hops": with_own} if name in ("APPNP", "SGConv") else {})


def metrics() -> Named:
    """Other metrics, of a backbone and a plain network."""
    for classes, wanted in (
        (2, ("macro_f1", "f1", "average_precision", "balanced_accuracy")),
        (5, ("macro_f1", "balanced_accuracy")),
    ):
        every = graphs(classes)
        for metric in wanted:
            for graph_name in ("homophily", "shares", "sparse graph"):
                graph = every[graph_name]
                for way, more in {"default": dict, "by evidence": by_evidence}.items():
                    title = f"{metric}, {classes} classes, {graph_name}, {way}"
                    yield (
                        f"{title}, GPRGNN",
                        partial(_by_metric, None, classes, graph, metric, more),
                    )
                    yield f"{title}, GCN", partial(_by_metric, "GCN", classes, graph, metric, more)


def _by_metric(
    name: str | None,
    classes: int,
    graph: Data,
    metric: str,
    options: Callable[[], dict[str, Any]],
) -> Fields:
    if name is None:
        return figures(adapted(backbone("GPRGNN", classes), graph, metric=metric, **options()))
    told = summary(name, classes)
    found = adapted(network(name, classes), graph, source=told, metric=metric, **options())
    return figures(found)


def all_figures() -> Named:
    """What is expected of every candidate."""
    for classes in SIZES:
        for graph_name, graph in graphs(classes).items():
            for name in (*BACKBONES, "plain GCN", "plain APPNP"):
                if graph_name == "large" and name != "GPRGNN":
                    continue
                for way, options in _guarded_ways().items():
                    title = f"{classes} classes, {name}, {graph_name}, {way}"
                    yield title, partial(_figures, name, classes, graph, options)


def _guarded_ways() -> dict[str, Callable[[], dict[str, Any]]]:
    return {
        "default": dict,
        "by evidence": by_evidence,
        "at least 5 points": lambda: {"strategy": public("Guarded")(min_gain=0.05)},
    }


def _figures(name: str, classes: int, graph: Data, options: Callable[[], dict[str, Any]]) -> Fields:
    plain = name.removeprefix("plain ")
    if plain == name:
        return figures(adapted(backbone(name, classes), graph, **options()))
    told = summary(plain, classes)
    return figures(adapted(network(plain, classes), graph, source=told, **options()))


def questions() -> Named:
    """Order, verdict and candidate of a backbone and a plain network."""
    for classes in SIZES:
        every = graphs(classes)
        for graph_name in ("homophily", "same", "shares"):
            for name in ("GPRGNN", "plain GCN"):
                for way, options in {"default": dict, "by evidence": by_evidence}.items():
                    title = f"{classes} classes, {name}, {graph_name}, {way}"
                    yield title, partial(_asked, name, classes, every[graph_name], options)


def _asked(name: str, classes: int, graph: Data, options: Callable[[], dict[str, Any]]) -> Fields:
    plain = name.removeprefix("plain ")
    if plain == name:
        result = adapted(backbone(name, classes), graph, **options())
    else:
        told = summary(plain, classes)
        result = adapted(network(plain, classes), graph, source=told, **options())
    asked = result.ask(ASKED)
    nodes = [question.node for question in asked]
    answered = result.answer({node: int(graph.y[node]) for node in nodes})
    decision = getattr(answered, "decision", answered)
    found = {"nodes": text(nodes), "chosen": decision.chosen}
    for figure in ("answered", "skipped", "more"):
        found[figure] = text(getattr(decision.verdict, figure))
    for figure in ("accuracies", "gains", "wealths", "permitted"):
        values = getattr(decision.verdict, figure)
        for one, value in zip(decision.candidates, values, strict=True):
            found[f"candidate {one.name}, {figure}"] = text(value)
    return found | {"probs": bits(answered.probs), "status": str(answered.status)}


def watch() -> Named:
    """Figures and alarms of four graphs, one after the other."""
    for name in ("GPRGNN", "plain GCN"):
        for way, options in {"default": dict, "by evidence": by_evidence}.items():
            yield f"{name}, {way}", partial(_watched, name, options)


def _watched(name: str, options: Callable[[], dict[str, Any]]) -> Fields:
    classes, plain = 2, name.removeprefix("plain ")
    if any(not takes(public("Watch"), option) for option in options()):
        raise LackingError(f"Watch with {', '.join(options())}")
    if plain == name:
        model, source = backbone(name, classes), None
    else:
        model, source = network(plain, classes), trained_on(classes)
    settings = {"resamples": 3} if takes(public("Watch"), "resamples") else {}
    following = public("Watch")(model, source=source, level=0.8, **settings, **options())
    found: Fields = {}
    every = graphs(classes)
    for each in ("same", "homophily", "shares", "sparse graph"):
        step = following.observe(every[each], time="2026-05-01", name=each)
        ringing = [str(getattr(alarm, "kind", alarm)) for alarm in step.alarms]
        known = vars(step) | {"ringing": ringing}
        for figure, value in known.items():
            if figure not in NOT_COMPARED:
                found[f"{each}, {figure}"] = text(value)
    return found


_MODULE = f"""
from torch_geometric.nn import GCN


def net():
    return GCN({FEATURES}, {WIDTH}, num_layers=2, out_channels=CLASSES)
"""


def files() -> Named:
    """What the command writes for a plain network."""
    calls: dict[str, tuple[int, str, list[str]]] = {
        "accuracy": (2, "homophily", []),
        "kept": (2, "same", []),
        "macro F1": (5, "shares", ["--metric", "macro_f1"]),
        "questions": (5, "homophily", ["--ask", str(ASKED)]),
    }
    for name, (classes, graph_name, options) in calls.items():
        yield name, partial(_written, classes, graph_name, options)


def _written(classes: int, graph_name: str, options: list[str]) -> Fields:
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name), Path(name) / "out"
        (folder / "network.py").write_text(_MODULE.replace("CLASSES", str(classes)))
        torch.save(network("GCN", classes).state_dict(), folder / "net.pt")
        torch.save(graphs(classes)[graph_name], folder / "target.pt")
        summary("GCN", classes).save(folder / "source.safetensors")
        given = [
            *("--network", "network:net"),
            *("--weights", "net.pt"),
            *("--source", "source.safetensors"),
        ]
        command = [sys.executable, "-m", "matcha_gnn", "adapt", "target.pt", "-o", "out"]
        place = str(Path(mg.__file__).parents[1])
        paths = os.pathsep.join([place, os.environ.get("PYTHONPATH", "")])
        subprocess.run(
            [*command, *given, *options],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return _read(out)


def _read(out: Path) -> Fields:
    """Arrays, tables and the summary of an output folder, and the names of its files."""
    found = {f"file {path.name}": "written" for path in out.iterdir()}
    with np.load(out / "predictions.npz") as arrays:
        found |= {f"predictions.npz, {name}": bits(arrays[name]) for name in arrays.files}
    found["changed.csv"] = (out / "changed.csv").read_text()
    summary_file: dict[str, Any] = json.loads((out / "summary.json").read_text())
    for one in summary_file.pop("candidates", []):
        name = one.pop("name")
        found |= {f"candidate {name}, {each}": text(value) for each, value in one.items()}
    kept = {name: value for name, value in summary_file.items() if name not in NOT_COMPARED}
    found |= {f"summary.json, {name}": text(value) for name, value in kept.items()}
    if (out / "questions.csv").exists():
        with open(out / "questions.csv", newline="") as table:
            found["questions.csv, nodes"] = text([row["node"] for row in csv.DictReader(table)])
    return found


PARTS: dict[str, Callable[[], Named]] = {
    "runs": runs,
    "methods": methods,
    "networks": networks,
    "metrics": metrics,
    "figures": all_figures,
    "questions": questions,
    "watch": watch,
    "files": files,
}
Outcomes = dict[str, Fields]


def outcomes(part: str) -> Outcomes:
    """Fields of everything in a part that this version has."""
    found: Outcomes = {}
    for name, run in PARTS[part]():
        try:
            found[name] = run()
        except LackingError:
            continue
        except mg.MatchaError as error:
            found[name] = {"status": f"refused by {type(error).__name__}"}
    return found


def differences(before: Outcomes, after: Outcomes) -> str:
    """How much is the same, what differs, and what one side lacks."""
    both = [name for name in before if name in after]
    lacking, differing = Counter[str](), list[str]()
    for side, names, other in (("before", before, after), ("after", after, before)):
        lacking.update({f"outcomes {side}": sum(name not in other for name in names)})
        for name in both:
            fields = {_about(each) for each in names[name] if each not in other[name]}
            lacking.update(f"{each} ({side})" for each in fields)
    for name in both:
        one, two = before[name], after[name]
        apart = [_apart(each, one[each], two[each]) for each in one if each in two]
        if said := [each for each in apart if each]:
            differing.append(f"{name}: {'; '.join(said)}")
    lines = [f"{len(both) - len(differing)} of {len(both)} are the same"]
    lines += differing[:SHOWN]
    if len(differing) > SHOWN:
        lines.append(f"and {len(differing) - SHOWN} more that differ")
    lines += [f"only on one side: {what}: {count}" for what, count in lacking.items() if count]
    return "\n  ".join(lines)


def _about(field: str) -> str:
    """A field; the candidate for each of its figures."""
    return field.rpartition(", ")[0] if field.startswith("candidate ") else field


def _apart(field: str, one: str, two: str) -> str:
    """How two values differ, labels by their number; empty where they do not."""
    if one == two:
        return ""
    if field == "labels":
        count = sum(a != b for a, b in zip(one, two, strict=True))
        return f"{count} of {len(one)} labels"
    return f"{field} ({_shown(one)} → {_shown(two)})"


def _shown(value: str) -> str:
    """Short enough for a line; a number as people write it."""
    try:
        number = float.fromhex(value)
    except (ValueError, OverflowError):
        return value if len(value) <= 40 else f"{value[:37]}…"
    is_hash = len(value) == 16 and "x" not in value
    return value if is_hash or not math.isfinite(number) else f"{number:.9g}"


def cpu_seconds() -> float:
    """Of this process and those that it started and waited for."""
    return sum(os.times()[:4])


def main() -> None:
    """Write what came out, and say how far it is that of another file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Sparse CSR tensor support")
    older: dict[str, Outcomes] = json.loads(args.compare.read_text()) if args.compare else {}
    found: dict[str, Outcomes] = {}
    for part in args.part:
        begin = cpu_seconds()
        found[part] = outcomes(part)
        seconds = cpu_seconds() - begin
        print(f"{part}: {len(found[part])} outcomes in {seconds:.0f} CPU seconds", flush=True)
        args.out.write_text(json.dumps(found, indent=0) + "\n")
        if part in older:
            print(f"{part}: {differences(older[part], found[part])}", flush=True)


if __name__ == "__main__":
    main()
