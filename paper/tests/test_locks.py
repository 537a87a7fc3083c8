"""Locks on files of records."""

import pytest

from matcha_gnn.errors import InvalidFileError
from matcha_paper.locks import locked


def test_a_lock_leaves_the_file_alone(tmp_path):
    with locked(tmp_path / "note.txt"):
        assert [path.name for path in tmp_path.iterdir()] == [".note.txt.lock"]
    with locked(tmp_path / "note.txt"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [".note.txt.lock"]


def test_a_lock_in_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InvalidFileError, match="note.txt") as error,
        locked(tmp_path / "file" / "note.txt"),
    ):
        pytest.fail("the block was entered")
    assert len(str(error.value).splitlines()) == 1
