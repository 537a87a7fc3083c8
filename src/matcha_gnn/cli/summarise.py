"""The command `matcha summarise`."""

from pathlib import Path
from typing import Annotated

import typer

from matcha_gnn.cli import options


def summarise(
    files: options.ModelAndGraph,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write, such as source.safetensors.")
    ],
    network: options.Network = None,
    weights: options.Weights = None,
    probs: options.Probs = None,
    logits: options.Logits = False,
    trained: Annotated[
        Path | None,
        typer.Option(
            help="The nodes that the model was trained on, a mask or indices in a .npy file; "
            "default: train_mask of the graph, else all that have a label."
        ),
    ] = None,
    device: options.Device = "cpu",
    json: options.Json = False,
) -> None:
    """Summarise the labelled graph that a model was trained on: a few kilobytes, no rows of data.

    `matcha adapt` and `matcha estimate` take the file as --source.
    """
    import matcha_gnn as mg
    from matcha_gnn.cli import console
    from matcha_gnn.cli.networks import given_model, usable_device
    from matcha_gnn.errors import InvalidFileError
    from matcha_gnn.io.files import require_writable
    from matcha_gnn.io.probabilities import read_nodes

    model_file, graph_file = options.model_and_graph(files)
    if output.suffix != ".safetensors":
        raise InvalidFileError("output", output, "a file named .safetensors")
    require_writable(output)
    on = usable_device(device)
    model = given_model(model_file, network, weights, probs, logits).to(on)
    data = mg.read_graph(graph_file, further=network is not None).to(on)
    nodes = None if trained is None else read_nodes(trained)
    if not json:
        console.say(f"measuring on {data.num_nodes:,} nodes …")
    summary = mg.summarise_source(model, data, nodes)
    summary.save(output)
    if json:
        console.print_json(
            {
                "source": str(output),
                "classes": len(summary.class_prior),
                "accuracy": float(summary.accuracy),
                "measured_on": summary.basis,
                "homophily": summary.edge_homophily,
                "mean_degree": float(summary.mean_degree),
            }
        )
    else:
        console.out.print(f"{output}: {summary!r}", soft_wrap=True)
