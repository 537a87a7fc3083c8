"""The command `matcha demo`."""

from pathlib import Path
from typing import Annotated

import typer

from matcha_gnn.cli import options
from matcha_gnn.errors import InvalidArgumentError

FOLDER = Path("matcha-demo")
NETWORK = '''"""A plain PyG network, as you have one."""

from torch_geometric.nn import GCN


def net():
    return GCN(32, 32, num_layers=2, out_channels=2)
'''
NEXT = """\
matcha estimate target.npz {net} --source source.safetensors
matcha adapt target.npz -o out {net} --source source.safetensors --ask 20
matcha answer out answers.csv
matcha adapt out/answer.safetensors target.npz -o again --network network:net
matcha summarise source.npz -o probs.safetensors --probs probs-source.npy
matcha adapt target.npz -o out-probs --probs probs-target.npy --source probs.safetensors
""".format(net="--network network:net --weights weights.pt")
"""What the files are for; answers.csv is what a person saves on out/questions.html."""


def demo(
    context: typer.Context,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help=f"Folder to write; default: {FOLDER}.")
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option(
            help="Write two graphs, a network, its weights and its probabilities to this folder "
            "instead, to try the other commands on."
        ),
    ] = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Train a GCN, meet a shifted graph, adapt.

    The network is trained where 80% of edges join alike nodes and adapted to a graph where 20% do;
    a table and a page show what it did.
    """

    def tell(line: str) -> None:
        if not json:
            typer.echo(line, err=True)

    # Before the imports, which take seconds.
    tell("loading PyTorch …")
    import numpy as np
    import torch
    from torch_geometric.nn import GCN

    import matcha_gnn as mg
    from matcha_gnn.cli import console
    from matcha_gnn.cli.output import print_run, require_free
    from matcha_gnn.cli.outputs import RUN_FILES, can_report, write_outputs
    from matcha_gnn.io.files import output_folder, replacing

    if files is not None and output is not None:
        raise InvalidArgumentError("--output", output, "none beside --files")
    folder = files or output or FOLDER
    marked = (folder / "source.safetensors").exists() and (folder / "summary.json").exists()
    require_free(folder, force, {"source.safetensors", *RUN_FILES} if marked else ())
    output_folder(folder)
    tell("drawing two graphs …")
    source = mg.datasets.csbm(num_nodes=2000, num_features=32, homophily=0.8, seed=2 * seed)
    target = mg.datasets.csbm(num_nodes=2000, num_features=32, homophily=0.2, seed=2 * seed + 1)
    source.train_mask = torch.arange(2000) % 2 == 0
    tell("training on the first, where 80% of edges join alike nodes …")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = GCN(32, 32, num_layers=2, out_channels=2)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(100):
            optimizer.zero_grad()
            out = net(source.x, source.edge_index)[source.train_mask]
            loss = torch.nn.functional.cross_entropy(out, source.y[source.train_mask])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    net.eval()
    tell("measuring how right it is there …")
    summary = mg.summarise_source(net, source)
    summary.save(folder / "source.safetensors")
    if files is not None:
        mg.write_graph(source, folder / "source.npz")
        mg.write_graph(target, folder / "target.npz")
        (folder / "network.py").write_text(NETWORK, "utf-8")
        with replacing(folder / "weights.pt") as beside:
            torch.save(net.state_dict(), beside)
        for name, graph in {"source": source, "target": target}.items():
            with torch.no_grad():
                probs = net(graph.x, graph.edge_index).softmax(1)
            np.save(folder / f"probs-{name}.npy", probs.numpy())
        if json:
            console.print_json({"folder": str(folder), "next": NEXT.splitlines()})
        else:
            console.out.print(f"Try in {folder}:\n{NEXT}", soft_wrap=True, highlight=False)
        return
    tell("adapting to the second, where 20% do …")
    result = mg.adapt(net, target, source=summary)
    page = can_report(console.say)
    written = write_outputs(result, folder, target, command=context.obj, page=page)
    if json:
        console.print_json(written)
        return
    console.out.print(
        "A GCN trained where 80% of edges join alike nodes meets a graph where 20% do. It is "
        "adapted without labels; those of that graph are used for the row of accuracy alone."
    )
    print_run(written, folder, page)
