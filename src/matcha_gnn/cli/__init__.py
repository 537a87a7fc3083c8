"""The command `matcha`."""

from typing import NoReturn


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command; see `app.main`."""
    # Here, as other packages' commands use the options of this one before it is whole.
    from matcha_gnn.cli.app import main as run

    run(arguments)
