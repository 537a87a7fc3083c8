"""Does the default lose anything without candidates that have other hop weights?

The default, `Guarded()`, beside one that takes the source, pool, belief, probe or, where a metric
is chosen, the pool for it: `Guarded(strategies=(Belief(),))`, less the source with its nodes moved
back. The same source models and targets get both: the test halves of the studies `harm` and
`evidence`, with their base methods; the networks and worlds of `networks`, alone, with a summary
and by F1; Syn-Cora from homophily 0.8 to every level; and Table 1. On Syn-Cora and between ACM and
DBLP it is also noted what the pool reaches whose network is not the source model, but the one with
fitted γ, or T3A inside Matcha. Labels of the target are read for scoring alone.

The second default is as good if mean accuracy differs by less than 0.1 points, in every family by
less than 0.3, and not one more run is hurt.

Run: python -m matcha_paper.studies.gate run --out results/gate.json [--processes 16]
         [--device cuda] [--studies harm table1] [--limit 5]
     python -m matcha_paper.studies.gate show results/gate.json
Runs that the file has already are left out.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matcha_gnn.gamma.strategies.guarded import MOVED_BACK
from torch import Tensor
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.evidence import ACCURACY
from matcha_gnn.io.files import replacing
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.io.provenance import versions
from matcha_gnn.metrics import accuracy
from matcha_paper.experiments import load
from matcha_paper.experiments.run import target_graph as target_of_cell
from matcha_paper.experiments.run import worker_pool
from matcha_paper.experiments.source_models import train_source
from matcha_paper.experiments.spec import OURS, Cell, cells, source_model
from matcha_paper.provenance import commit
from matcha_paper.studies import evidence, networks, plain_networks
from matcha_paper.studies.evidence_cases import pairs
from matcha_paper.studies.harm import train_on
from matcha_paper.studies.harm_cases import Case, Source, cases, target_graph
from matcha_paper.studies.shared import arguments, read_record, run_study, show_record

SEEDS = (0, 1, 2, 3, 4)
METHODS = ("erm", "t3a", "tent")
"""Base methods of the studies `harm` and `evidence`."""
LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)
WAYS = ("alone", "summary", "metric")
"""Of the study `networks`, those that compare candidates."""
KEPT = ("source", "pool", "belief", "probe")
"""Candidates of the second default; the pool for a metric is named after it."""
BOTH_WAYS = ("ACM-DBLP", "DBLP-ACM")
BOTH = ("default", "second")
HURT = 1.0
"""Points of accuracy whose loss counts as harm."""
MEAN_LIMIT, FAMILY_LIMIT, SHOWN = 0.1, 0.3, 12
Record = dict[str, Any]


class Unit(NamedTuple):
    """Runs that share a source model.

    Attributes:
        name: what the record calls it.
        work: takes a device and gives a record for each run.
    """

    name: str
    work: Callable[[str], list[Record]]


def compared(
    model: torch.nn.Module, graph: Data, scored: Tensor | None, method: str = "erm", **options: Any
) -> Record:
    """Both defaults around one base method on one target.

    Args:
        model: trained, with its source summary or without.
        graph: the target, with labels.
        scored: the nodes that count, bool [N]; all by default.
        method: name of the base method.
        options: of `mg.adapt`.
    """
    default = adapted(model, graph, method, mg.Guarded(), **options)
    second = adapted(model, graph, method, mg.Guarded(strategies=(mg.Belief(),)), **options)
    name, probs = taken_among_kept(second)
    record: Record = {"method": method, "chosen": _name(default), "second_chosen": name}
    answers = {"before": default.probs_before, "default": default.probs, "second": probs}
    record |= {when: points(each, graph, scored) for when, each in answers.items()}
    record["same_probs"] = torch.equal(default.probs, probs)
    if default.goal != ACCURACY:
        nodes = slice(None) if scored is None else scored
        for when, each in answers.items():
            record[f"metric_{when}"] = default.goal.score(graph.y[nodes], each[nodes])
    return record


def adapted(
    model: torch.nn.Module, graph: Data, method: str, strategy: mg.Strategy, **options: Any
) -> mg.Adaptation:
    """The result of `adapt`; that a source model is kept is in the record, and needs no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mg.NotAdaptedWarning)
        return mg.adapt(model, graph, method, strategy, **options)


def taken_among_kept(result: mg.Adaptation) -> tuple[str, Tensor]:
    """Name and probabilities of what is taken where the source's nodes are not moved back."""
    decision = result.decision
    assert decision is not None
    if not decision.chosen.startswith(MOVED_BACK):
        return decision.chosen, result.probs
    source, *others = decision.candidates
    least = decision.threshold or 0.0
    better = [one for one in others if not one.name.startswith(MOVED_BACK) and one.gain.low > least]
    by_bound = decision.goal == ACCURACY
    best = max(better, key=lambda one: one.gain.low if by_bound else one.gain.value, default=source)
    assert best.probs is not None
    return best.name, best.probs


def points(probs: Tensor, graph: Data, scored: Tensor | None) -> float:
    """Accuracy in percent."""
    return round(100 * accuracy(probs, graph.y, scored), 4)


def _name(result: mg.Adaptation) -> str:
    assert result.decision is not None
    return result.decision.chosen


def earned(model: mg.Backbone, graph: Data, scored: Tensor | None) -> dict[str, list[float]]:
    """What γ earns: accuracy in percent of each answer and, in points, the lower bound of its gain.

    The pool is that of the source model's evidence, with another network's probabilities.
    """
    default = mg.adapt(model, graph)
    assert default.decision is not None
    posterior = default.decision.posterior
    assert posterior is not None
    answers = {
        "source": default.probs_before,
        "fitted": mg.adapt(model, graph, strategy=mg.Fitted()).probs,
        "Matcha": mg.adapt(model, graph, strategy=mg.Matcha()).probs,
        "T3A": mg.predict(model, graph, mg.T3A()).probs,
        "T3A in Matcha": mg.adapt(model, graph, mg.T3A(), mg.Matcha()).probs,
    }
    for name, probs in list(answers.items()):
        answers[f"pool around {name}"] = posterior.pooled(probs, posterior.source.pool_weights)
    found = {}
    for name, each in answers.items():
        gain = posterior.gain(each.argmax(1), default.labels_before)
        found[name] = [points(each, graph, scored), round(100 * gain.low, 4)]
    return found


def harm_units() -> Iterator[Unit]:
    """The test half of `harm`, a source and seed each."""
    sources: dict[str, tuple[Source, list[Case]]] = {}
    for case in cases()["test"]:
        sources.setdefault(repr(case.source), (case.source, []))[1].append(case)
    for source, group in sources.values():
        for seed in SEEDS:
            work = partial(_shifts, "harm", source, group, seed, METHODS)
            yield Unit(f"harm, {group[0].name}, {seed}", work)


def level_units() -> Iterator[Unit]:
    """Syn-Cora from homophily 0.8 to every level, on its three published graphs."""
    for run in (1, 2, 3):
        source = Source("syn_cora", {"homophily": 0.8, "run": run})
        group = [
            Case("syn-cora levels", f"r{run}, 0.8-{level:g}", source, {"homophily": level})
            for level in LEVELS
        ]
        for seed in SEEDS:
            work = partial(_shifts, "levels", source, group, seed, ("erm",))
            yield Unit(f"levels, r{run}, {seed}", work)


def _shifts(
    study: str,
    source: Source,
    group: Sequence[Case],
    seed: int,
    methods: Sequence[str],
    device: str,
) -> list[Record]:
    model, records = train_on(source, seed, device), []
    for case in group:
        graph = target_graph(case, seed)
        scored = graph.get("test_mask")
        for method in methods:
            record: Record = {"study": study, "family": case.family, "case": case.name}
            record |= {"seed": seed, "network": "gpr"} | compared(model, graph, scored, method)
            if study == "levels":
                record["earned"] = earned(model, graph, scored)
            records.append(record)
    return records


def evidence_units() -> Iterator[Unit]:
    """The test half of `evidence`, a shift, seed and network each; ACM-DBLP for what γ earns."""
    halves = pairs()
    for name in halves["test"]:
        for kind in ("gpr", *evidence.NETWORKS):
            for seed in SEEDS:
                work = partial(_pair, "test", name, kind, seed)
                yield Unit(f"evidence, {name}, {kind}, {seed}", work)
    for seed in SEEDS:
        work = partial(_pair, "tuning", BOTH_WAYS[0], "gpr", seed)
        yield Unit(f"evidence, {BOTH_WAYS[0]}, gpr, {seed}", work)


def _pair(half: str, name: str, kind: str, seed: int, device: str) -> list[Record]:
    pair = pairs()[half][name]
    drawn = pair.draw(seed)
    # Small graphs are faster on a CPU core than on a shared accelerator.
    place = device if drawn[0].x.shape.numel() > evidence.LARGE else "cpu"
    source, target = (graph.to(place) for graph in drawn)
    source.x, target.x = evidence.dense(source.x), evidence.dense(target.x)
    classes = int(max(source.y.max(), target.y.max())) + 1
    model = evidence.trained(kind, source, classes, seed)
    about = {"study": "evidence", "family": pair.family, "case": name, "seed": seed}
    records = []
    for method in METHODS if kind == "gpr" and half == "test" else ("erm",):
        record = about | {"network": kind} | compared(model, target, target.scored, method)
        if name in BOTH_WAYS and kind == "gpr" and method == "erm":
            record["earned"] = earned(model, target, target.scored)
        records.append(record)
    return records


def network_units() -> Iterator[Unit]:
    """All of `networks`, a network, world and seed each."""
    for kind in plain_networks.KINDS:
        for world in networks.CASES:
            for seed in networks.SEEDS:
                yield Unit(f"networks, {kind}, {world}, {seed}", partial(_plain, kind, world, seed))


def _plain(name: str, world: str, seed: int, device: str) -> list[Record]:
    kind, case = plain_networks.KINDS[name], networks.CASES[world]
    source, target = case.source.draw(seed), case.target.draw(networks.TARGET_SEED + seed)
    chance = torch.rand(source.num_nodes, generator=torch.Generator().manual_seed(seed))
    source.train_mask = chance < 0.5
    source, target = kind.data(source), kind.data(target)
    net = plain_networks.trained(kind, source, len(case.source.shares), seed)
    summary = mg.summarise_source(net, source, trained=source.train_mask)
    metric = "macro_f1" if case.rare is None else "f1"
    options: dict[str, dict[str, Any]] = {
        "alone": {},
        "summary": {"source": summary},
        "metric": {"source": summary, "metric": metric, "positive": case.rare},
    }
    about = {"study": "networks", "case": world, "seed": seed, "network": name}
    return [
        about | {"family": f"{way}, {world}"} | compared(net, target, None, **options[way])
        for way in WAYS
    ]


def table_units() -> Iterator[Unit]:
    """Table 1 with the default around three base methods."""
    every = [
        cell
        for cell in cells(load("table1"))
        if cell.run.loss == OURS and cell.run.method in METHODS
    ]
    for _, group in groupby(every, key=source_model):
        first, *others = group
        name = f"table1, {first.column}, {first.seed}"
        yield Unit(name, partial(_cells, (first, *others)))


def _cells(group: Sequence[Cell], device: str) -> list[Record]:
    model, records = train_source(group[0], device).cpu(), []
    for cell in group:
        graph = target_of_cell(cell, model, "cpu")
        five = "five graphs" if cell.column.endswith("-five") else "released graphs"
        record: Record = {"study": "table1", "family": five, "case": cell.column}
        record |= {"seed": cell.seed, "network": cell.train.backbone}
        records.append(
            record | compared(model, graph, graph.get("test_mask"), cell.run.method, seed=cell.seed)
        )
    return records


STUDIES: dict[str, Callable[[], Iterator[Unit]]] = {
    "evidence": evidence_units,
    "harm": harm_units,
    "table1": table_units,
    "levels": level_units,
    "networks": network_units,
}
"""Those whose units take longest come first."""


def work(unit: Unit, device: str) -> list[Record]:
    """The records of a unit, each with its name, by one thread."""
    torch.set_num_threads(1)
    return [{"unit": unit.name} | record for record in unit.work(device)]


def study(units: Sequence[Unit], processes: int, device: str) -> Iterator[list[Record]]:
    """The records of each unit as it is done."""
    with worker_pool(processes) as pool:
        running = [pool.submit(work, unit, device) for unit in units]
        for number, future in enumerate(as_completed(running), 1):
            yield future.result()
            print(f"{number} of {len(running)}", flush=True)


def write(path: Path, records: Sequence[Record]) -> None:
    """One line for each run."""
    head = json_text({"commit": commit(), "versions": versions()}, indent=None)[1:-1]
    ordered = sorted(records, key=lambda r: (list(STUDIES).index(r["study"]), r["unit"]))
    lines = ",\n".join(json_text(record, indent=None) for record in ordered)
    with replacing(path) as beside:
        beside.write_text(f'{{{head}, "runs": [\n{lines}\n]}}\n')


def show(records: Sequence[Record]) -> None:
    """Means by family, harm, what was taken, the verdict, and what γ earns."""
    counted = [r for r in records if (r["study"], r["case"]) != ("evidence", BOTH_WAYS[0])]
    by_family: dict[str, list[Record]] = {}
    for record in counted:
        by_family.setdefault(f"{record['study']}, {record['family']}", []).append(record)
    print("| | runs | before | default | second | difference | hurt | hurt, second | γ taken |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, own in (by_family | {"all": counted}).items():
        means = [np.mean([r[when] for r in own]) for when in ("before", "default", "second")]
        print(
            f"| {name} | {len(own)} | {means[0]:.2f} | {means[1]:.2f} | {means[2]:.2f} "
            f"| {_difference(own):+.3f} | {_hurt(own, 'default')} | {_hurt(own, 'second')} "
            f"| {sum(_has_gamma(r) for r in own)} |"
        )
    _show_metrics([r for r in counted if "metric_default" in r])
    _show_choices(counted)
    print(verdict(counted, by_family))
    _show_earned([r for r in records if "earned" in r])


def _difference(own: Sequence[Record]) -> float:
    return float(np.mean([r["second"] - r["default"] for r in own]))


def _lost(record: Record, which: str) -> bool:
    """Whether a run is hurt."""
    return bool(record[which] - record["before"] < -HURT)


def _hurt(own: Sequence[Record], which: str) -> int:
    return sum(_lost(record, which) for record in own)


def _has_gamma(record: Record) -> bool:
    """Whether the default took what the second default does not try."""
    return record["chosen"] not in KEPT and not record["chosen"].startswith("pool for")


def _show_metrics(records: Sequence[Record]) -> None:
    if records:
        means = {
            when: np.mean([r[f"metric_{when}"] for r in records])
            for when in ("before", "default", "second")
        }
        shown = ", ".join(f"{when} {mean:.4f}" for when, mean in means.items())
        print(f"\n{len(records)} runs by F1, mean F1: {shown}")


def _show_choices(records: Sequence[Record]) -> None:
    """What was taken with γ, whether equal choices have equal bits, and what differs most."""
    names = [r["chosen"] for r in records if _has_gamma(r)]
    counts = {name: names.count(name) for name in sorted(set(names))}
    print(f"\ntaken with other hop weights or moved nodes: {counts or 'none'}")
    alike = [r for r in records if r["chosen"] == r["second_chosen"]]
    equal = sum(r["same_probs"] for r in alike)
    print(
        f"{len(alike)} of {len(records)} runs take the same candidate, {equal} with the same bits"
    )
    by_difference = sorted(records, key=lambda r: -abs(r["second"] - r["default"]))[:SHOWN]
    for r in by_difference:
        if r["second"] != r["default"]:
            print(
                f"{r['study']}, {r['case']}, {r['network']} {r['method']}, seed {r['seed']}: "
                f"before {r['before']:.1f}, default {r['default']:.1f} ({r['chosen']}), second "
                f"{r['second']:.1f} ({r['second_chosen']})"
            )


def verdict(records: Sequence[Record], by_family: dict[str, list[Record]]) -> str:
    """Whether the second default is as good, by the rule above."""
    mean = _difference(records)
    widest = max(by_family, key=lambda name: abs(_difference(by_family[name])))
    family = _difference(by_family[widest])
    hurt = {which: {n for n, r in enumerate(records) if _lost(r, which)} for which in BOTH}
    newly, no_longer = hurt["second"] - hurt["default"], hurt["default"] - hurt["second"]
    few = len(newly) <= len(no_longer)
    passed = abs(mean) < MEAN_LIMIT and abs(family) < FAMILY_LIMIT and few
    return (
        f"\n{'passed' if passed else 'not passed'}: mean difference {mean:+.3f} points, largest of "
        f"a family {family:+.3f} ({widest}), {len(newly)} runs newly hurt, {len(no_longer)} no "
        "longer"
    )


def _show_earned(records: Sequence[Record]) -> None:
    """Mean accuracy of each answer, and how often its bound is above that of the pool."""
    groups = dict.fromkeys(r["case"] if r["study"] == "evidence" else r["study"] for r in records)
    for group in groups:
        own = [r for r in records if group in (r["case"], r["study"])]
        print(f"\n{group}, {len(own)} runs: accuracy, and runs with a bound above the pool's")
        for name in own[0]["earned"]:
            mean = np.mean([r["earned"][name][0] for r in own])
            above = sum(r["earned"][name][1] > r["earned"]["pool around source"][1] for r in own)
            print(f"  {name}: {mean:.2f}, {above}")


def main() -> None:
    """Run what is not recorded yet, or show the record."""
    parser = arguments(__doc__)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--studies", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="cpu", help="where large models are trained")
    parser.add_argument("--limit", type=int, help="source models of each study")
    args = parser.parse_args()
    if args.what == "show":
        show_record(parser, args.file, show)
        return
    records: list[Record] = read_record(args.out).get("runs", []) if args.out else []
    there = {record["unit"] for record in records}
    units = [unit for name in args.studies for unit in list(STUDIES[name]())[: args.limit]]
    for found in study([u for u in units if u.name not in there], args.processes, args.device):
        records += found
        if args.out:
            write(args.out, records)
    show(records)


if __name__ == "__main__":
    run_study(main)
