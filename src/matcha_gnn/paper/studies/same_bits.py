"""Do two versions of the code give the same? Eleven graphs, four backbones, five runs each.

Hashes of probabilities and γ, status and labels by run: the published algorithm, around Tent too,
the closed form, and the default, around T3A too. Compare two files made on one machine with one
thread; the older code runs this file by its path, with PYTHONPATH on its own src:

Run: python -m matcha_gnn.paper.studies.same_bits before.json
     python -m matcha_gnn.paper.studies.same_bits after.json --compare before.json
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import matcha_gnn as mg
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.paper.studies.shared import arguments, run_study

if TYPE_CHECKING:
    from torch_geometric.data import Data

SIZE: dict[str, Any] = {"num_nodes": 300, "num_features": 24, "signal": 1.5, "degree": 4.0}
LARGE = 40_000
"""Nodes from which on the default fits on samples first."""
BACKBONES = (mg.GPRGNN, mg.APPNP, mg.JKNet, mg.GCNII)


def graphs() -> dict[str, "Data"]:
    """Targets that differ from a source of homophily 0.8 in ten ways, one of them large too."""
    found = {
        "homophily": mg.datasets.csbm(**SIZE, homophily=0.2, seed=1),
        "same": mg.datasets.csbm(**SIZE, homophily=0.8, seed=2),
        "offset": mg.datasets.csbm(**SIZE, homophily=0.2, shift=1.0, seed=3),
        "shares": mg.datasets.csbm(**SIZE, homophily=0.3, shares=(0.8, 0.2), seed=4),
        "large": mg.datasets.csbm(**SIZE | {"num_nodes": LARGE}, homophily=0.2, seed=1),
        "sparse graph": mg.datasets.csbm(**SIZE | {"degree": 1.0}, homophily=0.3, seed=5),
    }
    names = ("directed", "weighted", "float64", "sparse features", "isolated")
    for seed, name in enumerate(names, 6):
        found[name] = mg.datasets.csbm(**SIZE, homophily=0.3, seed=seed)
    found["directed"].edge_index = found["directed"].edge_index[:, ::2]
    found["weighted"].edge_weight = torch.linspace(0.1, 2, found["weighted"].num_edges)
    found["float64"].x = found["float64"].x.double()
    found["sparse features"].x = found["sparse features"].x.to_sparse_csr()
    found["isolated"].edge_index = found["isolated"].edge_index[:, :200]
    return found


def runs(model: mg.Backbone, graph: "Data") -> Iterator[tuple[str, Callable[[], mg.Adaptation]]]:
    """Names, and what to run."""
    yield "published", lambda: mg.adapt(model, graph, strategy=mg.Matcha(rounds=10))
    yield "published, tent", lambda: mg.adapt(model, graph, mg.Tent(), mg.Matcha(rounds=5))
    yield "closed form", lambda: mg.adapt(model, graph, strategy=mg.ClosedForm())
    yield "default", lambda: mg.adapt(model, graph)
    yield "default, t3a", lambda: mg.adapt(model, graph, mg.T3A())


def outcome(run: Callable[[], mg.Adaptation]) -> dict[str, str]:
    """Status, labels, and a hash of probabilities and γ."""
    try:
        result = run()
    except mg.IncompatibleError:
        return {"status": "incompatible", "labels": "", "bits": ""}
    given = result.probs.contiguous().numpy().tobytes() + result.gamma.numpy().tobytes()
    labels = "".join(map(str, result.labels.tolist()))
    bits = hashlib.sha256(given).hexdigest()[:16]
    return {"status": str(result.status), "labels": labels, "bits": bits}


def outcomes() -> dict[str, dict[str, str]]:
    """Of every backbone, graph and run."""
    source, found = mg.datasets.csbm(**SIZE, homophily=0.8, seed=0), {}
    for kind in BACKBONES:
        torch.manual_seed(0)
        model = kind(24, 2, hidden_channels=8, K=3)
        mg.fit(model, source, epochs=40)
        for name, graph in graphs().items():
            for what, run in runs(model, graph):
                found[f"{kind.__name__}, {name}, {what}"] = outcome(run)
    return found


def differences(found: dict[str, dict[str, str]], other: dict[str, dict[str, str]]) -> str:
    """What is the same in two versions, and which runs have other labels or another status."""
    same = {
        key: sum(found[name][key] == other[name][key] for name in found)
        for key in ("bits", "status")
    }
    apart = {
        name: sum(a != b for a, b in zip(each["labels"], other[name]["labels"], strict=True))
        for name, each in found.items()
    }
    total = sum(len(each["labels"]) for each in found.values())
    lines = [
        f"{same['bits']} of {len(found)} runs have the same bits, {same['status']} the same status",
        f"{sum(apart.values())} of {total} labels differ",
        *(f"{name}: {count} labels differ" for name, count in apart.items() if count),
    ]
    return "\n".join(lines)


def main() -> None:
    """Write what came out, and say how far it is that of another file."""
    parser = arguments(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--compare", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = outcomes()
    args.out.write_text(json_text(found) + "\n")
    if args.compare:
        print(differences(found, json.loads(args.compare.read_text())))


if __name__ == "__main__":
    run_study(main)
