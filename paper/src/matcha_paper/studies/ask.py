"""Gain and harm against the number of answers: ours beside other ways to choose nodes.

Takes runs that `ask_runs` saved. Every selector asks up to 200 nodes and takes a candidate after
5, 10, 20, 50, 100 and 200 answers: by its own rule, and by the plain rule of as many wins beyond
losses as 1.3 standard deviations. Selectors that draw are repeated.

Run: python -m matcha_paper.studies.ask FOLDER --out results/ask-test.json [--repeats 10]
         [--jobs 2] [--selectors ours random]
     python -m matcha_paper.studies.ask show results/ask-test.json
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import numpy as np

from matcha_gnn.io.jsontext import write_json
from matcha_gnn.streams import Purpose, numpy_stream
from matcha_gnn.typing import FloatArray
from matcha_paper.experiments.run import worker_pool
from matcha_paper.studies.ask_saved import SavedRun
from matcha_paper.studies.ask_selectors import SELECTORS, Coda, Ours, Selector
from matcha_paper.studies.shared import arguments, show_record

COUNTS = (5, 10, 20, 50, 100, 200)
HURT = 1.0
"""Points of accuracy below the source that count as harm."""
ONCE = (Coda,)
"""Selectors that hardly draw, and are slow: run once."""
Record = dict[str, Any]


def work(path: Path, names: Sequence[str], repeats: int) -> Record:
    """All selectors on one saved run: by rule, mean change and share of harm at each count."""
    run = SavedRun.load(path)
    accuracies = run.accuracies
    without = 100 * float((run.default == run.truth).mean())
    found: Record = {
        "run": path.stem,
        "case": run.case,
        "family": run.family,
        "real": run.real,
        "candidates": dict(zip(run.names, accuracies.tolist(), strict=True)),
        "best": float(accuracies.max() - accuracies[0]),
        "no answers": without - float(accuracies[0]),
    }
    changes: dict[str, list[FloatArray]] = {}
    for kind in (kind for kind in SELECTORS if kind.name in names):
        for repeat in range(1 if kind in ONCE else repeats):
            selector = kind(run, numpy_stream(repeat, Purpose.SELECTORS))
            selector.ask(max(COUNTS))
            for rule, taken in _choices(selector):
                changes.setdefault(rule, []).append(selector.accuracies[taken] - accuracies[0])
    return found | {"rules": {rule: _summed_up(own) for rule, own in changes.items()}}


def _summed_up(changes: list[FloatArray]) -> Record:
    """Over the repetitions, at each count."""
    stacked = np.stack(changes)
    hurt = (stacked < -HURT).mean(0)
    return {"mean": stacked.mean(0).round(3).tolist(), "hurt": hurt.round(3).tolist()}


def _choices(selector: Selector) -> Iterator[tuple[str, list[int]]]:
    """Names of rules, and what they take after each count."""
    yield selector.name, [selector.choice(count) for count in COUNTS]
    if not isinstance(selector, Ours):
        plain = [selector.plain_choice(count) for count in COUNTS]
        yield f"{selector.name}, plain rule", plain


def study(
    paths: Sequence[Path], names: Sequence[str], repeats: int, jobs: int
) -> Iterator[list[Record]]:
    """All runs that are done so far."""
    records: list[Record] = []
    with worker_pool(jobs) as pool:
        running = [pool.submit(work, path, names, repeats) for path in paths]
        for number, future in enumerate(as_completed(running), 1):
            records.append(future.result())
            if number % 10 == 0 or number == len(running):
                print(f"{number} of {len(running)} runs", flush=True)
                yield sorted(records, key=lambda r: str(r["run"]))


def kinds(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Generated graphs, Syn-Cora and other measured graphs apart, and all measured ones."""
    found: dict[str, list[Record]] = {"generated": [], "Syn-Cora": [], "networks": [], "real": []}
    for record in records:
        if not record["real"]:
            found["generated"].append(record)
            continue
        found["real"].append(record)
        found["Syn-Cora" if "syn-cora" in record["family"] else "networks"].append(record)
    return {kind: own for kind, own in found.items() if own}


def table(records: Sequence[Record]) -> str:
    """Mean change of accuracy, and share of runs that are hurt, by rule and answers."""
    best = np.mean([r["best"] for r in records])
    without = np.array([r["no answers"] for r in records])
    head = " | ".join(f"{count} answers" for count in COUNTS)
    lines = [
        f"{len(records)} runs; best candidate {best:+.2f}; without answers {without.mean():+.2f}, "
        f"hurt {(without < -HURT).mean():.1%}",
        "",
        f"| | {head} |",
        "|---" * (1 + len(COUNTS)) + "|",
    ]
    for rule in dict.fromkeys(rule for r in records for rule in r["rules"]):
        own = [r["rules"][rule] for r in records if rule in r["rules"]]
        mean, hurt = (np.mean([each[what] for each in own], 0) for what in ("mean", "hurt"))
        cells = [
            f"{change:+.2f} ({change / best:.0%}), {share:.1%}"
            for change, share in zip(mean, hurt, strict=True)
        ]
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    return "\n".join(lines)


def show(records: Sequence[Record]) -> None:
    """The tables: change (share of the best candidate's gain), share of runs hurt."""
    for kind, own in kinds(records).items():
        print(f"\n{kind}\n{table(own)}")


def main() -> None:
    """Run the benchmark, or show the record of one."""
    parser = arguments(__doc__)
    parser.add_argument("what", help="the folder of saved runs, or show")
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--selectors", nargs="+", default=[kind.name for kind in SELECTORS])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.what == "show":
        show_record(parser, args.file, show)
        return
    paths = sorted(Path(args.what).glob("*.npz"))
    if not paths:
        parser.error(f"{args.what} has no saved runs")
    records: list[Record] = []
    for records in study(paths, args.selectors, args.repeats, args.jobs):
        if args.out:
            write_json(args.out, {"counts": COUNTS, "runs": records}, indent=0)
    show(records)


if __name__ == "__main__":
    main()
