"""Figures: their numbers against theory and the library, and that they draw from a file alone."""

import shutil
from itertools import islice
from pathlib import Path

import pytest

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_paper.experiments import store
from matcha_paper.figures import (
    FIGURES,
    csv_of,
    drawn,
    gamma,
    reproduced,
    shifts,
)
from matcha_paper.figures.curves import rounds_of
from matcha_paper.figures.numbers import (
    Effort,
    distinct,
    read_rows,
    select,
    write_rows,
)
from matcha_paper.figures.settings import Setting

COMMITTED = Path(__file__).parents[2] / "results"
QUICK = Effort(seeds=(0, 1), quick=True)


@pytest.mark.parametrize("name", [n for n in FIGURES if csv_of(n, COMMITTED).is_file()])
def test_a_committed_figure_draws_from_its_csv(name, tmp_path):
    copy = csv_of(name, tmp_path)
    copy.parent.mkdir(parents=True)
    shutil.copy(csv_of(name, COMMITTED), copy)
    svg, png = (path.read_bytes() for path in drawn(name, tmp_path)[1:])
    assert b"<svg" in svg[:2000]
    assert png.startswith(b"\x89PNG")
    assert all(
        (csv_of(name, COMMITTED).parent / f"{name}.{kind}").is_file() for kind in ("svg", "png")
    )


def test_every_panel_of_representations_shows_all_classes():
    rows = read_rows(csv_of("representations", COMMITTED))
    for panel in distinct(rows, "panel"):
        assert set(distinct(select(rows, panel=panel), "class")) == {0, 1}


def test_the_path_of_gamma_is_that_of_the_records(tmp_path):
    effort = Effort(seeds=(0,), quick=True, jobs=1, results=tmp_path)
    rows = read_rows(reproduced("path", effort)[0])
    part = select(rows, column="homo-hetero", row="ERM + Matcha")
    assert [row["round"] for row in part] == list(range(11))
    assert {row["published"] for row in part} == {89.71}
    record = store.read("table1", tmp_path)["homo-hetero", "ERM + Matcha", 0]["numbers"]
    assert part[-1]["accuracy"] == pytest.approx(100 * record["accuracy"], rel=1e-4)
    assert len(distinct(rows, "column")) == 8


def test_drawing_twice_gives_the_same_bytes(tmp_path):
    rows = gamma.measure(QUICK)
    first, second = (gamma.draw(rows, tmp_path / each) for each in "ab")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_numbers_survive_their_file(tmp_path):
    rows = [{"a": "x", "b": 1, "c": 0.25, "d": None}, {"a": "y z", "b": -2, "c": 1e-9, "d": 3}]
    write_rows(rows, tmp_path / "rows.csv")
    assert read_rows(tmp_path / "rows.csv") == rows
    assert select(rows, a="x") == rows[:1]
    assert distinct(rows, "b") == [1, -2]


def test_simulated_examples_of_gamma_have_the_accuracy_of_the_theory():
    rows = gamma.measure(QUICK)
    facts = [select(rows, panel=panel)[0] for panel in distinct(rows, "panel")]
    assert [f["accuracy"] for f in facts] == pytest.approx([f["expected"] for f in facts], abs=0.03)
    assert facts[1]["expected"] == pytest.approx(0.62, abs=0.005)
    assert facts[2]["expected"] == pytest.approx(0.84, abs=0.005)


def test_attribute_shift_costs_the_classifier_and_structure_shift_the_representation():
    for row in shifts.measure_gap(QUICK):
        assert row["delta_f"] == pytest.approx(row["delta_f_theory"], abs=0.04)
        assert row["delta_g"] == pytest.approx(row["delta_g_theory"], abs=0.04)


@pytest.mark.parametrize("moves", ["gamma", "theta", "both"])
def test_rounds_one_by_one_are_the_rounds_of_a_long_run(moves):
    model, graph = trained_model(), tiny_graph()
    of = Setting(model, graph, graph)
    found = list(islice(rounds_of(of, 0, lr=0.1, moves=moves), 5))
    whole = mg.adapt(model, graph, strategy=mg.Matcha(lr=0.1, rounds=4, moves=moves))
    assert [loss for loss, _ in found] == pytest.approx(whole.trace.loss, rel=1e-5)
    assert found[-1][1] == pytest.approx(mg.metrics.accuracy(whole.probs, graph.y))
