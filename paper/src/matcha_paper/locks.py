"""One process at a time changes a file of records."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import lock


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Wait until no other process is in such a block for `path`, and keep others out.

    The lock is on an empty file beside it, `.NAME.lock`, which stays; the system releases it when
    a process ends, however it ends.

    Args:
        path: the file that is going to be changed; it may be missing, its folder may not.

    Raises:
        InvalidFileError: the folder is missing or cannot be written.
    """
    path = Path(path)
    with ExitStack() as held:
        try:
            file = held.enter_context(open(path.with_name(f".{path.name}.lock"), "ab"))
            lock(file.fileno(), wait=True)
        except OSError as error:
            raise InvalidFileError(
                "output", f"{path} ({error.strerror})", "a path in a writable folder"
            ) from error
        yield
