"""The default does no harm, and what it is worth stays what was recorded."""

import json

import pytest

from worlds import NETWORKS, RECORD, outcomes

POINTS = 0.5


@pytest.mark.parametrize("kind", NETWORKS)
def test_recorded_worlds(kind):
    recorded = json.loads(RECORD.read_text())
    for world, outcome in outcomes(kind).items():
        was = recorded[world]
        assert outcome["chosen"] == was["chosen"], world
        for figure in ("before", "after", "expected"):
            assert outcome[figure] == pytest.approx(was[figure], abs=POINTS), (world, figure)
        assert outcome["after"] > outcome["before"] - 1, f"{world}: hurt"
        assert outcome["low"] <= outcome["after"] <= outcome["high"], f"{world}: not covered"
