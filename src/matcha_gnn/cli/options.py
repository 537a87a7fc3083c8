"""Arguments and options that several commands share, and the names that their help lists."""

import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from matcha_gnn.errors import InvalidArgumentError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
GraphFile = Annotated[Path, typer.Argument(metavar="GRAPH", help="A .npz or .pt graph file.")]
ModelAndGraph = Annotated[
    list[Path],
    typer.Argument(
        metavar="[MODEL] GRAPH",
        help="A .safetensors file of a model, or of an answer with --network or --probs; and a "
        ".npz or .pt graph file.",
    ),
]
Output = Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Replace the files of an earlier run in the output folder; answers stay."
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="A class or function of your own, without arguments, that makes the network.",
    ),
]
Weights = Annotated[
    Path | None, typer.Option(help="With --network: its state dict, saved with torch.save.")
]
Probs = Annotated[
    Path | None,
    typer.Option(
        help="In place of a network: its class probabilities, a row for each node, as .npy, .npz, "
        ".csv or .parquet."
    ),
]
Logits = Annotated[
    bool, typer.Option("--logits", help="With --probs: the numbers are logits instead.")
]
SourceFile = Annotated[
    Path | None, typer.Option(help="The source summary that matcha summarise wrote.")
]
Classes = Annotated[
    str | None, typer.Option(help="Names of the classes in their order: licit,fraud.")
]
MetricName = Annotated[
    str,
    typer.Option(
        help="What is to be high: accuracy, balanced_accuracy, macro_f1, f1, average_precision."
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        help="The class that f1 and average_precision are of, by number or name; default: the "
        "rarer of two on the source."
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:0, …")]
OnGraph = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[MODEL] GRAPH",
        help="A .safetensors file of a model, or of an answer with --network or --probs; and a "
        ".npz or .pt graph file. None with --nodes and --edges.",
    ),
]
Nodes = Annotated[
    str | None,
    typer.Option(
        help="In place of a graph file: the table of its nodes, with columns id, x and probs, as "
        "Parquet or CSV; a folder or a pattern of names will do."
    ),
]
Edges = Annotated[
    str | None, typer.Option(help="With --nodes: the table of edges, with columns src and dst.")
]
Memory = Annotated[
    str | None, typer.Option(help="With --nodes: the most that may be resident; default 2GB.")
]
Undirected = Annotated[
    bool, typer.Option("--undirected", help="With --nodes: an edge stands for both directions.")
]
IdColumn = Annotated[
    str | None, typer.Option("--id", help="With --nodes: the column of ids; default id.")
]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="With --nodes: the column of features, or several with commas between; default x.",
    ),
]
Table = Annotated[
    Path | None,
    typer.Option(help="With --ask: a CSV file with a line for each node, to show with it."),
]


def needed(name: str, path: Path | None) -> Path:
    """An option that must be given here."""
    if path is None:
        raise InvalidArgumentError(name, "none", "a file")
    return path


def in_tables(
    files: list[Path] | None, nodes: str | None, edges: str | None, **others: object
) -> bool:
    """Whether the graph is in tables; refuses what does not go with them.

    Args:
        files: what stands for a graph file.
        nodes: as --nodes says.
        edges: as --edges says.
        others: further options by name, which need the graph in memory.
    """
    if nodes is None and edges is None:
        return False
    if nodes is None or edges is None:
        raise InvalidArgumentError("--nodes, --edges", "one of them", "both, or a graph file")
    if files:
        raise InvalidArgumentError("GRAPH", files[0], "none beside --nodes and --edges")
    for name, value in others.items():
        if value:
            raise InvalidArgumentError(f"--{name}", value, "none with --nodes and --edges")
    return True


def need_tables(**given: object) -> None:
    """Refuse options by name that a graph file has no use for."""
    for name, value in given.items():
        if value:
            raise InvalidArgumentError(f"--{name}", value, "none without --nodes and --edges")


def unless(value: str, default: str) -> str | None:
    """None where an option is left at its default."""
    return None if value == default else value


def model_and_graph(files: list[Path] | None) -> tuple[Path | None, Path]:
    """A model file, which may be left out, and a graph file; told apart in either order.

    Example:
        >>> [str(path) for path in model_and_graph([Path("g.npz"), Path("m.safetensors")])]
        ['m.safetensors', 'g.npz']
    """
    if not files:
        raise InvalidArgumentError("GRAPH", "none", "a graph file, or --nodes and --edges")
    if len(files) > 2:
        raise InvalidArgumentError("arguments", f"{len(files)} files", "MODEL GRAPH, or GRAPH")
    if len(files) == 1:
        return None, files[0]
    first, second = files
    swapped = second.suffix == ".safetensors" and first.suffix != ".safetensors"
    return (second, first) if swapped else (first, second)


def names_in(classes: str | None) -> list[str] | None:
    """What --classes says."""
    return None if classes is None else classes.split(",")


def names_of(kind: str) -> str:
    """The methods, strategies or losses of this library and of installed packages.

    Read from export lines: importing them would take seconds.
    """
    package = f"matcha_gnn.gamma.{kind}"
    exports = (Path(__file__).parents[1] / "gamma" / kind / "__init__.py").read_text("utf-8")
    line = rf"^from {re.escape(package)}\.(\w+)\S* import (?!Base)(\w+) as \2$"
    own = {module for module, _ in re.findall(line, exports, re.M)} - {"base", "unadapted"}
    offered = {point.name for point in entry_points(group=f"matcha_gnn.{kind}")}
    return ", ".join(sorted(own | offered))
