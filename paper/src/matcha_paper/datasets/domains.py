"""A data set as adaptation meets it: a source, a validation and a target graph."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch_geometric.data import Data

PARTS = ("source", "validation", "target")


class Domains(NamedTuple):
    """Three graphs with labels `y` and, where the data set splits its nodes, masks.

    Train on `source` (its `train_mask`, or all nodes), choose settings on `validation`, and score
    on `target` (its `test_mask`, or all nodes).
    """

    source: "Data"
    validation: "Data"
    target: "Data"

    @classmethod
    def of(cls, part: Callable[[str], "Data"]) -> "Domains":
        """Load each part by its name."""
        return cls(*(part(name) for name in PARTS))
