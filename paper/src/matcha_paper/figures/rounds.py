"""One adaptation to a store, with the seconds of every round; prints them as JSON.

python -m matcha_paper.figures.rounds MODEL STORE MEMORY ROUNDS
"""

import sys
from time import perf_counter

from matcha_gnn.adaptation import adapt
from matcha_gnn.gamma.strategies import Matcha
from matcha_gnn.graphs.stored import GraphStore
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.io.models import load_model
from matcha_gnn.metrics import accuracy


def main(model: str, folder: str, memory: str, rounds: str) -> None:
    """Adapt as published, and score what came out."""
    store, ends = GraphStore(folder, memory), list[float]()
    result = adapt(
        load_model(model),
        store,
        strategy=Matcha(rounds=int(rounds)),
        progress=lambda done, total: ends.append(perf_counter()),
    )
    labels = store.labels
    assert labels is not None
    said = {
        "round_seconds": [b - a for a, b in zip(ends, ends[1:], strict=False)],
        "setup_seconds": result.seconds["setup"],
        "accuracy_before": accuracy(result.probs_before, labels),
        "accuracy_after": accuracy(result.probs, labels),
    }
    print(json_text(said, indent=None))


if __name__ == "__main__":
    main(*sys.argv[1:])
