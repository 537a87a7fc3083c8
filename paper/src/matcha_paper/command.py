"""`matcha reproduce`, an entry point of the group `matcha_gnn.commands`."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="all, or see --list.")] = None,
    list_names: Annotated[
        bool, typer.Option("--list", help="Name what can be reproduced.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Run nothing: print the records.")] = False,
    stale: Annotated[
        bool,
        typer.Option("--stale", help="Run nothing: list records that would be made otherwise now."),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed, small graphs: a look, not a result.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="Use seeds 0 to N - 1.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; default one per core.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:0, …")] = "cpu",
    results: Annotated[Path | None, typer.Option(help="Folder of records.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder of pages; default: that of the records."),
    ] = None,
    json: Json = False,
) -> None:
    """Run a table or figure of the paper.

    Prints ours beside the published numbers and writes tables as a page.
    """
    from matcha_paper import reproduction

    if stale and not list_names:
        reproduction.list_stale(name, quick=quick, results=results, json=json)
        return
    if list_names or name is None:
        reproduction.list_titles(json)
        return
    reproduction.reproduce(
        name,
        show=show,
        quick=quick,
        seeds=seeds,
        jobs=jobs,
        device=device,
        results=results,
        output=output,
        json=json,
    )
