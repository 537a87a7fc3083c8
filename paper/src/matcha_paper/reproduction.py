"""What `matcha reproduce` does: run tables and figures of the paper, and show them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.markup import escape

from matcha_gnn.cli import console
from matcha_gnn.cli.networks import usable_device
from matcha_gnn.errors import InvalidArgumentError, InvalidFileError
from matcha_gnn.io.files import output_folder
from matcha_gnn.registry import resolve
from matcha_paper import experiments
from matcha_paper.experiments.run import all_of
from matcha_paper.experiments.spec import quick as quick_version
from matcha_paper.experiments.store import default_folder
from matcha_paper.figures import FIGURES, Effort, csv_of, drawn, read_rows, reproduced
from matcha_paper.figures.settings import run_tables
from matcha_paper.pages import write_experiment_page
from matcha_paper.tables import comparison_tables, summary_line

ALL = "all"
QUICK_FOLDER = "quick"
MOST_ROWS = 60
"""Rows of a figure that are printed; a picture has thousands."""


def titles() -> dict[str, str]:
    """Every name that can be reproduced, tables first, with one line about it."""
    tables = {name: experiments.load(name).title for name in experiments.names()}
    return tables | {name: figure.title for name, figure in FIGURES.items()}


def list_titles(json: bool) -> None:
    """Print every name."""
    known = titles()
    if json:
        console.print_json(known)
    else:
        rows = [*known.items(), (ALL, "All of the above")]
        console.print_rows("matcha reproduce NAME", ["name", "what"], rows)


def list_stale(name: str | None, *, quick: bool, results: Path | None, json: bool) -> None:
    """Print which records of a table, or of all, are stale, and why."""
    tables = {each: each for each in experiments.names()}
    chosen = list(tables) if name in (None, ALL) else [resolve("name", str(name), tables)]
    found = experiments.stale(chosen, _records_in(results, quick))
    if json:
        console.print_json([each.as_dict() for each in found])
        return
    header = ["table", "row", "column", "seeds", "why", "algorithm", "recorded", "present"]
    if found:
        console.print_rows("Stale records", header, [_stale_row(s) for s in found])
        count = sum(len(each.seeds) for each in found)
        console.out.print(f"{count:,} records are stale.")


def _stale_row(stale: experiments.Stale) -> list[str]:
    seeds = ", ".join(map(str, stale.seeds))
    why = ", ".join(stale.why)
    places = [stale.name, stale.row, stale.column, seeds, why, stale.algorithm]
    versions = (stale.version_recorded, stale.version_present)
    return [*map(escape, places), *("unknown" if v is None else str(v) for v in versions)]


def _records_in(results: Path | None, quick: bool) -> Path:
    return results or (default_folder() / QUICK_FOLDER if quick else default_folder())


def reproduce(
    name: str,
    *,
    show: bool,
    quick: bool,
    seeds: int | None,
    jobs: int | None,
    device: str,
    results: Path | None,
    output: Path | None,
    json: bool,
) -> None:
    """Run a table, a figure or all of them, or only show what is recorded."""
    known = titles()
    chosen = list(known) if name == ALL else [resolve("name", name, {n: n for n in known})]
    if seeds is not None and seeds < 1:
        raise InvalidArgumentError("--seeds", seeds, "an integer >= 1")
    count = seeds or (1 if quick else 5)
    folder = _records_in(results, quick)
    on = str(usable_device(device))
    # Where a cell takes a second, starting other processes would take longer than the cells.
    jobs = jobs or (1 if quick else None)
    effort = Effort(tuple(range(count)), quick, on, jobs, folder)
    pages = output_folder(output) if output else None if show else folder
    documents: dict[str, Any] = {}
    failed = None if show else _run_tables(chosen, effort, json)
    missing = [failed] if failed else []
    for each in chosen:
        try:
            if each in FIGURES and not show:
                _measure(each, effort, json)
            documents[each] = _figure(each, effort, json) or _table(each, effort, json, pages)
        except InvalidFileError as nothing:
            if each in FIGURES or not failed:
                missing.append(nothing)
    if json and documents:
        console.print_json(documents if name == ALL else documents[name])
    if missing:
        raise all_of(missing)


def _run_tables(chosen: list[str], effort: Effort, quiet: bool) -> InvalidFileError | None:
    """Run what is missing of the tables by the same processes; the error if a data set is."""
    tables = [_experiment(name, effort) for name in experiments.names() if name in chosen]
    with console.progress_bar("tables:", quiet=quiet) as progress:
        try:
            run_tables(tables, replace(effort, progress=progress))
        except InvalidFileError as error:
            return error
    return None


def _measure(name: str, effort: Effort, quiet: bool) -> None:
    with console.progress_bar(f"{name}:", quiet=quiet) as progress:
        reproduced(name, replace(effort, progress=progress))


def _experiment(name: str, effort: Effort) -> experiments.Experiment:
    experiment = experiments.load(name)
    return quick_version(experiment) if effort.quick else experiment


def _table(name: str, effort: Effort, json: bool, pages: Path | None) -> list[dict[str, Any]]:
    """The cells of a table, printed unless they are wanted as JSON, and its page."""
    experiment = _experiment(name, effort)
    cells = experiments.compare(experiment, effort.results)
    if not json:
        for table in comparison_tables(experiment, cells):
            console.out.print(table)
        console.out.print(summary_line(experiment, cells))
    if pages:
        page = pages / f"{name}.html"
        write_experiment_page(experiment, cells, effort.results, page)
        if not json:
            console.out.print(f"Look at {page}")
    return [cell.as_dict() for cell in cells]


def _figure(name: str, effort: Effort, json: bool) -> list[dict[str, Any]]:
    """The numbers of a figure, printed with its files unless they are wanted as JSON."""
    if name not in FIGURES:
        return []
    if not csv_of(name, effort.results).is_file():
        got = f"{csv_of(name, effort.results)} (nothing there)"
        raise InvalidFileError("results", got, f"numbers; make them with: matcha reproduce {name}")
    rows = read_rows(csv_of(name, effort.results))
    if not json:
        if len(rows) <= MOST_ROWS:
            texts = [[_text(value) for value in row.values()] for row in rows]
            console.print_rows(FIGURES[name].title, list(rows[0]), texts)
        console.out.print("  ".join(str(path) for path in drawn(name, effort.results)))
    return rows


def _text(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
