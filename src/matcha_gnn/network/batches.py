"""Run a network through a loader of its own: batches that together have every node as a seed."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.graphs.memory import Graph, unlabelled

ALLOWED = "an iterable of batches such as a NeighborLoader, or a function that makes one of a Data"
Loader = Iterable[Any] | Callable[[Any], Iterable[Any]]


class Batch(NamedTuple):
    """One batch of a loader.

    Attributes:
        graph: its nodes and edges, without labels.
        seeds: the nodes that it answers for, which come first, by their numbers, [S].
    """

    graph: Graph
    seeds: Tensor


class Batches:
    """A loader, and the graph that it samples from.

    Copies share it; a pickled model goes without.

    Args:
        loader: batches of `graph`, or a function that makes some of a `Data`.
        graph: where an iterable samples from.
    """

    def __init__(self, loader: Loader, graph: Graph) -> None:
        # PyG's loaders can be called, too: what can be iterated over is no function here.
        self._makes = not isinstance(loader, Iterable)
        if self._makes and not callable(loader):
            raise InvalidArgumentError("loader", f"a {type(loader).__name__}", ALLOWED)
        self._loader: Any = loader
        self._graph = graph

    def __deepcopy__(self, memo: dict[int, Any]) -> "Batches":
        return self

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(None), ()

    def of(self, graph: Graph) -> Iterator[Batch] | None:
        """Batches of a graph; None for one without edges, or that the loader does not sample."""
        if graph.edge_index.shape[1] == 0 or not (self._makes or self._samples(graph)):
            return None
        return self._checked(graph)

    def _samples(self, graph: Graph) -> bool:
        mine = self._graph
        pairs = (mine.x, graph.x), (mine.edge_index, graph.edge_index)
        return all(a is b or (a.shape == b.shape and bool(a.equal(b))) for a, b in pairs)

    def _checked(self, graph: Graph) -> Iterator[Batch]:
        from matcha_gnn.network.network_data import whole_data

        loader = self._loader(whole_data(graph)) if self._makes else self._loader
        if not isinstance(loader, Iterable):
            got = f"a function that returns a {type(loader).__name__}"
            raise InvalidArgumentError("loader", got, ALLOWED)
        for batch in loader:
            numbers, count = getattr(batch, "n_id", None), getattr(batch, "batch_size", None)
            if not isinstance(numbers, Tensor):
                numbers = getattr(batch, "input_id", None)
            if not isinstance(numbers, Tensor) or not isinstance(count, int):
                allowed = "batches with batch_size, and with the nodes' numbers as n_id or input_id"
                raise InvalidArgumentError("loader", f"a {type(batch).__name__} without", allowed)
            yield Batch(unlabelled(batch), numbers[:count].to(graph.device))


def collected(parts: list[Tensor], seeds: list[Tensor], num_nodes: int) -> Tensor:
    """Rows of seeds [S, D] in the order of the nodes, [N, D].

    Raises:
        InvalidArgumentError: a node that was no seed.

    Example:
        >>> parts = [torch.tensor([[1.0]]), torch.tensor([[0.0]])]
        >>> collected(parts, [torch.tensor([1]), torch.tensor([0])], 2)
        tensor([[0.],
                [1.]])
    """
    numbers = torch.cat(seeds) if seeds else torch.zeros(0, dtype=torch.long)
    place = torch.full((num_nodes,), -1, device=numbers.device)
    place[numbers] = torch.arange(len(numbers), device=numbers.device)
    missing = int((place < 0).sum())
    if missing:
        got = f"batches without {missing} of {num_nodes} nodes as seeds"
        raise InvalidArgumentError("loader", got, "every node as a seed (input_nodes=None)")
    return torch.cat(parts)[place]
