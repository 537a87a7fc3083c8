"""Writing a store from streams of features and edges, in bounded memory.

Edges are appended to a temporary file and counted; then the rows of P are written range by range,
each range sorted in memory from one more read of that file.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from matcha_gnn.errors import InvalidGraphError
from matcha_gnn.graphs.base import drawn_links
from matcha_gnn.graphs.stored.arrays import StoreArrays, array_hash
from matcha_gnn.graphs.stored.mapped import ArrayWriter, append
from matcha_gnn.graphs.stored.matrix import row_ranges
from matcha_gnn.io.jsontext import write_checked_json

FORMAT = "matcha-gnn graph store 2"
META = "meta.json"
SPOOL = ".spool-"
SAMPLED_LINKS = 20_000
"""Edges in the sample that fits use."""
EDGES_AT_ONCE = 1 << 22
"""Edges of a range of rows that are sorted in memory: some 30 bytes each."""


@dataclass(frozen=True)
class Edges:
    """Some directed edges.

    Attributes:
        sender: [E].
        receiver: [E].
        weight: [E], or None for ones.
    """

    sender: NDArray[np.int64]
    receiver: NDArray[np.int64]
    weight: NDArray[np.float64] | None = None


def write_matrix(
    folder: Path, num_nodes: int, edges: Iterable[Edges], at_once: int = EDGES_AT_ONCE
) -> dict[str, Any]:
    """Write indptr, indices and values of P, and a sample of the edges; counts for the meta file.

    Args:
        folder: of the store.
        num_nodes: N.
        edges: in any order, in blocks that fit memory.
        at_once: edges to sort in memory.
    """
    # Left by a killed writer; there is one writer at a time.
    for left in folder.glob(f"{SPOOL}*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=folder, prefix=SPOOL) as place:
        spool = _Spool(Path(place), num_nodes)
        for block in edges:
            spool.add(block)
        spool.close()
        indptr = np.concatenate([[0], np.cumsum(spool.counts + 1)])
        save_array(folder / "indptr.npy", indptr.astype(np.int64))
        save_array(folder / "links.npy", spool.sample(SAMPLED_LINKS, seed=0))
        _write_rows(folder, spool, indptr, at_once)
    return {"num_entries": int(indptr[-1]), "num_edges": spool.num_edges + spool.num_loops}


class _Spool:
    """Edges between different nodes in a temporary file, with counts and degrees."""

    def __init__(self, folder: Path, num_nodes: int) -> None:
        self.folder, self.num_nodes = folder, num_nodes
        self.counts = np.zeros(num_nodes, np.int64)
        self.degree = np.zeros(num_nodes)
        self.loops = np.ones(num_nodes)
        self.num_edges = self.num_loops = 0
        self.weighted = False
        self._pairs, self._weights = ((folder / name).open("wb") for name in ("pairs", "weights"))

    def add(self, edges: Edges) -> None:
        sender, receiver, weight = edges.sender, edges.receiver, edges.weight
        _check_ends(edges, self.num_nodes)
        _check_weights(edges)
        if len(sender) == 0:
            return
        if self.num_edges + self.num_loops and self.weighted != (weight is not None):
            got = "weights in some blocks and none in others"
            raise InvalidGraphError("edges.weight", got, "weights in all blocks or in none")
        self.weighted = weight is not None
        loop = sender == receiver
        self.num_loops += int(loop.sum())
        # The weight of the last self loop counts, and it is 1 where there is none.
        self.loops[sender[loop]] = 1 if weight is None else weight[loop]
        sender, receiver = sender[~loop], receiver[~loop]
        found = np.bincount(receiver, minlength=self.num_nodes)
        self.counts += found
        append(self._pairs, np.stack([sender, receiver], 1).astype(np.int32))
        self.num_edges += len(sender)
        if weight is None:
            self.degree += found
            return
        self.degree += np.bincount(receiver, weight[~loop], minlength=self.num_nodes)
        append(self._weights, weight[~loop].astype(np.float64))

    def close(self) -> None:
        self._pairs.close()
        self._weights.close()

    @property
    def scale(self) -> NDArray[np.float64]:
        """D^-1/2, [N]."""
        degree = self.degree + self.loops
        return np.divide(1, np.sqrt(degree), out=np.zeros(self.num_nodes), where=degree > 0)

    def blocks(self, size: int) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float64] | None]]:
        """Pairs (sender, receiver) [n, 2], and weights [n], in the order they were added."""
        with open(self._pairs.name, "rb") as pairs, open(self._weights.name, "rb") as weights:
            while len(some := np.fromfile(pairs, np.int32, 2 * size)):
                weight = np.fromfile(weights, np.float64, size) if self.weighted else None
                yield some.reshape(-1, 2), weight

    def sample(self, most: int, seed: int) -> NDArray[np.int64]:
        """Edges as `BaseGraph.sample_links` draws them, [2, E']."""
        if self.num_edges == 0:
            return np.zeros((2, 0), np.int64)
        pairs = np.memmap(self._pairs.name, np.int32, "r", shape=(self.num_edges, 2))
        if self.num_edges > most:
            drawn = drawn_links(self.num_edges, most, seed)
            return np.asarray(pairs[drawn.numpy()].T, np.int64)
        return np.asarray(pairs.T, np.int64)


def _check_ends(edges: Edges, num_nodes: int) -> None:
    """Raise InvalidGraphError for senders and receivers that are no nodes."""
    size = edges.sender.size
    for name, ends in (("edges.sender", edges.sender), ("edges.receiver", edges.receiver)):
        if ends.shape != (size,) or (size and ends.dtype.kind not in "iu"):
            allowed = f"integers [{size}], a sender and a receiver of each edge"
            raise InvalidGraphError(name, f"{ends.dtype} {list(ends.shape)}", allowed)
        if size and not 0 <= ends.min() <= ends.max() < num_nodes:
            got = f"node number {ends.min() if ends.min() < 0 else ends.max()}"
            raise InvalidGraphError(name, got, f"0 to {num_nodes - 1}")


def _check_weights(edges: Edges) -> None:
    """Raise InvalidGraphError for weights that are not finite numbers >= 0."""
    weight, size = edges.weight, edges.sender.size
    if weight is None:
        return
    allowed = f"finite numbers >= 0, [{size}]"
    if weight.shape != (size,) or weight.dtype.kind not in "iuf":
        raise InvalidGraphError("edges.weight", f"{weight.dtype} {list(weight.shape)}", allowed)
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise InvalidGraphError("edges.weight", "negative or non-finite entries", allowed)


def _write_rows(folder: Path, spool: _Spool, indptr: NDArray[np.int64], at_once: int) -> None:
    """Indices and values, one range of rows after the other."""
    scale, entries = spool.scale, int(indptr[-1])
    with (
        ArrayWriter(folder / "indices.npy", (entries,), np.int32) as indices,
        ArrayWriter(folder / "values.npy", (entries,), np.float32) as values,
    ):
        for rows in row_ranges(indptr, at_once):
            start, stop = rows.start, rows.stop
            row, col, weight = _edges_of(spool, start, stop, at_once)
            nodes = np.arange(start, stop, dtype=np.int32)
            row, col = np.concatenate([row, nodes]), np.concatenate([col, nodes])
            weight = np.concatenate([weight, spool.loops[start:stop]])
            order = _by_row(row - start, stop - start)
            row, col = row[order], col[order]
            indices.write(col)
            values.write(scale[row] * weight[order] * scale[col])


def _edges_of(
    spool: _Spool, start: int, stop: int, at_once: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Receivers, senders and weights of the incoming edges of a range of rows."""
    found = []
    for pairs, weight in spool.blocks(at_once):
        inside = (pairs[:, 1] >= start) & (pairs[:, 1] < stop)
        of_edges = np.ones(int(inside.sum())) if weight is None else weight[inside]
        found.append((pairs[inside, 1], pairs[inside, 0], of_edges))
    none = np.zeros(0, np.int32)
    found.append((none, none, np.zeros(0)))
    row, col, weights = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return row, col, weights


def _by_row(row: NDArray[np.int32], num_rows: int) -> NDArray[np.int32]:
    """The order that sorts by row, stable: a counting sort."""
    number = np.arange(len(row), dtype=np.int32)
    shape = (num_rows, max(1, len(row)))
    ordered: NDArray[np.int32] = scipy.sparse.coo_array((number, (row, number)), shape).tocsr().data
    return ordered


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array file."""
    with ArrayWriter(path, array.shape, array.dtype) as file:
        file.write(array)


def finish(folder: Path, meta: dict[str, Any], values: Mapping[str, NDArray[Any]]) -> None:
    """Write node values and, last, the meta file: without it a store cannot be opened.

    Args:
        folder: of the store.
        meta: sizes.
        values: `y` and masks by name.
    """
    for name, array in values.items():
        save_array(folder / f"{name}.npy", array)
    others = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("links", *values)}
    said = {
        "format": FORMAT,
        **meta,
        "fingerprint": StoreArrays.opened(folder, meta).fingerprint(),
        "hashes": {name: array_hash(array) for name, array in others.items()},
    }
    write_checked_json(folder / META, said)
