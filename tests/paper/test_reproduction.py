"""`matcha reproduce` as a user meets it."""

import json

import pytest

import running
from matcha_gnn.paper.reproduction import titles

TABLES = {
    "table1",
    "table2",
    "homophily-levels",
    "degree-levels",
    "evolving",
    "attack",
    "losses",
    "hops",
    "architectures",
}
FIGURES = {
    "cover",
    "pattern",
    "gap",
    "gamma",
    "representations",
    "logits",
    "parameters",
    "learning-rate",
    "time",
}


def run(capsys, *arguments):
    """Exit code, standard output and standard error of `matcha reproduce ARGUMENTS`."""
    return running.run(capsys, "reproduce", *arguments)


def test_every_table_and_figure_of_the_paper_has_a_name(capsys):
    assert set(titles()) >= TABLES | FIGURES
    code, said, _ = run(capsys, "--list", "--json")
    assert code == 0
    assert json.loads(said) == titles()


@pytest.mark.parametrize("name", ["table2", "attack"])
def test_shown_cells_have_the_promised_keys(name, capsys):
    code, said, _ = run(capsys, name, "--show", "--json")
    cells = json.loads(said)
    assert code == 0
    keys = {"name", "row", "column", "seeds", "ours_mean", "ours_sd", "paper_mean", "paper_sd"}
    assert all(set(cell) == keys for cell in cells)
    assert all(cell["seeds"] == [0, 1, 2, 3, 4] for cell in cells)


def test_stand_ins_have_no_published_number(capsys):
    cells = json.loads(run(capsys, "table2", "--show", "--json")[1])
    stand_ins = [c for c in cells if c["column"] in ("syn-coauthor-cs", "arxiv-structure")]
    assert stand_ins
    assert all(c["paper_mean"] is None and c["paper_sd"] is None for c in stand_ins)


def test_a_table_says_how_far_it_is_from_the_paper(capsys):
    code, said, _ = run(capsys, "evolving", "--show")
    assert code == 0
    assert "15 cells with a published number" in said


def test_a_quick_figure_is_written_and_shown_again(tmp_path, capsys):
    code, _, _ = run(capsys, "gap", "--quick", "--results", tmp_path)
    assert code == 0
    files = sorted(path.name for path in (tmp_path / "figures" / "gap").iterdir())
    assert files == ["gap.csv", "gap.png", "gap.svg"]
    rows = json.loads(run(capsys, "gap", "--show", "--json", "--results", tmp_path)[1])
    assert {"varied", "delta_f", "delta_g_theory"} <= set(rows[0])


def test_a_quick_table_does_not_touch_the_records(tmp_path, capsys, monkeypatch):
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    code, said, _ = run(capsys, "losses", "--quick", "--json")
    assert code == 0
    assert {cell["row"] for cell in json.loads(said)} >= {"PIC", "SURE"}
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["quick"]


def test_what_was_never_made_is_named_with_the_command_that_makes_it(tmp_path, capsys):
    code, said, error = run(capsys, "all", "--show", "--json", "--results", tmp_path)
    assert code == 2
    assert said == ""
    for name in ("table1", "cover", "time"):
        assert f"make them with: matcha reproduce {name}\n" in error


def test_without_data_it_says_what_goes_where(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MATCHA_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    code, said, error = run(capsys, "table2", "--quick", "--results", tmp_path)
    assert code == 2
    assert said == ""
    for run_ in (1, 2, 3):
        assert str(tmp_path / "nowhere" / "syn-cora" / f"h0.80-r{run_}.npz") in error
    assert "MATCHA_DATA" in error
    assert "Traceback" not in error


def test_bad_names_and_counts_are_refused(capsys):
    assert "table9" in run(capsys, "table9")[2]
    assert "--seeds" in run(capsys, "table1", "--seeds", 0)[2]
