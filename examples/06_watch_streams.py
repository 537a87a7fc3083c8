"""Watch a deployed model over streams of real graphs, and write a timeline of each.

The streams are Twitch countries, Syn-Cora at homophilies 0.8 down to 0.1 and back, and
Arxiv-structure by year (real citations, drawn features). Labels are used for one thing: to print
the truth beside the estimate.

Run: MATCHA_DATA=FOLDER python examples/06_watch_streams.py [--streams syn-cora] [-o timelines]
     python examples/06_watch_streams.py    without the data sets: a generated stand-in
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import matcha_gnn as mg
from matcha_paper.studies.watch import STREAMS, Stream


def generated(seed: int) -> Iterator[Stream]:
    """CSBM graphs whose homophily goes down and comes back: a stand-in for real ones."""
    days = [0.8, 0.6, 0.4, 0.2, 0.1, 0.3, 0.5, 0.8]

    def draw(homophily: float, number: int):
        return mg.datasets.csbm(600, 32, homophily=homophily, signal=1.5, seed=seed + number)

    graphs = {f"day {n}, {h}": draw(h, n) for n, h in enumerate(days, 1)}
    yield Stream("Generated stand-in", draw(0.8, 0), graphs, resamples=5)


def follow(stream: Stream, folder: Path, epochs: int, seed: int) -> list[mg.Step]:
    """Train, watch, print, and write the page."""
    classes = 1 + max(int(graph.y.max()) for graph in (stream.source, *stream.graphs.values()))
    model = mg.GPRGNN(stream.source.num_features, classes)
    mg.fit(model, stream.source, epochs=epochs, seed=seed)

    level = round(float(model.source.accuracy) - 0.1, 2)
    watch = mg.Watch(model, source=stream.source, level=level, resamples=stream.resamples)
    print(f"\n{stream.name}: {float(model.source.accuracy):.1%} on the source, level {level:.0%}")
    steps = []
    for day, (name, graph) in enumerate(stream.graphs.items(), 1):
        step = watch.observe(graph, time=f"2026-05-{day:02d}", name=name)
        before, after = (
            mg.metrics.accuracy(probs, graph.y)
            for probs in (step.result.probs_before, step.result.probs)
        )
        steps.append(watch.annotate(measured=after))
        print(
            f"{name:24} expected {step.accuracy:6.1%} ({step.low:.0%} to {step.high:.0%}), true "
            f"{after:6.1%} (source model {before:.1%}); taken: {step.chosen}"
        )
        for alarm in step.alarms:
            print(f"    {alarm.kind}: {alarm}")
    page = folder / f"{stream.name.lower().replace(' ', '-')}.html"
    watch.to_html(page)
    print(f"Look at {page}")
    return steps


def main(arguments: list[str] | None = None) -> dict[str, list[mg.Step]]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=["twitch", "syn-cora"])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("timelines"))
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    makers = [STREAMS[name] for name in given.streams]
    if not os.environ.get("MATCHA_DATA"):
        print("MATCHA_DATA is not set: a generated stand-in takes the place of real data")
        makers = [generated]
    streams = (stream for make in makers for stream in make(given.seed))
    return {s.name: follow(s, given.output, given.epochs, given.seed) for s in streams}


if __name__ == "__main__":
    main()
