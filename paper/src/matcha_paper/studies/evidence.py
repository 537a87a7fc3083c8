"""How honest are estimates, how often does the default hurt, and what does it gain?

Every shift of `evidence_cases`, four networks (GPRGNN; plain PyG GCN, GraphSAGE and GAT), and for
GPRGNN the base methods T3A and Tent too. Labels of the target are read for scoring alone.
Estimators that people use stand beside the default's: confidence after temperature scaling (CBPE),
ATC, difference of confidences (DoC), disagreement of two trainings (GDE; of the
plain networks), and a regression of
accuracy on confidence over simulated shifts of the source.

Run: python -m matcha_paper.studies.evidence tuning --out FILE.json [--device cuda] [--jobs 2]
     python -m matcha_paper.studies.evidence show FILE.json
"""

import copy
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GraphSAGE

import matcha_gnn as mg
from matcha_gnn.evidence.measuring import simulated_shifts
from matcha_gnn.evidence.probe import temperature_of
from matcha_gnn.evidence.summarising import held_out_nodes
from matcha_gnn.io.jsontext import write_json
from matcha_gnn.metrics import evaluate
from matcha_gnn.network.network import Network
from matcha_paper.experiments.run import worker_pool
from matcha_paper.studies.evidence_cases import TEST_SEEDS, TUNING_SEEDS, pairs
from matcha_paper.studies.shared import arguments, run_study, show_record

NETWORKS = {"gcn": GCN, "sage": GraphSAGE, "gat": GAT}
ALONE = ("gpr", "gcn")
"""Networks that are also tried without a source summary."""
EPOCHS, LARGE = 200, 10_000_000
BASELINES = ("cbpe", "atc", "doc", "gde", "regression")
Record = dict[str, Any]


def trained(kind: str, source: Data, classes: int, seed: int) -> mg.Backbone:
    """A model of one kind with its source summary."""
    features = source.num_features
    if kind == "gpr":
        model: mg.Backbone = mg.GPRGNN(features, classes).to(source.x.device)
        mg.fit(model, source, epochs=EPOCHS, seed=seed)
        return model
    net = plain(kind, source, classes, seed)
    model = mg.add_hops(net)
    mg.summarise_source(model, source, trained=source.train_mask)
    return model


def plain(kind: str, source: Data, classes: int, seed: int) -> nn.Module:
    """A PyG network, trained as its users do."""
    torch.manual_seed(seed)
    net = NETWORKS[kind](source.num_features, 32, num_layers=2, out_channels=classes, dropout=0.5)
    net = net.to(source.x.device)
    steps = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(EPOCHS):
        steps.zero_grad()
        logits = net(source.x, source.edge_index)[source.train_mask]
        nn.functional.cross_entropy(logits, source.y[source.train_mask]).backward()  # type: ignore[no-untyped-call]
        steps.step()
    ready: nn.Module = net.eval()
    return ready


def work(half: str, name: str, seed: int, device: str) -> list[Record]:
    """All runs of one shift and seed."""
    pair = pairs()[half][name]
    drawn = pair.draw(seed)
    # Small graphs are faster on a CPU core than on a shared accelerator.
    place = device if drawn[0].x.shape.numel() > LARGE else "cpu"
    source, target = (graph.to(place) for graph in drawn)
    source.x, target.x = dense(source.x), dense(target.x)
    classes = int(max(source.y.max(), target.y.max())) + 1
    found = []
    for kind in ("gpr", *NETWORKS):
        model = trained(kind, source, classes, seed)
        again = None if kind == "gpr" else plain(kind, source, classes, seed + 100)
        named = {"half": half, "case": name, "family": pair.family, "real": pair.real}
        record = named | {"seed": seed, "network": kind, "method": "erm"}
        record |= run(model, target) | estimators(model, again, source, target)
        found.append(record | (alone(model, target) if kind in ALONE else {}))
    return found


def dense(x: Tensor) -> Tensor:
    """Features as a dense tensor."""
    return x.to_dense() if x.layout != torch.strided else x


def run(model: mg.Backbone, target: Data) -> Record:
    """Accuracy and estimates of one adaptation."""
    scored = target.scored
    start = time.perf_counter()
    result = _adapted(model, target)
    seconds = time.perf_counter() - start
    before, after = (
        evaluate(probs.cpu(), target.y.cpu(), scored.cpu())
        for probs in (result.probs_before, result.probs)
    )
    record: Record = {
        "chosen": result.chosen,
        "obstacle": result.obstacle,
        "before": 100 * before.accuracy,
        "after": 100 * after.accuracy,
        "balanced_before": 100 * before.balanced_accuracy,
        "balanced_after": 100 * after.balanced_accuracy,
        "seconds": seconds,
    }
    if result.posterior is not None:
        posterior = result.posterior
        counted = replace(posterior, probs=posterior.probs[scored])
        record["source"] = _shown(counted.accuracy(result.labels_before[scored]))
        record["taken"] = _shown(counted.accuracy(result.labels[scored]))
        answers = {
            "pool": posterior.probs,
            "belief": posterior.belief,
            "probe": posterior.gathered.node,
        }
        for name, probs in answers.items():
            labels = probs.argmax(1)
            right = (labels == target.y)[scored].double().mean()
            record[name] = 100 * float(right)
            record[f"{name}_gain"] = _shown(posterior.gain(labels, result.labels_before))
        record["information"] = float(posterior.source.information)
        record["weights"] = [
            *posterior.source.evidence_weights,
            *posterior.source.pool_weights,
        ]
        record["noise"], record["rho"] = (
            posterior.gathered.noise,
            float(posterior.source.residual_correlation),
        )
    return record


def alone(model: mg.Backbone, target: Data) -> Record:
    """Accuracy of the default where the model has no source summary."""
    bare = copy.deepcopy(model)
    bare.source = None
    result = _adapted(bare, target)
    after = evaluate(result.probs.cpu(), target.y.cpu(), target.scored.cpu())
    return {"alone": 100 * after.accuracy, "alone_chosen": result.chosen}


def _adapted(model: mg.Backbone, target: Data) -> mg.Result:
    """The default's result; that a source model is kept is in the record, and needs no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mg.NotAdaptedWarning)
        return mg.adapt(model, target)


def _shown(interval: Any) -> list[float]:
    return [round(100 * each, 3) for each in (interval.value, interval.low, interval.high)]


@torch.no_grad()
def estimators(model: Network, again: nn.Module | None, source: Data, target: Data) -> Record:
    """What others would say of the accuracy of a model on the target, in percent."""
    plain_source, plain_target = mg.unlabelled(source), mg.unlabelled(target)

    def logits(network: Network, graph: mg.Graph) -> Tensor:
        return network.logits(graph).double().cpu()

    at_home = logits(model, plain_source)
    held = held_out_nodes(source, source.y, source.train_mask, at_home.shape[1])
    truth = source.y[held].cpu().numpy()
    at_home = at_home[held.cpu()]
    away = logits(model, plain_target)[target.scored.cpu()]
    factor = temperature_of(at_home.numpy(), truth)
    confidence, sure = ((factor * each).softmax(1).amax(1) for each in (at_home, away))
    right = float((at_home.argmax(1).numpy() == truth).mean())
    threshold = torch.quantile(confidence, 1 - right)
    seen, known = [], []
    for graph in simulated_shifts(plain_source, source.y, source.train_mask | held, 0):
        there = logits(model, graph)[held.cpu()]
        seen.append(float((factor * there).softmax(1).amax(1).mean()))
        known.append(float((there.argmax(1).numpy() == truth).mean()))
    slope, start = np.polyfit(seen, known, 1) if np.ptp(seen) > 1e-6 else (0.0, right)
    found = {
        "cbpe": float(sure.mean()),
        "atc": float((sure > threshold).double().mean()),
        "doc": right + float(sure.mean() - confidence.mean()),
        "regression": float(np.clip(slope * float(sure.mean()) + start, 0, 1)),
    }
    if again is not None:
        other = again(target.x, target.edge_index)[target.scored].argmax(1).cpu()
        found["gde"] = float((other == away.argmax(1)).double().mean())
    return {name: 100 * value for name, value in found.items()}


def study(
    half: str, names: Sequence[str], seeds: Sequence[int], device: str, jobs: int
) -> Iterator[list[Record]]:
    """All runs that are done so far, one process per shift and seed."""
    records: list[Record] = []
    slow = ("coauthor", "twitch", "ACM", "DBLP")
    names = sorted(names, key=lambda name: not name.startswith(slow))
    with worker_pool(jobs) as pool:
        running = [pool.submit(work, half, name, seed, device) for name in names for seed in seeds]
        for number, future in enumerate(as_completed(running), 1):
            records += future.result()
            print(f"{number} of {len(running)}", flush=True)
            yield sorted(records, key=lambda r: (r["case"], r["network"], r["method"], r["seed"]))


def show(records: Sequence[Record]) -> None:
    """Harm and gain, generated and real apart, then errors of estimates."""
    for real in (False, True):
        print(f"\n{'real' if real else 'generated'}")
        own = [r for r in records if r["real"] == real]
        print("| | runs | before | gain | hurt by more than 1 | worst | balanced gain |")
        print("|---|---|---|---|---|---|---|")
        for network, method in dict.fromkeys((r["network"], r["method"]) for r in own):
            _line(f"{network} {method}", [r for r in own if _is(r, network, method)])
        for family in dict.fromkeys(r["family"] for r in own):
            _line(family, [r for r in own if r["family"] == family and r["method"] == "erm"])
        if alone := _alone(own):
            _line("without a source summary", alone)
        _estimates([r for r in own if "cbpe" in r and "source" in r])
    for r in records:
        if r["after"] - r["before"] < -1:
            print(
                f"hurt: {r['case']}, {r['network']} {r['method']}, seed {r['seed']}: "
                f"{r['before']:.1f} to {r['after']:.1f} ({r['chosen']})"
            )


def _alone(records: Sequence[Record]) -> list[Record]:
    """Runs without a source summary, as those with one are written."""
    return [
        r | {"after": r["alone"], "balanced_after": float("nan")} for r in records if "alone" in r
    ]


def _is(record: Record, network: str, method: str) -> bool:
    return bool(record["network"] == network and record["method"] == method)


def _line(name: str, own: Sequence[Record]) -> None:
    change = np.array([r["after"] - r["before"] for r in own])
    balanced = np.mean([r["balanced_after"] - r["balanced_before"] for r in own])
    before = np.mean([r["before"] for r in own])
    print(
        f"| {name} | {len(own)} | {before:.1f} | {change.mean():+.2f} | {(change < -1).mean():.1%} "
        f"| {change.min():+.1f} | {balanced:+.2f} |"
    )


def _estimates(own: Sequence[Record]) -> None:
    print(f"{sum(not r['obstacle'] for r in own)} of {len(own)} runs have an estimate")
    own = [r for r in own if not r["obstacle"]]
    errors = {"ours": np.array([r["source"][0] - r["before"] for r in own])}
    for name in BASELINES:
        known = [r for r in own if name in r]
        errors[name] = np.array([r[name] - r["before"] for r in known])
    print("mean absolute error of the expected accuracy of the network, in points:")
    print(", ".join(f"{name} {np.abs(error).mean():.1f}" for name, error in errors.items()))
    covered = np.mean([r["source"][1] <= r["before"] <= r["source"][2] for r in own])
    taken = np.mean([r["taken"][1] <= r["after"] <= r["taken"][2] for r in own])
    width = np.mean([r["source"][2] - r["source"][1] for r in own])
    print(f"90% intervals cover {covered:.1%} (taken {taken:.1%}), mean width {width:.1f}")


def main() -> None:
    """Run one half of the study, or show the record of one."""
    parser = arguments(__doc__)
    parser.add_argument("what", choices=(*pairs(), "show"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--cases", nargs="+", default=[""], help="names begin with one of these")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.what == "show":
        show_record(parser, args.file, show)
        return
    seeds = TUNING_SEEDS if args.what == "tuning" else TEST_SEEDS
    chosen = [name for name in pairs()[args.what] if name.startswith(tuple(args.cases))]
    records: list[Record] = []
    for records in study(args.what, chosen, seeds, args.device, args.jobs):
        if args.out:
            write_json(args.out, {"seeds": seeds, "runs": records}, indent=0)
    show(records)


if __name__ == "__main__":
    run_study(main)
