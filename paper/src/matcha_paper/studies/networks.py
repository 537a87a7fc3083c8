"""What does one call do for networks of others: with a summary, without, by F1, and unguarded?

Fourteen kinds of plain PyG networks (`plain_networks`), trained by plain loops on half of the nodes
of a source, and four worlds with heavy-tailed degrees: homophily .85 → .15 (flip), .85 → .5 (mild),
.15 → .85 (reverse), and a rare class of 5% whose edges lead to the other class on the target
(fraud). Four ways: the network and the target alone; with the source summary; with it and decided
by F1 (`metric=`); and with it but unguarded (`take("pool")`). Labels of the target are read for
scoring alone. F1 is that of the rare class on fraud, and the mean over classes elsewhere.

Run: python -m matcha_paper.studies.networks run --out FILE.json [--jobs 2] [--device cuda]
     python -m matcha_paper.studies.networks run --networks GCN SGConv --seeds 0
     python -m matcha_paper.studies.networks show FILE.json
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.io.jsontext import write_json
from matcha_paper.experiments.run import worker_pool
from matcha_paper.studies.plain_networks import KINDS, trained
from matcha_paper.studies.shared import arguments, run_study, show_record
from matcha_paper.studies.worlds import World

SEEDS = (0, 1, 2, 3, 4)
WAYS = ("alone", "summary", "metric", "unguarded")
TARGET_SEED = 1000
GOOD_F1 = 0.8
HURT = 1.0
"""Points of accuracy whose loss counts as harm."""
BALANCED = World(signal=1.4, degree=6, nodes=3000, features=100, tail=2.5)
RARE = replace(BALANCED, shares=(0.95, 0.05), signal=1.8, homophily=(0.97, 0.6))
Record = dict[str, Any]


class Case(NamedTuple):
    """A world on the source and on the target; `rare` is the class that F1 is of, if one is."""

    source: World
    target: World
    rare: int | None = None


CASES = {
    "flip": Case(replace(BALANCED, homophily=0.85), replace(BALANCED, homophily=0.15)),
    "mild": Case(replace(BALANCED, homophily=0.85), replace(BALANCED, homophily=0.5)),
    "reverse": Case(replace(BALANCED, homophily=0.15), replace(BALANCED, homophily=0.85)),
    "fraud": Case(RARE, replace(RARE, homophily=(0.97, 0.05)), rare=1),
}


def work(name: str, case: str, seed: int, device: str) -> list[Record]:
    """The four ways of one network in one world."""
    kind, worlds = KINDS[name], CASES[case]
    source, target = worlds.source.draw(seed), worlds.target.draw(TARGET_SEED + seed)
    chance = torch.rand(source.num_nodes, generator=torch.Generator().manual_seed(seed))
    source.train_mask = chance < 0.5
    source, target = (kind.data(graph.to(device)) for graph in (source, target))
    net = trained(kind, source, len(worlds.source.shares), seed)
    own = kind.answer(net, target)
    summary = mg.summarise_source(net, source, trained=source.train_mask)
    found = []
    for way in WAYS:
        result = _adapted(way, net, target, summary, worlds.rare)
        record: Record = {"network": name, "case": case, "seed": seed, "way": way}
        record["chosen"] = "belief" if way == "unguarded" else result.chosen
        record["obstacle"] = "" if way == "unguarded" else result.obstacle
        record["same"] = bool(torch.allclose(result.probs_before, own, rtol=0, atol=1e-6))
        for when, probs in (("before", result.probs_before), ("after", result.probs)):
            record |= _scores(when, probs.argmax(1), target, worlds.rare)
        if way != "unguarded":
            record["candidates"] = {
                each.name: _scores("is", each.probs.argmax(1), target, worlds.rare)
                | {"expected": each.goal.value, "low": each.goal.low, "high": each.goal.high}
                for each in result.candidates
            }
        found.append(record)
    return found


def _adapted(
    way: str, net: torch.nn.Module, target: Data, summary: Any, rare: int | None
) -> mg.Result:
    if way == "summary":
        return mg.adapt(net, target, source=summary)
    if way == "metric":
        metric = "macro_f1" if rare is None else "f1"
        return mg.adapt(net, target, source=summary, metric=metric, positive=rare)
    if way == "unguarded":
        return mg.adapt(net, target, source=summary).take("pool")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mg.NotAdaptedWarning)
        return mg.adapt(net, target)


def _scores(when: str, labels: Tensor, target: Data, rare: int | None) -> dict[str, float]:
    """Accuracy in percent and F1, of the rare class or averaged over classes."""
    truth = target.y
    classes = [rare] if rare is not None else range(int(truth.max()) + 1)
    f1 = [_f1(labels == each, truth == each) for each in classes]
    right = (labels == truth).double().mean()
    return {f"accuracy_{when}": 100 * float(right), f"f1_{when}": float(np.mean(f1))}


def _f1(said: Tensor, true: Tensor) -> float:
    both = float((said & true).sum())
    total = float(said.sum() + true.sum())
    return 2 * both / total if total else 0.0


def study(
    networks: Sequence[str], cases: Sequence[str], seeds: Sequence[int], device: str, jobs: int
) -> Iterator[list[Record]]:
    """All runs that are done so far, one process per network, world and seed."""
    records: list[Record] = []
    with worker_pool(jobs) as pool:
        running = [
            pool.submit(work, name, case, seed, device)
            for name in networks
            for case in cases
            for seed in seeds
        ]
        for number, future in enumerate(as_completed(running), 1):
            records += future.result()
            print(f"{number} of {len(running)}", flush=True)
            yield sorted(records, key=_place)


def _place(record: Record) -> tuple[int, int, int, int]:
    names, cases = list(KINDS), list(CASES)
    place = names.index(record["network"]), cases.index(record["case"])
    return *place, record["seed"], WAYS.index(record["way"])


def table(records: Sequence[Record]) -> str:
    """Accuracy in percent and F1 of every network in every world, means over seeds, as Markdown."""
    lines = [f"| network | world | before | {' | '.join(WAYS)} |", "|---" * (3 + len(WAYS)) + "|"]
    for name, case in dict.fromkeys((r["network"], r["case"]) for r in records):
        own = [r for r in records if (r["network"], r["case"]) == (name, case)]
        cells = [_cell([r for r in own if r["way"] == way], "after") for way in WAYS]
        lines.append(f"| {name} | {case} | {_cell(own, 'before')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def show(records: Sequence[Record]) -> None:
    """The table, how often a way hurt, and how far estimates of F1 are off."""
    seeds = sorted({record["seed"] for record in records})
    print(f"Accuracy in percent / F1, means over seeds {', '.join(map(str, seeds))}.\n")
    print(table(records) + "\n")
    for way in WAYS:
        own = [r for r in records if r["way"] == way]
        change = np.array([r["accuracy_after"] - r["accuracy_before"] for r in own])
        print(
            f"{way}: {len(own)} runs, mean change {change.mean():+.2f} points, "
            f"{int((change < -HURT).sum())} hurt by more than {HURT:g}, worst {change.min():+.2f}"
        )
    _show_estimates([r for r in records if r["way"] == "metric"])
    _show_rare([r for r in records if r["way"] == "metric" and r["case"] == "fraud"])
    other = [r for r in records if not r["same"]]
    print(f"{len(other)} runs whose probs_before are not the network's own answer")


def _show_estimates(records: Sequence[Record]) -> None:
    """How far expected F1 is from the true one, of the network and of what was taken."""
    for case in dict.fromkeys(r["case"] for r in records):
        own = [r for r in records if r["case"] == case and "candidates" in r]
        for what in ("source", "taken"):
            rows = [r["candidates"][r["chosen"] if what == "taken" else "source"] for r in own]
            errors = np.array([row["expected"] - row["f1_is"] for row in rows])
            inside = [row["low"] <= row["f1_is"] <= row["high"] for row in rows]
            print(
                f"{case}, {what}: expected less true F1 {errors.mean():+.3f}, largest error "
                f"{abs(errors).max():.3f}, within .08 in {int((abs(errors) <= 0.08).sum())} of "
                f"{len(errors)}, in the interval in {sum(inside)}"
            )


def _show_rare(records: Sequence[Record]) -> None:
    """How often F1 of the rare class is good, of what is taken and of what could be."""
    tried = [(r["f1_after"], list(r["candidates"].values())) for r in records if "candidates" in r]
    for what, figure in {"expected": "expected", "true": "f1_is"}.items():
        best = [max(rows, key=itemgetter(figure))["f1_is"] for _, rows in tried]
        taken = [f1 for (f1, _), most in zip(tried, best, strict=True) if most >= GOOD_F1]
        print(
            f"fraud: the candidate with the largest {what} F1 has {GOOD_F1} or more in "
            f"{len(taken)} of {len(tried)} runs, and what is taken in "
            f"{sum(f1 >= GOOD_F1 for f1 in taken)} of these"
        )


def _cell(own: Sequence[Record], when: str) -> str:
    accuracy, f1 = (np.mean([r[f"{each}_{when}"] for r in own]) for each in ("accuracy", "f1"))
    return f"{accuracy:.1f} / {f1:.2f}"


def main() -> None:
    """Run the study, or show the record of one."""
    parser = arguments(__doc__)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--networks", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--worlds", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.what == "show":
        show_record(parser, args.file, show)
        return
    records: list[Record] = []
    for records in study(args.networks, args.worlds, args.seeds, args.device, args.jobs):
        if args.out:
            write_json(args.out, {"seeds": args.seeds, "runs": records}, indent=0)
    show(records)


if __name__ == "__main__":
    run_study(main)
