"""Studies: every module starts, and each runs on a setting of a few seconds."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_paper import studies
from matcha_paper.experiments import load
from matcha_paper.experiments.spec import cells, groups, quick
from matcha_paper.studies import (
    added_hops,
    choosing_rounds,
    evidence,
    gtrans_csbm,
    networks,
    same_bits,
    search_settings,
    share_jumps,
    shared,
    shared_rows,
    t3a_scale,
    theorem_step,
)
from matcha_paper.studies.harm_cases import Case, Source, cases, source_graph, target_graph
from matcha_paper.studies.plain_networks import trained as plain_trained

NAMES = [module.name for module in pkgutil.iter_modules(studies.__path__)]
LIBRARIES = ("ask_saved", "ask_selectors", "evidence_cases")
LIBRARIES += ("harm_cases", "plain_networks", "shared", "worlds")
COMMANDS = [name for name in NAMES if name not in LIBRARIES]
TINY = Source(
    "csbm",
    {"num_nodes": 200, "num_features": 10, "homophily": 0.8, "degree": 5.0, "signal": 2.0},
    {"epochs": 60},
    hidden_channels=8,
    num_hops=3,
)
SHIFT = Case("structure", "homo-hetero", TINY, {"homophily": 0.2})


def small_cells(row, *columns):
    table = quick(load("table1"))
    short = replace(table, train=replace(table.train, epochs=5))
    return [c for c in cells(short) if c.row == row and c.column in columns]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_how_a_study_is_run(name, monkeypatch, capsys):
    module = importlib.import_module(f"{studies.__name__}.{name}")
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as done:
        module.main()
    assert done.value.code == 0
    assert f"Run: python -m {module.__name__}" in capsys.readouterr().out


def test_the_shifts_of_harm_are_there_and_each_family_is_in_both_halves():
    halves = cases()
    sizes = {"tuning": 41, "test": 41, "confirmation": 29, "second": 16}
    assert {half: len(group) for half, group in halves.items()} == sizes
    names = [case.name for group in halves.values() for case in group]
    assert len(set(names)) == len(names)
    families = [{case.family for case in halves[half]} for half in ("tuning", "test")]
    assert families[0] == families[1]


@pytest.mark.parametrize("kind", ["gpr", "gcn"])
def test_estimates_stand_beside_those_of_others(kind, monkeypatch):
    monkeypatch.setattr(evidence, "EPOCHS", 20)
    source, target = (source_graph(TINY, 0), target_graph(SHIFT, 0))
    source.train_mask = torch.arange(200) % 2 == 0
    target.scored = torch.ones(200, dtype=torch.bool)
    model, again = evidence.trained(kind, source, 2, 0), evidence.plain("gcn", source, 2, 1)
    record = evidence.run(model, target) | evidence.estimators(model, again, source, target)
    assert {0 <= record[name] <= 110 for name in ("before", "after", *evidence.BASELINES)} == {True}
    low, value, high = sorted(record["source"])
    assert record["source"] == [value, low, high]
    assert evidence.alone(model, target)["alone_chosen"] in ("source", "pool", "belief", "probe")


@pytest.mark.parametrize("kind", ["sage", "gprgnn"])
def test_added_hops_are_measured(kind, monkeypatch):
    for name, value in {"NODES": 200, "FEATURES": 10, "EPOCHS": 10}.items():
        monkeypatch.setattr(added_hops, name, value)
    found = added_hops.measure(kind, added_hops.SHIFTS["homophily 0.8 → 0.2"], 0)
    assert len(found) == 5
    assert all(0 <= one <= 100 for one in found)


def test_held_out_seeds_draw_their_own_graphs_where_a_table_has_five():
    table = shared.held_out_table("table1")
    assert list(table.columns) == list(groups(load("table1"))[""])
    assert table.rows["ERM + Matcha"].at("attr-homo-hetero").lr == 3.0
    assert table.rows["Tent"].at("hetero-homo").method_options == {"steps": 10, "lr": 0.1}
    assert all(cell.target["seed"] == 1010 for cell in cells(table, (10,)))
    assert shared.held_out_table("table2").columns == load("table2").columns


def test_settings_are_searched_without_labels_and_the_best_over_seeds_is_chosen(monkeypatch):
    monkeypatch.setattr(search_settings, "STEP_SIZES", (0.1, 1.0))
    monkeypatch.setattr(search_settings, "ROUNDS", (1, 2))
    (cell,) = small_cells("ERM + Matcha", "homo-hetero")
    found = search_settings.score([cell], "cpu")
    assert list(found["ERM + Matcha"]) == ["0.1 1", "0.1 2", "1 1", "1 2"]
    record = {"row": {"column": {"10": {"a": 0.1, "b": 0.9}, "11": {"a": 0.8, "b": 0.1}}}}
    search_settings.choose(record)
    assert record["row"]["column"]["chosen"] == "b"
    once = json.dumps(record)
    search_settings.choose(record)
    assert json.dumps(record) == once


def test_each_score_chooses_its_own_rounds(monkeypatch):
    monkeypatch.setattr(choosing_rounds, "STEP_SIZES", (1.0,))
    monkeypatch.setattr(choosing_rounds, "ROUNDS", (1, 3))
    (cell,) = small_cells("ERM + Matcha", "homo-hetero")
    ((cell, model),) = shared.with_models([cell])
    found = choosing_rounds.settings_of(cell, model, "cpu")
    assert list(found) == ["1 1", "1 3"]
    chosen = choosing_rounds.choices([found])
    assert list(chosen) == [*choosing_rounds.SCORES, "labels"]
    best = max(one[0] for one in found.values())
    assert chosen["labels"]["accuracy"] == round(100 * best, 2)


def test_gtrans_is_scored_alone_and_inside_matcha(monkeypatch):
    monkeypatch.setattr(gtrans_csbm, "SETTINGS", {"no edit": {"epochs": 0}})
    monkeypatch.setattr(gtrans_csbm, "REFRESHES", ("once",))
    ((cell, model),) = shared.with_models(small_cells("GTrans", "homo-hetero"))
    assert list(gtrans_csbm.scores(cell, model)) == ["no edit", "+ Matcha, once", "seconds, once"]


def test_the_step_of_the_theorem_stands_beside_that_of_the_table(tmp_path):
    (cell,) = small_cells("ERM + Matcha", "homo-hetero")
    said = theorem_step.line(cell, tmp_path)
    assert said.startswith("homo-hetero: β ")
    assert "(table: 1)" in said


def test_half_of_the_unlabelled_rows_are_taken_off():
    graph = source_graph(TINY, 0)
    graph.train_mask = torch.arange(200) < 60
    kept = shared_rows.halved(graph)
    assert int(kept.train_mask.sum()) == 60
    assert 60 + 40 < kept.num_nodes < 60 + 100
    assert int(kept.edge_index.max()) < kept.num_nodes


def test_jumps_of_class_shares_are_looked_for_over_many_shifts(monkeypatch):
    monkeypatch.setattr(share_jumps, "SIZE", {"num_nodes": 200, "num_features": 8})
    monkeypatch.setattr(share_jumps, "SHARES", ((0.8, 0.2),))
    monkeypatch.setattr(share_jumps.mg, "fit", lambda model, source, **options: model)
    found = list(share_jumps.shifts())
    assert len(found) == 2 * 3 * 3
    assert {model.head.out_features for model, _ in found} == {2}


def test_t3a_is_scored_at_both_scales():
    model, graph = trained_model(), tiny_graph()
    graph.test_mask = torch.ones(graph.num_nodes, dtype=torch.bool)
    lines = [t3a_scale.line(model, graph, scale) for scale in t3a_scale.SCALES]
    assert {len(line.split()) for line in lines} == {2 + 1 + len(t3a_scale.STEP_SIZES)}


def test_networks_of_others_are_run_and_shown(monkeypatch, capsys):
    small = {"nodes": 300, "features": 20}
    case = networks.CASES["fraud"]
    tiny = case._replace(source=replace(case.source, **small), target=replace(case.target, **small))
    monkeypatch.setitem(networks.CASES, "fraud", tiny)
    monkeypatch.setattr(networks, "trained", lambda *given: plain_trained(*given, epochs=20))
    records = networks.work("one logit", "fraud", 0, "cpu")
    assert [record["way"] for record in records] == list(networks.WAYS)
    assert all(record["same"] for record in records)
    alone, summary, *others = records
    assert alone["accuracy_after"] == alone["accuracy_before"]
    assert "statistics of the source" in alone["obstacle"]
    assert "pool" in summary["candidates"]
    networks.show(records)
    said = capsys.readouterr().out
    assert f"| one logit | fraud | {alone['accuracy_before']:.1f} / " in said
    assert "0 runs whose probs_before are not" in said
    hurt = summary | {"accuracy_before": 90.0, "accuracy_after": 88.0}
    networks.show([alone, hurt, *others])
    assert "summary: 1 runs, mean change -2.00 points, 1 hurt by more" in capsys.readouterr().out


def test_same_bits_gives_the_same_twice_and_names_what_differs(monkeypatch, tmp_path, capsys):
    sizes = {2: same_bits.SIZES[2]}
    monkeypatch.setattr(same_bits, "SIZES", sizes)
    monkeypatch.setitem(
        same_bits.PARTS, "questions", lambda: iter(list(same_bits.questions())[-2:])
    )
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    command = ["same_bits", str(paths[0]), "--part", "questions"]
    monkeypatch.setattr(sys, "argv", command)
    same_bits.main()
    monkeypatch.setattr(
        sys, "argv", [command[0], str(paths[1]), *command[2:], "--compare", command[1]]
    )
    same_bits.main()
    assert "questions: 2 of 2 are the same\n" in capsys.readouterr().out
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_missing_data_end_a_study_in_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "matcha_paper.studies.shared_rows"],
        env=os.environ | {"MATCHA_DATA": str(tmp_path), "https_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"data file: got {tmp_path}")
    assert "MATCHA_DATA" in line
