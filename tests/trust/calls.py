"""Bad calls: every argument of every public function gets every bad value, one at a time."""

import inspect
import math
import tempfile
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch_geometric.nn as pyg
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg

BAD: dict[str, Any] = {
    "True": True,
    "False": False,
    "'False'": "False",
    "''": "",
    "'../evil'": "../evil",
    "a NUL": "a\0b",
    "1.5": 1.5,
    "nan": math.nan,
    "inf": math.inf,
    "-1": -1,
    "-0.5": -0.5,
    "None": None,
    "[]": [],
    "{}": {},
    "()": (),
    "b'x'": b"x",
    "1j": 1j,
    "an object": object(),
    "a class": int,
    "a function": math.sqrt,
    "a NaN tensor": torch.tensor(math.nan),
    "an empty tensor": torch.zeros(0),
    "a matrix": torch.ones(2, 2),
    "a list of texts": ["a", "b"],
    "a list of NaN": [math.nan],
}


class Target(NamedTuple):
    """A public function, and arguments that it takes."""

    name: str
    call: Callable[..., Any]
    good: dict[str, Any]


class Case(NamedTuple):
    """One bad call; `legal` where the value may be meant."""

    target: Target
    argument: str
    value: str
    legal: bool

    def __str__(self) -> str:
        return f"{self.target.name}({self.argument}={self.value})"


@cache
def model() -> mg.Backbone:
    return trained_model()


@cache
def folder() -> Path:
    place = Path(tempfile.mkdtemp())
    mg.save_model(model(), place / "m.safetensors")
    mg.write_graph(tiny_graph(), place / "g.npz")
    model().source.save(place / "s.safetensors")
    return place


def net() -> torch.nn.Module:
    return pyg.APPNP(K=2, alpha=0.1)


def fresh() -> mg.Backbone:
    return mg.GPRGNN(6, 3, hidden_channels=4, K=2)


BUILT = [
    *(mg.APPNP, mg.GPRGNN, mg.JKNet, mg.GCNII),
    *(mg.AdaNPC, mg.GTrans, mg.GraphPatcher, mg.LAME, mg.SOGA, mg.T3A, mg.Tent),
    *(mg.PIC, mg.Difference, mg.SURE, mg.Belief, mg.ClosedForm, mg.Guarded, mg.Matcha),
]


def targets() -> Iterator[Target]:
    """All of them; functions with the least work that they can do."""
    for kind in BUILT:
        sizes = {"in_channels": 6, "out_channels": 3} if issubclass(kind, mg.Backbone) else {}
        yield Target(kind.__name__, kind, sizes)
    both = {"model": model(), "graph": tiny_graph()}
    quick = both | {"strategy": mg.Matcha(rounds=1)}
    yield Target("adapt", mg.adapt, quick)
    for name in ("predict", "estimate_accuracy", "diagnose"):
        yield Target(name, getattr(mg, name), both)
    labelled = {"graph": tiny_graph(0.8, seed=0)}
    yield Target("fit", mg.fit, labelled | {"model": fresh(), "epochs": 1})
    yield Target("summarise_source", mg.summarise_source, labelled | {"model": fresh()})
    yield Target("wrap", mg.wrap, {"net": net(), "gamma": "alpha"})
    yield Target("add_hops", mg.add_hops, {"net": net()})
    yield Target("find_gamma", mg.find_gamma, {"net": net()})
    yield Target("unlabelled", mg.unlabelled, {"graph": tiny_graph()})
    place = folder()
    yield Target("load_model", mg.load_model, {"path": place / "m.safetensors"})
    yield Target("read_graph", mg.read_graph, {"path": place / "g.npz"})
    yield Target("SourceSummary.load", mg.SourceSummary.load, {"path": place / "s.safetensors"})
    yield Target("save_model", mg.save_model, {"model": model(), "path": place / "n.safetensors"})
    yield Target("write_graph", mg.write_graph, {"graph": tiny_graph(), "path": place / "o.npz"})
    yield Target("Watch", mg.Watch, {"model": model()})
    small = {"num_nodes": 20, "num_features": 4}
    yield Target("datasets.csbm", mg.datasets.csbm, small)
    result = mg.adapt(model(), tiny_graph())
    yield Target("result.ask", result.ask, {"count": 3})
    yield Target("result.take", result.take, {"name": "source"})
    asked = mg.adapt(model(), tiny_graph())
    asked.ask(3)
    yield Target("result.answer", asked.answer, {"answers": {}})


def kinds_of(hint: Any) -> set[Any]:
    """The types that an annotation names, without their parameters."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return set().union(*map(kinds_of, typing.get_args(hint)))
    if isinstance(hint, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return kinds_of(hint.__value__)
    return {origin or hint}


def is_legal(value: Any, hint: Any) -> bool:
    """Whether a value may be meant: of an annotated type, and no NaN, infinity or negative size."""
    kinds = kinds_of(hint)
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, float):
        return float in kinds and math.isfinite(value)
    if isinstance(value, int):
        return bool(kinds & {int, float})
    if value is None:
        return type(None) in kinds
    plain = {bool, int, float, type(None)}
    return any(
        kind not in plain and (not isinstance(kind, type) or _is_instance(value, kind))
        for kind in kinds
    )


def _is_instance(value: Any, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    # A protocol without run-time checks.
    except TypeError:
        return True


def cases() -> Iterator[Case]:
    """All of them, in a fixed order."""
    for target in targets():
        for argument in inspect.signature(target.call).parameters.values():
            if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
                continue
            hint = Any if isinstance(argument.annotation, str) else argument.annotation
            for name, value in BAD.items():
                # What a function of the caller's raises is the caller's.
                if not (callable(value) and Callable in kinds_of(hint)):
                    yield Case(target, argument.name, name, hint is Any or is_legal(value, hint))


def outcome(case: Case) -> str:
    """ "refused", "done", or what was raised instead."""
    given = case.target.good | {case.argument: BAD[case.value]}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.target.call(**given)
    except mg.MatchaError as error:
        return "refused" if "\n" not in str(error) else f"several lines: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return "done"


def is_good(case: Case, found: str) -> bool:
    """Refused, or done with a value that may be meant."""
    return found == "refused" or (found == "done" and case.legal)
