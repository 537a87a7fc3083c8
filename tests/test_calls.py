"""Every bad argument of every public callable is refused in one line, or means what it says."""

import inspect
import math
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
import torch_geometric.nn as pyg

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph, trained_model

BAD: dict[str, Any] = {
    **{repr(value): value for value in (True, False, "False", "", "../evil", "a\0b", b"x", 1j)},
    **{repr(value): value for value in (1.5, math.nan, math.inf, -1, -0.5, None, [], {}, ())},
    "an object": object(),
    "a class": int,
    "a function": math.sqrt,
    "a NaN tensor": torch.tensor(math.nan),
    "an empty tensor": torch.zeros(0),
    "a matrix": torch.ones(2, 2),
    "a list of texts": ["a", "b"],
    "a list of NaN": [math.nan],
}
MODELS = (mg.APPNP, mg.GPRGNN, mg.JKNet, mg.GCNII)
PARTS = (
    *(mg.ERM, mg.AdaNPC, mg.GTrans, mg.GraphPatcher, mg.LAME, mg.SOGA, mg.T3A, mg.Tent),
    *(mg.PIC, mg.Difference, mg.SURE, mg.Entropy, mg.PseudoLabel),
    *(mg.ClosedForm, mg.Matcha, mg.Unadapted),
)
NOT_CALLED = {
    "what others subclass": ("Backbone", "BaseMethod", "FilterBackbone", "LinearBackbone", "Loss")
    + ("Strategy", "TrainableBackbone"),
    "what is returned": ("Candidate", "Estimate", "Graph", "Hops", "MatchaResult", "Prediction")
    + ("Result", "ShiftCard", "SourceSummary", "Step", "Task", "View"),
    "names": ("Modifies", "Status"),
    "errors": ("IncompatibleError", "InvalidArgumentError", "InvalidFileError")
    + ("InvalidGraphError", "MatchaError", "NotAdaptedWarning"),
}


class Target(NamedTuple):
    """A public callable, and arguments that it takes."""

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


def targets(folder) -> Iterator[Target]:
    """All of them, with the least work that they can do."""
    model, graph, labelled = trained_model(), tiny_graph(), {"graph": tiny_graph(0.8, seed=0)}
    mg.save_model(model, folder / "m.safetensors")
    mg.write_graph(graph, folder / "g.npz")
    model.source.save(folder / "s.safetensors")
    for kind in MODELS:
        yield Target(kind.__name__, kind, {"in_channels": 6, "out_channels": 3})
    for kind in PARTS:
        yield Target(kind.__name__, kind, {})
    both = {"model": model, "graph": graph}
    for name in ("adapt", "estimate", "diagnose", "predict"):
        yield Target(name, getattr(mg, name), both)
    quick = {"strategy": mg.Matcha(rounds=1)}
    yield Target("adapt by a strategy", mg.adapt, both | quick)
    yield Target("gamma.run", mg.gamma.run, both | quick)
    fresh = {"model": mg.GPRGNN(6, 3, hidden_channels=4, K=2)}
    yield Target("fit", mg.fit, labelled | fresh | {"epochs": 1})
    yield Target("summarise_source", mg.summarise_source, labelled | fresh)
    net = {"net": pyg.APPNP(K=2, alpha=0.1)}
    yield Target("wrap", mg.wrap, net | {"gamma": "alpha"})
    yield Target("add_hops", mg.add_hops, net)
    yield Target("find_gamma", mg.find_gamma, net)
    yield Target("unlabelled", mg.unlabelled, {"graph": graph})
    yield Target("load_model", mg.load_model, {"path": folder / "m.safetensors"})
    yield Target("read_graph", mg.read_graph, {"path": folder / "g.npz"})
    yield Target("SourceSummary.load", mg.SourceSummary.load, {"path": folder / "s.safetensors"})
    yield Target("save_model", mg.save_model, {"model": model, "path": folder / "n.safetensors"})
    yield Target("write_graph", mg.write_graph, {"graph": graph, "path": folder / "o.npz"})
    yield Target("csbm", mg.datasets.csbm, {"num_nodes": 20, "num_features": 4})
    result, asked = mg.adapt(model, graph), mg.adapt(model, graph)
    asked.ask(3)
    result.save(folder / "a.safetensors")
    yield Target("load", mg.load, {"path": folder / "a.safetensors", "network": trained_model()})
    yield Target("Watch", mg.Watch, {"model": model})
    yield Target("result.ask", result.ask, {"count": 3})
    yield Target("result.take", result.take, {"name": "source"})
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


def cases(target: Target) -> Iterator[Case]:
    """Every argument with every bad value."""
    for argument in inspect.signature(target.call).parameters.values():
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        hint = Any if isinstance(argument.annotation, str) else argument.annotation
        for name, value in BAD.items():
            # What a function of the caller's raises is the caller's.
            own = hint is Any or Callable in kinds_of(hint) or argument.name == "metric"
            if not (callable(value) and own):
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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Names such as ../evil are written beside it."""
    place = tmp_path / "inner"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def test_no_bad_argument_ends_in_another_kind_of_error(folder):
    tried, wrong = 0, []
    for target in targets(folder):
        for case in cases(target):
            tried += 1
            found = outcome(case)
            if not is_good(case, found):
                wrong.append(f"{case}: {found}")
    assert wrong == []
    assert tried > 3000


def test_every_public_callable_is_tried(folder):
    tried = {target.name.partition(".")[0].split()[0] for target in targets(folder)}
    exempt = {name for names in NOT_CALLED.values() for name in names}
    public = {name for name in mg.__all__ if callable(getattr(mg, name))}
    assert public - tried - exempt == set()


def test_the_battery_would_notice():
    """A function that takes anything, and one that fails on everything."""

    def careless(epochs: int = 1) -> None:
        pass

    def fragile(epochs: int = 1) -> None:
        _ = epochs + [1]

    for call, expected in ((careless, "done"), (fragile, "TypeError")):
        case = Case(Target("f", call, {}), "epochs", "'False'", legal=False)
        found = outcome(case)
        assert found.startswith(expected)
        assert not is_good(case, found)
