"""Files appear whole or not at all; a bad path is one clear line."""

import os
import resource
import signal
import stat
from contextlib import contextmanager

import pytest
import torch
from safetensors.torch import save_file

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import existing_file, output_folder, replacing, require_writable


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_half(path, error):
    with replacing(path) as beside:
        beside.write_text("half")
        raise error


@pytest.mark.parametrize("error", [OSError("broken"), KeyboardInterrupt()])
def test_a_file_is_replaced_whole_or_stays_as_it_was(tmp_path, error):
    target = tmp_path / "note.txt"
    target.write_text("old content")
    with pytest.raises((InvalidFileError, KeyboardInterrupt)):
        write_half(target, error)
    assert (names(tmp_path), target.read_text()) == (["note.txt"], "old content")
    with open(target, "rb", buffering=0) as reader, replacing(target) as beside:
        assert (beside.parent, beside.suffix) == (tmp_path, ".txt")
        beside.write_text("new")
        assert reader.read() == b"old content"
    assert (names(tmp_path), target.read_text()) == (["note.txt"], "new")


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_permissions_are_those_of_any_new_file_or_of_the_old_one(tmp_path, umask):
    before = os.umask(umask)
    try:
        (tmp_path / "ordinary").write_text("")
        with replacing(tmp_path / "ours") as beside:
            # As the writer of safetensors does: a private file, renamed.
            save_file({"a": torch.ones(1)}, beside)
        assert os.umask(umask) == umask, "reading the umask must not change it"
    finally:
        os.umask(before)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "ours")}
    assert len(modes) == 1
    (tmp_path / "ours").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    with replacing(tmp_path / "link") as beside:
        beside.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o640


@contextmanager
def at_most_100_bytes():
    """Files cannot grow further, as on a full disk; pytest's own output is one of them."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path):
    target = tmp_path / "note.txt"
    target.write_text("old")
    with (
        at_most_100_bytes(),
        pytest.raises(InvalidFileError, match=r"note.txt \(File too large\); allowed: room"),
        replacing(target) as beside,
    ):
        beside.write_text("x" * 1000)
    assert (names(tmp_path), target.read_text()) == (["note.txt"], "old")


def test_content_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    order, sync, rename = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (order.append("rename"), rename(*names)))
    with replacing(tmp_path / "note.txt") as beside:
        beside.write_text("whole")
    assert order == ["sync", "rename", "sync"]


def test_what_a_killed_run_left_is_removed_and_what_another_writes_is_not(tmp_path):
    target = tmp_path / "note[1].txt"
    child = os.fork()
    if child == 0:
        with replacing(target) as beside:
            beside.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(names(tmp_path)) == 1
    with replacing(target) as first:
        first.write_text("first")
        with replacing(target) as second:
            second.write_text("second")
            assert {first.name, second.name} == set(names(tmp_path))
    assert (names(tmp_path), target.read_text()) == (["note[1].txt"], "first")


@pytest.mark.parametrize("path", [3, None, "", "a\0b", True, 1.5, [], b"bytes"])
def test_what_is_no_path_is_refused(path):
    for refuse in (lambda: existing_file(path, "model"), lambda: output_folder(path)):
        with pytest.raises(InvalidFileError, match="allowed: a path"):
            refuse()


def test_a_place_that_cannot_be_used_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "plain").write_text("a file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    places = {
        "missing/note.txt": (require_writable, "No such file or directory"),
        "plain/note.txt": (require_writable, "Not a directory"),
        "folder": (require_writable, "a folder"),
        "pipe": (require_writable, "no plain file"),
        "plain/sub": (output_folder, "Not a directory"),
        "plain": (output_folder, "File exists"),
        "nowhere": (lambda path: existing_file(path, "graph"), "no such file"),
        "n" * 5000: (lambda path: existing_file(path, "graph"), "no such file"),
        "./folder": (lambda path: existing_file(path, "graph"), "a folder"),
    }
    for name, (use, reason) in places.items():
        with pytest.raises(InvalidFileError, match=rf"got .*\({reason}\); allowed: ") as refused:
            use(tmp_path / name)
        assert "\n" not in str(refused.value)
    # Permission bits do not bind root, who may be running this.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InvalidFileError, match=r"graph: got .*permission denied"):
        existing_file(tmp_path / "plain", "graph")
    assert output_folder(str(tmp_path / "a" / "b")) == tmp_path / "a" / "b"
