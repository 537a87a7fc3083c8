"""How often does adaptation hurt? Every shift of `harm_cases`, base methods, five seeds.

Each run compares four models around one base method: the source's, the published algorithm's
(PIC, step size 1, 50 rounds), the default's, and, for ERM, the one whose γ is fitted with the
target's labels. The labels are read for that last one and for scoring alone.

Run: python benchmarks/harm.py test --out results/harm-test.json [--device cuda] [--jobs 2]
     python benchmarks/harm.py tuning --methods erm tent --out results/harm-tuning.json
     python benchmarks/harm.py confirmation --out results/harm-confirmation.json
     python benchmarks/harm.py second --out results/harm-second.json
     python benchmarks/harm.py show results/harm-test.json
"""

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from harm_cases import TEST_SEEDS, TUNING_SEEDS, Case, Source, cases, source_graph, target_graph

from matcha_gnn.io.files import replacing
from matcha_gnn.paper.experiments.run import start_worker

METHODS = ("erm", "t3a", "tent", "adanpc", "soga")


def work(source: Source, group: list[Case], seed: int, methods: list[str], device: str) -> Any:
    """Train one source model and run every shift that starts from it."""
    import matcha_gnn as mg
    from matcha_gnn.methods import METHODS as REGISTERED

    graph = source_graph(source, seed).to(device)
    model = mg.GPRGNN(
        graph.num_features,
        int(graph.y.max()) + 1,
        hidden_channels=source.hidden_channels,
        K=source.num_hops,
    ).to(device)
    ship = [REGISTERED[name]() for name in methods if name == "adanpc"]
    mg.fit(model, graph, seed=seed, ship=ship, **source.train)
    model = model.cpu()
    return [
        record
        for case in group
        for record in runs(model, target_graph(case, seed), case, seed, methods)
    ]


def runs(model: Any, graph: Any, case: Case, seed: int, methods: list[str]) -> Iterator[dict]:
    """One record per base method."""
    import matcha_gnn as mg
    from matcha_gnn.methods import METHODS as REGISTERED
    from matcha_gnn.metrics import evaluate

    def scores(probs: Any) -> Any:
        return evaluate(probs, graph.y, graph.get("test_mask"))

    def score(probs: Any) -> float:
        return 100 * scores(probs).accuracy

    for name in methods:
        method = REGISTERED[name]()
        start = time.perf_counter()
        ours = mg.adapt(model, graph, method, seed=seed)
        seconds = time.perf_counter() - start
        published = mg.adapt(model, graph, method, mg.PIC(), protect=False, seed=seed)
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


def evidence(posterior: Any, model: Any, score: Any) -> dict:
    """What the evidence says, and how right it would be as an answer."""
    return {
        "explanation": str(posterior.shift.kind),
        "contradicted": posterior.contradicted,
        "homophily": posterior.homophily,
        "sharpness": posterior.inverse_temperature / model.source.inverse_temperature,
        "sure": 100 * float(posterior.probs.amax(1).mean()),
        "right": score(posterior.probs),
        "source_accuracy": 100 * float(model.source.accuracy),
    }


def label_fitted(model: Any, graph: Any) -> Any:
    """Predictions of the γ that the target's own labels choose."""
    import torch

    import matcha_gnn as mg
    from matcha_gnn.evidence import fit_hop_weights

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
    half: str, methods: list[str], seeds: tuple[int, ...], device: str, jobs: int
) -> Iterator[list[dict]]:
    """All runs of a half that are done so far, one process per source model and seed."""
    groups: dict[str, tuple[Source, list[Case]]] = {}
    for case in cases()[half]:
        groups.setdefault(repr(case.source), (case.source, []))[1].append(case)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    context = multiprocessing.get_context("spawn")
    records: list[dict] = []
    with ProcessPoolExecutor(jobs, context, start_worker, (threads,)) as pool:
        running = [
            pool.submit(work, source, group, seed, methods, device)
            for seed in seeds
            for source, group in groups.values()
        ]
        for number, future in enumerate(as_completed(running), 1):
            records += future.result()
            print(f"{number} of {len(running)} source models", flush=True)
            yield sorted(records, key=lambda r: (r["case"], r["method"], r["seed"]))


def table(records: list[dict]) -> str:
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


def kinds(records: list[dict]) -> dict[str, list[dict]]:
    """Generated and real graphs apart; older records do not say which they are."""
    apart = {"generated": [], "real": []}
    for record in records:
        if "real" in record:
            apart["real" if record["real"] else "generated"].append(record)
    return {kind: own for kind, own in apart.items() if own}


def show(records: list[dict]) -> None:
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", help="tuning, test, confirmation, second, or show FILE")
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.what == "show":
        show(json.loads(args.file.read_text())["runs"])
        return
    seeds = TUNING_SEEDS if args.what == "tuning" else TEST_SEEDS
    halves = {half: [case.name for case in group] for half, group in cases().items()}
    for records in study(args.what, args.methods, seeds, args.device, args.jobs):
        if args.out:
            record = {"halves": halves, "seeds": seeds, "runs": records}
            with replacing(args.out) as beside:
                beside.write_text(json.dumps(record, indent=0) + "\n")
    show(records)


if __name__ == "__main__":
    main()
