"""Files of records: lines are added whole, the last of a cell counts, damage is named."""

import json
import multiprocessing
from pathlib import Path

import pytest

from matcha_gnn.errors import InvalidFileError
from matcha_paper.experiments import compare, store
from matcha_paper.experiments.spec import parse

TRAIN = {
    "backbone": "gprgnn",
    "hidden_channels": 4,
    "K": 2,
    "epochs": 1,
    "lr": 0.01,
    "weight_decay": 0.0,
}
GRAPH = {"generator": "csbm", "num_nodes": 40, "num_features": 4}
EXPERIMENT = parse(
    "small",
    {
        "title": "small",
        "seeds": [0, 1],
        "data": GRAPH,
        "train": TRAIN,
        "columns": {"a": {"source": {}, "target": {}}},
        "rows": {"ERM": {"method": "erm", "epochs": 0}},
    },
)


def record(seed=0, accuracy=0.5, row="ERM"):
    return {
        "cell": {
            "experiment": "small",
            "column": "a",
            "row": row,
            "seed": seed,
            "source": GRAPH | {"seed": seed},
            "target": GRAPH | {"seed": 1000 + seed},
            "train": TRAIN,
            "run": {"method": "erm", "epochs": 0},
        },
        "algorithm": {"name": "none", "version": 1, "parameters": {}},
        "numbers": {"accuracy": accuracy, "status": "unchanged", "gamma": [0.25, -1.5]},
        "seconds": {"train": 0.5},
        "versions": {"python": "3.12"},
        "code": None,
        "hardware": "a CPU",
    }


def add(folder, *records):
    for each in records:
        store.append(each, folder)
    return folder / "small.jsonl"


def accuracies(folder):
    return {place[2]: r["numbers"]["accuracy"] for place, r in store.read("small", folder).items()}


def test_what_is_added_is_read(tmp_path):
    path = add(tmp_path / "results", record(0, 0.1), record(1, 0.2))
    assert store.read("small", path.parent) == {
        ("a", "ERM", 0): record(0, 0.1),
        ("a", "ERM", 1): record(1, 0.2),
    }
    assert [c.ours_mean for c in compare(EXPERIMENT, path.parent)] == [15.0]


def test_the_last_record_of_a_cell_counts(tmp_path):
    add(tmp_path, record(0, 0.1), record(1, 0.2), record(0, 0.3))
    assert accuracies(tmp_path) == {0: 0.3, 1: 0.2}


def test_compacting_keeps_one_sorted_line_per_cell(tmp_path):
    path = add(tmp_path, record(1, 0.2), record(0, 0.1), record(0, 0.3))
    before = store.read("small", tmp_path)
    store.compact("small", tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["cell"]["seed"] for line in lines] == [0, 1]
    assert store.read("small", tmp_path) == before
    compacted = path.stat().st_ino
    store.compact("small", tmp_path)
    assert path.stat().st_ino == compacted, "nothing to do, so the file was not written again"


def test_a_last_line_cut_off_anywhere_does_not_count_and_goes_with_the_next_write(tmp_path):
    path = add(tmp_path, record(0, 0.1), record(1, 0.2))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in [*range(first, len(whole) - 1, 7), 3, first - 2]:
        path.write_bytes(whole[:end])
        kept = {0: 0.1} if end >= first else {}
        assert accuracies(tmp_path) == kept
        add(tmp_path, record(2, 0.4))
        assert accuracies(tmp_path) == kept | {2: 0.4}
        assert len(path.read_bytes().splitlines()) == len(kept) + 1


def add_many(folder, first, together):
    together.wait()
    for seed in range(first, first + 20):
        store.append(record(seed, 0.5, "ERM" * 5_000), folder)
        store.compact("small", folder)


def test_processes_that_write_and_compact_at_once_lose_and_mix_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(3)
    others = [context.Process(target=add_many, args=(tmp_path, 20 * n, together)) for n in range(3)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert [other.exitcode for other in others] == [0] * 3
    assert sorted(accuracies(tmp_path)) == list(range(60))


def changed(keys, value):
    """The record with one entry changed, or without it."""
    damaged = json.loads(json.dumps(record(1, 0.2)))
    place = damaged
    for key in keys[:-1]:
        place = place[key]
    del place[keys[-1]]
    if value is not None:
        place[keys[-1]] = value
    return json.dumps(damaged).encode()


DAMAGED = [
    b"",
    b"null",
    b"[]",
    b"<<<<<<< HEAD",
    b'{"cell": ',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a": NaN}',
    b"1" * 5_000,
    json.dumps(record()).replace("small", "other").encode(),
    *(changed([key], value) for key in record() for value in (None, 7, [], True)),
    *(changed(["cell", key], value) for key in record()["cell"] for value in (None, [], True)),
    changed(["cell", "row"], "\ud800"),
    *(changed(["algorithm", "name"], value) for value in (None, 1, "two\nlines")),
    *(changed(["algorithm", "version"], value) for value in (None, 0, "1", 1.5, True)),
    *(changed(["algorithm", "parameters"], value) for value in (None, 0, [])),
    *(changed(["numbers", "accuracy"], value) for value in (None, "0.5", 2, -1, True, 1e999, [])),
    *(changed(["numbers", "gamma"], value) for value in (1, "x", [["x"]])),
    changed(["numbers", "status"], 3),
    changed(["seconds", "train"], "long"),
    changed(["versions", "python"], 3),
]


@pytest.mark.parametrize("line", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_line_is_named_in_one_line(line, tmp_path):
    path = add(tmp_path, record(0), record(1), record(2))
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], line, lines[2], b""]))
    with pytest.raises(InvalidFileError) as raised:
        compare(EXPERIMENT, tmp_path)
    assert f"{path}, line 2 (" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_tables_are_looked_for_in_the_source_tree_where_there_are_none_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert store.default_folder() == Path(__file__).parents[2] / "results"
    (tmp_path / "results").mkdir()
    assert store.default_folder() == Path("results")
