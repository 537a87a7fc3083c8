"""The battery for strategies."""

import ast
import json
from dataclasses import fields

import torch

import matcha_gnn
from matcha_gnn.gamma.methods import ERM
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.running import predict, run
from matcha_gnn.gamma.strategies import Strategy
from matcha_gnn.gamma.testing.checks import check_run
from matcha_gnn.gamma.testing.graphs import tiny_graph, trained_model


def check_strategy(strategy: Strategy, model: Backbone | None = None) -> None:
    """Run every check that a strategy must pass.

    Args:
        strategy: the strategy, ready to use.
        model: a trained three-class model for 6 features, with a summary of its source, that has
            what the strategy needs; by default a small GPRGNN.

    Raises:
        AssertionError: says what was expected.

    Example:
        >>> from matcha_gnn.gamma.strategies import Matcha
        >>> check_strategy(Matcha(rounds=2))
    """
    model = trained_model() if model is None else model
    _check_name(strategy)
    _check_parameters(strategy)
    _check_repr(strategy)
    check_run(ERM(), model, strategy)
    _check_result(strategy, model)


def _check_name(strategy: Strategy) -> None:
    name, version = (getattr(strategy, each, None) for each in ("name", "version"))
    assert isinstance(name, str), f"name should be a text, not {name!r}"
    assert name, "name should not be empty"
    assert type(version) is int, f"version should be an integer, not {version!r}"


def _check_parameters(strategy: Strategy) -> None:
    recorded = strategy.parameters()
    try:
        read = json.loads(json.dumps(recorded, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"parameters() should be JSON: {error}") from error
    assert read == recorded, "parameters() should be the same after writing and reading JSON"
    for each in fields(strategy):
        own = each.name not in ("method", "seed")
        assert not own or each.name in recorded, f"parameters() should hold {each.name}"


def _check_repr(strategy: Strategy) -> None:
    text = repr(strategy)
    for each in fields(strategy):
        assert f"{each.name}=" in text, f"repr should name {each.name}, not be {text}"
    known = {name: getattr(matcha_gnn, name) for name in matcha_gnn.__all__}
    known[type(strategy).__name__] = type(strategy)
    # A loss or strategy of somebody else's cannot be looked up here.
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise AssertionError(f"repr should be a Python expression, not {text}") from error
    if {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} <= set(known):
        built = eval(text, known)
        assert built == strategy, f"repr should build an equal strategy, not be {text}"


def _check_result(strategy: Strategy, model: Backbone) -> None:
    result = run(model, tiny_graph(), ERM(), strategy)
    assert result.strategy == strategy, "the result should hold the strategy that ran"
    again = predict(result.model, tiny_graph()).probs
    same = torch.allclose(again, result.probs, atol=1e-5, rtol=1e-4)
    assert same, "the returned model should give the returned answer"
