"""Finite graphs with extreme numbers have finite answers, or are refused in one line."""

from dataclasses import replace

import numerics
import pytest
import torch

import matcha_gnn as mg

SHARE = 200
"""Runs; `make trust` makes all."""


@pytest.mark.slow
def test_no_extreme_graph_has_an_answer_that_is_not_finite():
    found = {run: numerics.outcome(run) for run in numerics.some(SHARE, seed=0)}
    assert [f"{run}: {each}" for run, each in found.items() if not numerics.is_good(each)] == []
    assert set(found.values()) == {"finite", "refused"}


def test_there_are_enough_of_them():
    assert len(set(numerics.runs())) > 900


def test_the_battery_would_notice(monkeypatch):
    run = numerics.Run("ones", "float32", "gprgnn", "erm", "none")
    assert numerics.outcome(run) == "finite"

    def broken(model, graph, method, strategy):
        raise KeyError("ours")

    monkeypatch.setattr(numerics, "run_adaptation", broken)
    assert not numerics.is_good(numerics.outcome(run))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("probs", torch.full((2, 3), torch.nan)),
        ("probs_before", torch.ones(2, 3)),
        ("gamma", torch.tensor([torch.inf])),
        ("pic_after", -0.1),
    ],
)
def test_each_number_of_a_result_is_looked_at(field, value):
    result = mg.predict(mg.GPRGNN(5, 3), numerics.plain(torch.float32))
    assert numerics.of_result(result) == "finite"
    assert numerics.of_result(replace(result, **{field: value})) != "finite"


@pytest.mark.parametrize("backbone", numerics.BACKBONES)
def test_one_node_is_not_enough_to_train_on(backbone):
    graph = numerics.graph_of("one node", torch.float32)
    graph.y = graph.y[:1]
    with pytest.raises(mg.InvalidGraphError, match=r"^graph\.x: got 1 node; allowed: at least 2"):
        mg.fit(numerics.BACKBONES[backbone](5, 3), graph)
