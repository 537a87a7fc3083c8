"""Stored graphs for adaptation, within a memory limit."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.gamma.hops import HopsKey
from matcha_gnn.gamma.methods import METHODS, BaseMethod, Modifies
from matcha_gnn.gamma.models import Backbone, FilterBackbone
from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.graphs.stored.matrix import StoredMatrix
from matcha_gnn.graphs.stored.plan import Plan, Work, estimate, plan_for
from matcha_gnn.graphs.stored.propagation import HopFiles, make_hops
from matcha_gnn.graphs.stored.store import GraphStore
from matcha_gnn.graphs.stored.streaming import StoredHops
from matcha_gnn.kernels.links import Message
from matcha_gnn.monitoring.progress import LateBar
from matcha_gnn.typing import Progress

if TYPE_CHECKING:
    from matcha_gnn.gamma.strategies import Strategy


class StoredGraph(BaseGraph):
    """The nodes of a store, in blocks.

    Args:
        store: the folder.
        plan: the memory plan.
        device: where computations run.
        progress: called with the number of finished hop files and of all.
    """

    def __init__(
        self, store: GraphStore, plan: Plan, device: torch.device, progress: Progress | None = None
    ) -> None:
        self.store, self.plan, self._device = store, plan, device
        self.make_hops, self.most_columns = self.hops, plan.columns
        self.progress = progress or LateBar("propagating")

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.store.num_nodes

    @property
    def num_features(self) -> int:
        """F."""
        return self.store.num_features

    @property
    def device(self) -> torch.device:
        """Where computations run."""
        return self._device

    @property
    def adjacency(self) -> StoredMatrix:
        """P, read from its files."""
        return StoredMatrix(self.store)

    @property
    def fingerprint(self) -> str:
        """The store's."""
        return self.store.fingerprint

    def blocks(self) -> Iterator[tuple[slice, Graph]]:
        """Rows, and a graph of these nodes without edges."""
        none = torch.zeros(2, 0, dtype=torch.long, device=self.device)
        for rows, block in self.store.x.blocks(self.plan.rows):
            yield rows, Graph(torch.from_numpy(block).to(self.device), none)

    def sample_links(self, most: int, seed: int) -> Tensor:
        """The edges that were sampled when the store was written."""
        return self.store.links[:, :most].to(self.device)

    def neighbour_sums(self, values: Tensor) -> Tensor:
        """See `BaseGraph.neighbour_sums`."""
        return self.adjacency.neighbour_sums(values)

    def message_sums(self, message: Message, sent: Tensor, received: Tensor) -> Tensor:
        """See `BaseGraph.message_sums`."""
        return self.adjacency.message_sums(message, sent, received)

    @property
    def reciprocal(self) -> bool:
        """Whether every edge has its reverse, as often."""
        return self.adjacency.reciprocal

    def hops(self, model: FilterBackbone) -> StoredHops:
        """A model's hops, from the store's folder; missing ones are computed first."""
        key, plan = model.hops_key(self), self.plan
        files = hop_files(self.store, key, model, plan.block_width)
        if files.missing():
            make_hops(model, self, files, self.progress)
        blocks = plan.block_bytes, plan.logit_bytes
        return StoredHops(files.all(), key, *blocks, self.device)

    def __repr__(self) -> str:
        """One line instead of arrays."""
        return f"StoredGraph({self.store.folder}, {self.num_nodes:,} nodes)"


def hop_files(store: GraphStore, key: HopsKey, model: Backbone, block_width: int) -> HopFiles:
    """Files of a model's hops: existing ones if they are complete or can be resumed.

    Args:
        store: whose folder they are in.
        key: of the hops.
        model: that computes them.
        block_width: columns that may be propagated at a time.
    """
    shape = (store.num_nodes, model.num_hops + 1, model.head.in_features)
    folder = store.hops_folder(key.encoder, key.graph)
    begun = [HopFiles(folder, shape, width) for width in HopFiles.widths_in(folder)]
    whole = (files for files in begun if not files.missing())
    # Free memory varies: a resumed run keeps the column blocks that it was started with, unless
    # they are so narrow that P would be read more than twice as often.
    near = (files for files in begun if block_width // 2 <= files.widths[0] <= block_width)
    return next(whole, None) or next(near, HopFiles(folder, shape, block_width))


def planned(
    store: GraphStore, model: "Backbone", method: BaseMethod, strategy: "Strategy"
) -> StoredGraph:
    """A checked store for adaptation, with a plan within its memory limit.

    Args:
        store: the folder.
        model: the trained backbone.
        method: the base method.
        strategy: what will run.

    Raises:
        IncompatibleError: model, method or strategy that are not supported with a store.
        InvalidArgumentError: too little memory or disk.
        InvalidFileError: a store whose files are not as they were written.
    """
    require_blocks(model, method, strategy)
    require_float32(model)
    store.verify()
    work = _work(store, model, method, strategy)
    target = StoredGraph(store, plan_for(work, store.memory), model.gamma.device)
    files = hop_files(store, model.hops_key(target), model, target.plan.block_width)
    missing = sum(files.bytes_of(*each) for each in files.missing())
    store.tell(str(estimate(work, target.plan, store.folder, store.folder / "x.npy", missing)))
    return target


def require_float32(model: Backbone) -> None:
    """Raise InvalidArgumentError for a model of higher precision than a store's hops."""
    if model.gamma.dtype != torch.float32:
        allowed = "float32 weights for a store; model.float() makes them float32"
        raise InvalidArgumentError("model", f"{model.gamma.dtype} weights", allowed)


def require_blocks(model: "Backbone", method: BaseMethod, strategy: "Strategy") -> None:
    """Raise IncompatibleError for what cannot be computed in blocks."""
    if not method.streams:
        able = ", ".join(name for name, kind in METHODS.items() if kind.streams)
        raise IncompatibleError(
            f"method: {method.name} is not supported with GraphStore (supported: {able})"
        )
    if not isinstance(model, FilterBackbone):
        raise IncompatibleError(
            f"model: {model.name} is not supported with GraphStore (supported: GPRGNN, APPNP)"
        )
    if not strategy.blockwise:
        raise IncompatibleError(
            f"strategy: {strategy.name} with these parameters is not supported with GraphStore: "
            "it needs all nodes in memory"
        )
    if strategy.uses_evidence and Modifies.NORM in method.modifies:
        raise IncompatibleError(
            f"method: accuracy with {method.name} cannot be estimated with GraphStore; use a graph "
            "in memory"
        )


def _work(store: GraphStore, model: "Backbone", method: BaseMethod, strategy: "Strategy") -> Work:
    classes, hops = model.head.out_features, model.num_hops + 1
    rounds = strategy.predictions
    # Predictions now and before, logits, labels, and temporaries.
    node_bytes, reads, for_logits = 32 * classes + 16, 3 + rounds, rounds
    if Modifies.HEAD in method.modifies:
        node_bytes, reads, for_logits = node_bytes + 20 * classes + 48, 3 + 4 * rounds, 0
    if Modifies.NORM in method.modifies:
        node_bytes, for_logits = node_bytes + 4 * (classes - 1) * (2 * hops + 8), 0
    guarded = strategy.uses_evidence
    if guarded:
        node_bytes, reads, for_logits = node_bytes + 72 * classes + 4 * hops + 24, 15, 15
    shape = store.num_nodes, store.num_features, hops, model.head.in_features, classes
    return Work(*shape, node_bytes, reads, for_logits, guarded)
