"""Write the tables of the documents anew from the committed records.

A table stands between `<!-- NAME -->` and `<!-- /NAME -->`; `<!-- NAME: ERM, Tent -->` shows the
rows of these base methods only, `<!-- NAME summary: Matcha -->` counts the rows of that name, and
`<!-- NAME gains -->` sets rows against the rows they are based on.
`<!-- choosing -->` is the decision table of the base methods, `<!-- default -->` sets the default
beside the published rows of Table 1, `<!-- ask: FILE#generated -->` a part of a record of the
study of questions (`FILE#real` the other), `<!-- evidence: FILE -->` one of the evidence study,
`<!-- networks: FILE -->` one of the study of networks of others,
`<!-- cost: FILE -->` shows one of what a round costs, `<!-- overall -->` counts all tables,
`<!-- overview -->` has a line for each with its page, and `<!-- conclusions -->` sets the paper's
conclusions beside the records. One picture shows all cells, ours over the published.

Run in a checkout: python -m matcha_paper.documents
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from matcha_gnn.io.files import existing_file, replacing
from matcha_paper.conclusions import (
    accuracies,
    conclusions,
    overall_line,
    overview_table,
    published_tables,
)
from matcha_paper.experiments import compare, load
from matcha_paper.experiments.spec import groups, names, published
from matcha_paper.pages import ours_against_paper
from matcha_paper.studies import ask, networks
from matcha_paper.tables import gain_table, markdown_table, summary_line

DOCUMENTS = (
    "README.md",
    "paper/docs/results.md",
    *(f"paper/docs/results/{name}.md" for name in (*published_tables(), "cost")),
    "paper/docs/choosing.md",
    "paper/docs/research/questions.md",
    "paper/docs/research/networks.md",
)
PICTURE = "paper/docs/pictures/ours-against-paper.svg"
KINDS = ("structure shift", "structure and attribute shift")
VARIANTS = ("", " + Matcha", " + SURE", " + ours")


def refreshed(text: str, results: Path) -> str:
    """The document with every table between its markers replaced.

    Args:
        text: Markdown.
        results: the folder of records.
    """
    for name in names():
        opening = rf"(<!-- {name}( summary| gains)?(?:: ([^>]*?))? -->\n).*?(<!-- /{name} -->)"
        markers = re.compile(opening, re.DOTALL)
        text = markers.sub(partial(_filled, name, results), text)
    for kind, made in MADE.items():
        markers = re.compile(rf"(<!-- {kind}(?:: (\S+))? -->\n).*?(<!-- /{kind} -->)", re.DOTALL)
        text = markers.sub(partial(_between, made, results), text)
    return text


def _between(made: Callable[..., str], results: Path, found: re.Match[str]) -> str:
    opening, file, closing = found.groups()
    return f"{opening}{made(results, file) if file else made(results)}\n{closing}"


def networks_table(results: Path, name: str) -> str:
    """What `studies.networks show` says of every network and world."""
    return networks.table(_record(results / name)["runs"])


def ask_table(results: Path, name: str) -> str:
    """What `studies.ask show` says of a kind of graphs."""
    file, _, kind = name.partition("#")
    return ask.table(ask.kinds(_record(results / file)["runs"])[kind])


def _record(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(existing_file(path, "record").read_text())
    return found


def cost_table(results: Path, name: str) -> str:
    """Rounds, and steps that a method takes by itself, beside our inference and PyG's."""
    record = _record(results / name)
    sizes, paper = record["sizes"], record["published_share_of_inference"]
    head = ["", *(f"{s['nodes']:,} nodes: of our inference, of PyG's" for s in sizes), "paper"]
    times = [f"{s['inference_ms']:.1f} ms, {s['pyg_inference_ms']:.1f} ms" for s in sizes]
    rows = [head, ["---"] * len(head), ["one inference", *times, ""]]
    for method, stages in sizes[0]["share_of_inference"].items():
        for stage in (s for s in ("round", "own step") if s in stages):
            name = f"{method} + Matcha, a round" if stage == "round" else f"{method}, a step"
            known = paper.get(method if stage == "round" else f"{method} step")
            texts = [_shares(size, method, stage) for size in sizes]
            rows.append([name, *texts, f"{known:.1%}" if known else ""])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _shares(size: dict[str, Any], method: str, stage: str) -> str:
    """Of one inference of ours, and of one by PyG."""
    share = size["share_of_inference"].get(method, {}).get(stage)
    if share is None:
        return "·"
    of_pyg = share * size["inference_ms"] / size["pyg_inference_ms"]
    return f"{share:.1%}, {of_pyg:.1%}"


def picture_of_all(results: Path) -> str:
    """Every cell with a published number, as SVG."""
    every = [cell for name in published_tables() for cell in accuracies(name, results)]
    return ours_against_paper([c for c in every if c.paper_mean is not None]).svg


def default_line(results: Path) -> str:
    """How the rows "+ ours" of Table 1 stand to the published rows "+ Matcha"."""
    paper = published("table1")
    gaps = {
        (cell.row, cell.column): cell.ours_mean - float(paper[_as_matcha(cell.row)][cell.column][0])
        for cell in compare(load("table1"), results)
        if cell.row.endswith(" + ours") and cell.column in paper["ERM"]
    }
    missed = [f"{row} on {column} ({gap:+.2f})" for (row, column), gap in gaps.items() if gap < -1]
    return (
        f"{len(gaps)} cells: {sum(g >= 0 for g in gaps.values())} at or above the published "
        f"number, {len(gaps) - len(missed)} at or above it minus one point. "
        f"Below: {', '.join(missed) or 'none'}."
    )


def _as_matcha(row: str) -> str:
    return row.replace(" + ours", " + Matcha")


def choosing_table(results: Path) -> str:
    """Means over the columns of Table 1 without and with attribute shift, and the cost."""
    experiment = load("table1")
    cells = compare(experiment, results)
    by_place = {(cell.row, cell.column): cell.ours_mean for cell in cells}
    cost = _record(results / "bench-time.json")["sizes"][0]["share_of_inference"]
    column_kinds = [
        [column for column in groups(experiment)[""] if column.startswith("attr") is attributes]
        for attributes in (False, True)
    ]
    head = ["base method"] + [f"{kind}: alone, + Matcha, + SURE, + ours" for kind in KINDS]
    head += ["once", "a round"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for method in dict.fromkeys(row.split(" + ")[0] for row in experiment.rows):
        rows = [method + variant for variant in VARIANTS]
        texts = [
            ", ".join(_mean_over(by_place, row, kind) for row in rows) for kind in column_kinds
        ]
        texts += [f"{cost[method][stage]:.0%}" for stage in ("prepare", "round")]
        lines.append(f"| {method} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _mean_over(by_place: dict[tuple[str, str], float], row: str, columns: list[str]) -> str:
    """The mean over columns; a dot while some are not recorded."""
    found = [by_place[row, column] for column in columns if (row, column) in by_place]
    return f"{mean(found):.1f}" if len(found) == len(columns) else "·"


def _filled(name: str, results: Path, found: re.Match[str]) -> str:
    opening, kind, wanted, closing = found.groups()
    experiment = load(name)
    cells = compare(experiment, results)
    if kind == " gains":
        body = gain_table(experiment, cells)
    elif kind:
        body = summary_line(experiment, [c for c in cells if not wanted or wanted in c.row])
    else:
        body = markdown_table(experiment, cells, wanted.split(", ") if wanted else ())
    return f"{opening}{body}\n{closing}"


MADE: dict[str, Callable[..., str]] = {
    "choosing": choosing_table,
    "ask": ask_table,
    "networks": networks_table,
    "cost": cost_table,
    "default": default_line,
    "overall": overall_line,
    "overview": overview_table,
    "conclusions": conclusions,
}


def main() -> None:
    """Write every document of the checkout in the working directory anew."""
    for document in DOCUMENTS:
        text = existing_file(document, "document").read_text()
        with replacing(document) as beside:
            beside.write_text(refreshed(text, Path("results")))
    with replacing(PICTURE) as beside:
        beside.write_text(picture_of_all(Path("results")))


if __name__ == "__main__":
    main()
