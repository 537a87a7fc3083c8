"""`matcha reproduce`, `train` and `attack`: entry points of the group `matcha_gnn.commands`."""

from pathlib import Path
from typing import Annotated

import typer

from matcha_gnn.cli.options import GraphFile, Json, Seed


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


def train(
    graph: GraphFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="Model file to write.")],
    backbone: Annotated[str, typer.Option(help="gprgnn, appnp, jknet or gcnii.")] = "gprgnn",
    hops: Annotated[
        int | None, typer.Option(help="Hops or layers K; default: 9, jknet 2, gcnii 4.")
    ] = None,
    hidden: Annotated[int, typer.Option(help="Width of the representation.")] = 32,
    epochs: Annotated[int, typer.Option(help="Full-batch steps.")] = 500,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Store what a base method needs of the source: adanpc, graphpatcher."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train a model with hop weights on a labelled graph, by the paper's recipe.

    Nodes of train_mask are trained on, or else all that have a label.
    """
    import matcha_gnn as mg
    from matcha_gnn.cli import console
    from matcha_gnn.errors import InvalidFileError
    from matcha_gnn.gamma.methods import METHODS
    from matcha_gnn.gamma.models import resolve_backbone
    from matcha_gnn.io.files import require_writable
    from matcha_gnn.registry import METHOD_GROUP, build, resolve_installed

    architecture = resolve_backbone("--backbone", backbone)
    methods = [
        resolve_installed("--method", name, METHODS, METHOD_GROUP)() for name in method or []
    ]
    if output.suffix != ".safetensors":
        raise InvalidFileError("output", output, "a file named .safetensors")
    require_writable(output)
    data = mg.read_graph(graph, further=False)
    if data.y is None:
        raise InvalidFileError("graph", f"{graph} (no array y)", "a graph with labels y")
    sizes = {"in_channels": data.num_features, "out_channels": int(data.y.max()) + 1}
    sizes |= {"hidden_channels": hidden} | ({} if hops is None else {"K": hops})
    model = build("--backbone", architecture, sizes)
    training = mg.fit(model, data, epochs=epochs, methods=methods, seed=seed)
    mg.save_model(model, output)
    if json:
        console.print_json({"model": str(output), "train_accuracy": training.train_accuracy})
    else:
        console.out.print(f"{output}: accuracy {training.train_accuracy:.1%} on its training nodes")


def attack(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")],
    graph: GraphFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .npz or .pt file to write.")],
    rate: Annotated[float, typer.Option(help="Share of edges that are flipped.")] = 0.2,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Flip the edges of a labelled graph that lower a model's accuracy most."""
    import matcha_gnn as mg
    from matcha_gnn.cli import console
    from matcha_gnn.io.files import require_writable
    from matcha_paper.attack import attacked

    require_writable(output)
    hurt = attacked(mg.load_model(model), mg.read_graph(graph), rate, seed=seed)
    mg.write_graph(hurt, output)
    if json:
        console.print_json({"graph": str(output), "edges": hurt.num_edges})
    else:
        console.out.print(f"{output}: {hurt.num_nodes:,} nodes, {hurt.num_edges:,} directed edges")
