"""Strategies, losses and methods that an installed package brings, by its entry points."""

import json
import sys

import numpy as np
import pytest
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg
from running import run

MODULE = """
from dataclasses import dataclass, replace

import matcha_gnn as mg


class Doubt(mg.Entropy):
    name = "doubt"


class Plain(mg.ERM):
    name = "plain"


@dataclass(frozen=True)
class Halved(mg.Strategy):
    name = "halved"
    version = 7

    share: float = 0.5

    def run(self, task):
        return replace(mg.Matcha(rounds=1, lr=self.share).run(task), strategy=self)
"""
ENTRIES = """
[matcha_gnn.gamma.strategies]
halved = other_package:Halved
matcha = other_package:Halved
broken = other_package:Nothing

[matcha_gnn.gamma.losses]
doubt = other_package:Doubt

[matcha_gnn.gamma.methods]
plain = other_package:Plain
"""


@pytest.fixture
def adapt(tmp_path, capsys, monkeypatch):
    """`matcha adapt` with a package installed that brings one of each."""
    installed = tmp_path / "site-packages"
    facts = installed / "other_package-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRIES)
    (installed / "other_package.py").write_text(MODULE)
    monkeypatch.syspath_prepend(installed)
    mg.write_graph(tiny_graph(), tmp_path / "g.npz")
    mg.save_model(trained_model(), tmp_path / "m.safetensors")

    def called(*options):
        given = ("adapt", tmp_path / "m.safetensors", tmp_path / "g.npz", "-o", tmp_path / "out")
        code, said, err = run(capsys, *given, "--json", *options)
        return code, json.loads(said) if said else None, err

    yield called
    sys.modules.pop("other_package", None)


def test_a_strategy_of_another_package_runs_with_its_parameters(adapt, tmp_path):
    code, summary, _ = adapt("--strategy", "halved", "--set", "share=0.25")
    assert code == 0
    assert (summary["strategy"], summary["strategy_version"]) == ("halved", 7)
    assert summary["strategy_parameters"] == {"share": 0.25}
    expected = mg.adapt(trained_model(), tiny_graph(), strategy=mg.Matcha(rounds=1, lr=0.25))
    assert summary["gamma_after"] == expected.gamma.tolist()
    with np.load(tmp_path / "out" / "predictions.npz") as predictions:
        np.testing.assert_array_equal(predictions["probs"], expected.probs)


def test_a_loss_of_another_package_is_minimised(adapt):
    rounds = ("--strategy", "matcha", "--set", "rounds=2")
    code, summary, _ = adapt(*rounds, "--set", "loss=doubt")
    assert code == 0
    assert summary["strategy_parameters"]["loss"]["name"] == "doubt"
    expected = mg.adapt(trained_model(), tiny_graph(), strategy=mg.Matcha(mg.Entropy(), rounds=2))
    assert summary["gamma_after"] == expected.gamma.tolist()


def test_a_method_of_another_package_predicts(adapt):
    code, summary, _ = adapt("--method", "plain")
    assert code == 0
    assert summary["method"] == "plain"


def test_a_built_in_strategy_cannot_be_replaced(adapt):
    code, summary, _ = adapt("--strategy", "matcha", "--set", "rounds=1")
    assert code == 0
    assert (summary["strategy"], summary["strategy_version"]) == ("matcha", mg.Matcha.version)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("--strategy", "halve"),
            "'halve' (did you mean halved?); allowed: belief, broken, closed_form",
        ),
        (("--strategy", "halved", "--set", "part=1"), "--set: got 'part'; allowed: share"),
        (("--strategy", "broken"), "other_package:Nothing cannot be imported"),
        (("--strategy", "matcha", "--set", "loss=doubts"), "(did you mean doubt?)"),
    ],
)
def test_names_of_another_package_are_checked_as_built_in_ones(adapt, options, says):
    code, summary, err = adapt(*options)
    assert (code, summary) == (2, None)
    assert says in err
    assert err.count("\n") == 1
