"""Files appear whole or not at all; a bad path is one clear line."""

import os
import stat

import pytest

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import existing_file, output_folder, replacing


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def single_line(error):
    return len(str(error.value).splitlines()) == 1


@pytest.fixture
def below_a_file(tmp_path):
    """A folder that nobody, not even root, can create or write: its parent is a file."""
    (tmp_path / "plain").write_text("a file")
    return tmp_path / "plain" / "folder"


class BrokenWriteError(Exception):
    pass


def write_half(path, error):
    with replacing(path) as beside:
        beside.write_text("half")
        raise error


def test_replacing_writes_the_new_content(tmp_path):
    target = tmp_path / "note.txt"
    target.write_text("old")
    with replacing(target) as beside:
        beside.write_text("new")
        assert target.read_text() == "old", "nothing is visible before the block ends"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["note.txt"]


def test_who_reads_the_old_file_meanwhile_reads_it_to_its_end(tmp_path):
    target = tmp_path / "note.txt"
    target.write_text("old content")
    with open(target, "rb", buffering=0) as reader:
        assert reader.read(3) == b"old"
        with replacing(target) as beside:
            beside.write_text("new")
        assert reader.read() == b" content"


def test_replacing_writes_beside_so_that_the_rename_stays_on_one_disk(tmp_path):
    with replacing(tmp_path / "note.txt") as beside:
        assert beside.parent == tmp_path
        assert beside.suffix == ".txt", "writers that look at the suffix must see the right one"


@pytest.mark.parametrize("existed", [True, False])
def test_a_failing_write_leaves_things_as_they_were(tmp_path, existed):
    target = tmp_path / "note.txt"
    if existed:
        target.write_text("old")
    before = names(tmp_path)
    with pytest.raises(BrokenWriteError):
        write_half(target, BrokenWriteError)
    assert names(tmp_path) == before
    assert not existed or target.read_text() == "old"


def test_an_interrupt_leaves_no_stray_file(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "note.txt", KeyboardInterrupt)
    assert names(tmp_path) == []


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_the_new_file_has_the_permissions_of_any_new_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        (tmp_path / "ordinary").write_text("")
        with replacing(tmp_path / "ours") as beside:
            beside.write_text("")
        assert os.umask(umask) == umask, "reading the umask must not change it"
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "ours")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("where", ["missing/note.txt", "plain/note.txt"])
def test_replacing_in_a_folder_that_cannot_be_written_is_refused(tmp_path, where):
    (tmp_path / "plain").write_text("a file")
    with (
        pytest.raises(InvalidFileError, match=rf"output: got .*{where}.*; allowed: ") as error,
        replacing(tmp_path / where),
    ):
        pytest.fail("the block must not run")
    assert single_line(error)
    assert names(tmp_path) == ["plain"]


def test_replacing_a_folder_is_refused_before_any_work(tmp_path):
    (tmp_path / "taken").mkdir()
    with (
        pytest.raises(InvalidFileError, match=r"output: got .*taken \(a folder\)"),
        replacing(tmp_path / "taken"),
    ):
        pytest.fail("the block must not run")
    assert names(tmp_path) == ["taken"]


def test_output_folder_is_created_with_its_parents_and_left_empty(tmp_path):
    folder = output_folder(str(tmp_path / "a" / "b"))
    assert folder == tmp_path / "a" / "b"
    assert names(folder) == []


def test_output_folder_may_exist_and_keeps_what_it_holds(tmp_path):
    (tmp_path / "kept").write_text("x")
    assert output_folder(tmp_path) == tmp_path
    assert names(tmp_path) == ["kept"]


def test_output_folder_that_cannot_be_written_is_refused(below_a_file):
    with pytest.raises(
        InvalidFileError, match=r"output folder: got .*; allowed: a folder"
    ) as error:
        output_folder(below_a_file)
    assert str(below_a_file) in str(error.value)
    assert single_line(error)


def test_output_folder_that_is_a_file_is_refused(below_a_file):
    with pytest.raises(InvalidFileError, match="output folder"):
        output_folder(below_a_file.parent)


def test_existing_file_returns_the_path(tmp_path):
    (tmp_path / "here").write_text("")
    assert existing_file(str(tmp_path / "here"), "graph") == tmp_path / "here"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nowhere", "no such file"), ("folder", "a folder"), ("n" * 5000, "no such file")],
)
def test_existing_file_says_what_is_wrong_with_which_argument(tmp_path, name, reason):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidFileError, match=rf"model: got .*\({reason}\); allowed: ") as error:
        existing_file(tmp_path / name, "model")
    assert single_line(error)


def test_existing_file_without_permission_is_refused(tmp_path, monkeypatch):
    (tmp_path / "locked").write_text("")
    # Permission bits do not bind root, who may be running this.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InvalidFileError, match=r"graph: got .*permission denied"):
        existing_file(tmp_path / "locked", "graph")
