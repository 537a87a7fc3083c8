"""Every argument decides something; parts are values that print as the call that makes them."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.losses import LOSSES
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.strategies import STRATEGIES, Task
from matcha_gnn.gamma.strategies.run import Run, Ways
from matcha_gnn.gamma.testing import tiny_graph, trained_model

REFUSED = (mg.InvalidArgumentError, mg.IncompatibleError)


@dataclass(frozen=True)
class Case:
    """A value of a parameter that must change the outcome, beside others that let it."""

    value: object
    beside: dict[str, object] = field(default_factory=dict)
    refused: bool = False


def other_model() -> mg.Backbone:
    model = trained_model()
    model.gamma.data.mul_(-1)
    return model


@cache
def deep_model() -> mg.Backbone:
    model = mg.GCNII(6, 3, hidden_channels=8, K=2)
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=60)
    return model


BASE = {
    "model": Case(other_model),
    "graph": Case(lambda: tiny_graph(0.6)),
    "loader": Case([], refused=True),
}
ENTRY = BASE | {
    "method": Case(mg.T3A),
    "hops": Case(lambda: other_model().hops(mg.unlabelled(tiny_graph(0.6))), refused=True),
    "seed": Case(1, {"method": mg.SOGA()}),
}
CALLS: dict[Callable[..., mg.Result], dict[str, Case]] = {
    mg.predict: ENTRY,
    mg.gamma.run: ENTRY
    | {
        "strategy": Case(lambda: mg.Matcha(rounds=2)),
        "source": Case(lambda: tiny_graph(0.6, seed=3), {"strategy": mg.ClosedForm()}),
        "progress": Case(3, refused=True),
    },
    mg.adapt: BASE
    | {
        "strategy": Case(lambda: mg.Matcha(rounds=2)),
        "source": Case(lambda: tiny_graph(0.6, seed=3)),
        "metric": Case("macro_f1"),
        "positive": Case(2, {"metric": "f1", "positive": 0}),
        "classes": Case(("a", "b", "c"), {"metric": "f1", "positive": 0}),
        "logits": Case(True, {"model": lambda: torch.tensor([[0.5, 0.3, 0.2]]).repeat(120, 1)}),
    },
}
AROUND = {"method": Case(mg.T3A()), "seed": Case(1, {"method": mg.SOGA()})}
PARTS: dict[type, dict[str, Case]] = {
    mg.Matcha: AROUND
    | {
        "loss": Case(mg.Entropy()),
        "lr": Case(0.1),
        "rounds": Case(2),
        "moves": Case("theta"),
        "restart": Case(False, {"method": mg.Tent()}),
        "features": Case("base", {"method": mg.Tent()}),
    },
    mg.ClosedForm: AROUND
    | {
        "loss": Case(mg.PIC()),
        "rounds": Case(3, {"loss": mg.PIC()}),
    },
    mg.Unadapted: AROUND,
    mg.ERM: {},
    mg.T3A: {
        "k": Case(1),
        "scale": Case("model"),
    },
    mg.AdaNPC: {
        "k": Case(3),
        "temperature": Case(1.0),
    },
    mg.LAME: {
        "k": Case(2),
        "iterations": Case(1),
        "tolerance": Case(0.5),
        "scale": Case(5.0),
    },
    mg.SOGA: {
        "steps": Case(3),
        "lr": Case(0.5),
        "optimizer": Case("adam"),
        "lambda_struct": Case(0.0),
        "lambda_neigh": Case(0.0),
        "moves_gamma": Case(True),
    },
    mg.Tent: {
        "steps": Case(2),
        "lr": Case(0.1),
        "optimizer": Case("adam"),
    },
    mg.GTrans: {
        "lr_feat": Case(0.1, {"epochs": 10}),
        "lr_adj": Case(1.0, {"epochs": 10}),
        "epochs": Case(10),
        "ratio": Case(0.5, {"epochs": 10}),
        "edit": Case("features", {"epochs": 10}),
        "refresh": Case("each", {"epochs": 10}),
        "drift": Case(1, {"epochs": 10}),
    },
    mg.GraphPatcher: {
        "patches": Case(2),
        "hidden_channels": Case(4),
        "iterations": Case(5),
    },
    mg.PIC: {"min_share": Case(0.4)},
    mg.Difference: {"min_share": Case(0.4)},
    mg.SURE: {"noise_share": Case(0.5)},
    mg.Entropy: {},
    mg.PseudoLabel: {},
}
# Making source arrays takes long by default.
QUICK: dict[type, dict[str, object]] = {
    mg.GraphPatcher: {"hidden_channels": 8, "iterations": 20},
    mg.Matcha: {"rounds": 3},
}


def parameters_of(call: Callable[..., object]) -> set[str]:
    return set(inspect.signature(call).parameters) - {"args", "kwargs"}


def test_every_part_is_in_the_table():
    parts = {*STRATEGIES.values(), mg.Unadapted, *METHODS.values(), *LOSSES.values()}
    assert set(PARTS) == parts


@pytest.mark.parametrize("call", [*CALLS, *PARTS], ids=lambda call: call.__name__)
def test_the_table_has_every_parameter(call):
    assert set((CALLS | PARTS)[call]) == parameters_of(call)


def outcome(result: mg.Result) -> list[object]:
    gamma = result.gamma.flatten().tolist() if isinstance(result, mg.MatchaResult) else []
    candidates = [str(one.to_dict()) for one in result.candidates]
    return [*result.probs.flatten().tolist(), *gamma, *candidates, *result.classes]


def built(value: object) -> object:
    return value() if callable(value) and not isinstance(value, LOSS_KINDS) else value


LOSS_KINDS = tuple(LOSSES.values())


def called(call: Callable[..., mg.Result], given: dict[str, object]) -> list[object]:
    default = {"model": trained_model(), "graph": tiny_graph()}
    return outcome(call(**default | {name: built(value) for name, value in given.items()}))


@pytest.mark.parametrize(
    ("call", "name"),
    [(call, name) for call, cases in CALLS.items() for name in cases],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_every_argument_of_a_call_decides(call, name):
    case = CALLS[call][name]
    if case.refused:
        with pytest.raises(REFUSED):
            called(call, case.beside | {name: case.value})
    else:
        assert called(call, case.beside) != called(call, case.beside | {name: case.value})


def run_with(part: type, given: dict[str, object]) -> list[object]:
    """The outcome with a part made from what is given; model and method may be among that."""
    own = {name: value for name, value in given.items() if name in parameters_of(part)}
    made = part(**QUICK.get(part, {}) | own)
    strategy = made
    if isinstance(made, mg.Loss):
        strategy = mg.Matcha(loss=made, rounds=2)
    elif isinstance(made, mg.BaseMethod):
        strategy = mg.Matcha(made, rounds=2)
    model = given["model"]() if "model" in given else trained_model(methods=[strategy.method])
    return outcome(mg.adapt(model, tiny_graph(), strategy=strategy))


@pytest.mark.parametrize(
    ("part", "name"),
    [(part, name) for part, cases in PARTS.items() for name in cases],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_every_argument_of_a_part_decides(part, name):
    case = PARTS[part][name]
    assert run_with(part, case.beside) != run_with(part, case.beside | {name: case.value})


@pytest.mark.parametrize(
    "kind", [kind for kind in METHODS.values() if not kind.keeps_state], ids=lambda kind: kind.name
)
def test_methods_that_keep_no_state_keep_none(kind):
    method = kind(**QUICK.get(kind, {}))
    model, found = trained_model(methods=[method]), []
    for restart in (True, False):
        task = Task(model, mg.unlabelled(tiny_graph()), method, 0, None, lambda *_: None)
        run = Run(task, ways=Ways(restart=restart))
        run.predict()
        run.step(lambda run=run: run.gamma.data.mul_(0.5))
        found.append(run.predict().probs)
    assert torch.equal(*found)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_parts_print_as_the_call_that_makes_them_and_are_equal_by_value(part):
    made, again = part(), part()
    assert made == again
    assert hash(made) == hash(again)
    assert repr(made).startswith(f"{part.__name__}(")
    names = {name: getattr(mg, name) for name in mg.__all__}
    assert eval(repr(made), names) == made
    for name, case in PARTS[part].items():
        own = {key: value for key, value in case.beside.items() if key in parameters_of(part)}
        other = part(**own | {name: case.value})
        assert other != part(**own)
        assert f"{name}={case.value!r}" in repr(other)
    assert made != object()
