"""Small graphs with a trained network, its source summary, and the same in Parquet files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import matcha_gnn as mg

WIDTH = 48


@dataclass(frozen=True)
class World:
    """A network and its source, and a target in memory and in files."""

    net: torch.nn.Module
    summary: mg.SourceSummary
    target: Data
    probs: torch.Tensor


def world(classes: int, nodes: int, kind: str = "plain", seed: int = 0) -> World:
    """Source and target are block models; a target may be directed, or have odd edges."""
    made = {"num_features": WIDTH, "degree": 6.0, "signal": 2.5, "shares": [1 / classes] * classes}
    source = mg.datasets.csbm(2 * nodes, homophily=0.8, seed=seed, **made)
    target = mg.datasets.csbm(nodes, homophily=0.4, seed=seed + 1, **made)
    target.edge_index = changed(target.edge_index, nodes, kind)
    torch.manual_seed(seed)
    net = GraphSAGE(WIDTH, 16, num_layers=2, out_channels=classes)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    source.train_mask = torch.arange(2 * nodes) % 2 == 0
    for _ in range(40):
        optimiser.zero_grad()
        out = net(source.x, source.edge_index)[source.train_mask]
        torch.nn.functional.cross_entropy(out, source.y[source.train_mask]).backward()
        optimiser.step()
    net.eval()
    summary = mg.summarise_source(net, source)
    with torch.no_grad():
        probs = net(target.x, target.edge_index).softmax(1)
    return World(net, summary, Data(x=target.x, edge_index=target.edge_index), probs)


def changed(edges: torch.Tensor, nodes: int, kind: str) -> torch.Tensor:
    """Edges of a graph of some kind."""
    chance = np.random.default_rng(7)
    if kind == "directed":
        return edges[:, torch.from_numpy(chance.random(edges.shape[1]) < 0.7)]
    if kind == "odd":
        # Isolated nodes, self loops, and edges that are there twice, all with their reverses.
        kept = edges[:, (edges >= nodes // 10).all(0)]
        loops = torch.arange(nodes // 5).repeat(2, 1)
        again = kept[:, : kept.shape[1] // 4]
        return torch.cat([kept, loops, again, again.flip(0)], 1)
    return edges


def node_table(made: World, ids: list | None = None) -> pa.Table:
    """Columns id, x and probs."""
    number = len(made.probs)
    ids = list(range(number)) if ids is None else ids
    return pa.table(
        {"id": ids, "x": list(made.target.x.numpy()), "probs": list(made.probs.numpy())}
    )


def edge_table(made: World, ids: list | None = None) -> pa.Table:
    """Columns src and dst."""
    src, dst = made.target.edge_index.tolist()
    if ids is not None:
        src, dst = [ids[k] for k in src], [ids[k] for k in dst]
    return pa.table({"src": src, "dst": dst})


def files(made: World, folder: Path, ids: list | None = None) -> tuple[str, str]:
    """Paths of both tables, in rows of another order."""
    paths = []
    for name, table in (("nodes", node_table(made, ids)), ("edges", edge_table(made, ids))):
        mixed = np.random.default_rng(3).permutation(len(table))
        paths.append(str(folder / f"{name}.parquet"))
        pq.write_table(table.take(pa.array(mixed)), paths[-1])
    return paths[0], paths[1]


def in_memory(made: World) -> mg.Result:
    """The same four candidates by the core."""
    return mg.adapt(made.net, made.target, source=made.summary)
