"""The study of natural graphs: its rule is the library's, and the records show what is said."""

import json
from pathlib import Path

import numpy as np
import pytest

from matcha_gnn.evidence.trust import Trust
from matcha_paper.studies.natural import PRESENT, Rule, runs_of, verdict

RESULTS = Path(__file__).parents[2] / "results"
RUNS = runs_of(
    [
        json.loads(line)
        for half in ("first", "second")
        for line in (RESULTS / f"natural-{half}.jsonl").read_text().splitlines()
    ]
)
NATURAL = [run for run in RUNS if run["kind"] == "natural"]
GENERATED = [run for run in RUNS if run["kind"] == "generated"]


def test_the_rule_of_the_study_is_that_of_the_library():
    chance = np.random.default_rng(0)
    for parts, mix, pool, seen, more in chance.random((50, 5)):
        run = {"error on parts": parts, "mix": mix, "seen": seen, "contradiction": more}
        run["answers"] = {"pool": [0, 0, 0, pool]}
        found = Trust(parts, 0.0, mix, pool - seen, more, 900)
        assert Rule().error(run) == pytest.approx(found.error)
        assert Rule().tells(run) == (found.obstacle == "")


def test_natural_runs_are_not_hurt_and_intervals_cover():
    now, before = verdict(NATURAL, Rule()), verdict(NATURAL, PRESENT)
    assert before.hurt > 0.05 * before.runs
    assert now.hurt <= 0.02 * now.runs
    assert now.worst > -5
    assert min(now.cover_before, now.cover_after) >= 85
    assert now.gain >= 0.5 * now.best
    assert now.balanced_hurt <= 0.03 * now.runs
    assert now.refused <= 0.03 * now.runs


def test_generated_runs_lose_nothing():
    now, before = verdict(GENERATED, Rule()), verdict(GENERATED, PRESENT)
    assert now.hurt == 0
    assert now.gain >= 0.9 * before.gain
    assert min(now.cover_before, now.cover_after) >= 90
