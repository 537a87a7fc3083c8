"""What several studies use: held-out seeds, documented settings, source models, records."""

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import matcha_gnn as mg
from matcha_gnn.gamma.models import BACKBONES
from matcha_gnn.io.files import existing_file
from matcha_paper.datasets import Domains, syn_cora
from matcha_paper.experiments import Experiment, load
from matcha_paper.experiments.source_models import train_source
from matcha_paper.experiments.spec import Cell, RowSpec, source_model

HELD_OUT = (10, 11)
"""Training seeds that no table uses."""
FIVE = "-five"
"""How columns end whose seeds each draw graphs of their own, beside the published graphs."""
DEPTHS = {"gprgnn": 9, "appnp": 9, "jknet": 2, "gcnii": 4}
"""Architectures on Syn-Cora, and K of each."""
GTRANS: dict[str, dict[str, Any]] = {
    "script": {},
    "twitch-e": {"lr_feat": 1e-5, "lr_adj": 0.01, "epochs": 10, "ratio": 0.05},
    "cora": {"lr_feat": 1e-5, "lr_adj": 0.5, "epochs": 5, "ratio": 0.005},
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


def source_of(model: mg.Backbone) -> mg.SourceSummary:
    """The source summary of a model that `fit` trained."""
    assert model.source is not None, "fit makes one"
    summary: mg.SourceSummary = model.source
    return summary


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
def published_syn_cora(run: int) -> Domains:
    """Syn-Cora with the training nodes of the published runs, as in the tables."""
    return syn_cora(run=run, split="released")


def syn_cora_model(backbone: str, run: int, seed: int, **options: float) -> mg.Backbone:
    """A source model of Syn-Cora, trained as in the tables; options are of the architecture."""
    source = published_syn_cora(run).source
    build: Any = BACKBONES[backbone]
    sizes = {"hidden_channels": 32, "K": DEPTHS[backbone]}
    model: mg.Backbone = build(source.num_features, 5, **sizes, **options)
    mg.fit(model, source, epochs=500, lr=0.01, weight_decay=5e-4, holdout=0, seed=seed)
    return model.frozen()


def held_out_table(name: str) -> Experiment:
    """A table whose held-out seeds have graphs of their own, by the columns' published names.

    Columns of the group "five graphs" stand in for those of the published graphs, which all seeds
    share. Where a table has no such group, as on Syn-Cora and Twitch-E, held-out seeds differ in
    training alone and share the evaluated graph.
    """
    table = load(name)
    five = {column.removesuffix(FIVE): column for column in table.columns if column.endswith(FIVE)}
    columns = {c: replace(table.columns[five.get(c, c)], group="") for c in table.columns}
    columns = {c: spec for c, spec in columns.items() if not c.endswith(FIVE)}
    rows = {row: _renamed(spec, five) for row, spec in table.rows.items()}
    return replace(table, columns=columns, rows=rows)


def _renamed(row: RowSpec, five: dict[str, str]) -> RowSpec:
    """The row with the settings of the columns that stand in."""
    only = {c: s for c, s in row.only.items() if c not in five and not c.endswith(FIVE)}
    only |= {c: row.only[other] for c, other in five.items() if other in row.only}
    return replace(row, only=only)


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
