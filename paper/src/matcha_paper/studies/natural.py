"""How far can the default be trusted on natural graphs, and on broken ones?

Families of natural pairs, split in two halves before anything was run. Constants of
`evidence.trust` were fitted on the first half, each family judged by constants that were fitted
without it; the second half was run once, with the constants as they are. Generated shifts stand
beside them, apart. Every pair, network and seed is trained and run once; all that a rule may need
is kept, so that rules are compared in a second.

Run: python -m matcha_paper.studies.natural run first --out results/natural-first.jsonl
     python -m matcha_paper.studies.natural show results/natural-first.jsonl
"""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from pathlib import Path
from typing import Any
from unittest import mock

import networkx  # type: ignore[import-untyped]
import numpy as np
import scipy.sparse.linalg
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, MLP, GraphSAGE
from torch_geometric.utils import subgraph

import matcha_gnn as mg
from matcha_gnn.errors import NoEvidenceError
from matcha_gnn.evidence import measuring
from matcha_gnn.evidence.features import compare
from matcha_gnn.evidence.goals import ACCURACY, BalancedAccuracy
from matcha_gnn.evidence.parts import BELIEF
from matcha_gnn.evidence.posterior import infer
from matcha_gnn.evidence.probe import ProbeFit, fit_probe
from matcha_gnn.evidence.rating import rater_of
from matcha_gnn.evidence.trust import (
    BEYOND_FACTOR,
    CONTRADICTION,
    FREE,
    MOST_ERROR,
    PARTS_FACTOR,
    UPWARD,
    Trust,
    mix_distance,
    parts_error,
)
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.metrics import evaluate
from matcha_gnn.network.network import Network, as_network
from matcha_paper.datasets import coauthor_cs, cora
from matcha_paper.datasets.arxiv import arxiv_structure_until
from matcha_paper.datasets.syn_cora import syn_cora_graph
from matcha_paper.studies.broken import BROKEN, _natural, _with
from matcha_paper.studies.evidence import estimators
from matcha_paper.studies.evidence_cases import pairs as shift_pairs
from matcha_paper.studies.shared import arguments, run_study
from matcha_paper.studies.worlds import World

FAMILIES = {
    "first": ("citation", "counties", "universities", "Cora cuts", "Syn-Cora"),
    "second": ("airports", "Twitch", "colleges", "Cora-ML", "Coauthor-CS cuts"),
    "third": ("arXiv years",),
}
"""Constants were fitted on the first, with one look at the second; the third came after them. Its
citations, topics and years are measured, its features drawn by topic."""
GENERATED = {"first": ("tuning", 10), "second": ("test", 0)}
NETWORKS = ("GPRGNN", "GCN", "GraphSAGE", "GAT", "MLP")
BROKEN_FOR = ("GCN", "GraphSAGE")
"""Networks with which broken targets are tried."""
EPOCHS, TRAINED = 100, 0.6
COLUMNS = {"citation": 1500, "Twitch": 600, "Coauthor-CS cuts": 1000}
"""The most frequent columns of both graphs are kept, for time."""
TWITCH_NODES = 4000
ANSWERS, BALANCED_POOL = ("source", "pool", "belief", "probe"), "pool for balanced accuracy"
SYN_CORA = ((0.8, 0.2), (0.8, 0.5), (0.2, 0.8), (0.5, 0.9))
ARXIV_YEARS = ((1971, 2009), (2010, 2012), (2013, 2014))
Record = dict[str, Any]


def natural_pairs(half: str) -> Iterator[tuple[str, str, Data, list[tuple[str, Data]]]]:
    """Family, name of the source, source, and its targets by name."""
    for family in FAMILIES[half]:
        if family in ("Cora cuts", "Coauthor-CS cuts"):
            yield from _cuts(family)
        elif family == "Syn-Cora":
            yield from _syn_cora()
        elif family == "arXiv years":
            yield from _arxiv_years()
        else:
            names, read = _natural()[family]
            graphs = {name: _plain(read(name)) for name in names}
            if family == "Twitch":
                graphs = {name: _some(each, TWITCH_NODES) for name, each in graphs.items()}
            graphs = _common(graphs, COLUMNS.get(family))
            for name in names:
                targets = [(other, graphs[other]) for other in names if other != name]
                yield family, name, _split(graphs[name]), targets


def generated_pairs(half: str) -> Iterator[tuple[str, str, Data, list[tuple[str, Data]]]]:
    """Generated shifts of the evidence study."""
    part, seed = GENERATED[half]
    for name, pair in shift_pairs()[part].items():
        if isinstance(pair.source, World):
            source, target = pair.draw(seed)
            yield pair.family, name, _plain(source, "train_mask"), [(name, _plain(target))]


def _syn_cora() -> Iterator[tuple[str, str, Data, list[tuple[str, Data]]]]:
    """Rows are split by feature: those that are trained on are not in the target."""
    for run, (high, low) in enumerate(SYN_CORA):
        source, target = (syn_cora_graph(h, 1 + run % 3) for h in (high, low))
        chance = torch.rand(source.num_nodes, generator=torch.Generator().manual_seed(0))
        known = source.train_mask
        drawn = _plain(source)
        drawn.test_mask = ~known
        drawn.train_mask = known & (chance < 0.6)
        met = _plain(target)
        met.scored = target.test_mask
        yield "Syn-Cora", f"{high}-{low}", drawn, [(f"r{1 + run % 3}", met)]


def _arxiv_years() -> Iterator[tuple[str, str, Data, list[tuple[str, Data]]]]:
    """Papers of some years, and the citations among them."""
    until = arxiv_structure_until([years[1] for years in ARXIV_YEARS])
    graphs = {
        f"{first}-{last}": _induced(graph, graph.test_mask)
        for (first, last), graph in zip(ARXIV_YEARS, until, strict=True)
    }
    for one, other in permutations(graphs, 2):
        yield "arXiv years", f"{one}, {other}", _split(graphs[one]), [(other, graphs[other])]


def _cuts(family: str) -> Iterator[tuple[str, str, Data, list[tuple[str, Data]]]]:
    """Two sides of a network that is cut by its communities; every side is a source once."""
    graph = _plain(cora() if family == "Cora cuts" else coauthor_cs())
    graph = _common({"": graph}, COLUMNS.get(family))[""]
    parts = 2 if family == "Cora cuts" else 4
    for way, seed in (("spectral", 0), ("louvain", 0), ("louvain", 1), ("louvain", 2)):
        spectral = way == "spectral"
        side = _spectral(graph, parts) if spectral else _louvain(graph, parts, seed)
        sides = [_induced(graph, side == k) for k in (0, 1)]
        for one, other in permutations((0, 1)):
            yield family, f"{way}{seed}.{one}", _split(sides[one]), [(f"{other}", sides[other])]


def _spectral(graph: Data, parts: int) -> Tensor:
    """Equal parts by the order of the second eigenvector of the normalised adjacency."""
    n = graph.num_nodes
    ends = graph.edge_index.numpy()
    matrix = scipy.sparse.coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), (n, n)).tocsr()
    degree = np.asarray(matrix.sum(1)).ravel().clip(1)
    scaled = scipy.sparse.diags_array(degree**-0.5) @ (matrix + scipy.sparse.eye_array(n))
    scaled = scaled @ scipy.sparse.diags_array(degree**-0.5)
    start = np.random.default_rng(0).normal(size=n)
    # Small components come first among eigenvectors: more are averaged by their order.
    values, vectors = scipy.sparse.linalg.eigsh(scaled, k=2, which="LA", v0=start)
    order = (vectors[:, 0] / degree**0.5).argsort(kind="stable")
    side = np.empty(n, dtype=np.int64)
    side[order] = np.arange(n) * parts // n
    return torch.from_numpy(side)


def _louvain(graph: Data, parts: int, seed: int) -> Tensor:
    """Communities, gathered at random into parts of about the same size."""
    net = networkx.Graph()
    net.add_nodes_from(range(graph.num_nodes))
    net.add_edges_from(graph.edge_index.T.tolist())
    found = networkx.community.louvain_communities(net, seed=seed)
    order = np.random.default_rng(seed).permutation(len(found))
    side, sizes = torch.zeros(graph.num_nodes, dtype=torch.long), [0] * parts
    for k in order:
        least = sizes.index(min(sizes))
        members = torch.tensor(sorted(found[k]))
        side[members] = least
        sizes[least] += len(members)
    return side


def _induced(graph: Data, mask: Tensor) -> Data:
    edges, _ = subgraph(mask, graph.edge_index, relabel_nodes=True, num_nodes=graph.num_nodes)
    return Data(x=graph.x[mask], edge_index=edges, y=graph.y[mask])


def _some(graph: Data, most: int) -> Data:
    """A random walk's worth of nodes: neighbours come together."""
    draws = np.random.default_rng(0)
    sender, receiver = graph.edge_index.numpy()
    order = np.argsort(sender, kind="stable")
    starts = np.searchsorted(sender[order], np.arange(graph.num_nodes + 1))
    taken: dict[int, None] = {}
    node = int(draws.integers(graph.num_nodes))
    while len(taken) < min(most, graph.num_nodes):
        taken[node] = None
        low, high = starts[node], starts[node + 1]
        stuck = low == high or draws.random() < 0.15
        node = int(
            draws.integers(graph.num_nodes) if stuck else receiver[order[draws.integers(low, high)]]
        )
    mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
    mask[list(taken)] = True
    return _induced(graph, mask)


def _plain(graph: Data, *kept: str) -> Data:
    x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    extra = {name: graph[name] for name in kept}
    return Data(x=x.float(), edge_index=graph.edge_index, y=graph.y, **extra)


def _common(graphs: dict[str, Data], most: int | None) -> dict[str, Data]:
    if most is None:
        return graphs
    used = sum((each.x != 0).double().mean(0) for each in graphs.values())
    columns = used.topk(min(most, len(used))).indices.sort().values
    found = {}
    for name, each in graphs.items():
        found[name] = each.clone()
        found[name].x = each.x[:, columns]
    return found


def _split(graph: Data) -> Data:
    """With 60% of the nodes to train on."""
    found = graph.clone()
    chance = torch.rand(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    found.train_mask = chance < TRAINED
    return found


class _Features(nn.Module):
    """An MLP that sees no edge."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.net = MLP([features, 32, classes], dropout=0.5, norm=None)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.net(x)
        return logits


def trained(kind: str, source: Data, classes: int, seed: int) -> nn.Module:
    """A network of one kind, trained as its users do."""
    torch.manual_seed(seed)
    if kind == "GPRGNN":
        model = mg.GPRGNN(source.num_features, classes, hidden_channels=32)
        mg.fit(model, source, epochs=EPOCHS, seed=seed)
        return model
    builds: dict[str, Callable[..., nn.Module]] = {"GCN": GCN, "GraphSAGE": GraphSAGE, "GAT": GAT}
    if kind == "MLP":
        net: nn.Module = _Features(source.num_features, classes)
    else:
        net = builds[kind](source.num_features, 32, num_layers=2, out_channels=classes, dropout=0.5)
    steps = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(EPOCHS):
        steps.zero_grad()
        logits = net(source.x, source.edge_index)[source.train_mask]
        nn.functional.cross_entropy(logits, source.y[source.train_mask]).backward()  # type: ignore[no-untyped-call]
        steps.step()
    return net.eval()


class Source:
    """A source graph; the probe is the same for all networks, and fitted once."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.fit: ProbeFit | None = None

    def fit_probe(
        self, x: Tensor, labels: Tensor, labelled: Tensor, classes: int, seed: int = 0
    ) -> ProbeFit:
        """As `evidence.probe.fit_probe`."""
        if self.fit is None:
            self.fit = fit_probe(x, labels, labelled, classes, seed)
        return self.fit

    def summarise(self, net: nn.Module) -> tuple[mg.SourceSummary, Network, Record]:
        """Summary, model, and what the source shows."""
        model = as_network(net, self.data)
        start = time.perf_counter()
        with mock.patch.object(measuring, "fit_probe", self.fit_probe):
            summary = mg.summarise_source(model, self.data, trained=self.data.train_mask)
        seconds = time.perf_counter() - start
        evidence, features = summary.evidence, summary.features
        record = {
            "labelled": int(3 * evidence.part_nodes),
            "held out": int(evidence.held_out),
            "linked": float(features.linked),
            "residual": float(evidence.residual_correlation),
            "simulated": evidence.estimate_error,
            "parts": evidence.parts.tolist(),
            "error on parts": parts_error(evidence),
            "seconds": seconds,
        }
        return summary, model, _rounded(record)


@torch.no_grad()
def _probs(model: Network, graph: mg.Graph) -> Tensor:
    return model.logits(graph).softmax(1)


def _rounded(value: Any) -> Any:
    """Four digits, for a small file."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


@torch.no_grad()
def target_facts(model: Network, summary: mg.SourceSummary, target: Data) -> Record:
    """What is said of a target, without the error of the model, and what is true.

    Labels are read for scoring alone.
    """
    graph, features = unlabelled(target), summary.features
    compared = compare(features, graph)
    if compared.problem:
        return {"problem": compared.problem}
    scored = target.get("scored")
    scored = torch.ones(target.num_nodes, dtype=torch.bool) if scored is None else scored
    network = _probs(model, graph)
    try:
        posterior = infer(summary, graph, network)
    except NoEvidenceError as reason:
        return {"obstacle": str(reason)}
    found, source = posterior.trust, posterior.source
    # As if the model of the evidence were right: rules for its error are compared by the record.
    bare = replace(posterior)
    bare.__dict__["trust"] = Trust(0.0, 0.0, 0.0, 0.0, 0.0, found.labelled)
    shares = torch.bincount(target.y[scored], minlength=network.shape[1]).double()
    record: Record = {
        "nodes": target.num_nodes,
        "obstacle": bare.rejected,
        "offset": compared.offset,
        "mix": found.mix,
        "true mix": mix_distance(shares / shares.sum(), source.shares),
        "contradiction": found.contradiction,
        "answers": {},
    }
    balanced = BalancedAccuracy()
    bias = torch.tensor(balanced.bias(posterior.probs)).to(posterior.probs)
    answers = {
        "source": network.to(posterior.probs),
        "pool": posterior.probs,
        "belief": posterior.belief,
        "probe": posterior.gathered.node.exp(),
        BALANCED_POOL: (posterior.probs.clamp_min(1e-12).log() + bias).softmax(1),
    }
    raters = [rater_of(goal, bare) for goal in (ACCURACY, balanced)]
    before = [rater.rate(answers["source"]) for rater in raters]
    for name, probs in answers.items():
        scores = evaluate(probs, target.y, scored)
        changed = float((probs.argmax(1) != network.argmax(1)).double().mean())
        row = [scores.accuracy, scores.balanced_accuracy, changed]
        for rater, first in zip(raters, before, strict=True):
            rated = rater.rate(probs)
            row += [*rater.value(rated), *rater.gain(rated, first)]
        record["answers"][name] = [*row, rated.per_error]
    return dict(_rounded(record))


def _draw(size: int, seed: int = 7) -> Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))


def _rows_zero(graph: Data) -> Data:
    x = graph.x.clone()
    x[_draw(len(x))[: len(x) // 5]] = 0
    return _with(graph, x)


def _columns_zero(graph: Data) -> Data:
    x = graph.x.clone()
    x[:, _draw(x.shape[1])[: x.shape[1] // 5]] = 0
    return _with(graph, x)


def _edges(graph: Data, edges: Tensor) -> Data:
    found = graph.clone()
    found.edge_index = edges
    return found


def _duplicated(graph: Data) -> Data:
    n = graph.num_nodes
    edges = torch.cat([graph.edge_index, graph.edge_index + n], 1)
    found = Data(x=graph.x.repeat(2, 1), edge_index=edges, y=graph.y.repeat(2))
    if "scored" in graph:
        found.scored = graph.scored.repeat(2)
    return found


def _another(graph: Data, source: Data) -> Data:
    """The source's edges, numbers of nodes that the target has not left out."""
    edges = source.edge_index
    return _edges(graph, edges[:, (edges < graph.num_nodes).all(0)])


def broken_targets(source: Data, target: Data) -> Iterator[tuple[str, Data]]:
    """The target as broken pipelines deliver it."""
    for name, change in BROKEN.items():
        yield name, _with(target, change(target.x))
    edges, loops = target.edge_index, torch.arange(target.num_nodes)
    yield "a fifth of rows zero", _rows_zero(target)
    yield "a fifth of columns zero", _columns_zero(target)
    yield (
        "edges permuted",
        _edges(target, torch.stack([edges[0], _draw(target.num_nodes)[edges[1]]])),
    )
    yield "edges reversed", _edges(target, edges.flip(0))
    yield "edges of another graph", _another(target, source)
    yield "no edges", _edges(target, edges[:, :0])
    yield "self loops only", _edges(target, torch.stack([loops, loops]))
    yield "nodes twice", _duplicated(target)


def work(half: str, kind: str, done: set[tuple[str, ...]]) -> Iterator[Record]:
    """One record per source and network, with all its targets, as they are and broken."""
    drawn = natural_pairs(half) if kind == "natural" else generated_pairs(half)
    for family, name, data, targets in drawn:
        networks = NETWORKS if kind == "natural" else NETWORKS[:3]
        classes = 1 + int(max(data.y.max(), *(each.y.max() for _, each in targets)))
        source = Source(data)
        for network in networks:
            if (kind, family, name, network) in done:
                continue
            net = trained(network, data, classes, 0)
            again = trained(network, data, classes, 100) if network == "GCN" else None
            summary, model, facts = source.summarise(net)
            record: Record = {"kind": kind, "family": family, "source": name, "network": network}
            record |= facts | {"targets": {}}
            for other, target in targets:
                found = target_facts(model, summary, target)
                found["rivals"] = _rivals(model, again, data, target)
                if network in BROKEN_FOR and kind == "natural":
                    found["broken"] = {
                        way: _short(target_facts(model, summary, changed))
                        for way, changed in broken_targets(data, target)
                    }
                record["targets"][other] = found
            yield record


def _short(record: Record) -> Record:
    """Of a broken target: the answers by accuracy, or why there are none."""
    if record.get("problem") or record.get("obstacle"):
        return {"refused": 1}
    answers = {name: row[:9] for name, row in record["answers"].items() if name != BALANCED_POOL}
    return {name: record[name] for name in ("mix", "contradiction")} | {"answers": answers}


def _rivals(model: Network, again: nn.Module | None, source: Data, target: Data) -> Record:
    """What other estimators say, as shares; nothing where too few nodes were held out."""
    whole = target.clone()
    if "scored" not in whole:
        whole.scored = torch.ones(target.num_nodes, dtype=torch.bool)
    try:
        with torch.no_grad():
            found = estimators(model, again, source, whole)
    except (RuntimeError, ValueError, IndexError):
        return {}
    return {name: round(value / 100, 4) for name, value in found.items()}


@dataclass(frozen=True)
class Rule:
    """How the error of the model is made from what a record holds; see `evidence.trust`."""

    factor: float = PARTS_FACTOR
    beyond: float = BEYOND_FACTOR
    contradiction: float = CONTRADICTION
    most: float = MOST_ERROR

    def error(self, run: Record) -> float:
        """Of any group of nodes."""
        surplus: float = run["answers"]["pool"][3] - run["seen"]
        beyond = max(0.0, run["mix"] - FREE) + max(0.0, surplus - FREE)
        missed: float = run["error on parts"]
        return min(1.0, float(self.factor * missed + self.beyond * beyond))

    def tells(self, run: Record) -> bool:
        """Whether it says anything at all."""
        if run.get("problem") or run.get("obstacle") or run.get("refused"):
            return False
        return run["contradiction"] <= self.contradiction and self.error(run) < self.most


PRESENT = Rule(0.0, 0.0, 9.0, 9.0)
"""Before: no error of the model."""
_VALUE, _GAIN = {"accuracy": 3, "balanced": 9}, {"accuracy": 6, "balanced": 12}


def interval(run: Record, name: str, rule: Rule) -> tuple[float, float]:
    """Of an answer's accuracy."""
    _, low, high = run["answers"][name][3:6]
    error = rule.error(run)
    return max(0.0, low - error), min(1.0, high + UPWARD * error)


def chosen(run: Record, rule: Rule, goal: str = "accuracy") -> str:
    """The answer that is taken."""
    if not rule.tells(run):
        return "source"
    first, names, bounds = run["answers"]["source"], [*ANSWERS[1:]], {}
    if goal == "balanced":
        names.append(BALANCED_POOL)
    for name in names:
        row = run["answers"][name]
        value, low, _ = row[_GAIN[goal] : _GAIN[goal] + 3]
        lost = 1.0 if goal == "accuracy" else max(row[-1], first[-1])
        low -= row[2] * rule.error(run) * lost
        if low > 0:
            bounds[name] = low if goal == "accuracy" else value
    return max(bounds, key=lambda name: bounds[name], default="source")


def runs_of(records: Sequence[Record]) -> list[Record]:
    """One for each target, with what its source shows."""
    kept = ("kind", "family", "source", "network", "labelled", "error on parts")
    runs = []
    for record in records:
        parts = np.array(record["parts"]).reshape(-1, 2, 2)
        own = {name: record[name] for name in kept} | {
            "seen": parts[..., 1].max(initial=0.0),
            "bias": max(0.0, (parts[:, BELIEF, 0] - parts[:, BELIEF, 1]).mean())
            if len(parts)
            else 0.0,
        }
        runs += [own | {"target": name} | found for name, found in record["targets"].items()]
    return runs


@dataclass(frozen=True)
class Verdict:
    """How a rule fares on some runs; shares are in percent, gains in points."""

    runs: int
    refused: int
    silent: float
    gain: float
    best: float
    hurt: int
    worst: float
    balanced_hurt: int
    cover_before: float
    cover_after: float
    width: float
    off: float


def verdict(runs: Sequence[Record], rule: Rule) -> Verdict:
    """Of a rule. Coverage and width are of what is told."""
    gains, best, balanced, widths, off = ([] for _ in range(5))
    before: list[float] = []
    after: list[float] = []
    silent = 0
    for run in runs:
        if "answers" not in run:
            silent += 1
            continue
        rows, taken = run["answers"], chosen(run, rule)
        gains.append(rows[taken][0] - rows["source"][0])
        best.append(max(rows[name][0] for name in ANSWERS) - rows["source"][0])
        other = chosen(run, rule, "balanced")
        balanced.append(rows[other][1] - rows["source"][1])
        if not rule.tells(run):
            silent += 1
            continue
        for name, found in (("source", before), (taken, after)):
            low, high = interval(run, name, rule)
            found.append(low - 1e-3 <= rows[name][0] <= high + 1e-3)
        widths.append(high - low)
        bias = run["bias"] if rule.factor else 0.0
        off.append(abs(rows["source"][3] - bias - rows["source"][0]))

    def mean(values: Sequence[float]) -> float:
        return 100 * float(np.mean(values)) if values else float("nan")

    return Verdict(
        runs=len(runs),
        refused=sum(bool(run.get("problem")) for run in runs),
        silent=100 * silent / len(runs),
        gain=mean(gains),
        best=mean(best),
        hurt=sum(gain < -0.01 for gain in gains),
        worst=100 * min(gains, default=0.0),
        balanced_hurt=sum(gain < -0.03 for gain in balanced),
        cover_before=mean(before),
        cover_after=mean(after),
        width=mean(widths),
        off=mean(off),
    )


FACTORS, BEYOND = (1.0, 1.5, 2.0, 2.5, 3.0), (0.0, 0.25, 0.5, 0.75, 1.0)


def fitted(runs: Sequence[Record]) -> Rule:
    """The rule with the largest gain among those that are right on every family of some.

    Right is: intervals of 90% cover 95%, as an unseen family is farther than those at hand, and at
    most one run or 2% are hurt, none by more than 5 points.
    """
    best, most = Rule(FACTORS[-1], BEYOND[-1]), 0.0
    for factor, beyond in product(FACTORS, BEYOND):
        rule, right = Rule(factor, beyond), True
        for family in {run["family"] for run in runs}:
            own = verdict([run for run in runs if run["family"] == family], rule)
            covers = not min(own.cover_before, own.cover_after) < 95
            right &= covers and own.hurt <= max(1, 0.02 * own.runs) and own.worst > -5
        gain = verdict(runs, rule).gain if right else 0.0
        if gain > most:
            best, most = rule, gain
    return best


def show(records: Sequence[Record]) -> None:
    """Tables: by family with the worst first, leave-one-family-out, rivals, broken targets."""
    runs = runs_of(records)
    families = list(dict.fromkeys(run["family"] for run in runs if run["kind"] == "natural"))
    natural = [run for run in runs if run["kind"] == "natural"]
    generated = [run for run in runs if run["kind"] == "generated"]
    for title, rule in (("as before", PRESENT), ("now", Rule())):
        print(f"\n{title}\n{_HEAD}\n{'|---' * 11}|")
        groups = [(f, [r for r in natural if r["family"] == f]) for f in families]
        found = [(name, verdict(own, rule)) for name, own in groups]
        for name, of_family in sorted(found, key=lambda each: each[1].cover_before):
            print(_line(name, of_family))
        for name, some in (("natural", natural), ("generated", generated)):
            if some:
                print(_line(name, verdict(some, rule)))
    print(f"\nfactors fitted without the family\n{_HEAD}\n{'|---' * 11}|")
    for family in families:
        rule = fitted([run for run in natural if run["family"] != family])
        own = [run for run in natural if run["family"] == family]
        print(_line(f"{family} ({rule.factor:g}, {rule.beyond:g})", verdict(own, rule)))
    _show_rivals(natural)
    _show_broken(natural)


_HEAD = (
    "| | runs | cannot tell | gain | best | hurt > 1 | worst | balanced hurt > 3 | "
    "cover before / after | width | error |"
)


def _line(name: str, own: Verdict) -> str:
    return (
        f"| {name} | {own.runs} | {own.silent:.0f}% | {own.gain:+.1f} | {own.best:+.1f} | "
        f"{own.hurt} | {own.worst:+.1f} | {own.balanced_hurt} | {own.cover_before:.0f}% / "
        f"{own.cover_after:.0f}% | {own.width:.0f} | {own.off:.1f} |"
    )


def _show_rivals(runs: Sequence[Record]) -> None:
    """Mean absolute error of the source model's estimated accuracy, where all say something."""
    told = [run for run in runs if Rule().tells(run) and len(run["rivals"]) >= 4]
    truth = np.array([run["answers"]["source"][0] for run in told])
    print("\n| estimate | runs | mean absolute error |\n|---|---|---|")
    own = np.array([run["answers"]["source"][3] - run["bias"] for run in told])
    print(f"| ours | {len(told)} | {100 * abs(own - truth).mean():.1f} |")
    for name in ("cbpe", "atc", "doc", "regression", "gde"):
        some = [k for k, run in enumerate(told) if name in run["rivals"]]
        said = np.array([told[k]["rivals"][name] for k in some])
        wrong, ours = (abs(each - truth[some]).mean() for each in (said, own[some]))
        print(f"| {name} | {len(some)} | {100 * wrong:.1f} (ours there: {100 * ours:.1f}) |")


def _show_broken(runs: Sequence[Record]) -> None:
    """Broken targets by kind: refused by features, by trust, covered, missed, a candidate taken."""
    counts: dict[str, list[int]] = {}
    for run in runs:
        for way, found in run.get("broken", {}).items():
            found = found | {name: run[name] for name in ("error on parts", "seen", "bias")}
            row = counts.setdefault(way, [0] * 6)
            row[0] += 1
            if found.get("refused"):
                row[1] += 1
            elif not Rule().tells(found):
                row[2] += 1
            else:
                taken = chosen(found, Rule())
                holds = [
                    low <= found["answers"][name][0] <= high
                    for name in ("source", taken)
                    for low, high in [interval(found, name, Rule())]
                ]
                row[3 if all(holds) else 4] += 1
                row[5] += taken != "source"
    print("\n| broken | targets | refused | cannot tell | covered | missed | adapted |")
    print("|---" * 7 + "|")
    for way, row in counts.items():
        print(f"| {way} | " + " | ".join(map(str, row)) + " |")
    total = np.sum(list(counts.values()), 0) if counts else np.zeros(6)
    print("| all | " + " | ".join(f"{each:g}" for each in total) + " |")


def main() -> None:
    """Run one half, or show the records of some."""
    parser = arguments(__doc__)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("names", nargs="+", help="a half to run, or records to show")
    parser.add_argument("--kind", choices=("natural", "generated"), default="natural")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.what == "show":
        lines = [line for name in args.names for line in Path(name).read_text().splitlines()]
        show([json.loads(line) for line in lines])
        return
    if args.names[0] not in FAMILIES or args.out is None:
        parser.error(f"run needs one of {', '.join(FAMILIES)}, and --out")
    if args.kind == "generated" and args.names[0] not in GENERATED:
        parser.error(f"generated shifts are {' and '.join(GENERATED)}")
    warnings.simplefilter("ignore")
    lines = args.out.read_text().splitlines() if args.out.exists() else []
    names = ("kind", "family", "source", "network")
    done = {tuple(json.loads(line)[name] for name in names) for line in lines}
    for record in work(args.names[0], args.kind, done):
        with args.out.open("a") as file:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
        print(*(record[name] for name in names), flush=True)


if __name__ == "__main__":
    run_study(main)
