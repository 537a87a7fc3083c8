"""A graph that changes from day to day: when to go on from yesterday's γ, when to start afresh.

Three policies: reset to the source model for each graph, never reset, or reset on alarm. The
alarm needs no labels: on today's graph, yesterday's γ gives looser clusters (a higher PIC loss)
than the source's.

Run: python examples/02_stream_of_graphs.py
"""

import argparse
from collections.abc import Callable

from torch_geometric.data import Data

import matcha_gnn as mg

HOMOPHILY = (0.8, 0.6, 0.4, 0.2, 0.2, 0.5, 0.8)
"""Of the graphs of the stream, one a day."""
MARGIN = 0.05
"""How much higher the PIC loss may be before the alarm goes off."""

Policy = Callable[[mg.Result, mg.Result], bool]
"""From the unadapted predictions with yesterday's γ and with the source's: start afresh?"""
POLICIES: dict[str, Policy] = {
    "each graph": lambda yesterday, source: True,
    "on alarm": lambda yesterday, source: yesterday.pic_before > source.pic_before + MARGIN,
    "never": lambda yesterday, source: False,
}


def follow(source: mg.Backbone, stream: list[Data], resets: Policy) -> list[mg.Result]:
    """Adapt to one graph after the other."""
    model, results = source, []
    for graph in stream:
        unadapted = [mg.predict(each, graph) for each in (model, source)]
        result = mg.adapt(source if resets(*unadapted) else model, graph)
        results.append(result)
        model = result.model
    return results


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=200)
    given = parser.parse_args(arguments)
    source = mg.datasets.csbm(given.nodes, given.features, homophily=0.8, seed=0)
    stream = [
        mg.datasets.csbm(given.nodes, given.features, homophily=h, seed=1 + day)
        for day, h in enumerate(HOMOPHILY)
    ]
    model = mg.GPRGNN(given.features, 2)
    mg.fit(model, source, epochs=given.epochs)

    print("homophily of the day ", *(f"{h:7.1f}" for h in HOMOPHILY))
    before = [mg.metrics.accuracy(mg.predict(model, g).probs, g.y) for g in stream]
    print(f"{'not adapted':21}", *(f"{share:7.1%}" for share in before))
    said = {"not adapted": before}
    for name, resets in POLICIES.items():
        results = follow(model, stream, resets)
        pairs = zip(results, stream, strict=True)
        said[name] = [mg.metrics.accuracy(result.probs, graph.y) for result, graph in pairs]
        print(f"reset {name:15}", *(f"{share:7.1%}" for share in said[name]))
    return said


if __name__ == "__main__":
    main()
