"""The interface of graphs: in memory, stored or sharded.

A graph in memory is one block with all nodes. A stored graph yields its nodes block by block; a
rank of a cluster has one shard of the nodes, and exchanges rows with other ranks for each hop.
"""

import abc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from matcha_gnn.graphs.shards import WHOLE, Shard
from matcha_gnn.kernels import Operator
from matcha_gnn.kernels.links import Message
from matcha_gnn.streams import Purpose, torch_stream

if TYPE_CHECKING:
    from matcha_gnn.gamma.methods import BaseMethod
    from matcha_gnn.gamma.models import Backbone
    from matcha_gnn.gamma.strategies import Strategy
    from matcha_gnn.graphs.memory import LocalGraph
    from matcha_gnn.result import Adaptation


@runtime_checkable
class PlannedGraph(Protocol):
    """A graph that is not all in memory here: work on it is planned, or agreed with others."""

    def adapted(
        self,
        model: "Backbone",
        method: "BaseMethod",
        strategy: "Strategy",
        seed: int,
        work: "Callable[[Any, bool], Adaptation]",
    ) -> "Adaptation":
        """Check, plan, and do the work.

        Args:
            model: the trained backbone.
            method: the base method.
            strategy: what will run.
            seed: of the run.
            work: takes the graph as adaptation sees it, and whether to show no bar.
        """


class BaseGraph(abc.ABC):
    """What adaptation asks of a graph: `Graph`, `StoredGraph` and `GraphShard` answer it.

    Attributes:
        shard: the shard of these nodes.
        make_hops: computes a model's hops on this graph where the model itself cannot; called with
            the model, it returns `Hops`.
        most_columns: columns that may be propagated at a time.
    """

    shard: Shard = WHOLE
    make_hops: Callable[[Any], Any] | None = None
    most_columns: int = 1 << 30

    @property
    @abc.abstractmethod
    def num_nodes(self) -> int:
        """N, of the shard."""

    @property
    @abc.abstractmethod
    def num_features(self) -> int:
        """F."""

    @property
    @abc.abstractmethod
    def device(self) -> torch.device:
        """Where computations on the graph run."""

    @property
    @abc.abstractmethod
    def adjacency(self) -> Operator:
        """The normalised adjacency P."""

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """A hash of the content: two graphs share it only if their tensors are equal."""

    @abc.abstractmethod
    def blocks(self) -> "Iterator[tuple[slice, LocalGraph]]":
        """Rows, and a graph of these nodes; do not use its edges."""

    @abc.abstractmethod
    def sample_links(self, most: int, seed: int) -> Tensor:
        """At most `most` edges between different nodes, numbered in the whole graph, [2, E']."""

    def neighbour_sums(self, values: Tensor) -> Tensor:
        """Σ over the incoming edges of each node of the sender's row of values [N, C]: [N, C].

        Self loops are ignored.
        """
        return self.message_sums(lambda sender, _: sender, values, values)

    @abc.abstractmethod
    def message_sums(self, message: Message, sent: Tensor, received: Tensor) -> Tensor:
        """Σ over the incoming edges of each node of their messages, [N, C]; self loops are ignored.

        Args:
            message: from the senders' values of `sent` and the receivers' of `received`, class by
                class for some edges, [C, E'] each, to messages of the same shape.
            sent: [N, C].
            received: [N, C].
        """

    @property
    @abc.abstractmethod
    def reciprocal(self) -> bool:
        """Whether every edge has its reverse, as often."""


def drawn_links(number: int, most: int, seed: int) -> Tensor:
    """Which of so many links `sample_links` takes, with repetitions, [most]."""
    return torch.randint(number, (most,), generator=torch_stream(seed, Purpose.LINKS))


def imbalance(sender: Tensor, receiver: Tensor) -> int:
    """Zero if every edge has its reverse, as often; additive over sets of edges.

    Σ f(sender) g(receiver) − f(receiver) g(sender), with random functions f and g and exact
    arithmetic modulo 2^64: zero without the reverses with probability about 2^-64.

    Example:
        >>> imbalance(torch.tensor([0, 1]), torch.tensor([1, 0]))
        0
    """
    there = (_scattered(sender, 0) * _scattered(receiver, 1)).sum()
    back = (_scattered(receiver, 0) * _scattered(sender, 1)).sum()
    return int(there - back)


def _scattered(numbers: Tensor, stream: int) -> Tensor:
    """A fixed random 64-bit number for each number in each of two streams, 0 and 1 (SplitMix64)."""
    mixed = (2 * numbers + stream) * -0x61C8864680B583EB
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        mixed = (mixed ^ _shifted(mixed, shift)) * factor
    return mixed ^ _shifted(mixed, 31)


def _shifted(numbers: Tensor, places: int) -> Tensor:
    """Logical shift to the right."""
    return (numbers >> places) & ((1 << (64 - places)) - 1)
