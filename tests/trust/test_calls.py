"""Every bad argument is refused in one line before any work, or means what it says."""

import calls
import pytest


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """Names such as ../evil are written beside it."""
    place = tmp_path / "inner"
    place.mkdir()
    monkeypatch.chdir(place)


def test_no_bad_argument_ends_in_another_kind_of_error():
    tried, wrong = 0, []
    for case in calls.cases():
        tried += 1
        found = calls.outcome(case)
        if not calls.is_good(case, found):
            wrong.append(f"{case}: {found}")
    assert wrong == []
    assert tried > 4000


def test_the_battery_would_notice():
    """A function that takes anything, and one that fails on everything."""

    def careless(epochs: int = 1) -> None:
        pass

    def fragile(epochs: int = 1) -> None:
        _ = epochs + [1]

    for call, expected in ((careless, "done"), (fragile, "TypeError")):
        case = calls.Case(calls.Target("f", call, {}), "epochs", "'False'", legal=False)
        found = calls.outcome(case)
        assert found.startswith(expected)
        assert not calls.is_good(case, found)
