"""A graph from a store and in memory: how far apart the answers are.

python benchmarks/scale_equal.py MODEL STORE [NAME …]   writes results/scale-equal.json

MODEL and STORE are those that `benchmarks/scale.py --sizes 1000000 --keep` leaves in its folder.
"""

import json
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

import matcha_gnn as mg

RECORD = Path(__file__).parents[1] / "results" / "scale-equal.json"
ROUNDS = mg.Matcha(rounds=20)
CASES: dict[str, tuple[mg.BaseMethod, mg.Strategy]] = {
    "erm": (mg.ERM(), ROUNDS),
    "t3a": (mg.T3A(), ROUNDS),
    # Steps of 1 drive these graphs into one class, and magnify every rounding on the way.
    "tent": (mg.Tent(lr=0.1), ROUNDS),
    "exact": (mg.ERM(), mg.ClosedForm()),
    "default": (mg.ERM(), mg.Guarded()),
}


def in_memory(store: mg.GraphStore) -> mg.Graph:
    """The same graph, with the same sample of edges for what is fitted by one."""
    indptr, columns = np.array(store.indptr.array), np.array(store.indices.array)
    receiver = np.repeat(np.arange(store.num_nodes), np.diff(indptr))
    apart = receiver != columns
    edges = torch.from_numpy(np.stack([columns[apart].astype(np.int64), receiver[apart]]))
    graph = mg.Graph(torch.from_numpy(np.array(store.x.array)), edges)
    graph.__dict__["sample_links"] = lambda most, seed: store.links
    return graph


def main() -> None:
    model, store = mg.load_model(sys.argv[1]), mg.GraphStore(sys.argv[2], memory="12GB")
    record = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    graph = in_memory(store)
    for name in sys.argv[3:] or CASES:
        start = perf_counter()
        outside = mg.adapt(model, store, *CASES[name])
        middle = perf_counter()
        inside = mg.adapt(model, graph, *CASES[name])
        found = record.setdefault(f"{store.num_nodes} nodes", {})
        found[name] = {
            "probabilities": float((outside.probs - inside.probs).abs().max()),
            "gamma": float((outside.gamma - inside.gamma).abs().max()),
            "gamma_of_its_largest": float(
                (outside.gamma - inside.gamma).abs().max() / inside.gamma.abs().max()
            ),
            "chosen": [each.decision.chosen for each in (outside, inside) if each.decision],
            "labels_that_differ": int((outside.labels != inside.labels).sum()),
            "accuracy": float((outside.labels == store.labels).double().mean()),
            "seconds_from_store": middle - start,
            "seconds_in_memory": perf_counter() - middle,
        }
        RECORD.write_text(json.dumps(record, indent=2) + "\n")
        print(name, found[name], flush=True)


if __name__ == "__main__":
    main()
