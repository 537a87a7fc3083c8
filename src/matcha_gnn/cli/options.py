"""Options and arguments that several commands share, and the names that their help lists."""

import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
GraphFile = Annotated[Path, typer.Argument(metavar="GRAPH", help="A .npz or .pt graph file.")]
ModelAndGraph = Annotated[
    list[Path],
    typer.Argument(
        metavar="[MODEL] GRAPH",
        help="A .safetensors model file, unless --network; and a .npz or .pt graph file.",
    ),
]
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
        help="In place of MODEL: a class or function of your own that makes the network.",
    ),
]
Weights = Annotated[
    Path | None, typer.Option(help="With --network: its state dict, saved with torch.save.")
]
SourceFile = Annotated[
    Path | None,
    typer.Option(help="The source summary that mg.summarise_source(...).save wrote."),
]
Classes = Annotated[
    str | None, typer.Option(help="Names of the classes in their order: licit,fraud.")
]
MetricName = Annotated[
    str,
    typer.Option(
        help="What candidates are compared by: accuracy, balanced_accuracy, macro_f1, f1, "
        "average_precision."
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        help="The class that f1 and average_precision are of, by number or name; default: the "
        "rarer of two on the source."
    ),
]


FOLDERS = {
    "methods": "gamma/methods",
    "strategies": "gamma/strategies",
    "backbones": "gamma/models",
    "losses": "gamma/losses",
}
"""Where packages of other names than their entry points' group are."""
BASES = ("base", "linear", "networks", "unadapted", "catalogue")
"""Modules of packages that register nothing, or have a line of their own in the help."""


def names_of(package: str) -> str:
    """What a package of this library registers, and what installed packages add.

    Read from its export lines: importing it would take seconds.
    """
    place = FOLDERS.get(package, package)
    exports = (Path(__file__).parents[1] / place / "__init__.py").read_text("utf-8")
    line = rf"^from matcha_gnn\.{place.replace('/', '.')}\.(\w+)\S* import (\w+) as \2$"
    found = re.findall(line, exports, re.M)
    own = {name if name.islower() else module for module, name in found if module not in BASES}
    offered = {point.name for point in entry_points(group=f"matcha_gnn.{package}")}
    return ", ".join(sorted(own | offered))
