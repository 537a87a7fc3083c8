"""What several studies use: held-out seeds, documented settings, source models, records."""

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import matcha_gnn as mg
from matcha_gnn.backbones import BACKBONES
from matcha_gnn.io.files import existing_file
from matcha_gnn.paper.datasets import syn_cora
from matcha_gnn.paper.experiments.source_models import train_source
from matcha_gnn.paper.experiments.spec import Cell, source_model

HELD_OUT = (10, 11)
"""Training seeds that no table uses."""
DEPTHS = {"gprgnn": 9, "appnp": 9, "jknet": 2, "gcnii": 4}
"""Architectures on Syn-Cora, and K of each."""
GTRANS: dict[str, dict[str, Any]] = {
    "script": {},
    "twitch-e": {"lr_feat": 1e-5, "lr_adj": 0.01, "epochs": 10, "ratio": 0.05},
    "cora": {"lr_feat": 1e-5, "lr_adj": 0.5, "epochs": 5, "ratio": 0.005},
    "TSA": {"lr_feat": 1e-3, "lr_adj": 0.01, "epochs": 5, "loop_feat": 1, "loop_adj": 2},
    "arxiv": {"lr_feat": 1e-3, "lr_adj": 0.1, "epochs": 5, "ratio": 0.05},
    "elliptic": {"lr_feat": 5e-3, "lr_adj": 0.5, "epochs": 10, "ratio": 0.05},
}
"""Settings of GTrans that are documented: of the released script, and tuned by authors."""


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help shows the module's docstring as it is written."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def run_study(main: Callable[[], None]) -> None:
    """Run a study; what the library refuses, such as missing data files, ends it in one line."""
    try:
        main()
    except mg.MatchaError as error:
        sys.exit(str(error))


def show_record(
    parser: argparse.ArgumentParser, path: Path | None, show: Callable[[list[Any]], None]
) -> None:
    """Show the runs of a record; without a file it is wrong usage."""
    if path is None:
        parser.error("show needs the FILE of a record")
    show(json.loads(existing_file(path, "file").read_text())["runs"])


def read_record(path: Path) -> dict[str, Any]:
    """The record of an earlier run, or an empty one."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


@cache
def syn_cora_model(backbone: str, run: int, seed: int, **options: float) -> mg.Backbone:
    """A source model of Syn-Cora, trained as in the tables."""
    source = syn_cora(run=run).source
    build: Any = BACKBONES[backbone]
    sizes = {"hidden_channels": 32, "K": DEPTHS[backbone]}
    model: mg.Backbone = build(source.num_features, 5, **sizes, **options)
    mg.fit(model, source, epochs=500, lr=0.01, weight_decay=5e-4, seed=seed)
    return model.frozen()


def with_models(
    cells: Iterable[Cell], device: str = "cpu", methods: Collection[str] = ()
) -> Iterator[tuple[Cell, mg.Backbone]]:
    """Cells with their source models; neighbours that share one share its training.

    Args:
        cells: to go through.
        device: where to train.
        methods: those whose arrays of the source the model gets.
    """
    for _, group in groupby(cells, key=source_model):
        first, *others = group
        model = train_source(first, device, methods)
        yield from ((cell, model) for cell in (first, *others))
