"""What do a few answers decide and tell on natural graphs?

Pairs and networks of `natural`. The default runs on each; then the classes of the first nodes that
`ask` names are revealed, in five orders, and the verdict is compared with the truth: the gain, the
share of runs that are hurt, and whether the interval of accuracy holds. GPRGNN is adapted by T3A
and by Tent as well, for comparison.

Run: python -m matcha_paper.studies.natural_answers run first --out FILE.json [--jobs 2]
     python -m matcha_paper.studies.natural_answers show FILE.json [FILE.json]
Sources that are in the file already are left out.
"""

import math
import multiprocessing
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.errors import MatchaError
from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.io.jsontext import write_json
from matcha_gnn.questions.asking import compared_candidates
from matcha_gnn.questions.decision import Design, decide
from matcha_paper.studies.natural import FAMILIES, NETWORKS, Source, natural_pairs, trained
from matcha_paper.studies.shared import arguments, read_record, run_study

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


def judged(run: Record) -> Record:
    """What is true of a run: accuracies and outcomes, without and with answers."""
    right = (run["labels"] == run["truth"]).mean(1)
    names = ("family", "source", "target", "network", "obstacle", *(f"by {m}" for m in METHODS))
    return {name: run[name] for name in names if name in run} | {
        "before": _rounded(100 * right[0]),
        "best": _rounded(100 * right.max()),
        "alone": _rounded(without_answers(run)),
        "answered": {
            str(count): [_rounded(after_answers(run, count, order)) for order in ORDERS]
            for count in COUNTS
        },
    }


def _rounded(values: Any) -> Any:
    """Two digits, and None for what is not told."""
    if np.ndim(values):
        return [_rounded(each) for each in values]
    return round(float(values), 2) if math.isfinite(values) else None


def show(records: Sequence[Record]) -> None:
    """By family and number of answers."""
    families = list(dict.fromkeys(run["family"] for run in records))
    head = " | ".join(f"{count} answers" for count in COUNTS)
    print("gain in points, runs hurt by more than a point, intervals that hold, width, error\n")
    print(f"| | runs | best | cannot tell | no answer | {head} |\n{'|---' * (5 + len(COUNTS))}|")
    groups = {name: [run for run in records if run["family"] == name] for name in families}
    for name, own in (groups | {"all": list(records)}).items():
        best = np.mean([run["best"] - run["before"] for run in own])
        silent = np.mean([bool(run["obstacle"]) for run in own])
        cells = [_row([run["alone"] for run in own])]
        cells += [_row([one for run in own for one in run["answered"][str(c)]]) for c in COUNTS]
        print(f"| {name} | {len(own)} | {best:+.1f} | {silent:.0%} | {' | '.join(cells)} |")
    _show_kept(records)
    for method in METHODS:
        change = [run[f"by {method}"] - run["before"] for run in records if f"by {method}" in run]
        known = np.array([each for each in change if math.isfinite(each)])
        print(
            f"\n{method} around GPRGNN: {len(known)} runs, {known.mean():+.1f}, "
            f"hurt {int((known < -HURT).sum())}",
            end="",
        )
    print()


def _show_kept(records: Sequence[Record]) -> None:
    """How often answers gain where the default kept the network and something was to be had."""
    kept = [run for run in records if run["alone"][0] == 0 and run["best"] - run["before"] > HURT]
    if not kept:
        return
    shares = []
    for count in COUNTS:
        gains = [one[0] for run in kept for one in run["answered"][str(count)]]
        shares.append(f"{np.mean(np.array(gains) > 0):.0%} of {count}")
    print(
        f"\n{len(kept)} runs were kept where a candidate gains over a point: answers that gained, "
        f"{', '.join(shares)} answers"
    )


def _row(outcomes: Sequence[Sequence[float | None]]) -> str:
    values = np.array(outcomes, dtype=float)
    hurt = (values[:, 0] < -HURT).mean()
    told = values[~np.isnan(values[:, 1])]
    if not len(told):
        return f"{values[:, 0].mean():+.1f}, {hurt:.1%}"
    _, cover, width, off = told.mean(0)
    return f"{values[:, 0].mean():+.1f}, {hurt:.1%}, {cover:.0%}, {width:.0f}, {off:.1f}"


def main() -> None:
    """Run one part of the study, or show what some gave."""
    parser = arguments(__doc__)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("names", nargs="+", help="a part to run, or files to show")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.what == "show":
        show([run for name in args.names for run in read_record(Path(name))["runs"]])
        return
    if args.names[0] not in FAMILIES or args.out is None:
        parser.error(f"run needs one of {', '.join(FAMILIES)}, and --out")
    records: list[Record] = read_record(args.out).get("runs", [])
    done = {(run["family"], run["source"]) for run in records}
    pairs = [pair for pair in natural_pairs(args.names[0]) if pair[:2] not in done]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for found in pool.imap_unordered(runs, pairs):
            records += [judged(run) for run in found]
            print(*(found[0][name] for name in ("family", "source")), flush=True)
            write_json(args.out, {"runs": records}, indent=0)
    show(records)


if __name__ == "__main__":
    run_study(main)
