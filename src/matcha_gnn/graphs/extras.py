"""Further fields of a graph, without labels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.errors import InvalidGraphError
from matcha_gnn.graphs.matrices import (
    LAYOUTS,
    entries_of,
    followed,
    is_like_sparse_tensor,
    is_matrix,
    require_valid,
)

LABELS = ("y", "train_mask", "val_mask", "test_mask")
"""Fields that adaptation never reads."""
WHY_NOT_EDGES = "its edges do not follow where those of edge_index are taken away"
BASIC = ("x", "edge_index", "edge_weight", "num_nodes")


class Level(StrEnum):
    """What a field has one row for."""

    NODE = "node"
    EDGE = "edge"
    EDGES = "further edges"
    MATRIX = "sparse matrix"
    GRAPH = "graph"


class Extra(NamedTuple):
    """One field of a graph."""

    name: str
    value: Any
    level: Level


@dataclass(frozen=True, eq=False)
class Extras:
    """Further fields of a graph, in the order of their names.

    Attributes:
        fields: each with its level.
        dtype: of the features they came with, before these were converted.
        withheld: fields that were dropped when nodes or edges were changed, and why.
    """

    fields: tuple[Extra, ...] = ()
    dtype: torch.dtype = torch.float32
    withheld: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any],
        x: Tensor,
        num_edges: int,
        precision: torch.dtype | None = None,
    ) -> Self:
        """Take everything that is neither a label nor a basic field.

        Args:
            given: fields by name.
            x: features, [N, F].
            num_edges: E.
            precision: that the features had; by default they have it still.

        Raises:
            InvalidGraphError: a number of nodes that is not N.
        """
        if given.get("num_nodes", x.shape[0]) != x.shape[0]:
            allowed = f"{x.shape[0]}, the rows of x"
            raise InvalidGraphError("graph.num_nodes", given["num_nodes"], allowed)
        names = sorted(set(given) - {*BASIC, *LABELS})
        for name in names:
            _require_usable(name, given[name])
        fields = (
            Extra(name, given[name], _level(name, given[name], x.shape[0], num_edges))
            for name in names
            if given[name] is not None
        )
        return cls(tuple(fields), precision or x.dtype)

    @property
    def tensors(self) -> list[Tensor]:
        """Those values that are tensors."""
        return [extra.value for extra in self.fields if isinstance(extra.value, Tensor)]

    def values(self, dtype: torch.dtype) -> dict[str, Any]:
        """By name; fields with the features' precision are converted with them to `dtype`."""
        return {
            name: value.to(dtype)
            if isinstance(value, Tensor) and value.dtype == self.dtype
            else value
            for name, value, _ in self.fields
        }

    def following(self, before: Tensor, after: Tensor, rows: Tensor) -> Self:
        """For a graph whose edges were changed: fields and matrices of edges follow them.

        Args:
            before: the edges so far, [2, E].
            after: those that are left, with the ends they have now, [2, E'].
            rows: the numbers that these had, [E'].
        """
        fields, gone = [], {}
        for extra in self.fields:
            value = extra.value
            if extra.level == Level.EDGE:
                value = _rows_of(extra, rows)
            elif extra.level == Level.MATRIX:
                value = followed(value, before, after, rows)
            if extra.level == Level.EDGES or value is None:
                gone[extra.name] = WHY_NOT_EDGES
            else:
                fields.append(extra._replace(value=value))
        return replace(self, fields=tuple(fields), withheld={**self.withheld, **gone})

    def with_new_nodes(self, why: str) -> Self:
        """For a graph with further nodes and edges: only what belongs to the whole graph stays."""
        gone = {extra.name: why for extra in self.fields if extra.level != Level.GRAPH}
        left = tuple(extra for extra in self.fields if extra.name not in gone)
        return replace(self, fields=left, withheld={**self.withheld, **gone})

    def hashed(self) -> Iterator[Tensor]:
        """Bytes of names, types and values, to be hashed."""
        for name, value, _ in self.fields:
            kind = [str(getattr(value, trait, "")) for trait in ("layout", "dtype", "shape")]
            yield _bytes_of((name, type(value).__name__, *kind))
            for tensor in _dense(value):
                yield tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)


def fields_of(graph: object) -> dict[str, Any]:
    """The fields of a PyG `Data`, or the public attributes of another object, less labels."""
    keys = getattr(graph, "keys", None)
    if callable(keys):
        return {name: graph[name] for name in keys() if name not in LABELS}  # type: ignore[index]
    fields = getattr(graph, "__dict__", {})
    return {n: v for n, v in fields.items() if n not in LABELS and not n.startswith("_")}


def _require_usable(name: str, value: object) -> None:
    """Refuse sparse tensors with indices outside of them, and those that cannot be checked."""
    if not isinstance(value, Tensor) or value.layout == torch.strided:
        return
    plain = value.layout in LAYOUTS and value.dim() == 2 and value.dense_dim() == 0
    if not plain:
        got = f"{value.layout} of {value.dim()} dimensions"
        raise InvalidGraphError(f"graph.{name}", got, "COO, CSR or CSC with one number an entry")
    require_valid(f"graph.{name}", value)


def _level(name: str, value: object, num_nodes: int, num_edges: int) -> Level:
    """As PyG decides: by the number of rows, and by the name where both numbers are equal."""
    if is_matrix(value, num_nodes):
        return Level.MATRIX
    if "adj" in name.split("_") or "edge_index" in name:
        return Level.EDGES
    rows = _num_rows(name, value)
    if rows == num_edges and (num_edges != num_nodes or "edge" in name):
        return Level.EDGE
    return Level.NODE if rows == num_nodes else Level.GRAPH


def _num_rows(name: str, value: object) -> int | None:
    if isinstance(value, Tensor | np.ndarray):
        return value.shape[_row_dim(name)] if value.ndim else None
    return len(value) if isinstance(value, list | tuple) else None


def _row_dim(name: str) -> int:
    return -1 if "index" in name or name == "face" else 0


def _rows_of(extra: Extra, rows: Tensor) -> Any:
    value, dim = extra.value, _row_dim(extra.name)
    if isinstance(value, Tensor):
        return value.index_select(dim, rows.to(value.device))
    if isinstance(value, np.ndarray):
        return value.take(rows.cpu().numpy(), dim)
    return type(value)(value[row] for row in rows.tolist())


def _dense(value: Any) -> list[Tensor]:
    """Dense tensors that say what a value is."""
    sparse = isinstance(value, Tensor) and value.layout != torch.strided
    if sparse or is_like_sparse_tensor(value):
        return [part for part in entries_of(value) if part is not None]
    return [value] if isinstance(value, Tensor) else [_bytes_of(value)]


def _bytes_of(value: object) -> Tensor:
    data = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())
