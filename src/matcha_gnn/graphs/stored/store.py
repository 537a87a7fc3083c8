"""A graph as a folder of arrays."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.errors import InvalidArgumentError, InvalidFileError, InvalidGraphError
from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.graphs.memory import MASKS, Graph, GraphLike, unlabelled
from matcha_gnn.graphs.stored.arrays import StoreArrays, all_finite, array_hash, check_nodes
from matcha_gnn.graphs.stored.mapped import UNREADABLE, ArrayWriter
from matcha_gnn.graphs.stored.plan import bytes_of
from matcha_gnn.graphs.stored.writing import (
    FORMAT,
    META,
    Edges,
    finish,
    write_matrix,
)
from matcha_gnn.io.files import a_path, existing_file, holding, output_folder
from matcha_gnn.io.jsontext import read_checked_json

if TYPE_CHECKING:
    from matcha_gnn.gamma.methods import BaseMethod
    from matcha_gnn.gamma.models import Backbone
    from matcha_gnn.gamma.strategies import Strategy
    from matcha_gnn.result import Adaptation

logger = logging.getLogger(__name__)

LOCK = ".lock"
"""Held by the process that writes a store."""
LABELS = "y"
FLOATS = ("float32", "float64")
OWN_ARRAYS = ("x", "indptr", "indices", "values", "links")
"""Names of files that node values may not have."""


class GraphStore:
    """A graph in a folder, for adaptation without loading it into memory as a whole.

    The folder has `meta.json`, `x.npy` [N, F], P as `indptr.npy`, `indices.npy`, `values.npy`,
    a sample of edges `links.npy`, maybe labels `y.npy` and masks; hops are kept under `hops/`.
    An incomplete store cannot be opened.

    Args:
        folder: one that `create` or `write` made.
        memory: the most that may be resident, such as "4GB"; half of what is free by default.
        tell: called with one line before work starts: expected bytes, memory, reads and seconds;
            logged by default.

    Raises:
        InvalidFileError: no such store, or a file is missing, truncated, of another shape, or has
            row starts that do not ascend; all else is checked by `verify`, before adaptation.

    Example:
        >>> import tempfile, matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> store = GraphStore.create(tempfile.mkdtemp(), graph)
        >>> store.num_nodes, store.num_features
        (100, 8)
        >>> mg.adapt(mg.GPRGNN(8, 2), store, strategy=mg.Matcha(rounds=2)).probs.shape
        torch.Size([100, 2])
    """

    def __init__(
        self,
        folder: str | Path,
        memory: int | str | None = None,
        tell: Callable[[str], None] = logger.info,
    ) -> None:
        if memory is not None:
            bytes_of(memory)
        if not callable(tell):
            raise InvalidArgumentError("tell", repr(tell), "a function of one line")
        self.folder, self.memory, self.tell = a_path(folder, "store"), memory, tell
        self.meta = _read_meta(self.folder)
        self.arrays = StoreArrays.opened(self.folder, self.meta)
        self.arrays.check_rows()
        self.x, self.indptr, self.indices, self.values = self.arrays
        self._verified = False

    def adapted(
        self,
        model: "Backbone",
        method: "BaseMethod",
        strategy: "Strategy",
        seed: int,
        work: "Callable[[BaseGraph, bool], Adaptation]",
    ) -> "Adaptation":
        """See `PlannedGraph.adapted`: the nodes come in blocks, within the limit on memory."""
        from matcha_gnn.graphs.stored.target import planned

        return work(planned(self, model, method, strategy), False)

    def verify(self) -> None:
        """Read features and matrix once, in blocks, and compare them with what was written.

        `adapt` calls it once for an opened store.

        Raises:
            InvalidFileError: columns that are no nodes, numbers that are not finite, or arrays that
                were changed after the store was written.
        """
        if self._verified:
            return
        _ = self.links  # checked as they are read
        if self.arrays.fingerprint() != self.fingerprint:
            names = ", ".join(array.path.name for array in self.arrays)
            got = f"{self.folder} ({names}: changed since {META} was written)"
            raise InvalidFileError("store", got, "files as GraphStore wrote them; write it again")
        self._verified = True

    def hops_folder(self, encoder: str, content: str) -> Path:
        """The folder of a model's hops.

        Args:
            encoder: hash of everything in the model that determines the hops.
            content: hash of the arrays that they are computed from, so that hops of an earlier
                graph in this folder are not used.
        """
        return self.folder / "hops" / f"{encoder}-float32-{content}"

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.meta["num_nodes"])

    @property
    def num_features(self) -> int:
        """F."""
        return int(self.meta["num_features"])

    @property
    def num_entries(self) -> int:
        """Entries of P: edges and one self loop per node."""
        return int(self.meta["num_entries"])

    @property
    def fingerprint(self) -> str:
        """A hash of features and matrix, taken when the store was written."""
        return str(self.meta["fingerprint"])

    @property
    def symmetric(self) -> bool:
        """Whether P is known to equal its transpose."""
        return bool(self.meta["symmetric"])

    @cached_property
    def links(self) -> Tensor:
        """A sample of the edges, [2, E']."""
        path, found = self.folder / "links.npy", self._array("links")
        if found.dtype != np.int64 or found.ndim != 2 or len(found) != 2:
            got = f"{path} ({found.dtype} {list(found.shape)})"
            raise InvalidFileError("store", got, "int64 [2, edges]")
        check_nodes(path, found, self.num_nodes)
        return torch.from_numpy(found)

    @property
    def labels(self) -> Tensor | None:
        """True classes [N] for scores, where the store has them; adaptation never reads them."""
        return self._optional(LABELS)

    def mask(self, name: str) -> Tensor | None:
        """A mask [N] such as "test_mask", where the store has it."""
        return self._optional(name)

    def _optional(self, name: str) -> Tensor | None:
        if not (self.folder / f"{name}.npy").is_file():
            return None
        values = torch.from_numpy(self._array(name))
        if values.shape[:1] != (self.num_nodes,):
            got = f"{self.folder / name}.npy (shape {list(values.shape)})"
            raise InvalidFileError("store", got, f"one row for each of {self.num_nodes} nodes")
        return values

    def _array(self, name: str) -> NDArray[Any]:
        path = existing_file(self.folder / f"{name}.npy", "store")
        try:
            # Copy on write, as torch does not accept read-only arrays; it is never written.
            found: NDArray[Any] = npy.open_memmap(path, mode="c")
        except UNREADABLE as error:
            reason = getattr(error, "strerror", None) or "not a plain array file"
            raise InvalidFileError("store", f"{path} ({reason})", "an array file") from error
        written = self.meta["hashes"].get(name)
        if written is not None and array_hash(found) != written:
            got = f"{path} (changed since {META} was written)"
            raise InvalidFileError("store", got, "the file as GraphStore wrote it")
        return found

    @classmethod
    def create(cls, folder: str | Path, graph: GraphLike) -> Self:
        """Write a graph that is in memory; labels and masks too, for scores.

        Args:
            folder: is created; must not hold a store.
            graph: as for `adapt`, with dense features.
        """
        view = unlabelled(graph)
        if view.x.layout != torch.strided:
            raise InvalidGraphError("graph.x", "sparse features", "dense ones in a store")
        sender, receiver = view.edge_index.cpu().numpy()
        weight = None if view.edge_weight is None else view.edge_weight.double().cpu().numpy()
        labels = {
            name: np.asarray(values)
            for name in (LABELS, *MASKS)
            if (values := getattr(graph, name, None)) is not None
        }
        features = iter([view.x.cpu().numpy()])
        edges = [Edges(sender, receiver, weight)]
        return cls.write(folder, features, edges, symmetric=_is_symmetric(view), **labels)

    @classmethod
    def write(
        cls,
        folder: str | Path,
        features: Iterator[NDArray[Any]],
        edges: Iterable[Edges],
        *,
        symmetric: bool = False,
        **node_values: NDArray[Any],
    ) -> Self:
        """Write a graph from streams, none of which has to fit memory.

        Args:
            folder: is created; must not hold a store.
            features: blocks of rows [n, F], float32 or float64.
            edges: blocks of directed edges; an undirected edge is given in both directions.
            symmetric: every edge is, with the same weight: gradients then need no transpose.
            **node_values: `y` and masks, numbers [N].

        Raises:
            InvalidGraphError: features, edges, weights or node values that are not allowed.
            InvalidFileError: there is a store already, or the folder cannot be written.
        """
        place = output_folder(folder)
        kept = {name: _checked_values(name, values) for name, values in node_values.items()}
        got = f"{place} (another process is writing a store there)"
        with holding(place / LOCK, InvalidFileError("store", got, "one process at a time")):
            _require_no_store(place)
            meta = _write_features(place, features)
            _check_lengths(kept, meta["num_nodes"])
            meta |= write_matrix(place, meta["num_nodes"], edges) | {"symmetric": symmetric}
            finish(place, meta, kept)
        return cls(place)


def _read_meta(folder: Path) -> dict[str, Any]:
    allowed = "a folder as GraphStore wrote it"
    if not os.path.exists(folder / META):
        raise InvalidFileError("store", f"{folder} (no {META}; it is written last)", allowed)
    meta = read_checked_json(folder / META, "store", allowed, FORMAT)
    try:
        known = _is_known(meta)
    except (KeyError, TypeError):
        known = False
    if not known:
        raise InvalidFileError("store", f"{folder / META} (invalid values)", allowed)
    return meta


def _is_known(meta: dict[str, Any]) -> bool:
    """Whether the values are of the kinds that `write` gives them."""
    sizes = [meta[name] for name in ("num_nodes", "num_features", "num_entries")]
    return (
        all(type(size) is int and size > 0 for size in sizes)
        and meta["x_dtype"] in FLOATS
        and isinstance(meta["symmetric"], bool)
        and isinstance(meta["fingerprint"], str)
        and isinstance(meta["hashes"], dict)
    )


def _require_no_store(place: Path) -> None:
    if os.path.exists(place / META):
        raise InvalidFileError("store", f"{place} (already has a store)", "a new folder")


def _checked_values(name: str, values: object) -> NDArray[Any]:
    """Values of the nodes as an array, which is stored under that name."""
    if not name.isidentifier() or name in OWN_ARRAYS:
        allowed = f"names such as y and test_mask, but none of {', '.join(OWN_ARRAYS)}"
        raise InvalidGraphError("node_values", f"the name {name!r}", allowed)
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        got = f"{array.dtype} {list(array.shape)}"
        raise InvalidGraphError(name, got, "an array of numbers, one row for each node")
    return array


def _check_lengths(node_values: dict[str, NDArray[Any]], num_nodes: int) -> None:
    for name, values in node_values.items():
        if len(values) != num_nodes:
            got = f"shape {list(values.shape)}"
            raise InvalidGraphError(name, got, f"one row for each of {num_nodes} nodes")


def _write_features(folder: Path, features: Iterator[NDArray[Any]]) -> dict[str, Any]:
    """Write x.npy; the number of rows is known at the end, so the header is written again."""
    first = next(features, None)
    if first is None or first.ndim != 2 or first.shape[1] == 0:
        got = "no block" if first is None else f"shape {list(first.shape)}"
        raise InvalidGraphError("features", got, "blocks [n, F] with at least one feature")
    shape, dtype = [0, first.shape[1]], first.dtype
    path = folder / "x.npy"
    # A header for the largest possible number has room for the true one.
    with ArrayWriter(path, (1 << 62, shape[1]), dtype) as file:
        block: NDArray[Any] | None = first
        while block is not None:
            _check_features(block, shape[1], dtype)
            file.write(block)
            shape[0] += len(block)
            block = next(features, None)
        file.set_rows(shape[0])
    if shape[0] == 0:
        raise InvalidGraphError("features", "no rows", "at least one node")
    return {"num_nodes": shape[0], "num_features": shape[1], "x_dtype": dtype.name}


def _check_features(block: NDArray[Any], width: int, dtype: np.dtype[Any]) -> None:
    allowed = f"{dtype} [n, {width}] of finite numbers, float32 or float64"
    if block.ndim != 2 or block.shape[1] != width or block.dtype != dtype:
        raise InvalidGraphError("features", f"{block.dtype} {list(block.shape)}", allowed)
    if dtype.name not in FLOATS:
        raise InvalidGraphError("features", dtype, allowed)
    if not all_finite(block):
        raise InvalidGraphError("features", "NaN or infinite entries", allowed)


def _is_symmetric(graph: Graph) -> bool:
    matrix = graph.adjacency
    pair = (matrix.matrix.cpu(), matrix.transposed.matrix.cpu())
    tensors = ([m.crow_indices(), m.col_indices(), m.values()] for m in pair)
    return all(torch.equal(a, b) for a, b in zip(*tensors, strict=True))
