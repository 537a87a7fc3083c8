"""Folders that a command writes: what is there is not replaced in silence."""

import os
from collections.abc import Collection
from pathlib import Path

from matcha_gnn.cli import console
from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.asked import QUESTIONS, kept_answers


def require_free(folder: Path, force: bool, own: Collection[str] = ()) -> None:
    """Refuse a folder that is not empty, unless its files may be replaced.

    Args:
        folder: to write; need not exist.
        force: whether --force was given.
        own: names that the folder may hold all the same.
    """
    if not os.path.isdir(folder):
        return
    if force:
        say_kept(folder)
    elif any(path.name not in own for path in folder.iterdir()):
        allowed = "a new or an empty folder, or --force to replace the files of an earlier run"
        raise InvalidFileError("output folder", f"{folder} (not empty)", allowed)


def say_kept(folder: Path, used: Collection[int] = ()) -> None:
    """Say where typed answers stay that were not used, if there are any."""
    kept = kept_answers(folder, used)
    if kept is not None:
        console.say(f"the answers in {folder / QUESTIONS} are kept as {kept}")
