"""A damaged file is refused in one line, or says what it said before."""

import mutations
import pytest

SHARE = 40
"""Damaged copies of each format; `make trust` takes 1,300."""


@pytest.mark.slow
def test_no_damaged_file_is_used_or_ends_in_another_kind_of_error(tmp_path):
    found = {
        form.name: mutations.attack(form, SHARE, 0, any_meaning=form.name in mutations.FREE)
        for form in mutations.formats(tmp_path)
    }
    assert [line for tally in found.values() for line in tally.wrong] == []
    assert len(found) >= 15
    assert all(tally.refused + tally.same == SHARE for tally in found.values())


def test_the_battery_would_notice(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(range(200)))

    def fragile():
        raise KeyError("ours")

    for read in (fragile, lambda: None):
        form = mutations.Format("f", path, read, path.read_bytes)
        assert mutations.attack(form, 5, 0).wrong
    assert path.read_bytes() == bytes(range(200))
