"""A store as a target of adaptation, within a promise about memory."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.backbones import Backbone, FilterBackbone
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.graphs.base import Message
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.graphs.stored.matrix import StoredMatrix
from matcha_gnn.graphs.stored.plan import Plan, Work, estimate, plan_for
from matcha_gnn.graphs.stored.propagation import HopFiles, make_hops
from matcha_gnn.graphs.stored.store import GraphStore
from matcha_gnn.graphs.stored.streaming import TORCH_TYPES, StoredHops
from matcha_gnn.hops import HopsKey
from matcha_gnn.methods import METHODS, BaseMethod, Touches
from matcha_gnn.monitoring.progress import LateBar
from matcha_gnn.typing import Progress

if TYPE_CHECKING:
    from matcha_gnn.strategies import Strategy


class StoredGraph(Graph):
    """The nodes of a store, piece by piece.

    Args:
        store: the folder.
        plan: what may be in memory at a time.
        device: where work is done.
        progress: told of finished hops.
    """

    one_piece = False

    def __init__(
        self, store: GraphStore, plan: Plan, device: torch.device, progress: Progress | None = None
    ) -> None:
        fields = {"store": store, "plan": plan, "_kept": {}, "edge_weight": None}
        fields |= {"make_hops": self.hops, "most_columns": plan.columns, "_device": device}
        self.__dict__.update(fields, progress=progress or LateBar("propagating"))

    store: GraphStore
    plan: Plan
    progress: Progress

    @property
    def x(self) -> Tensor:  # type: ignore[override]
        """Features on disk, [N, F]: to be told shape and type, not to be worked on."""
        return torch.from_numpy(np.asarray(self.store.x.array))

    @property
    def edge_index(self) -> Tensor:  # type: ignore[override]
        """Refused: edges are read in blocks, as rows of P."""
        raise IncompatibleError("graph: a store's edges are read in blocks, never as a whole")

    @property
    def device(self) -> torch.device:
        """Where work is done."""
        device: torch.device = self.__dict__["_device"]
        return device

    @property
    def adjacency(self) -> StoredMatrix:  # type: ignore[override]
        """P, streamed."""
        return StoredMatrix(self.store)

    @property
    def fingerprint(self) -> str:
        """The store's."""
        return self.store.fingerprint

    def pieces(self) -> Iterator[tuple[slice, Graph]]:
        """Rows, and a graph of these nodes without edges."""
        none = torch.zeros(2, 0, dtype=torch.long, device=self.device)
        for rows, block in self.store.x.blocks(self.plan.rows):
            yield rows, Graph(torch.from_numpy(block).to(self.device), none)

    def sample_links(self, most: int, seed: int) -> Tensor:
        """The edges that were set aside when the store was written."""
        return self.store.links[:, :most].to(self.device)

    def neighbour_sums(self, values: Tensor) -> Tensor:
        """See `Target.neighbour_sums`."""
        return self.adjacency.neighbour_sums(values)

    def message_sums(self, message: Message, sent: Tensor, received: Tensor) -> Tensor:
        """See `Target.message_sums`."""
        return self.adjacency.message_sums(message, sent, received)

    @property
    def reciprocal(self) -> bool:
        """Whether every edge has its reverse, as often."""
        return self.adjacency.reciprocal

    def hops(self, model: FilterBackbone) -> StoredHops:
        """A model's hops, from the store's folder; what is missing there is made first."""
        key, plan = model.hops_key(self), self.plan
        files = hop_files(self.store, key, model, plan.slab)
        if files.missing():
            make_hops(model, self, files, self.progress)
        where = files.all(), self.store.hops_dtype, key
        return StoredHops(*where, plan.block_bytes, plan.logit_bytes, self.device)

    def __repr__(self) -> str:
        """One line instead of arrays."""
        return f"StoredGraph({self.store.folder}, {self.num_nodes:,} nodes)"


def hop_files(store: GraphStore, key: HopsKey, model: Backbone, slab: int) -> HopFiles:
    """Files of a model's hops: those that are there if they are whole or can be gone on with.

    Args:
        store: whose folder they are in.
        key: of the hops.
        model: that they are made by.
        slab: columns that may be propagated at a time.
    """
    shape = (store.num_nodes, model.num_hops + 1, model.head.in_features)
    folder = store.hops_folder(key.encoder, key.graph)
    begun = [
        HopFiles(folder, shape, store.hops_dtype, width) for width in HopFiles.widths_in(folder)
    ]
    whole = (files for files in begun if not files.missing())
    # Free memory is never twice the same: a run that goes on keeps to the slabs it was begun with,
    # unless they are so narrow that P would be read more than twice as often.
    near = (files for files in begun if slab // 2 <= files.widths[0] <= slab)
    return next(whole, None) or next(near, HopFiles(folder, shape, store.hops_dtype, slab))


def planned(
    store: GraphStore, model: "Backbone", method: BaseMethod, strategy: "Strategy"
) -> StoredGraph:
    """A store as adaptation takes it: checked, and planned within its promise about memory.

    Args:
        store: the folder.
        model: the trained backbone.
        method: the base method.
        strategy: what will run.

    Raises:
        IncompatibleError: a model, method or strategy that cannot be streamed.
        InvalidArgumentError: too little memory or disk.
        InvalidFileError: a store whose files are not as they were written.
    """
    require_blocks(model, method, strategy)
    require_float32(model)
    store.verify()
    work = _work(store, model, method, strategy)
    target = StoredGraph(store, plan_for(work, store.memory), model.gamma.device)
    files = hop_files(store, model.hops_key(target), model, target.plan.slab)
    missing = sum(files.bytes_of(*each) for each in files.missing())
    store.tell(str(estimate(work, target.plan, store.folder, store.folder / "x.npy", missing)))
    return target


def require_float32(model: Backbone) -> None:
    """Refuse a model that is more precise than the hops that a store keeps."""
    if model.gamma.dtype != torch.float32:
        allowed = "float32 weights for a store; model.float() makes them float32"
        raise InvalidArgumentError("model", f"{model.gamma.dtype} weights", allowed)


def require_blocks(model: "Backbone", method: BaseMethod, strategy: "Strategy") -> None:
    """Refuse what needs all nodes in memory, and name what does not."""
    if not method.streams:
        able = ", ".join(name for name, kind in METHODS.items() if kind.streams)
        raise IncompatibleError(
            f"method: {method.name} is not supported with GraphStore (supported: {able})"
        )
    if not isinstance(model, FilterBackbone):
        raise IncompatibleError(
            f"model: {model.name} is not supported with GraphStore (supported: GPRGNN, APPNP): "
            "its hops are no powers of P"
        )
    if not strategy.blockwise:
        raise IncompatibleError(
            f"strategy: {strategy.name} with these parameters is not supported with GraphStore: "
            "it needs all nodes in memory"
        )
    if strategy.uses_evidence and Touches.NORM in method.touches:
        raise IncompatibleError(
            f"method: {method.name} has hops of its own, which cannot be streamed: accuracy can "
            "be estimated for a graph in memory, not for a store"
        )


def _work(store: GraphStore, model: "Backbone", method: BaseMethod, strategy: "Strategy") -> Work:
    classes, hops = model.head.out_features, model.num_hops + 1
    rounds = strategy.predictions
    # Predictions now and before, logits, labels, and what is made on the way to them.
    node_bytes, reads, for_logits = 32 * classes + 16, 3 + rounds, rounds
    if Touches.HEAD in method.touches:
        node_bytes, reads, for_logits = node_bytes + 20 * classes + 48, 3 + 4 * rounds, 0
    if Touches.NORM in method.touches:
        node_bytes, for_logits = node_bytes + 4 * (classes - 1) * (2 * hops + 8), 0
    guarded = strategy.uses_evidence
    if guarded:
        node_bytes, reads, for_logits = node_bytes + 72 * classes + 4 * hops + 24, 15, 15
    shape = store.num_nodes, store.num_features, hops, model.head.in_features, classes
    itemsize = TORCH_TYPES[store.hops_dtype].itemsize
    return Work(*shape, itemsize, node_bytes, reads, for_logits, guarded)
