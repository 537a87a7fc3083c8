"""A model that is watched over streams of real graphs: estimates, alarms and accuracy.

Three streams. Twitch: trained on half of a country's nodes, then its other half, two other
countries, and the other half again. Syn-Cora: trained at homophily 0.8, then graphs of another draw
from 0.8 down to 0.1 and back. Arxiv-structure: trained on the papers until 2011, then all papers
until each later year; its features are drawn, see `arxiv_structure`. Labels of the stream are read
for scoring alone, and all nodes of a graph count. "Always" is the published algorithm on every
graph, from the source model, and "chain" the same from the model of the graph before.

An alarm is right where the labels say the same: accuracy in use below the level, which is ten
points below the source's; more lost than five points and less than half won back; class shares ten
points from the source's. For the last two the source is measured on all of its nodes that were not
trained on, of which Syn-Cora's summary has 75.

Run: python -m matcha_paper.studies.watch run --out results/watch.json [--streams twitch]
     python -m matcha_paper.studies.watch show results/watch.json
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.io.jsontext import json_text, write_json
from matcha_gnn.metrics import accuracy
from matcha_gnn.typing import FloatArray
from matcha_gnn.watching.alarms import FALL, MENDED, SHARES_MOVED
from matcha_paper.datasets.arxiv import arxiv_structure_until
from matcha_paper.datasets.syn_cora import syn_cora_graph
from matcha_paper.datasets.twitch import country
from matcha_paper.studies.shared import arguments, run_study, show_record

SEEDS, EPOCHS, TRAINED = (0, 1, 2, 3, 4), 200, 0.65
BELOW = 0.1
"""The level of the alarm is so far below the accuracy on the source."""
COUNTRIES = ("DE", "ES", "ENGB")
DOWN = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
YEARS = (2011, 2012, 2013, 2014, 2015)
Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Stream:
    """A labelled graph to train on, and graphs that follow by name.

    Attributes:
        name: of the stream.
        source: with `train_mask`.
        graphs: in their order, with labels for scoring.
        resamples: graphs that are drawn from the source.
    """

    name: str
    source: Data
    graphs: dict[str, Data]
    resamples: int = 20


def twitch(seed: int) -> Iterator[Stream]:
    """One stream for each country that is trained on."""
    graphs = {name: _dense(country(name)) for name in COUNTRIES}
    for name, graph in graphs.items():
        drawn = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
        half = graph.num_nodes // 2
        source, other = (
            graph.subgraph(part.sort().values) for part in (drawn[:half], drawn[half:])
        )
        others = {each: graphs[each] for each in COUNTRIES if each != name}
        stream = {f"{name}, other half": other, **others, f"{name}, other half again": other}
        yield Stream(f"Twitch from {name}", _split(source, seed), stream)


def syn_cora(seed: int) -> Iterator[Stream]:
    """Homophily 0.8 … 0.1 … 0.8 of one draw, trained on another."""
    source = syn_cora_graph(0.8, 1 + seed % 3)
    chance = torch.rand(source.num_nodes, generator=torch.Generator().manual_seed(seed))
    source.train_mask, source.test_mask = source.train_mask & (chance < 0.8), ~source.train_mask
    graphs = {h: syn_cora_graph(h, 1 + (seed + 1) % 3) for h in DOWN}
    order = [*DOWN, *DOWN[-2::-1]]
    yield Stream("Syn-Cora", source, {f"{n}: {h}": graphs[h] for n, h in enumerate(order)})


def arxiv(seed: int) -> Iterator[Stream]:
    """Papers until each year; a graph has all nodes of those before it."""
    source, *later = arxiv_structure_until(YEARS, seed=seed)
    graphs = {f"until {year}": graph for year, graph in zip(YEARS[1:], later, strict=True)}
    # With 40 classes a graph takes ten seconds and more.
    yield Stream("Arxiv-structure", _split(source, seed), graphs, resamples=5)


STREAMS = {"twitch": twitch, "syn-cora": syn_cora, "arxiv-structure": arxiv}


def _split(graph: Data, seed: int) -> Data:
    generator = torch.Generator().manual_seed(seed)
    graph.train_mask = torch.rand(graph.num_nodes, generator=generator) < TRAINED
    graph.test_mask = None
    return graph


def _dense(graph: Data) -> Data:
    graph.x = graph.x.to_dense()
    return graph


def follow(stream: Stream, seed: int) -> Iterator[Record]:
    """One record for each graph of a stream."""
    source = stream.source
    classes = 1 + max(int(g.y.max()) for g in (source, *stream.graphs.values()))
    model = mg.GPRGNN(source.num_features, classes)
    mg.fit(model, source, epochs=EPOCHS, seed=seed)
    assert model.source is not None
    level = max(0.01, float(model.source.accuracy) - BELOW)
    watch = mg.Watch(model, source=source, level=level, resamples=stream.resamples, seed=seed)
    chain: mg.Backbone = model
    for name, graph in stream.graphs.items():
        step = watch.observe(graph, name=name)
        assert step.result is not None
        always = mg.adapt(model, graph, strategy=mg.Matcha())
        chained = mg.adapt(chain, graph, strategy=mg.Matcha())
        chain = chained.model
        record: Record = {
            "stream": stream.name,
            "seed": seed,
            "graph": name,
            "on_source": _untrained_accuracy(model, source),
            "level": level,
            "none": accuracy(step.result.probs_before, graph.y),
            "watch": accuracy(step.result.probs, graph.y),
            "always": accuracy(always.probs, graph.y),
            "chain": accuracy(chained.probs, graph.y),
            "shares_moved": _moved(graph.y, source.y, classes),
            "strategy": f"{watch.strategy.name} {watch.strategy.version}",
            "alarms": [str(alarm.kind) for alarm in step.alarms],
            "chance": {str(kind): list(each) for kind, each in watch.chances.items()},
        }
        yield record | {"step": json.loads(json_text(step.figures()))}


def _untrained_accuracy(model: mg.Backbone, source: Data) -> float:
    return accuracy(mg.predict(model, source).probs, source.y, ~source.train_mask)


def _moved(labels: Tensor, others: Tensor, classes: int) -> float:
    """Distance between the class shares of two graphs."""
    first, second = (torch.bincount(y, minlength=classes) / len(y) for y in (labels, others))
    return float((first - second).abs().sum() / 2)


def truths(record: Record) -> dict[str, bool]:
    """Which alarms are true by labels."""
    fall = record["on_source"] - record["none"]
    back = record["watch"] - record["none"]
    return {
        "level": record["watch"] < record["level"],
        "not mended": fall > FALL and back < MENDED * fall,
        "class shares": record["shares_moved"] >= SHARES_MOVED,
    }


def study(names: Sequence[str], seeds: Sequence[int]) -> Iterator[list[Record]]:
    """All records so far."""
    records: list[Record] = []
    for name in names:
        for seed in seeds:
            for stream in STREAMS[name](seed):
                records += follow(stream, seed)
                print(f"{stream.name}, seed {seed}: done", flush=True)
                yield records


def show(records: Sequence[Record]) -> None:
    """Three tables: accuracy, estimates, alarms."""
    streams = list(dict.fromkeys(record["stream"] for record in records))
    groups = {name: [r for r in records if r["stream"] == name] for name in streams}
    groups["all"] = list(records)
    print("| stream | graphs | none | watch | always | chain | worst loss of watch | of always |")
    print("|---|---|---|---|---|---|---|---|")
    for name, own in groups.items():
        means = [100 * _column(own, key).mean() for key in ("none", "watch", "always", "chain")]
        losses = [
            100 * (_column(own, key) - _column(own, "none")).min() for key in ("watch", "always")
        ]
        cells = [f"{value:.1f}" for value in means] + [f"{value:+.1f}" for value in losses]
        print(f"| {name} | {len(own)} | {' | '.join(cells)} |")
    print("\n| stream | error of the estimate | inside the 90% interval | cannot tell |")
    print("|---|---|---|---|")
    for name, own in groups.items():
        told = [r for r in own if r["step"]["accuracy"] is not None]
        errors = [abs(r["step"]["accuracy"] - r["watch"]) for r in told]
        inside = [r["step"]["low"] <= r["watch"] <= r["step"]["high"] for r in told]
        shown = (
            [f"{100 * np.mean(errors):.1f} points", f"{np.mean(inside):.0%}"] if told else ["", ""]
        )
        print(f"| {name} | {' | '.join(shown)} | {len(own) - len(told)} of {len(own)} |")
    print("\n| alarm | rang, right | rang, wrong | silent, wrong | silent, right | by chance |")
    print("|---|---|---|---|---|---|")
    for kind in ("level", "not mended", "class shares"):
        pairs = [(kind in r["alarms"], truths(r)[kind]) for r in records]
        order = ((True, True), (True, False), (False, True), (False, False))
        counts = " | ".join(str(pairs.count(pair)) for pair in order)
        print(f"| {kind} | {counts} | {_by_chance(records, kind)} |")
    rang = ["answers" in r["alarms"] for r in records]
    print(
        f"\nanswers: rang on {sum(rang)} of {len(rang)}; {_by_chance(records, 'answers')} by chance"
    )


def _column(records: Sequence[Record], key: str) -> FloatArray:
    return np.array([record[key] for record in records])


def _by_chance(records: Sequence[Record], kind: str) -> str:
    """Over the watches, each counted once."""
    watches = {(r["stream"], r["seed"]): r["chance"][kind] for r in records}
    rang, graphs = (sum(each) for each in zip(*watches.values(), strict=True))
    return f"{rang} of {graphs}"


def main() -> None:
    """Run the study, or show the record of one."""
    parser = arguments(__doc__)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    args = parser.parse_args()
    if args.what == "show":
        show_record(parser, args.file, show)
        return
    records: list[Record] = []
    for records in study(args.streams, args.seeds):
        if args.out:
            write_json(args.out, {"seeds": list(args.seeds), "runs": records}, indent=0)
    show(records)


if __name__ == "__main__":
    run_study(main)
