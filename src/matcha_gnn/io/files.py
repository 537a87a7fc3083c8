"""Files that appear whole or not at all."""

import os
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
def holding(path: str | Path, refused: Exception) -> Iterator[None]:
    """Lock a file, created if needed, while the block runs.

    Args:
        path: of the file.
        refused: raised where another process holds it.
    """
    with open(path, "w") as file:
        try:
            lock(file.fileno(), wait=False)
        except OSError as error:
            raise refused from error
        yield


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a fresh path beside `path`; rename it over `path` if the block ends well.

    Args:
        path: the file to write. Its folder must exist and be writable.

    Yields:
        A path in the same folder to write to.

    Raises:
        InvalidFileError: the folder is missing or cannot be written, or `path` is a folder.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with replacing(target) as beside:
        ...     _ = beside.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    path = Path(path)
    if os.path.isdir(path):
        raise InvalidFileError("output", f"{path} (a folder)", "a file name")
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent
        )
    except OSError as error:
        raise InvalidFileError(
            "output", f"{path} ({error.strerror})", "a path in a writable folder"
        ) from error
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        # mkstemp makes private files; the result should be as readable as any new file.
        beside.chmod(0o666 & ~_umask())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def append_line(path: str | Path, line: str) -> None:
    """Add a line to a file and wait until it is on the disk; `trim_lines` repairs a torn one.

    Raises:
        InvalidFileError: the file cannot be written.
    """
    try:
        with open(path, "a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        got = f"{path} ({error.strerror})"
        raise InvalidFileError("output", got, "a file in a writable folder") from error


def trim_lines(path: str | Path, number: int) -> list[str]:
    r"""Cut a file after a number of lines; returns them, fewer if there are not so many.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "log.txt"
        >>> _ = target.write_text("one\ntwo\nthr")
        >>> trim_lines(target, 3), target.read_text()
        (['one', 'two'], 'one\ntwo\n')
    """
    text = Path(path).read_text(encoding="utf-8") if os.path.exists(path) else ""
    whole = text.split("\n")[:-1][:number]
    kept = "".join(line + "\n" for line in whole)
    if kept != text:
        with replacing(path) as beside:
            beside.write_text(kept, encoding="utf-8", newline="\n")
    return whole


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def output_folder(path: str | Path) -> Path:
    """Create `path` as a folder if needed and make sure files can be written there."""
    path = Path(path)
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
    path = Path(path)
    # os.path answers no where pathlib raises, such as for a name that is too long.
    if not os.path.isfile(path):
        what = "a folder" if os.path.isdir(path) else "no such file"
        raise InvalidFileError(argument, f"{path} ({what})", "an existing file")
    if not os.access(path, os.R_OK):
        raise InvalidFileError(argument, f"{path} (permission denied)", "a readable file")
    return path
