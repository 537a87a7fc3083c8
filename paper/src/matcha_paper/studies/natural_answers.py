"""What do a few answers decide and tell on natural graphs?

Pairs and networks of `natural`. The default runs on each; then the classes of the first nodes that
`ask` names are revealed, in five orders, and the verdict is compared with the truth: the gain, the
share of runs that are hurt, and whether the interval of accuracy holds. GPRGNN is adapted by T3A
and by Tent as well, for comparison.

Run: python -m matcha_paper.studies.natural_answers run first --out FILE.npz [--jobs 2]
     python -m matcha_paper.studies.natural_answers show FILE.npz [FILE.npz]
"""

import math
import multiprocessing
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.errors import MatchaError
from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.io.files import replacing
from matcha_gnn.questions.asking import compared_candidates
from matcha_gnn.questions.decision import Design, decide
from matcha_paper.studies.natural import FAMILIES, NETWORKS, Source, natural_pairs, trained
from matcha_paper.studies.shared import arguments, run_study

COUNTS, ORDERS = (10, 20, 50), (0, 1, 2, 3, 4)
METHODS = ("T3A", "Tent")
HURT = 1.0
"""Points of accuracy whose loss counts as harm."""
Record = dict[str, Any]
Pair = tuple[str, str, Data, list[tuple[str, Data]]]


def runs(pair: Pair) -> list[Record]:
    """Of all networks that are trained on one source, on each of its targets."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    family, name, data, targets = pair
    classes = 1 + int(max(data.y.max(), *(each.y.max() for _, each in targets)))
    source, found = Source(data), []
    for network in NETWORKS:
        net = trained(network, data, classes, 0)
        summary, _, _ = source.summarise(net)
        for other, target in targets:
            about = {"family": family, "source": name, "target": other, "network": network}
            result = mg.adapt(net, target, source=summary)
            own = {f"by {method}": _by(net, target, method) for method in METHODS}
            found.append(about | (own if network == "GPRGNN" else {}) | said(result, target.y))
    return found


def said(result: mg.Result, truth: Tensor) -> Record:
    """What is needed to ask and to answer; no candidate where none could be made."""
    record: Record = {
        "truth": truth.numpy().astype(np.int8),
        "taken": result.labels.numpy().astype(np.int8),
        "obstacle": result.obstacle,
        "after": result.taken.accuracy,
    }
    try:
        candidates = compared_candidates(result)
    except MatchaError:
        return record | {"labels": result.labels_before.numpy().astype(np.int8)[None]}
    labels = torch.stack([one.probs.float().argmax(1) for one in candidates])
    record |= {"labels": labels.numpy().astype(np.int8), "believed": candidates[0].accuracy}
    if result.believed is not None:
        record["prior"] = result.believed.probs.numpy().astype(np.float16)
    return record


def _by(net: torch.nn.Module, target: Data, method: str) -> float:
    """Accuracy of a base method alone, in percent."""
    try:
        labels = mg.adapt(net, target, strategy=getattr(mg, method)()).labels
    except MatchaError:
        return float("nan")
    return 100 * float((labels == target.y).double().mean())


class Outcome(NamedTuple):
    """After some answers, in points.

    Attributes:
        gain: of accuracy over the network.
        covered: the interval of the accuracy of what is taken holds it.
        width: of that interval.
        off: absolute error of its middle.
    """

    gain: float
    covered: float
    width: float
    off: float


def without_answers(run: Record) -> Outcome:
    """As the default has it."""
    true, before = (
        float((each == run["truth"]).mean()) for each in (run["taken"], run["labels"][0])
    )
    return _outcome(Interval(*run["after"]), true, before)


def after_answers(run: Record, count: int, order: int) -> Outcome:
    """Reveal the classes of the first nodes of one order."""
    labels, truth = run["labels"].astype(np.int64), run["truth"].astype(np.int64)
    right = (labels == truth).mean(1)
    if len(labels) == 1:
        return Outcome(0.0, math.nan, math.nan, math.nan)
    prior = run["prior"].astype(np.float32) if "prior" in run else None
    design = Design(labels, prior, order)
    asked = design.order(count)
    answers = {int(node): int(truth[node]) for node in asked}
    verdict = decide(design, asked, answers, None, Interval(*run["believed"]))
    return _outcome(verdict.accuracies[verdict.taken], right[verdict.taken], right[0])


def _outcome(said: Interval, true: float, before: float) -> Outcome:
    told = math.isfinite(said.value)
    return Outcome(
        gain=100 * (true - before),
        covered=float(said.low - 1e-9 <= true <= said.high + 1e-9) if told else math.nan,
        width=100 * (said.high - said.low) if told else math.nan,
        off=100 * abs(said.value - true),
    )


def _row(outcomes: Sequence[Outcome]) -> str:
    hurt = np.mean([each.gain < -HURT for each in outcomes])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        gain, cover, width, off = np.nanmean(np.array(outcomes), 0)
    return f"{gain:+.1f}, {hurt:.1%}, {cover:.0%}, {width:.0f}, {off:.1f}"


def show(records: Sequence[Record]) -> None:
    """By family and number of answers."""
    families = list(dict.fromkeys(run["family"] for run in records))
    head = " | ".join(f"{count} answers: gain, hurt, cover, width, error" for count in COUNTS)
    first = "cannot tell | none: gain, hurt, cover, width, error"
    print(f"| | runs | best | {first} | {head} |\n{'|---' * (5 + len(COUNTS))}|")
    groups = {name: [run for run in records if run["family"] == name] for name in families}
    for name, own in (groups | {"all": list(records)}).items():
        right = [(run["labels"] == run["truth"]).mean(1) for run in own]
        best = 100 * np.mean([each.max() - each[0] for each in right])
        silent = np.mean([bool(run["obstacle"]) for run in own])
        cells = [f"{silent:.0%}", _row([without_answers(run) for run in own])]
        for count in COUNTS:
            outcomes = [after_answers(run, count, order) for run in own for order in ORDERS]
            cells.append(_row(outcomes))
        print(f"| {name} | {len(own)} | {best:+.1f} | {' | '.join(cells)} |")
    for method in METHODS:
        tried = [run for run in records if np.isfinite(run.get(f"by {method}", np.nan))]
        change = [
            run[f"by {method}"] - 100 * float((run["labels"][0] == run["truth"]).mean())
            for run in tried
        ]
        if tried:
            hurt = sum(each < -HURT for each in change)
            print(f"\n{method}: {len(tried)} runs, {np.mean(change):+.1f}, hurt {hurt}", end="")
    print()


def write(path: Path, records: Sequence[Record]) -> None:
    """All runs in one file."""
    arrays = {f"{k}/{name}": value for k, run in enumerate(records) for name, value in run.items()}
    with replacing(path) as beside, open(beside, "wb") as file:
        np.savez_compressed(file, **arrays)


def read(path: Path) -> Iterator[Record]:
    """What `write` wrote."""
    with np.load(path) as arrays:
        found: dict[int, Record] = {}
        for key in arrays.files:
            number, name = key.split("/", 1)
            value = arrays[key]
            found.setdefault(int(number), {})[name] = value if value.ndim else value.item()
    yield from found.values()


def main() -> None:
    """Run one part of the study, or show what some gave."""
    parser = arguments(__doc__)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("names", nargs="+", help="a part to run, or files to show")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.what == "show":
        show([run for name in args.names for run in read(Path(name))])
        return
    if args.names[0] not in FAMILIES or args.out is None:
        parser.error(f"run needs one of {', '.join(FAMILIES)}, and --out")
    pairs, records = list(natural_pairs(args.names[0])), list[Record]()
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for done in pool.imap_unordered(runs, pairs):
            records += done
            print(*(done[0][name] for name in ("family", "source")), flush=True)
    write(args.out, records)


if __name__ == "__main__":
    run_study(main)
