"""How often does adaptation hurt? Every shift of `harm_cases`, base methods, five seeds.

Each run compares four models around one base method: the source's, the published algorithm's
(PIC, step size 1, 50 rounds), the default's, and, for ERM, the one whose γ is fitted with the
target's labels. The labels are read for that last one and for scoring alone.

Run: python -m matcha_paper.studies.harm test --out results/harm-test.json [--device cuda]
         [--jobs 2] [--methods erm tent]
     python -m matcha_paper.studies.harm show results/harm-test.json
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.evidence import Posterior, fit_hop_weights
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.io.jsontext import write_json
from matcha_gnn.metrics import Scores, evaluate
from matcha_paper.experiments.run import worker_pool
from matcha_paper.studies.harm_cases import (
    TEST_SEEDS,
    TUNING_SEEDS,
    Case,
    Source,
    cases,
    source_graph,
    target_graph,
)
from matcha_paper.studies.shared import arguments, run_study, show_record

STUDIED = ("erm", "t3a", "tent", "adanpc", "soga")
Record = dict[str, Any]


def train_on(
    source: Source, seed: int, device: str = "cpu", around: Sequence[mg.BaseMethod] = ()
) -> mg.GPRGNN:
    """The model of a source, on the CPU."""
    graph = source_graph(source, seed).to(device)
    model = mg.GPRGNN(
        graph.num_features,
        int(graph.y.max()) + 1,
        hidden_channels=source.hidden_channels,
        K=source.num_hops,
    ).to(device)
    mg.fit(model, graph, seed=seed, methods=list(around), **source.train)
    return model.cpu()


def work(
    source: Source, group: Sequence[Case], seed: int, methods: Sequence[str], device: str = "cpu"
) -> list[Record]:
    """Train one source model and run every shift that starts from it."""
    around = [METHODS[name]() for name in methods if name == "adanpc"]
    model = train_on(source, seed, device, around)
    return [
        record
        for case in group
        for record in runs(model, target_graph(case, seed), case, seed, methods)
    ]


def runs(
    model: mg.Backbone, graph: Data, case: Case, seed: int, methods: Sequence[str]
) -> Iterator[Record]:
    """One record per base method."""

    def scores(probs: Tensor) -> Scores:
        return evaluate(probs, graph.y, graph.get("test_mask"))

    def score(probs: Tensor) -> float:
        return 100 * scores(probs).accuracy

    for name in methods:
        method = METHODS[name]()
        start = time.perf_counter()
        ours = mg.adapt(model, graph, method, seed=seed)
        seconds = time.perf_counter() - start
        published = mg.adapt(model, graph, method, mg.Matcha(), seed=seed)
        assert ours.decision is not None
        posterior = ours.decision.posterior
        yield {
            "real": case.source.real,
            "family": case.family,
            "case": case.name,
            "seed": seed,
            "method": name,
            "before": score(ours.probs_before),
            "published": score(published.probs),
            "ours": score(ours.probs),
            "labels": score(label_fitted(model, graph)) if name == "erm" else None,
            "balanced_before": 100 * scores(ours.probs_before).balanced_accuracy,
            "balanced_ours": 100 * scores(ours.probs).balanced_accuracy,
            "chosen": ours.decision.chosen,
            "expected": {c.name: c.expected_accuracy for c in ours.decision.candidates},
            "seconds": seconds,
        } | ({} if posterior is None else evidence(posterior, model, score))


def evidence(posterior: Posterior, model: mg.Backbone, score: Callable[[Tensor], float]) -> Record:
    """What the evidence says, and how right it would be as an answer."""
    assert model.source is not None
    return {
        "explanation": str(posterior.shift.kind),
        "contradicted": bool(posterior.rejected),
        "homophily": posterior.homophily,
        "noise": posterior.gathered.noise,
        "sure": 100 * float(posterior.probs.amax(1).mean()),
        "right": score(posterior.probs),
        "source_accuracy": 100 * float(model.source.accuracy),
    }


def label_fitted(model: mg.Backbone, graph: Data) -> Tensor:
    """Predictions [N, C] of the γ that the target's own labels choose."""
    target = mg.unlabelled(graph)
    mask = graph.get("test_mask")
    known = slice(None) if mask is None else mask
    with torch.no_grad():
        hops = model.hops(target, keyed=False)
        truth = torch.nn.functional.one_hot(graph.y, model.head.out_features).double()[known]
        seen = mg.View(model, target, mg.Hops(hops.stack[known]), model.gamma.detach(), 0)
        gamma = fit_hop_weights(seen, truth, intercept=False).gamma
        return mg.View(model, target, hops, gamma, 0).classify().probs


def study(
    chosen: Sequence[Case], methods: Sequence[str], seeds: Sequence[int], device: str, jobs: int
) -> Iterator[list[Record]]:
    """All runs that are done so far, one process per source model and seed."""
    groups: dict[str, tuple[Source, list[Case]]] = {}
    for case in chosen:
        groups.setdefault(repr(case.source), (case.source, []))[1].append(case)
    records: list[Record] = []
    with worker_pool(jobs) as pool:
        running = [
            pool.submit(work, source, group, seed, methods, device)
            for seed in seeds
            for source, group in groups.values()
        ]
        for number, future in enumerate(as_completed(running), 1):
            records += future.result()
            print(f"{number} of {len(running)} source models", flush=True)
            yield sorted(records, key=lambda r: (r["case"], r["method"], r["seed"]))


def table(records: Sequence[Record]) -> str:
    """Changes of accuracy against no adaptation, by base method."""
    lines = ["| | runs | mean change | hurt by more than 1 | worst |", "|---|---|---|---|---|"]
    for method in dict.fromkeys(r["method"] for r in records):
        for what in ("published", "ours", "labels"):
            own = [r for r in records if r["method"] == method and r[what] is not None]
            if own:
                change = np.array([r[what] - r["before"] for r in own])
                lines.append(
                    f"| {method}, {what} | {len(own)} | {change.mean():+.2f} | "
                    f"{(change < -1).mean():.1%} | {change.min():+.1f} |"
                )
    still = [r["ours"] - r["before"] for r in records if "none" in r["case"].split(", ")]
    if still:
        mean, worst = np.mean(still), min(still)
        lines.append(f"| ours, no shift | {len(still)} | {mean:+.2f} | | {worst:+.1f} |")
    return "\n".join(lines)


def kinds(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Generated and real graphs apart; older records do not say which they are."""
    apart: dict[str, list[Record]] = {"generated": [], "real": []}
    for record in records:
        if "real" in record:
            apart["real" if record["real"] else "generated"].append(record)
    return {kind: own for kind, own in apart.items() if own}


def show(records: Sequence[Record]) -> None:
    """The table of the study, and the runs that were hurt."""
    print(table(records))
    for kind, own in kinds(records).items():
        print(f"\n{kind}\n{table(own)}")
    for r in records:
        if r["ours"] - r["before"] < -1:
            print(
                f"hurt: {r['case']}, {r['method']}, seed {r['seed']}: "
                f"{r['before']:.1f} to {r['ours']:.1f} ({r['chosen']})"
            )


def main() -> None:
    """Run one half of the study, or show the record of one."""
    halves, parser = cases(), arguments(__doc__)
    parser.add_argument("what", choices=(*halves, "show"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--methods", nargs="+", default=list(STUDIED))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.what == "show":
        show_record(parser, args.file, show)
        return
    seeds = TUNING_SEEDS if args.what == "tuning" else TEST_SEEDS
    said = {half: [case.name for case in group] for half, group in halves.items()}
    records: list[Record] = []
    for records in study(halves[args.what], args.methods, seeds, args.device, args.jobs):
        if args.out:
            record = {"halves": said, "seeds": seeds, "runs": records}
            write_json(args.out, record, indent=0)
    show(records)


if __name__ == "__main__":
    run_study(main)
