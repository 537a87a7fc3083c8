"""Which records are stale, and why."""

import pytest

from matcha_paper.experiments import load, stale, store
from matcha_paper.experiments.algorithms import algorithm_of
from matcha_paper.experiments.pairs import sign_test
from matcha_paper.experiments.spec import cells

CELLS = [c for c in cells(load("hops")) if c.column == "K3" and c.row in ("ERM", "ERM + ours")]


def record(cell, code="abc", made="0123", **algorithm):
    return {
        "cell": cell.as_dict(),
        "algorithm": algorithm_of(cell.run) | algorithm,
        "numbers": {"accuracy": 0.5},
        "seconds": {},
        "model": {"hash": made, "code": code, "hardware": "a CPU"},
        "versions": {},
        "code": code,
        "hardware": "a CPU",
    }


@pytest.fixture
def folder(tmp_path):
    """Two rows at five seeds, all of one commit; each seed has its model."""
    for cell in CELLS:
        store.append(record(cell, made=f"{cell.seed:04d}"), tmp_path)
    return tmp_path


def reasons(folder):
    return {(s.row, s.seeds): s.why for s in stale(["hops"], folder)}


def test_records_of_one_commit_with_shared_models_are_not_stale(folder):
    assert len(store.read("hops", folder)) == 10
    assert reasons(folder) == {}


def test_each_reason_is_named(folder):
    first = next(c for c in CELLS if (c.row, c.seed) == ("ERM", 0))
    good = {"made": "0000"}
    changed = record(first, **good)
    changed["cell"]["train"]["epochs"] = 499
    gone = record(first, **good)
    gone["cell"]["row"] = "a row that is no more"
    unknown = record(first, **good)
    del unknown["model"]
    elsewhere = record(first, **good)
    elsewhere["model"]["code"] = "def"
    for made, why in (
        (changed, ("settings",)),
        (record(first, version=99, **good), ("version",)),
        (record(first, name="forgotten", **good), ("version",)),
        (unknown, ("model",)),
        (elsewhere, ("model",)),
        (record(first, made="ffff"), ("model",)),
        (record(first, "def", **good), ("commit",)),
        (record(first, "abc-dirty", **good), ("commit",)),
    ):
        store.append(made, folder)
        found = reasons(folder)
        # Of two different models for one seed neither is right.
        assert found.pop(("ERM", (0,)), found.pop(("ERM + ours", (0,)), None)) == why
        assert found == {}
    store.append(record(first, **good), folder)
    store.append(gone, folder)
    assert reasons(folder) == {("a row that is no more", (0,)): ("settings",)}


def test_the_sign_test_counts_halves():
    assert sign_test(5, 0) == sign_test(0, 5) == 2 / 2**5
    assert sign_test(3, 3) == 1.0
    assert sign_test(8, 1) == pytest.approx(2 * (1 + 9) / 2**9)
