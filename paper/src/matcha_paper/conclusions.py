"""What the paper concludes from its tables, and what the committed records say to it."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from matcha_paper.experiments import Comparison, compare, load
from matcha_paper.experiments.pairs import Paired, sign_test
from matcha_paper.experiments.spec import groups, names, published
from matcha_paper.figures import csv_of, read_rows
from matcha_paper.tables import apart

STAND_IN = "syn-coauthor-cs"
LOSSES = ("Entropy", "Pseudo-label", "Difference", "PIC")


def overall_line(results: Path) -> str:
    """How many accuracies of all tables are at or above the published number minus one point."""
    published_algorithm, default, stale = [], [], []
    for name in published_tables():
        cells = accuracies(name, results)
        ours = {(cell.row, cell.column): cell.ours_mean for cell in cells}
        for cell in cells:
            if cell.paper_mean is not None:
                same = cell.row if cell.all_nodes else _with_default(cell.row)
                mean = ours.get((same, cell.column), cell.ours_mean)
                published_algorithm.append(cell.ours_mean >= cell.paper_mean - 1)
                default.append(mean >= cell.paper_mean - 1)
                stale.append(cell.stale)
    near, count = sum(published_algorithm), len(published_algorithm)
    return (
        f"Of {count} cells with a published number {near} ({near / count:.0%}) are at or above it "
        f"minus one point; with the default in place of the published algorithm, save where all "
        f"nodes are counted, {sum(default)} ({sum(default) / count:.0%}). "
        f"Stale records: {sum(stale)} cells."
    )


def overview_table(results: Path) -> str:
    """A line for each table: how its accuracies stand to the published numbers."""
    lines = [
        "| table | cells with a published number | at or above it | minus one point | "
        "within two published s.d. | stale |",
        "|---|---|---|---|---|---|",
    ]
    for name in published_tables():
        cells = [cell for cell in accuracies(name, results) if cell.paper_mean is not None]
        gaps = [cell.ours_mean - (cell.paper_mean or 0) for cell in cells]
        near = [abs(apart(cell) or 0) <= 2 for cell in cells]
        counts = [len(cells), sum(g >= 0 for g in gaps), sum(g >= -1 for g in gaps), sum(near)]
        counts.append(sum(cell.stale for cell in cells))
        lines.append(f"| [{name}](results/{name}.md) | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines)


def _with_default(row: str) -> str:
    return "ours" if row == "PIC" else row.replace("+ Matcha", "+ ours")


def conclusions(results: Path) -> str:
    """One item for each conclusion."""
    parts = (_improves_every_method, _gamma_alone_ends_best, _best_loss, _robust_over_hops)
    return "\n".join(f"- {part(results)}" for part in parts)


def published_tables() -> list[str]:
    """The tables that have published numbers."""
    return [name for name in names() if published(name)]


def accuracies(name: str, results: Path) -> list[Comparison]:
    """The recorded cells of a table that are accuracies."""
    experiment = load(name)
    return [
        cell
        for cell in compare(experiment, results)
        if experiment.rows[cell.row].score == "accuracy"
    ]


def _means(name: str, results: Path) -> dict[tuple[str, str], float]:
    return {(cell.row, cell.column): cell.ours_mean for cell in accuracies(name, results)}


def _improves_every_method(results: Path) -> str:
    gains, pairs = {}, []
    for name in ("table1", "table2", "homophily-levels", "degree-levels", "architectures"):
        means = _means(name, results)
        for cell in accuracies(name, results):
            base = cell.row.removesuffix(" + Matcha")
            place = base, cell.column
            if base != cell.row and not cell.column.startswith("attr-") and place in means:
                gains[f"{base} on {cell.column}"] = cell.ours_mean - means[place]
                pairs += [cell.gain] if cell.gain else []
    lost = {place: gain for place, gain in gains.items() if gain < 0}
    exceptions = f" Not so: {_listed(lost.items())}." if lost else ""
    return (
        "*Matcha improves every base method under structure shift* (Tables 1 and 2, levels, "
        f"architectures; {STAND_IN} is a stand-in): in {len(gains) - len(lost)} of "
        f"{len(gains)} cells.{exceptions} {_by_seed(pairs)}"
    )


def _by_seed(pairs: Sequence[Paired]) -> str:
    """Over all pairs of runs that share seed and source model, and the sign test over cells."""
    if not pairs:
        return "No two rows are recorded with the same source models yet."
    better, worse = (sum(getattr(pair, key) for pair in pairs) for key in ("better", "worse"))
    up, down = (sum(sign * pair.mean > 0 for pair in pairs) for sign in (1, -1))
    return (
        f"By pairs of runs with the same seed and source model: {better} better, {worse} worse; "
        f"by cells {up} and {down} (sign test, p = {sign_test(up, down):.1g})."
    )


def _gamma_alone_ends_best(results: Path) -> str:
    rows = read_rows(csv_of("parameters", results))
    last = {(row["data"], row["line"]): float(row["accuracy"]) for row in rows}
    texts = [
        f"{data}: " + ", ".join(f"{line} {last[data, line]:.1f}" for d, line in last if d == data)
        for data in dict.fromkeys(data for data, _ in last)
    ]
    return (
        "*Moving γ alone ends above moving θ or both* (figure `parameters`, accuracy after the "
        f"last round; {STAND_IN} is a stand-in): {'; '.join(texts)}."
    )


def _best_loss(results: Path) -> str:
    means = _means("losses", results)
    columns = groups(load("losses"))[""]
    best = {c: max((means[loss, c], loss) for loss in LOSSES)[1] for c in columns}
    behind = {
        f"{best[column]} on {column}": means["PIC", column] - means[best[column], column]
        for column in columns
        if best[column] != "PIC"
    }
    others = f" Behind others: {_listed(behind.items())}." if behind else ""
    return (
        f"*PIC is the best of four losses*: in {len(columns) - len(behind)} of {len(columns)} "
        f"columns.{others}"
    )


def _robust_over_hops(results: Path) -> str:
    means = _means("hops", results)
    adapted = [mean for (row, _), mean in means.items() if row == "ERM + Matcha"]
    gains = [
        mean - means["ERM", column]
        for (row, column), mean in means.items()
        if row == "ERM + Matcha"
    ]
    return (
        f"*Robust over K*: ERM + Matcha between {min(adapted):.1f} and {max(adapted):.1f} for K "
        f"from 3 to 15, {min(gains):.1f} points or more above ERM."
    )


def _listed(differences: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{place} ({value:+.1f})" for place, value in differences)
