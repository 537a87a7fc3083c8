"""Files appear whole or not at all; a bad path is one clear line."""

import os
import resource
import signal
import stat

import pytest
import torch
from safetensors.torch import save_file

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import existing_file, output_folder, replacing, require_writable, sweep


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


def write_in_place(path):
    path.write_text("")


def write_a_file_of_its_own(path):
    """As the writer of safetensors does: a private file, renamed."""
    save_file({"a": torch.ones(1)}, path)


@pytest.mark.parametrize("write", [write_in_place, write_a_file_of_its_own])
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_the_new_file_has_the_permissions_of_any_new_file(tmp_path, umask, write):
    before = os.umask(umask)
    try:
        (tmp_path / "ordinary").write_text("")
        with replacing(tmp_path / "ours") as beside:
            write(beside)
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


@pytest.fixture
def at_most_100_bytes():
    """Files cannot grow further, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path, at_most_100_bytes):
    target = tmp_path / "note.txt"
    target.write_text("old")
    with (
        pytest.raises(
            InvalidFileError, match=r"note.txt \(File too large\); allowed: room"
        ) as error,
        replacing(target) as beside,
    ):
        beside.write_text("x" * 1000)
    assert single_line(error)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["note.txt"]


def test_permissions_and_links_of_an_existing_file_are_kept(tmp_path):
    target, link = tmp_path / "real" / "note.txt", tmp_path / "link.txt"
    target.parent.mkdir()
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    with replacing(link) as beside:
        beside.write_text("new")
        assert beside.parent == target.parent
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_content_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    order, sync, rename = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (order.append("rename"), rename(*names)))
    with replacing(tmp_path / "note.txt") as beside:
        beside.write_text("whole")
    assert order == ["sync", "rename", "sync"]


def left_by_a_killed_run(target):
    """The name of a temporary file whose writer ended without a word."""
    child = os.fork()
    if child == 0:
        with replacing(target) as beside:
            beside.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (left,) = (path for path in target.parent.iterdir() if path.name.startswith("."))
    return left


def test_the_next_run_removes_what_a_killed_one_left(tmp_path):
    left = left_by_a_killed_run(tmp_path / "note[1].txt")
    with replacing(tmp_path / "note[1].txt") as beside:
        beside.write_text("whole")
        assert not left.exists()
    assert names(tmp_path) == ["note[1].txt"]


def test_files_that_another_run_writes_now_are_not_removed(tmp_path):
    with replacing(tmp_path / "note.txt") as first:
        first.write_text("first")
        with replacing(tmp_path / "note.txt") as second:
            second.write_text("second")
            sweep(tmp_path, "note.txt")
            sweep(tmp_path, "*.txt")
            assert first.exists()
            assert second.exists()
    assert (tmp_path / "note.txt").read_text() == "first"
    assert names(tmp_path) == ["note.txt"]


@pytest.mark.parametrize("path", [3, None, "", "a\0b", True, 1.5, [], b"bytes"])
def test_what_is_no_path_is_refused(path):
    for refuse in (
        lambda: existing_file(path, "model"),
        lambda: output_folder(path),
        lambda: require_writable(path),
    ):
        with pytest.raises(InvalidFileError, match="allowed: a path"):
            refuse()


def test_a_pipe_is_neither_read_nor_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InvalidFileError, match="no plain file"):
        existing_file(pipe, "graph")
    with pytest.raises(InvalidFileError, match="no plain file"):
        require_writable(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
