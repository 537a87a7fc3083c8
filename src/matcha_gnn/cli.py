"""The command `matcha`: parse, call, print. Heavy imports wait until a command runs."""

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from matcha_gnn.errors import InvalidArgumentError, MatchaError

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

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Seed = Annotated[int, typer.Option(help="Everything random follows from it.")]
GraphFile = Annotated[Path, typer.Argument(metavar="GRAPH", help="A .npz or .pt graph file.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A .safetensors model file.")]


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")] = Path(
        "matcha-demo"
    ),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train on one graph, adapt to one of opposite homophily, and show what it did."""
    from matcha_gnn import commands

    commands.demo(output, seed, json)


@app.command()
def train(
    graph: GraphFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="Model file to write.")],
    backbone: Annotated[str, typer.Option(help="gprgnn, appnp, jknet or gcnii.")] = "gprgnn",
    hops: Annotated[
        int | None, typer.Option(help="Hops or layers K; default: 9, jknet 2, gcnii 4.")
    ] = None,
    hidden: Annotated[int, typer.Option(help="Width of the representation.")] = 32,
    epochs: Annotated[int, typer.Option(help="Full-batch steps.")] = 500,
    train_fraction: Annotated[
        float | None,
        typer.Option(help="Share of each class to train on; default: train_mask, else all."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train a source model on a labelled graph."""
    from matcha_gnn import commands

    commands.train(graph, output, backbone, hops, hidden, epochs, train_fraction, seed, json)


@app.command()
def adapt(
    model: ModelFile,
    graph: GraphFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")],
    method: Annotated[str, typer.Option(help="Base method: erm.")] = "erm",
    loss: Annotated[
        str, typer.Option(help="What γ minimises: pic, entropy, pseudo_label, difference.")
    ] = "pic",
    epochs: Annotated[int, typer.Option(help="Rounds; 0 only predicts.")] = 50,
    lr: Annotated[float, typer.Option(help="Step size.")] = 1.0,
    optimizer: Annotated[str, typer.Option(help="sgd or adam.")] = "sgd",
    seed: Seed = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:0, …")] = "cpu",
    json: Json = False,
) -> None:
    """Adapt a model to an unlabelled graph and write predictions, model, history and report."""
    from matcha_gnn import commands

    commands.adapt(
        model,
        graph,
        output,
        method=method,
        loss=loss,
        epochs=epochs,
        lr=lr,
        optimizer=optimizer,
        seed=seed,
        device=device,
        json=json,
    )


@app.command()
def inspect(
    graph: GraphFile,
    model: Annotated[
        Path | None, typer.Option(help="A model, to set the graph beside its source.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what a graph is; with a model, how it differs from the source graph."""
    from matcha_gnn import commands

    commands.inspect(graph, model, json)


@app.command("make-graph")
def make_graph(
    name: Annotated[str, typer.Argument(metavar="NAME", help="csbm.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .npz or .pt file to write.")],
    nodes: Annotated[int, typer.Option(help="Nodes.")] = 5000,
    features: Annotated[int, typer.Option(help="Features.")] = 2000,
    degree: Annotated[float, typer.Option(help="Average degree.")] = 2.5,
    homophily: Annotated[float, typer.Option(help="Share of edges inside a class.")] = 0.8,
    signal: Annotated[float, typer.Option(help="Norm of a class centre over the noise.")] = 1.34,
    shift: Annotated[float, typer.Option(help="Displacement of all centres, likewise.")] = 0.0,
    shares: Annotated[str, typer.Option(help="Class shares, e.g. 0.1,0.3,0.6.")] = "0.5,0.5",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Write a graph to train on or adapt to."""
    from matcha_gnn import commands

    settings = {"num_nodes": nodes, "num_features": features, "degree": degree}
    settings |= {"homophily": homophily, "signal": signal, "shift": shift, "seed": seed}
    commands.make_graph(name, output, settings | {"shares": _numbers(shares)}, json)


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="See --list.")] = None,
    list_names: Annotated[
        bool, typer.Option("--list", help="Name what can be reproduced.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Run nothing: print the records.")] = False,
    seeds: Annotated[int | None, typer.Option(help="Use seeds 0 to N - 1.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; default one per core.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:0, …")] = "cpu",
    results: Annotated[Path | None, typer.Option(help="Folder of records.")] = None,
    json: Json = False,
) -> None:
    """Run a table or figure of the paper and print ours beside the published numbers."""
    from matcha_gnn import commands

    commands.reproduce(name, list_names, show, seeds, jobs, device, results, json)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidArgumentError("--shares", text, "numbers with commas between") from error


def _version(value: bool) -> None:
    if value:
        from matcha_gnn import __version__

        typer.echo(f"matcha {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and stop.")
    ] = False,
) -> None:
    """Adapt a trained graph neural network to a graph whose structure has shifted."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command; exit 0 when done, 2 on bad input, 1 when it is our fault."""
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> Any:
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return app(args=arguments or ["--help"], standalone_mode=False) or 0
    except CommandLineError as error:
        typer.echo(f"matcha: {error.format_message()}", err=True)
        return 2
    except typer.Abort:
        typer.echo("matcha: interrupted", err=True)
        return 1
    except MatchaError as error:
        typer.echo(f"matcha: {error}", err=True)
        return 2
