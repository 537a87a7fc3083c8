"""What `mg.tables.adapt` takes as a graph grows: seconds and resident memory, from Parquet files.

Block models of two classes, 32 features, average degree 10, homophily 0.8 on the source and 0.2 on
the target; the network is a layer of GraphSAGE. Every run is a process of its own on DuckDB.
Making graph and predictions does not count.

Run: python benchmarks/tables.py [--sizes 1000000,10000000] [--memory 4GB] [--folder DIR]
writes results/tables.json; sizes that are not run keep their record.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

RECORD = Path(__file__).parents[1] / "results" / "tables.json"
OLD = {1_000_000: 38.9, 10_000_000: 454.5}
"""Seconds of the default on a store of this package, for a GPRGNN of its own, without its hops:
results/scale-default.json of commit b7c1969d."""
FEATURES, DEGREE, ROWS = 32, 10, 1_000_000


def make(nodes: int, folder: Path) -> None:
    """Nodes, edges and the source's summary."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import torch
    from torch_geometric.nn import SAGEConv

    import matcha_gnn as mg

    source = mg.datasets.csbm(5000, FEATURES, DEGREE, 0.8, seed=10)
    torch.manual_seed(0)
    net = SAGEConv(FEATURES, 2)
    source.train_mask = torch.arange(5000) % 2 == 0
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(100):
        optimiser.zero_grad()
        out = net(source.x, source.edge_index)[source.train_mask]
        torch.nn.functional.cross_entropy(out, source.y[source.train_mask]).backward()
        optimiser.step()
    mg.summarise_source(net, source).save(folder / "source.safetensors")
    target = mg.datasets.csbm(nodes, FEATURES, DEGREE, 0.2, seed=11)
    sender, receiver = target.edge_index
    ends = {"src": sender.numpy(), "dst": receiver.numpy()}
    pq.write_table(pa.table(ends), folder / "edges.parquet", use_dictionary=False)
    mean = torch.zeros_like(target.x)
    for some in torch.arange(target.num_edges).split(ROWS):
        mean.index_add_(0, receiver[some], target.x[sender[some]])
    mean /= torch.bincount(receiver, minlength=nodes).clamp_min(1)[:, None]
    with torch.no_grad():
        probs = (net.lin_l(mean) + net.lin_r(target.x)).softmax(1)
    np.save(folder / "y.npy", target.y.numpy())
    kinds = [("id", pa.int64()), ("x", pa.list_(pa.float32())), ("probs", pa.list_(pa.float32()))]
    with pq.ParquetWriter(folder / "nodes.parquet", pa.schema(kinds)) as writer:
        for start in range(0, nodes, ROWS):
            rows = slice(start, min(start + ROWS, nodes))
            number = rows.stop - rows.start
            columns = [pa.array(np.arange(rows.start, rows.stop))]
            for values in (target.x[rows], probs[rows]):
                starts = np.arange(0, number * values.shape[1] + 1, values.shape[1])
                flat = pa.array(values.contiguous().flatten().numpy())
                columns.append(pa.ListArray.from_arrays(pa.array(starts, pa.int32()), flat))
            writer.write_table(pa.table(columns, schema=pa.schema(kinds)))


def run(folder: Path, memory: str) -> dict[str, Any]:
    """One run, and how right its answers are."""
    import numpy as np
    import pyarrow.parquet as pq

    import matcha_gnn as mg

    start = perf_counter()
    out = folder / "out.parquet"
    with mg.tables.adapt(
        str(folder / "nodes.parquet"),
        str(folder / "edges.parquet"),
        source=str(folder / "source.safetensors"),
        out=str(out),
        memory=memory,
    ) as answer:
        seconds = perf_counter() - start
        figures = answer.figures()
    y = np.load(folder / "y.npy", mmap_mode="r")
    hits = changed = 0
    for rows in pq.ParquetFile(out).iter_batches(ROWS, columns=["id", "label", "changed"]):
        hits += int((y[rows.column("id").to_numpy()] == rows.column("label").to_numpy()).sum())
        changed += rows.column("changed").true_count
    out.unlink()
    return {
        "seconds": seconds,
        "stages": figures["seconds"],
        "chosen": figures["chosen"],
        "expected_accuracy": next(
            each["accuracy"]["value"]
            for each in figures["candidates"]
            if each["name"] == figures["chosen"]
        ),
        "accuracy_after": hits / len(y),
        "changed": changed / len(y),
    }


def in_a_process(*arguments: object) -> tuple[dict[str, Any], float, float]:
    """What this file prints for arguments, the peak of resident GB, and seconds of processors."""
    # By way of a small process: a child's peak counts from that of the process it was forked from.
    code = (
        "import json, resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "figures = 1024 * used.ru_maxrss / 1e9, used.ru_utime + used.ru_stime\n"
        "print(json.dumps([json.loads(done.stdout or '{}'), *figures]))\n"
    )
    command = [sys.executable, "-c", code, sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    said, peak, used = json.loads(done.stdout)
    return said, peak, used


def measured(nodes: int, memory: str, folder: Path) -> dict[str, Any]:
    if not (folder / "nodes.parquet").exists():
        in_a_process("--make", nodes, "--folder", folder)
    edges = _edges(folder)
    load = os.getloadavg()[0]  # of all processes of the machine: they share its cores
    said, peak, used = in_a_process("--run", "--memory", memory, "--folder", folder)
    row = {
        "nodes": nodes,
        "directed_edges": edges,
        "memory": memory,
        "peak_gb": round(peak, 2),
        "us_per_edge": 1e6 * said["seconds"] / edges,
        "cores": os.cpu_count(),
        "processor_seconds": round(used, 1),
        "load_before": round(load, 1),
        **said,
    }
    if nodes in OLD:
        row |= {"old_store_seconds": OLD[nodes], "times_faster": OLD[nodes] / said["seconds"]}
    return row


def _edges(folder: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.ParquetFile(folder / "edges.parquet").metadata.num_rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000000,10000000")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--folder", type=Path, help="keep the files there, and use them again")
    parser.add_argument("--make", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make(args.make, args.folder)
        return
    if args.run:
        print(json.dumps(run(args.folder, args.memory)))
        return
    rows = {}
    if RECORD.exists():
        kept = json.loads(RECORD.read_text())["runs"]
        rows = {(each["nodes"], each["memory"]): each for each in kept}
    for nodes in map(int, args.sizes.split(",")):
        with tempfile.TemporaryDirectory() as temporary:
            folder = (args.folder or Path(temporary)) / str(nodes)
            folder.mkdir(parents=True, exist_ok=True)
            row = measured(nodes, args.memory, folder)
        rows[nodes, args.memory] = row
        print(json.dumps(row, indent=1), flush=True)
        runs = [rows[each] for each in sorted(rows)]
        record = {"command": "python benchmarks/tables.py", "runs": runs}
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
