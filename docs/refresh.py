"""Write the tables of the documents anew from the committed records.

A table stands between `<!-- NAME -->` and `<!-- /NAME -->`; `<!-- NAME: ERM, Tent -->` shows the
rows of these base methods only, `<!-- NAME summary: Matcha -->` counts the rows of that name.
`<!-- choosing -->` is the decision table of the base methods, `<!-- default -->` sets the default
beside the published rows of Table 1, `<!-- harm: FILE -->` sums up a record of the harm study
(`FILE#real` and `FILE#generated` a part of it),
`<!-- cost: FILE -->` shows one of what a round costs, `<!-- overall -->` counts all tables,
and `<!-- conclusions -->` sets the paper's conclusions beside the records.

Run: python docs/refresh.py
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean

from matcha_gnn.io.files import replacing
from matcha_gnn.paper.experiments import compare, load
from matcha_gnn.paper.experiments.spec import names, published
from matcha_gnn.paper.tables import markdown_table, summary_line

PROJECT = Path(__file__).parents[1]
sys.path += [str(PROJECT / "benchmarks"), str(PROJECT / "docs")]
import harm  # noqa: E402 (scripts, found by the line above)
from conclusions import conclusions, overall_line  # noqa: E402

DOCUMENTS = (
    PROJECT / "README.md",
    PROJECT / "docs" / "results.md",
    PROJECT / "docs" / "method.md",
    PROJECT / "docs" / "choosing.md",
    PROJECT / "docs" / "research" / "harm-study.md",
)
KINDS = ("structure shift", "structure and attribute shift")
VARIANTS = ("", " + Matcha", " + SURE", " + ours")


def refreshed(text: str) -> str:
    """The document with every table between its markers replaced."""
    for name in names():
        opening = rf"(<!-- {name}( summary)?(?:: ([^>]*?))? -->\n).*?(<!-- /{name} -->)"
        markers = re.compile(opening, re.DOTALL)
        text = markers.sub(lambda found, name=name: _filled(name, found), text)
    for kind, made in MADE.items():
        markers = re.compile(rf"(<!-- {kind}(?:: (\S+))? -->\n).*?(<!-- /{kind} -->)", re.DOTALL)
        text = markers.sub(lambda found, made=made: _between(found, made), text)
    return text


def _between(found: re.Match[str], made: Callable[..., str]) -> str:
    opening, file, closing = found.groups()
    return f"{opening}{made(file) if file else made()}\n{closing}"


def harm_table(name: str) -> str:
    """What `benchmarks/harm.py show` says of a record, or of its real or generated graphs."""
    file, _, kind = name.partition("#")
    runs = json.loads((PROJECT / "results" / file).read_text())["runs"]
    return str(harm.table(harm.kinds(runs)[kind] if kind else runs))


def cost_table(name: str) -> str:
    """Rounds, and steps that a method takes by itself, beside our inference and PyG's."""
    record = json.loads((PROJECT / "results" / name).read_text())
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


def _shares(size: dict, method: str, stage: str) -> str:
    """Of one inference of ours, and of one by PyG."""
    share = size["share_of_inference"].get(method, {}).get(stage)
    if share is None:
        return "·"
    of_pyg = share * size["inference_ms"] / size["pyg_inference_ms"]
    return f"{share:.1%}, {of_pyg:.1%}"


def default_line() -> str:
    """How the rows "+ ours" of Table 1 stand to the published rows "+ Matcha"."""
    paper = published("table1")
    gaps = {
        (cell.row, cell.column): cell.ours_mean - float(paper[_as_matcha(cell.row)][cell.column][0])
        for cell in compare(load("table1"), PROJECT / "results")
        if cell.row.endswith(" + ours")
    }
    missed = [f"{row} on {column} ({gap:+.2f})" for (row, column), gap in gaps.items() if gap < -1]
    return (
        f"{len(gaps)} cells: {sum(g >= 0 for g in gaps.values())} at or above the published "
        f"number, {len(gaps) - len(missed)} at or above it minus one point. "
        f"Below: {', '.join(missed) or 'none'}."
    )


def _as_matcha(row: str) -> str:
    return row.replace(" + ours", " + Matcha")


def choosing_table() -> str:
    """Means over the columns of Table 1 without and with attribute shift, and the cost."""
    experiment = load("table1")
    cells = compare(experiment, PROJECT / "results")
    by_place = {(cell.row, cell.column): cell.ours_mean for cell in cells}
    bench = json.loads((PROJECT / "results" / "bench-time.json").read_text())
    cost = bench["sizes"][0]["share_of_inference"]
    groups = [
        [column for column in experiment.columns if column.startswith("attr") is attributes]
        for attributes in (False, True)
    ]
    head = ["base method"] + [f"{kind}: alone, + Matcha, + SURE, + ours" for kind in KINDS]
    head += ["once", "a round"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for method in dict.fromkeys(row.split(" + ")[0] for row in experiment.rows):
        rows = [method + variant for variant in VARIANTS]
        texts = [", ".join(_mean_over(by_place, row, group) for row in rows) for group in groups]
        texts += [f"{cost[method][stage]:.0%}" for stage in ("prepare", "round")]
        lines.append(f"| {method} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _mean_over(by_place: dict[tuple[str, str], float], row: str, columns: list[str]) -> str:
    """The mean over columns; a dot while some are not recorded."""
    found = [by_place[row, column] for column in columns if (row, column) in by_place]
    return f"{mean(found):.1f}" if len(found) == len(columns) else "·"


def _filled(name: str, found: re.Match[str]) -> str:
    opening, summary, wanted, closing = found.groups()
    experiment = load(name)
    cells = compare(experiment, PROJECT / "results")
    if summary:
        body = summary_line(experiment, [c for c in cells if not wanted or wanted in c.row])
    else:
        body = markdown_table(experiment, cells, wanted.split(", ") if wanted else ())
    return f"{opening}{body}\n{closing}"


MADE: dict[str, Callable[..., str]] = {
    "choosing": choosing_table,
    "harm": harm_table,
    "cost": cost_table,
    "default": default_line,
    "overall": overall_line,
    "conclusions": conclusions,
}


if __name__ == "__main__":
    for document in DOCUMENTS:
        text = refreshed(document.read_text())
        with replacing(document) as beside:
            beside.write_text(text)
