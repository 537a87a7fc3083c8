"""Follow a classifier over a stream of graphs: an estimate each, alarms, a table and a page.

The graphs are generated: fewer and fewer edges join nodes of one class, and then more again. Labels
are used for one thing: to print the truth beside the estimate.

Run: python examples/06_watch_a_stream.py [-o FOLDER]
"""

import argparse
from pathlib import Path

import matcha_gnn as mg

HOMOPHILY = (0.8, 0.6, 0.4, 0.2, 0.3, 0.5, 0.8)


def day(homophily: float, seed: int):
    return mg.datasets.csbm(1000, 32, homophily=homophily, signal=1.0, seed=seed)


def main(arguments: list[str] | None = None) -> list[mg.Step]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("-o", "--output", type=Path, default=Path("."))
    given = parser.parse_args(arguments)

    model = mg.GPRGNN(32, 2)
    mg.fit(model, day(0.8, seed=0), epochs=given.epochs)
    watch = mg.Watch(model, level=0.85)
    for number, homophily in enumerate(HOMOPHILY, 1):
        graph = day(homophily, seed=number)
        step = watch.observe(graph, time=f"2026-05-{number:02d}", name=f"homophily {homophily}")
        true = mg.metrics.accuracy(step.result.probs, graph.y)
        print(
            f"{step.name}: estimate {step.estimate:.1%} ({step.low:.0%} to {step.high:.0%}), "
            f"true {true:.1%}; taken: {step.taken}"
        )
        for alarm, message in step.alarms.items():
            print(f"    {alarm}: {message}")
    watch.to_csv(given.output / "watch.csv")
    watch.to_html(given.output / "watch.html")
    print(f"Look at {given.output / 'watch.html'}")
    return watch.steps


if __name__ == "__main__":
    main()
