"""Ranks on one machine, a thread each: seconds and bytes of a round, beside the cost model.

A CSBM graph is drawn into a store; 1, 2 and 4 ranks adapt to it around ERM, started by torchrun and
talking over loopback. A round is the median one of rank 0, in the best of three runs: the sums of
a round go around, so that all ranks take as long.
Bytes are counted by the ranks and by the operating system, which sees the frames of messages too.
With more ranks than cores the seconds say nothing; the predictions are compared all the same.

Run: python benchmarks/distributed.py [--nodes 1000000] [--ranks 1 2 4]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from common import processor, rounded
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.datasets import store_csbm
from matcha_gnn.graphs import sharded as distributed
from matcha_gnn.graphs.sharded import costs

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "graphs" / "sharded"))
RECORD = ROOT / "results" / "distributed.json"
FEATURES, DEGREE, WIDTH, HOPS, CLASSES = 32, 5, 32, 9, 2
FEW, MANY, RUNS = 5, 25, 3
TIMEOUT = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--rank-in", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.rank_in:
        one_rank(args.rank_in)
        return
    with tempfile.TemporaryDirectory() as name:
        record = measure(Path(name), args.nodes, args.ranks)
    text = json.dumps(rounded(record), indent=1)
    print(text)
    args.out.write_text(text + "\n")


def measure(folder: Path, nodes: int, sizes: list[int]) -> dict[str, Any]:
    graph = {"num_features": FEATURES, "degree": DEGREE, "signal": 2}
    store = store_csbm(folder / "store", nodes, homophily=0.2, seed=1, **graph)
    model = mg.GPRGNN(FEATURES, CLASSES, WIDTH, HOPS)
    mg.fit(model, mg.datasets.csbm(5000, homophily=0.8, seed=0, **graph), epochs=100)
    mg.save_model(model, folder / "model.safetensors")
    alone = adapted(model, in_memory(store), MANY)
    rows = [{"ranks": size, **over_ranks(folder, size, alone)} for size in sizes]
    for row in rows:
        for kind in ("epoch_ms", "epoch_cpu_ms"):
            row[f"{kind}_of_one_rank_over_this"] = rows[0][kind] / row[kind]
    return {
        "command": f"python benchmarks/distributed.py --nodes {nodes}",
        "machine": f"{processor('cpu')} a rank, {os.cpu_count()} cores",
        "torch": torch.__version__,
        "nodes": nodes,
        "edges": int(store.meta["num_edges"]),
        "width": WIDTH,
        "hops": HOPS,
        "classes": CLASSES,
        "rows": rows,
    }


def in_memory(store: mg.GraphStore) -> Data:
    """The same graph for one process."""
    starts, senders = store.indptr.array, torch.from_numpy(store.indices.array.astype(np.int64))
    receivers = torch.repeat_interleave(torch.from_numpy(np.diff(starts)))
    apart = senders != receivers
    edges = torch.stack([senders[apart], receivers[apart]])
    return Data(x=torch.from_numpy(np.array(store.x.array)), edge_index=edges)


def over_ranks(folder: Path, size: int, alone: mg.Adaptation) -> dict[str, Any]:
    """Start the ranks, and put what they found together."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(size), __file__, "--rank-in", str(folder)]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    found = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]
    probs = torch.from_numpy(np.load(folder / "probs.npy"))
    model = costs.round_bytes(CLASSES, HOPS, WIDTH, size)
    return {
        "epoch_ms": 1e3 * found[0]["epoch"],
        "epoch_cpu_ms": 1e3 * found[0]["epoch_cpu"],
        "propagation_s": max(each["propagation"] for each in found),
        "epoch_bytes": found[0]["epoch_bytes"],
        "epoch_bytes_of_the_model": model,
        "epoch_bytes_on_the_wire": found[0]["epoch_bytes_on_the_wire"],
        "hop_bytes": max(each["hop_bytes"] for each in found),
        "hop_bytes_of_the_model": max(each["hop_bytes_of_the_model"] for each in found),
        "hops_bytes_on_the_wire": max(each["hops_bytes_on_the_wire"] for each in found),
        "largest_difference_of_probabilities": float((probs - alone.probs).abs().max()),
        "largest_difference_of_gamma": float(
            (torch.tensor(found[0]["gamma"]) - alone.gamma).abs().max()
        ),
    }


def adapted(model: mg.Backbone, graph: Any, rounds: int, progress: Any = None) -> Any:
    strategy = mg.Matcha(lr=0.1, rounds=rounds)
    return mg.adapt(model, graph, strategy=strategy, progress=progress)


def times() -> tuple[float, float]:
    """Seconds on the wall, and of this process's own work."""
    return perf_counter(), process_time()


def one_rank(folder: Path) -> None:
    from tcp import bytes_sent

    model, store = mg.load_model(folder / "model.safetensors"), mg.GraphStore(folder / "store")
    with distributed.joined(TIMEOUT) as ranks:
        start = bytes_sent()
        shards = distributed.shard(store)
        results = [adapted(model, shards, FEW)]
        after_hops = bytes_sent()
        clocks = [[] for _ in range(RUNS)]
        for clock in clocks:
            results.append(
                adapted(model, shards, MANY, lambda *_, clock=clock: clock.append(times()))
            )
        wire = [bytes_sent()]
        for rounds in (FEW, MANY):
            adapted(model, shards, rounds)
            wire.append(bytes_sent())
        last = adapted(model, distributed.shard(store, gather=True), MANY)
        if ranks.rank == 0:
            np.save(folder / "probs.npy", last.probs.numpy())
        halo = results[0].graph.adjacency.halo
        rows = sum(halo.to) - halo.to[ranks.rank]
        ranks.wait("end")
    first, *timed = results
    more = (timed[0].sent["sums"] - first.sent["sums"]) // (MANY - FEW)
    said = {
        "propagation": first.seconds["inference"],
        "epoch_bytes": more,
        "epoch_bytes_on_the_wire": int(np.diff(wire, 2)[0]) // (MANY - FEW),
        "hop_bytes": first.sent.get("halo", 0) // HOPS,
        "hop_bytes_of_the_model": costs.hop_bytes(rows, WIDTH),
        "hops_bytes_on_the_wire": after_hops - start,
        "gamma": last.gamma.tolist(),
    }
    if ranks.rank == 0:  # the one that shows progress
        medians = np.array([np.median(np.diff(clock, axis=0), axis=0) for clock in clocks])
        said |= {"epoch": min(medians[:, 0]), "epoch_cpu": min(medians[:, 1])}
    (folder / f"{ranks.rank}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main()
