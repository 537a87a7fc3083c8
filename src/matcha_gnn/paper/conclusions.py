"""What the paper concludes from its tables, and what the committed records say to it."""

from collections.abc import Iterable
from pathlib import Path

from matcha_gnn.paper.experiments import Comparison, compare, load
from matcha_gnn.paper.experiments.spec import names, published
from matcha_gnn.paper.figures import csv_of, read_rows

STAND_INS = ("syn-coauthor-cs", "arxiv-structure")
LOSSES = ("Entropy", "Pseudo-label", "Difference", "PIC")


def overall_line(results: Path) -> str:
    """How many accuracies of all tables are at or above the published number minus one point."""
    published_algorithm, default = [], []
    for name in _published_tables():
        cells = _accuracies(name, results)
        ours = {(cell.row, cell.column): cell.ours_mean for cell in cells}
        for cell in cells:
            if cell.paper_mean is not None:
                same = cell.row if cell.all_nodes else _with_default(cell.row)
                mean = ours.get((same, cell.column), cell.ours_mean)
                published_algorithm.append(cell.ours_mean >= cell.paper_mean - 1)
                default.append(mean >= cell.paper_mean - 1)
    near, count = sum(published_algorithm), len(published_algorithm)
    return (
        f"Of {count} cells with a published number {near} ({near / count:.0%}) are at or above it "
        f"minus one point; with the default in place of the published algorithm, save where all "
        f"nodes are counted, {sum(default)} ({sum(default) / count:.0%})."
    )


def _with_default(row: str) -> str:
    return "ours" if row == "PIC" else row.replace("+ Matcha", "+ ours")


def conclusions(results: Path) -> str:
    """One item for each conclusion."""
    parts = (_improves_every_method, _gamma_alone_ends_best, _best_loss, _robust_over_hops)
    return "\n".join(f"- {part(results)}" for part in parts)


def _published_tables() -> list[str]:
    return [name for name in names() if published(name)]


def _accuracies(name: str, results: Path) -> list[Comparison]:
    experiment = load(name)
    return [
        cell
        for cell in compare(experiment, results)
        if experiment.rows[cell.row].score == "accuracy"
    ]


def _means(name: str, results: Path) -> dict[tuple[str, str], float]:
    return {(cell.row, cell.column): cell.ours_mean for cell in _accuracies(name, results)}


def _improves_every_method(results: Path) -> str:
    gains = {}
    for name in ("table1", "table2", "homophily-levels", "degree-levels", "architectures"):
        means = _means(name, results)
        for (row, column), mean in means.items():
            base = row.removesuffix(" + Matcha")
            if base != row and not column.startswith("attr-") and (base, column) in means:
                gains[f"{base} on {column}"] = mean - means[base, column]
    lost = {place: gain for place, gain in gains.items() if gain < 0}
    return (
        "*Matcha improves every base method under structure shift* (Tables 1 and 2, levels, "
        f"architectures; {' and '.join(STAND_INS)} are stand-ins): in {len(gains) - len(lost)} of "
        f"{len(gains)} cells. Not so: {_listed(lost.items())}."
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
        f"last round; {STAND_INS[0]} is a stand-in): {'; '.join(texts)}."
    )


def _best_loss(results: Path) -> str:
    means = _means("losses", results)
    columns = list(load("losses").columns)
    best = {c: max((means[loss, c], loss) for loss in LOSSES)[1] for c in columns}
    behind = {
        f"{best[column]} on {column}": means["PIC", column] - means[best[column], column]
        for column in columns
        if best[column] != "PIC"
    }
    return (
        f"*PIC is the best of four losses*: in {len(columns) - len(behind)} of {len(columns)} "
        f"columns. Behind others: {_listed(behind.items())}."
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
    texts = [f"{place} ({value:+.1f})" for place, value in differences]
    return ", ".join(texts) or "nowhere"
