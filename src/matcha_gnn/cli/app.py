"""The command `matcha`: parse, call, print. Heavy imports wait until a command runs."""

import shlex
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from matcha_gnn.cli.ending import complain, drop_output
from matcha_gnn.cli.options import (
    Classes,
    Force,
    GraphFile,
    Json,
    MetricName,
    ModelAndGraph,
    Network,
    Positive,
    Seed,
    SourceFile,
    Weights,
    names_of,
)
from matcha_gnn.cli.watch_command import watch
from matcha_gnn.errors import InvalidArgumentError, MatchaError, optional_imports

app = typer.Typer(
    name="matcha",
    help="Adapt a trained graph neural network to a graph whose structure has shifted.",
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


@app.command()
def demo(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")] = Path(
        "matcha-demo"
    ),
    force: Force = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train a model, meet a shifted graph, adapt.

    The model is trained where 80% of edges join alike nodes and adapted to a graph where 20% do; a
    table and a page show what it did.
    """
    if not json:
        # Before the imports, which take seconds.
        typer.echo("loading PyTorch …", err=True)
    from matcha_gnn.cli import commands

    commands.demo(output, force, seed, json, context.obj)


@app.command()
def train(
    graph: GraphFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="Model file to write.")],
    backbone: Annotated[
        str,
        typer.Option(help=f"Architecture: {names_of('backbones')}."),
    ] = "gprgnn",
    hops: Annotated[
        int | None, typer.Option(help="Hops or layers K; default: 9, jknet 2, gcnii 4.")
    ] = None,
    hidden: Annotated[int, typer.Option(help="Width of the representation.")] = 32,
    epochs: Annotated[int, typer.Option(help="Full-batch steps.")] = 500,
    train_fraction: Annotated[
        float | None,
        typer.Option(help="Share of each class to train on; default: train_mask, else all."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Store what a base method needs of the source: adanpc, graphpatcher."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train a source model on a labelled graph."""
    from matcha_gnn.cli import commands

    commands.train(
        graph, output, backbone, hops, hidden, epochs, train_fraction, method or [], seed, json
    )


@app.command()
def adapt(
    context: typer.Context,
    files: ModelAndGraph,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")],
    force: Force = False,
    method: Annotated[
        str,
        typer.Option(help=f"Base method: {names_of('methods')}."),
    ] = "erm",
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the base method, such as k=20."),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help=f"How a better model is sought: {names_of('strategies')}, or none: predict only. "
            "matcha is the published algorithm."
        ),
    ] = "guarded",
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A parameter of the strategy, such as rounds=100, lr=0.1 or loss=entropy.",
        ),
    ] = None,
    network: Network = None,
    weights: Weights = None,
    source: SourceFile = None,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:0, …")] = "cpu",
    ask: Annotated[
        int | None,
        typer.Option(help="Write so many questions whose answers decide among the candidates."),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="With --ask: a CSV file with a line for each node, to show with it."),
    ] = None,
    classes: Classes = None,
    metric: MetricName = "accuracy",
    positive: Positive = None,
    json: Json = False,
) -> None:
    """Adapt a model to an unlabelled graph.

    The model is a file of matcha's, or a PyG network of your own: --network my_module:Net
    --weights net.pt --source source.safetensors.

    Writes predictions, the nodes that changed, the adapted model, the history of rounds, a summary
    and report.html; with --ask also questions.csv and questions.html.
    """
    from matcha_gnn.cli import commands

    model, graph = _model_and_graph(files)
    job = commands.Job(
        model=model,
        graph=graph,
        output=output,
        force=force,
        method=method,
        options=option or [],
        strategy=strategy,
        parameters=parameter or [],
        seed=seed,
        device=device,
        json=json,
        command=context.obj,
        ask=ask,
        table=table,
        classes=classes,
        metric=metric,
        positive=positive,
        network=network,
        weights=weights,
        source=source,
    )
    commands.adapt(job)


def _model_and_graph(files: list[Path]) -> tuple[Path | None, Path]:
    """A model file, which may be left out, and a graph file; told apart in either order."""
    if len(files) > 2:
        raise InvalidArgumentError("arguments", f"{len(files)} files", "MODEL GRAPH, or GRAPH")
    if len(files) == 1:
        return None, files[0]
    first, second = files
    swapped = second.suffix == ".safetensors" and first.suffix != ".safetensors"
    return (second, first) if swapped else (first, second)


@app.command()
def answer(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that matcha adapt --ask wrote.")
    ],
    answers: Annotated[
        Path, typer.Argument(metavar="ANSWERS", help="A CSV file with the columns node and label.")
    ],
    ask: Annotated[int | None, typer.Option(help="Write so many further questions.")] = None,
    graph: Annotated[
        Path | None, typer.Option(help="The graph file, if it is no longer where it was.")
    ] = None,
    json: Json = False,
) -> None:
    """Decide among the candidates by the true classes of a few nodes.

    A candidate is taken only if it is not worse than the source model by more than a point, with an
    error rate of at most 5%. Answers add up. The folder is written anew.
    """
    from matcha_gnn.cli import asking

    asking.answer(folder, answers, ask, graph, json, context.obj)


@app.command()
def inspect(
    files: ModelAndGraph,
    model: Annotated[
        Path | None, typer.Option(help="The model, if it is not given before the graph.")
    ] = None,
    network: Network = None,
    weights: Weights = None,
    source: SourceFile = None,
    classes: Classes = None,
    metric: MetricName = "accuracy",
    positive: Positive = None,
    json: Json = False,
) -> None:
    """Say what a graph is.

    With a model: how the graph differs from the one that the model was trained on.
    """
    from matcha_gnn.cli import inspection

    beside, graph = _model_and_graph(files)
    if beside is not None and model is not None:
        raise InvalidArgumentError("--model", model, f"none beside the MODEL file {beside}")
    goal = inspection.Asked(metric, positive, classes)
    inspection.inspect(graph, beside or model, network, weights, source, goal, json)


@app.command("make-graph")
def make_graph(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help=f"{names_of('datasets').replace('_', '-')}, or a graph file to change.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .npz or .pt file to write.")],
    part: Annotated[str | None, typer.Option(help="source, validation or target.")] = None,
    homophily: Annotated[float | None, typer.Option(help="Share of edges in a class.")] = None,
    run: Annotated[int | None, typer.Option(help="syn-cora: 1, 2 or 3.")] = None,
    nodes: Annotated[int | None, typer.Option(help="csbm: nodes.")] = None,
    features: Annotated[int | None, typer.Option(help="csbm: features.")] = None,
    degree: Annotated[float | None, typer.Option(help="csbm: average degree.")] = None,
    signal: Annotated[float | None, typer.Option(help="Norm of a class centre.")] = None,
    shift: Annotated[float | None, typer.Option(help="csbm: displacement of centres.")] = None,
    shares: Annotated[str | None, typer.Option(help="csbm: class shares, 0.1,0.3,0.6.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            help="Shift the graph, in the order given: homophily=0.2, degree=3, attribute=1, "
            "noise=0.5, class-shares=0.7,0.3, edge-shares=0.4,0.1,0.1,0.4.",
        ),
    ] = None,
    attack: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Flip edges against this model file.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Share of edges that the attack flips.")] = 0.2,
    root: Annotated[Path | None, typer.Option(help="Folder of data sets.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None,
    json: Json = False,
) -> None:
    """Write a graph to train on or adapt to."""
    from matcha_gnn.cli import commands

    options: dict[str, Any] = {"part": part, "homophily": homophily, "run": run}
    options |= {"num_nodes": nodes, "num_features": features, "degree": degree}
    options |= {"signal": signal, "shift": shift, "root": root, "seed": seed}
    options["shares"] = None if shares is None else _numbers("--shares", shares)
    given = {option: value for option, value in options.items() if value is not None}
    changes = _changes(change or [])
    commands.make_graph(name, output, given, changes, attack, rate, json)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidArgumentError(option, text, "numbers with commas between") from error


def _changes(texts: list[str]) -> dict[str, Any]:
    """NAME=NUMBER or NAME=NUMBER,NUMBER,… as a number or several by name."""
    changes: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name in changes:
            raise InvalidArgumentError("--change", text, "NAME=NUMBER, each name once")
        numbers = _numbers(f"--change {name}", value)
        changes[name] = numbers if "," in value else numbers[0]
    return changes


app.command()(watch)
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
    """Adapt a trained graph neural network to a graph whose structure has shifted."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command; exit 0 when done, 2 on bad input, 1 when it is our fault."""
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
