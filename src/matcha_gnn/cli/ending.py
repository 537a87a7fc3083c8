"""How a command ends where it could not do its work."""

import os
import sys

import typer

from matcha_gnn.errors import printable


def complain(problem: object, code: int) -> int:
    """Say one line on standard error; returns the exit status."""
    typer.echo(f"matcha: {printable(problem)}", err=True)
    return code


def drop_output() -> None:
    """Where what is still to be written cannot be, Python would fail once more at its end."""
    try:
        sys.stdout.flush()
        return
    except OSError:
        pass
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # No real file, such as in a test.
    except (OSError, ValueError):
        return
