"""The command `matcha watch` as it is written; heavy imports wait until it runs."""

from pathlib import Path
from typing import Annotated

import typer

from matcha_gnn.cli.options import Network, Seed, Weights, names_of
from matcha_gnn.errors import InvalidArgumentError


def watch(
    context: typer.Context,
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="[MODEL] FOLDER",
            help="A .safetensors model file, unless --network; and the folder where graph files "
            "are and will be.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")],
    source: Annotated[
        Path | None,
        typer.Option(
            help="The graph trained on, so that alarms say how often they ring by chance; for a "
            "model without one, its source summary."
        ),
    ] = None,
    network: Network = None,
    weights: Weights = None,
    level: Annotated[
        float | None, typer.Option(help="An alarm rings below this expected accuracy, 0.8.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop after the files that are there.")
    ] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks at the folder.")] = 10.0,
    fail_on_alarm: Annotated[
        bool,
        typer.Option(
            "--fail-on-alarm",
            help="With --once: exit with 3 if an alarm rings on the newest graph.",
        ),
    ] = False,
    method: Annotated[str, typer.Option(help=f"Base method: {names_of('methods')}.")] = "erm",
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the base method, such as k=20."),
    ] = None,
    strategy: Annotated[
        str, typer.Option(help=f"How a better model is sought: {names_of('strategies')}, or none.")
    ] = "guarded",
    parameter: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the strategy."),
    ] = None,
    seed: Seed = 0,
    json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each graph.")
    ] = False,
) -> None:
    """Follow a model over the graph files of a folder, as they come.

    Writes for each graph what `matcha adapt` writes, and timeline.csv, timeline.html, events.jsonl,
    and the state. Killed and started again, it goes on where it was.
    """
    from matcha_gnn.cli import watching
    from matcha_gnn.cli.commands import Job

    if len(places) > 2:
        raise InvalidArgumentError("arguments", f"{len(places)} paths", "MODEL FOLDER, or FOLDER")
    folder = places[-1]
    job = Job(
        model=places[0] if len(places) == 2 else None,
        graph=folder,
        output=output,
        method=method,
        options=option or [],
        strategy=strategy,
        parameters=parameter or [],
        seed=seed,
        device="cpu",
        json=json,
        command=context.obj,
        network=network,
        weights=weights,
    )
    order = watching.Order(folder, source, level, once, every, fail_on_alarm)
    code = watching.watch(job, order)
    if code:
        raise typer.Exit(code)
