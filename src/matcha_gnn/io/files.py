"""Files that appear whole or not at all."""

import glob
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matcha_gnn.errors import InvalidFileError


def lock(handle: int, *, wait: bool) -> None:
    """Lock an open file for this process; the system releases the lock when it ends.

    Args:
        handle: the file's number.
        wait: until another process releases it; otherwise raise OSError at once.
    """
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a fresh path beside `path`; rename it over `path` if the block ends well.

    A symbolic link stays, and what it points to is replaced. A file that exists keeps its
    permissions; a new one has those of any new file, whatever its writer does. Temporary files of
    runs that were killed are removed. The content is on the disk before the file gets its name, so
    that a power failure leaves the old file or the new one.

    Args:
        path: the file to write. Its folder must exist and be writable.

    Yields:
        A path in the same folder to write to.

    Raises:
        InvalidFileError: the folder is missing or cannot be written, `path` is a folder or no
            plain file, or the disk is full.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with replacing(target) as beside:
        ...     _ = beside.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    with _temporary(path) as (target, beside):
        mode = _permissions(beside)
        try:
            yield beside
            # Some writers, such as that of safetensors, put a private file of theirs in its place.
            beside.chmod(_permissions(target) if target.exists() else mode)
            _to_disk(beside)
            os.replace(beside, target)
            if sys.platform != "win32":
                _to_disk(target.parent)
        except OSError as error:
            raise unwritten(path, error) from error


def require_writable(path: str | Path) -> None:
    """Raise InvalidFileError where `replacing` would, before the work whose result it writes.

    Example:
        >>> require_writable("/nowhere/model.safetensors")
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidFileError: output: got /nowhere/model.safetensors (No such file \
or directory); allowed: a path in a writable folder
    """
    with _temporary(path):
        pass


def unwritten(path: str | Path, error: Exception) -> InvalidFileError:
    """The error for a file that could not be written to its end."""
    reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    return InvalidFileError("output", f"{path} ({reason})", "room to write the whole file")


@contextmanager
def _temporary(path: str | Path) -> Iterator[tuple[Path, Path]]:
    """The file that a path means, and an empty one beside it, which is removed at the end."""
    path = a_path(path, "output")
    if os.path.isdir(path):
        raise InvalidFileError("output", f"{path} (a folder)", "a file name")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InvalidFileError("output", f"{path} (no plain file)", "a file name")
    target = Path(os.path.realpath(path))
    try:
        sweep(target.parent, glob.escape(target.name))
        beside, handle = _created(target)
    except OSError as error:
        allowed = "a path in a writable folder"
        raise InvalidFileError("output", f"{path} ({error.strerror})", allowed) from error
    try:
        yield target, beside
    finally:
        beside.unlink(missing_ok=True)
        os.close(handle)


def _created(target: Path) -> tuple[Path, int]:
    """An empty file beside another, locked as long as its handle is open: it is in use."""
    while True:
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}{target.suffix}")
        # As readable as any new file: the system takes the umask off.
        handle = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        if sys.platform == "win32":
            return beside, handle
        try:
            lock(handle, wait=True)
        # Some network file systems have no locks: then nothing is swept either.
        except OSError:
            return beside, handle
        # Another process may have swept it between the two calls.
        if os.fstat(handle).st_nlink:
            return beside, handle
        os.close(handle)


def sweep(folder: Path, pattern: str) -> None:
    """Remove temporary files of `replacing` that nobody writes any more.

    Args:
        folder: where to look.
        pattern: of the names that they were to get, such as "hop-*.npy".
    """
    if sys.platform == "win32":
        return
    for left in folder.glob(f".{pattern}.{8 * '[0-9a-f]'}{Path(pattern).suffix}"):
        try:
            handle = os.open(left, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            lock(handle, wait=False)
            left.unlink(missing_ok=True)
        # In use by a run.
        except OSError:
            continue
        finally:
            os.close(handle)


def _permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def a_path(path: object, argument: str) -> Path:
    r"""Refuse what is no path at all, or one that no system has.

    Example:
        >>> a_path("a\0b", "model")
        Traceback (most recent call last):
        ...
        matcha_gnn.errors.InvalidFileError: model: got 'a\x00b'; allowed: a path
    """
    if not isinstance(path, str | os.PathLike) or not str(path) or "\0" in str(path):
        got = repr(path) if isinstance(path, str | int | float | None) else type(path).__name__
        raise InvalidFileError(argument, got, "a path")
    return Path(path)


def output_folder(path: str | Path) -> Path:
    """Create `path` as a folder if needed and make sure files can be written there."""
    path = a_path(path, "output folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InvalidFileError(
            "output folder", f"{path} ({error.strerror})", "a folder that can be written"
        ) from error
    return path


def existing_file(path: str | Path, argument: str) -> Path:
    """Return `path` if it is a readable file, else raise one clear line."""
    path = a_path(path, argument)
    # os.path answers no where pathlib raises, such as for a name that is too long.
    if not os.path.isfile(path):
        other = "no plain file" if os.path.exists(path) else "no such file"
        what = "a folder" if os.path.isdir(path) else other
        raise InvalidFileError(argument, f"{path} ({what})", "an existing file")
    if not os.access(path, os.R_OK):
        raise InvalidFileError(argument, f"{path} (permission denied)", "a readable file")
    return path
