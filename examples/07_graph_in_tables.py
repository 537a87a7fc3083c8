"""From a trained GraphSAGE to answers in Parquet, for graphs that lie in tables.

The network is PyG's and runs through a NeighborLoader; nodes, edges and its predictions are Parquet
files, as a batch job or a warehouse leaves them. `mg.tables` needs no network and no labels.

Run: python examples/07_graph_in_tables.py [--nodes 100000] [--folder FOLDER]
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F  # noqa: N812
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE
from torch_geometric.utils import k_hop_subgraph

import matcha_gnn as mg

FEATURES, CLASSES, BATCH = 32, 2, 4096


def batches(data: Data) -> Iterator[Data]:
    """All nodes with two hops of neighbours around each batch, the batch's own nodes first."""
    if WITH_PYG_LIB or WITH_TORCH_SPARSE:
        yield from NeighborLoader(data, [-1, -1], batch_size=BATCH)
        return
    # The same without the compiled sampler that NeighborLoader needs.
    for seeds in torch.arange(data.num_nodes).split(BATCH):
        near, edges, places, _ = k_hop_subgraph(seeds, 2, data.edge_index, relabel_nodes=True)
        rest = torch.ones(len(near), dtype=torch.bool)
        rest[places] = False
        order = torch.cat([places, rest.nonzero()[:, 0]])
        yield Data(
            x=data.x[near[order]],
            edge_index=order.argsort()[edges],
            n_id=near[order],
            batch_size=len(seeds),
        )


def trained(source: Data, epochs: int) -> GraphSAGE:
    net = GraphSAGE(FEATURES, 32, num_layers=2, out_channels=CLASSES, dropout=0.5)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(epochs):
        net.train()
        optimizer.zero_grad()
        out = net(source.x, source.edge_index)
        F.cross_entropy(out[source.train_mask], source.y[source.train_mask]).backward()
        optimizer.step()
    return net.eval()


@torch.no_grad()
def predict(net: GraphSAGE, data: Data) -> torch.Tensor:
    probs = torch.empty(data.num_nodes, CLASSES)
    for batch in batches(data):
        out = net(batch.x, batch.edge_index)[: batch.batch_size]
        probs[batch.n_id[: batch.batch_size]] = out.softmax(1)
    return probs


def write_tables(data: Data, probs: torch.Tensor, folder: Path) -> None:
    ids = np.array([f"account-{k}" for k in range(data.num_nodes)])
    nodes = {"id": ids, "x": list(data.x.numpy()), "probs": list(probs.numpy())}
    sender, receiver = data.edge_index.numpy()
    pq.write_table(pa.table(nodes), folder / "nodes.parquet")
    pq.write_table(pa.table({"src": ids[sender], "dst": ids[receiver]}), folder / "edges.parquet")


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Accuracy before and after."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="keep the files there")
    args = parser.parse_args(arguments)
    torch.manual_seed(0)
    shape = {"num_features": FEATURES, "degree": 8.0, "signal": 1.5}
    source = mg.datasets.csbm(5000, homophily=0.8, seed=0, **shape)
    target = mg.datasets.csbm(args.nodes, homophily=0.2, seed=1, **shape)
    source.train_mask = torch.arange(5000) % 2 == 0

    net = trained(source, args.epochs)
    summary = mg.summarise_source(net, source)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        write_tables(target, predict(net, target), folder)
        with mg.tables.adapt(
            str(folder / "nodes.parquet"),
            str(folder / "edges.parquet"),
            source=summary,
            out=str(folder / "answers.parquet"),
        ) as answer:
            print(answer.summary())
        rows = pq.read_table(folder / "answers.parquet")
    # The labels of the target are read here only, to see how right the answers are.
    place = np.array([int(each.split("-")[1]) for each in rows.column("id").to_pylist()])
    label, changed = (rows.column(name).to_numpy() for name in ("label", "changed"))
    truth = target.y.numpy()[place]
    after = float((label == truth).mean())
    # With two classes a label that changed was the other one.
    before = float((np.where(changed, 1 - label, label) == truth).mean())
    print(f"accuracy {before:.1%} → {after:.1%}")
    return before, after


if __name__ == "__main__":
    main()
