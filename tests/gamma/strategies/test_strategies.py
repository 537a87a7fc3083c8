"""Every argument decides something, bad ones are refused in one line, and strategies are values."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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


def crossed_model() -> mg.Backbone:
    """One row of its head is more like another than like itself."""
    model = trained_model()
    model.head.weight.data[0] = 0.5 * model.head.weight.data[1]
    return model


@cache
def deep_model() -> mg.Backbone:
    model = mg.GCNII(6, 3, hidden_channels=8, K=2)
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=60)
    return model


ENTRY = {
    "model": Case(other_model),
    "graph": Case(lambda: tiny_graph(0.6)),
    "method": Case(mg.T3A),
    "hops": Case(lambda: other_model().hops(mg.unlabelled(tiny_graph(0.6))), refused=True),
    "seed": Case(1, {"method": mg.SOGA()}),
    "progress": Case(3, refused=True),
    "loader": Case([], refused=True),
}
CALLS: dict[Callable[..., mg.Adaptation], dict[str, Case]] = {
    mg.predict: ENTRY,
    mg.adapt: ENTRY
    | {
        "strategy": Case(lambda: mg.Matcha(rounds=2)),
        "source": Case(lambda: tiny_graph(0.6, seed=3)),
        "metric": Case("macro_f1"),
        "positive": Case(2, {"metric": "f1", "positive": 0}),
        "classes": Case(("a", "b", "c"), {"metric": "f1", "positive": 0}),
    },
}
PARTS: dict[type, dict[str, Case]] = {
    mg.Matcha: {
        "loss": Case(mg.Entropy()),
        "lr": Case(0.1),
        "rounds": Case(2),
        "optimizer": Case("adam"),
        "moves": Case("theta"),
        "restart": Case(False, {"method": mg.Tent()}),
        "features": Case("base", {"method": mg.Tent()}),
    },
    mg.ClosedForm: {
        "loss": Case(mg.PIC()),
        "rounds": Case(3, {"loss": mg.PIC()}),
    },
    mg.Fitted: {},
    mg.Belief: {"answer": Case("probe")},
    mg.Unadapted: {},
    mg.Guarded: {
        "strategies": Case((mg.Matcha(rounds=2),)),
        "min_gain": Case(0.5, {"strategies": (mg.Fitted(),)}),
        "of_error": Case(True, {"strategies": (mg.Fitted(),), "min_gain": 0.5}),
    },
    mg.ERM: {},
    mg.T3A: {
        "k": Case(1),
        "drop_worst": Case(True, {"k": None}),
        "row_labels": Case("predicted", {"model": crossed_model}),
        "scale": Case("model"),
    },
    mg.AdaNPC: {
        "k": Case(3),
        "temperature": Case(1.0),
        "threshold": Case(0.9, {"passes": 2}),
        "memory": Case("target"),
        "passes": Case(2),
        "confidence": Case("softmax_of_prob", {"passes": 2, "threshold": 0.55}),
        "capacity": Case(10),
    },
    mg.LAME: {
        "k": Case(2),
        "iterations": Case(1),
        "tolerance": Case(0.5),
        "scale": Case(5.0),
        "symmetric": Case(True),
    },
    mg.SOGA: {
        "steps": Case(3),
        "lr": Case(0.5),
        "optimizer": Case("adam"),
        "lambda_struct": Case(0.0),
        "lambda_neigh": Case(0.0),
        "negatives": Case(2),
        "statistics": Case("target"),
        "moves_gamma": Case(True),
    },
    mg.Tent: {
        "steps": Case(2),
        "lr": Case(0.1),
        "optimizer": Case("adam"),
        "statistics": Case("source"),
    },
    mg.GTrans: {
        "lr_feat": Case(0.1, {"epochs": 10}),
        "lr_adj": Case(1.0, {"epochs": 10}),
        "epochs": Case(10),
        "ratio": Case(0.5, {"epochs": 10}),
        "loop_feat": Case(2, {"epochs": 10}),
        "loop_adj": Case(3, {"epochs": 10}),
        "drop_rate": Case(0.5, {"epochs": 10}),
        "samples": Case(60, {"epochs": 10, "edit": "edges"}),
        "margin": Case(0.5, {"epochs": 10}),
        "edit": Case("features", {"epochs": 10}),
        "refresh": Case("each", {"epochs": 10}),
        "edge_step": Case("gradient", {"epochs": 10}),
        "drift": Case(1, {"epochs": 10}),
    },
    mg.GraphPatcher: {
        "patches": Case(2),
        "hidden_channels": Case(4),
        "iterations": Case(5),
        "batch_size": Case(16),
        "copies": Case(2),
        "lr": Case(1e-2),
        "axis": Case("copies"),
        "keep": Case("last", {"iterations": 35, "lr": 0.1}),
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


def outcome(result: mg.Adaptation) -> list[object]:
    decision = result.decision
    made = (decision.chosen, decision.threshold, decision.candidates) if decision else ()
    numbers = [*result.probs.flatten().tolist(), *result.gamma.flatten().tolist()]
    return [*numbers, *made, *result.classes]


def built(value: object) -> object:
    return value() if callable(value) and not isinstance(value, LOSS_KINDS) else value


LOSS_KINDS = tuple(LOSSES.values())


def called(call: Callable[..., mg.Adaptation], given: dict[str, object]) -> list[object]:
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
    method, strategy = given.get("method", mg.ERM()), mg.Matcha(rounds=2)
    if isinstance(made, mg.Strategy):
        strategy = made
    elif isinstance(made, mg.Loss):
        strategy = mg.Matcha(loss=made, rounds=2)
    else:
        method = made
    model = given["model"]() if "model" in given else trained_model(methods=[method])
    return outcome(mg.adapt(model, tiny_graph(), method, strategy))


@pytest.mark.parametrize(
    ("part", "name"),
    [(part, name) for part, cases in PARTS.items() for name in cases],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_every_argument_of_a_part_decides(part, name):
    case = PARTS[part][name]
    assert run_with(part, case.beside) != run_with(part, case.beside | {name: case.value})


def test_rounds_of_a_closed_form_count_inside_guarded_too():
    found = [
        mg.adapt(
            trained_model(),
            tiny_graph(),
            strategy=mg.Guarded(strategies=(mg.ClosedForm(mg.PIC(), rounds=rounds),)),
        )
        for rounds in (1, 3)
    ]
    once, thrice = (result.decision.candidates[-1].accuracy for result in found)
    assert once != thrice


SOME = {"model": trained_model, "graph": tiny_graph}


@pytest.mark.parametrize(
    ("make", "given", "said"),
    [
        (mg.Matcha, {"rounds": 2.5}, "rounds: got 2.5; allowed: an integer >= 1"),
        (mg.Matcha, {"rounds": 0}, "rounds: got 0; allowed: an integer >= 1"),
        (mg.Matcha, {"rounds": True}, "rounds: got True; allowed: an integer >= 1"),
        (mg.ClosedForm, {"rounds": 2.5}, "rounds: got 2.5; allowed: an integer >= 1"),
        (mg.ClosedForm, {"rounds": 0}, "rounds: got 0; allowed: an integer >= 1"),
        (mg.ClosedForm, {"rounds": True}, "rounds: got True; allowed: an integer >= 1"),
        (mg.Matcha, {"lr": "1"}, "lr: got '1'; allowed: a number > 0 and < 1e+30"),
        (mg.Matcha, {"lr": math.nan}, "lr: got nan; allowed: a number > 0 and < 1e+30"),
        (mg.Matcha, {"restart": 1}, "restart: got a int; allowed: True or False"),
        (
            mg.Matcha,
            {"features": "base", "moves": "both"},
            "features: got 'base'; allowed: source, unless moves is gamma",
        ),
        (
            mg.Guarded,
            {"strategies": [mg.Fitted()]},
            "strategies: got [Fitted()]; allowed: a tuple of strategies, such as (mg.Matcha(),)",
        ),
        (mg.Belief, {"answer": "both"}, "answer: got 'both'; allowed: pool, belief, probe"),
        (mg.Guarded, {"min_gain": -1}, "min_gain: got -1; allowed: a number >= 0"),
        (
            mg.Guarded,
            {"of_error": True},
            "min_gain: got 0.0; allowed: a share in (0, 1) with of_error",
        ),
        (mg.adapt, SOME | {"seed": -1}, "seed: got -1; allowed: an integer from 0 to "),
        (mg.adapt, SOME | {"seed": 1.5}, "seed: got 1.5; allowed: an integer from 0 to "),
        (mg.adapt, SOME | {"seed": True}, "seed: got True; allowed: an integer from 0 to "),
        (mg.predict, SOME | {"seed": -1}, "seed: got -1; allowed: an integer from 0 to "),
        (mg.adapt, SOME | {"progress": 3}, "progress: got a int; allowed: a function"),
        (mg.predict, SOME | {"progress": 3}, "progress: got a int; allowed: a function"),
        (
            mg.adapt,
            SOME | {"strategy": 1},
            "strategy: got a int; allowed: a Strategy, such as mg.Matcha()",
        ),
        (
            mg.adapt,
            SOME | {"method": mg.T3A},
            "method: got the class T3A; allowed: a BaseMethod, such as mg.T3A()",
        ),
        (mg.Tent, {"lr": "1"}, "lr: got '1'; allowed: a number > 0"),
        (mg.Tent, {"steps": True}, "steps: got True; allowed: an integer >= 0"),
        (mg.SOGA, {"lambda_neigh": "1"}, "lambda_neigh: got '1'; allowed: a number >= 0"),
        (mg.SOGA, {"negatives": True}, "negatives: got True; allowed: an integer >= 1"),
        (mg.SOGA, {"moves_gamma": "no"}, "moves_gamma: got the str 'no'; allowed: True or False"),
        (mg.LAME, {"scale": "1"}, "scale: got '1'; allowed: a number >= 0"),
        (mg.LAME, {"symmetric": "no"}, "symmetric: got the str 'no'; allowed: True or False"),
        (mg.AdaNPC, {"temperature": "1"}, "temperature: got '1'; allowed: a number > 0"),
        (mg.AdaNPC, {"threshold": math.nan}, "threshold: got nan; allowed: a number"),
        (mg.AdaNPC, {"passes": True}, "passes: got True; allowed: 1 or 2"),
        (mg.T3A, {"k": True}, "k: got True; allowed: an integer >= 1, or None or -1 for all"),
        (mg.T3A, {"drop_worst": 3}, "drop_worst: got a int; allowed: True or False"),
        (
            mg.T3A,
            {"k": 5, "drop_worst": True},
            "drop_worst: got True; allowed: False unless k is None or -1",
        ),
        (
            mg.AdaNPC,
            {"threshold": 0.5},
            "threshold: got 0.5; allowed: 0.1 unless passes is 2 or memory is 'target'",
        ),
        (
            mg.AdaNPC,
            {"confidence": "softmax_of_prob"},
            "confidence: got 'softmax_of_prob'; allowed: 'max_prob' unless passes is 2",
        ),
        (
            mg.AdaNPC,
            {"memory": "prototype", "capacity": 9},
            "capacity: got 9; allowed: None unless passes is 2 or memory is another",
        ),
        (
            mg.SOGA,
            {"lambda_struct": 0, "lambda_neigh": 0, "negatives": 2},
            "negatives: got 2; allowed: 5 unless lambda_struct or lambda_neigh is above 0",
        ),
        (
            mg.GTrans,
            {"edit": "features", "ratio": 0.5},
            "ratio: got 0.5; allowed: 0.1 unless edit is both or edges",
        ),
        (
            mg.GTrans,
            {"edit": "edges", "lr_feat": 0.5},
            "lr_feat: got 0.5; allowed: 0.001 unless edit is both or features",
        ),
        (mg.GTrans, {"loop_feat": "4"}, "loop_feat: got '4'; allowed: an integer >= 1"),
        (mg.GTrans, {"ratio": "1"}, "ratio: got '1'; allowed: a number >= 0 and <= 1"),
        (mg.GraphPatcher, {"lr": "1"}, "lr: got '1'; allowed: a number > 0"),
        (mg.SURE, {"noise_share": "1"}, "noise_share: got '1'; allowed: a number >= 0 and <= 1"),
        (mg.PIC, {"min_share": "1"}, "min_share: got '1'; allowed: a number >= 0 and < 1"),
    ],
)
def test_bad_values_are_told_in_one_line(make, given, said):
    given = {name: value() if SOME.get(name) is value else value for name, value in given.items()}
    with pytest.raises(mg.InvalidArgumentError) as caught:
        make(**given)
    line = str(caught.value)
    assert line.startswith(said)
    assert "\n" not in line


@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        (mg.T3A(), {"restart": False}, "restart: False has no effect with t3a"),
        (mg.ERM(), {"features": "base"}, "features: 'base' has no effect with erm"),
        (mg.T3A(), {"features": "base"}, "features: 'base' has no effect with t3a"),
    ],
)
def test_arguments_without_effect_around_a_method_are_refused(method, given, said):
    with pytest.raises(mg.IncompatibleError, match=said):
        mg.adapt(trained_model(), tiny_graph(), method, mg.Matcha(**given))


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


def test_methods_and_losses_print_their_settings():
    expected = "T3A(k=20, drop_worst=False, row_labels='own', scale='unit')"
    assert repr(mg.T3A(k=20)) == expected
    assert repr(mg.PIC()) == "PIC(min_share=1e-09)"
    assert repr(mg.ClosedForm()) == "ClosedForm(loss=SURE(noise_share=None), rounds=1)"


def test_equality_is_by_type_and_settings():
    assert mg.Matcha() == mg.Matcha()
    assert mg.Matcha() != mg.Matcha(loss=mg.PIC(min_share=0.1))
    assert mg.PIC() != mg.Difference()
    assert len({mg.T3A(k=1), mg.T3A(k=1), mg.T3A(k=2)}) == 2
    assert replace(mg.Matcha(), lr=0.5) == mg.Matcha(lr=0.5)


def test_what_is_no_setting_is_compared_by_identity():
    answer = torch.full((2, 2), 0.5)
    fixed = mg.testing.FixedPrediction
    assert fixed(answer) == fixed(answer)
    assert fixed(answer) != fixed(answer.clone())
