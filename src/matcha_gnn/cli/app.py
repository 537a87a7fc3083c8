"""The command `matcha`: parse, call, print. Heavy imports wait until a command runs."""

import shlex
import sys
from importlib.metadata import entry_points
from typing import Annotated, Any, NoReturn

import typer

from matcha_gnn.cli.adapt import adapt
from matcha_gnn.cli.answer import answer
from matcha_gnn.cli.demo import demo
from matcha_gnn.cli.ending import complain, drop_output
from matcha_gnn.cli.estimate import estimate
from matcha_gnn.cli.summarise import summarise
from matcha_gnn.cli.watch_command import watch
from matcha_gnn.errors import MatchaError, optional_imports

app = typer.Typer(
    name="matcha",
    help="How right is a classifier of nodes on a new graph, and can it be made better?",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Typer carries its parser inside since 0.2x and used click's before: the class of wrong usage has
# no public name that both share.
CommandLineError: Any = typer.BadParameter.__mro__[2]

GROUP = "matcha_gnn.commands"
"""Entry points of further commands: functions that Typer takes."""

for command in (demo, summarise, estimate, adapt, answer, watch):
    app.command()(command)
for _point in entry_points(group=GROUP):
    app.command(name=_point.name)(_point.load())


def _version(value: bool) -> None:
    if value:
        from matcha_gnn import __version__

        typer.echo(f"matcha {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show version and exit."),
    ] = False,
) -> None:
    """How right is a classifier of nodes on a new graph, and can it be made better?"""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command; exit 0 when done, 2 on bad input, 1 when it is our fault.

    Commands exit with 3 where the features of a graph cannot be what the source's are.
    """
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> Any:
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        command = shlex.join(["matcha", *arguments])
        with optional_imports(arguments[0] if arguments else "--help"):
            code = app(args=arguments or ["--help"], standalone_mode=False, obj=command) or 0
        sys.stdout.flush()
        return code
    except CommandLineError as error:
        return complain(error.format_message(), 2)
    except typer.Abort as error:
        if isinstance(error.__context__, EOFError):
            return complain("a file or standard input ended too early", 2)
        return complain("interrupted", 1)
    except MatchaError as error:
        return complain(error, 2)
    # Whoever read the output has closed it: nothing is left to say.
    except BrokenPipeError:
        drop_output()
        return 1
    # The disk, a folder or the output of the command, outside of what has a line of its own.
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        drop_output()
        return complain(f"{error.strerror or error}{place}", 2)
