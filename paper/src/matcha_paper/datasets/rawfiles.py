"""Published data files: where they are stored, their download and their checksums."""

import hashlib
import http.client
import logging
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import replacing

logger = logging.getLogger(__name__)
VARIABLE = "MATCHA_DATA"
_TIMEOUT = 30


@dataclass(frozen=True)
class Origin:
    """Where the files of one data set come from.

    Attributes:
        folder: their folder inside the data root.
        address: a public address with `{file}` in place of the file's name, or None where there
            is none for the files in this form.
        hint: how to get them by hand.
    """

    folder: str
    address: str | None = None
    hint: str = ""


def data_root(root: str | Path | None = None) -> Path:
    """The folder that holds the data sets' folders.

    Args:
        root: the folder; by default the environment variable `MATCHA_DATA`, and without it
            `matcha-gnn` in the user's cache folder.

    Example:
        >>> data_root("here").as_posix()
        'here'
    """
    if root is not None:
        return Path(root)
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    cache_folder = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(cache_folder) if cache_folder else Path.home() / ".cache") / "matcha-gnn"


def raw_file(origin: Origin, file: str, root: str | Path | None = None) -> Path:
    """A checked file of a data set, downloaded if it is missing.

    Args:
        origin: the data set.
        file: the file's path inside the data set's folder.
        root: see `data_root`.

    Raises:
        InvalidFileError: it is missing and could not be downloaded (the message says which file
            to put where), or it is not the file that was published.
    """
    path = data_root(root) / origin.folder / file
    if not path.is_file():
        _download(origin, file, path)
    expected = checksums().get(f"{origin.folder}/{file}")
    if expected is not None and sha256(path) != expected:
        raise InvalidFileError(
            "data file", f"{path} (other content)", f"the published file, sha256 {expected}"
        )
    return path


def has_file(origin: Origin, file: str, root: str | Path | None = None) -> bool:
    """Whether the file is in the data root."""
    return (data_root(root) / origin.folder / file).is_file()


def sha256(path: Path) -> str:
    """The checksum of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def checksums() -> dict[str, str]:
    """Published content by path inside the data root."""
    text = (resources.files("matcha_gnn.datasets") / "checksums.txt").read_text("utf-8")
    lines = (line.split(maxsplit=1) for line in text.splitlines())
    return {path: digest for digest, path in lines}


def _download(origin: Origin, file: str, path: Path) -> None:
    if origin.address is None:
        raise _missing(origin, path, "missing", None)
    address = origin.address.format(file=file)
    logger.info("downloading %s to %s", address, path)
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT) as response:
            content = response.read()
        expected = checksums().get(f"{origin.folder}/{file}")
        if expected not in (None, hashlib.sha256(content).hexdigest()):
            raise _missing(origin, path, "missing; its address has another file now", address)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as beside:
            beside.write_bytes(content)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise _missing(origin, path, f"missing; download failed: {reason}", address) from error


def _missing(origin: Origin, path: Path, what: str, address: str | None) -> InvalidFileError:
    sources = "; ".join(each for each in (address and f"from {address}", origin.hint) if each)
    allowed = f"put {path.name} there ({sources}), or name another data root in {VARIABLE}"
    return InvalidFileError("data file", f"{path} ({what})", allowed)
