"""The `Data` that a network is given. Imported when one is needed: PyG takes seconds to load."""

from collections.abc import Mapping
from typing import Any

from torch_geometric.data import Data
from torch_geometric.data.storage import BaseStorage

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.graphs.extras import LABELS
from matcha_gnn.graphs.memory import Graph


class NetworkData(Data):  # type: ignore[misc]
    """A `Data` without labels, which refuses fields that could not follow a change of the edges.

    PyG's own answers None for some fields that it lacks, `y` and `edge_attr` among them.

    Args:
        fields: by name.
        refused: fields that must not be looked for, and the line for each.
    """

    def __init__(self, fields: Mapping[str, Any], refused: Mapping[str, str]) -> None:
        super().__init__(**fields)
        self.__dict__["_refused"] = refused

    def __getattribute__(self, name: str) -> Any:
        """Labels are missing like any field that is not there."""
        if name in LABELS:
            raise AttributeError(name)
        _require(super().__getattribute__("__dict__").get("_refused", {}), name)
        return super().__getattribute__(name)

    def __getitem__(self, name: str) -> Any:
        """A field by its name."""
        _require(self.__dict__["_refused"], name)
        return super().__getitem__(name)

    def __contains__(self, name: str) -> bool:
        """Whether there is a field."""
        _require(self.__dict__["_refused"], name)
        return bool(super().__contains__(name))


def whole_data(graph: Graph) -> Data:
    """A graph as a plain `Data`, without labels."""
    weights = {} if graph.edge_weight is None else {"edge_weight": graph.edge_weight}
    further = graph.extras.values(graph.x.dtype)
    return Data(x=graph.x, edge_index=graph.edge_index, **weights, **further)


def _require(refused: Mapping[str, str], name: str) -> None:
    if name in refused:
        raise IncompatibleError(refused[name])


def missing_field(error: Exception) -> str | None:
    """The field whose absence raised an error, if that was the cause."""
    if isinstance(error, AttributeError) and isinstance(error.obj, BaseStorage | Data):
        return error.name
    return None
