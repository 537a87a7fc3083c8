"""The command `matcha`, also as `python -m matcha_gnn`."""

import sys
from typing import NoReturn

from matcha_gnn.errors import MatchaError, optional_imports


def main() -> NoReturn:
    """Run the command, or say in one line that the extra `cli` is not installed."""
    try:
        with optional_imports("matcha"):
            from matcha_gnn.cli.app import main as run
    except MatchaError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
