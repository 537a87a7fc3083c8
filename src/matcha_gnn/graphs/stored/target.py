"""Stored graphs for adaptation, within a memory limit."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.graphs.base import Message
from matcha_gnn.graphs.memory import Graph, GraphLike, unlabelled
from matcha_gnn.graphs.stored.host import hosted, room_on, stack_bytes
from matcha_gnn.graphs.stored.matrix import StoredMatrix
from matcha_gnn.graphs.stored.plan import Plan, Work, bytes_of, estimate, plan_for
from matcha_gnn.graphs.stored.propagation import HopFiles, make_hops
from matcha_gnn.graphs.stored.store import GraphStore
from matcha_gnn.graphs.stored.streaming import TORCH_TYPES, StoredHops
from matcha_gnn.hops import HopsKey
from matcha_gnn.methods import METHODS, BaseMethod, Modifies
from matcha_gnn.monitoring.progress import LateBar
from matcha_gnn.typing import Progress

if TYPE_CHECKING:
    from matcha_gnn.backbones import Backbone


class StoredGraph(Graph):
    """The nodes of a store, in blocks.

    Args:
        store: the folder.
        plan: the memory plan.
        device: where computations run.
        progress: called with the number of finished hop files and of all.
    """

    one_block = False

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
        """Features on disk, [N, F], for their shape and type only."""
        return torch.from_numpy(np.asarray(self.store.x.array))

    @property
    def edge_index(self) -> Tensor:  # type: ignore[override]
        """Refused: edges are read in blocks, as rows of P."""
        raise IncompatibleError("graph: edge_index is not supported with GraphStore")

    @property
    def device(self) -> torch.device:
        """Where computations run."""
        device: torch.device = self.__dict__["_device"]
        return device

    @property
    def adjacency(self) -> StoredMatrix:  # type: ignore[override]
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

    def hops(self, model: "Backbone") -> StoredHops:
        """A model's hops, from the store's folder; missing ones are computed first."""
        key, plan = model.hops_key(self), self.plan
        files = hop_files(self.store, key, model, plan.block_width)
        if files.missing():
            make_hops(model, self, files, self.progress)
        where = files.all(), self.store.hops_dtype, key
        return StoredHops(*where, plan.block_bytes, plan.logit_bytes, self.device)

    def __repr__(self) -> str:
        """One line instead of arrays."""
        return f"StoredGraph({self.store.folder}, {self.num_nodes:,} nodes)"


def hop_files(store: GraphStore, key: HopsKey, model: "Backbone", block_width: int) -> HopFiles:
    """Files of a model's hops: existing ones if they are complete or can be resumed.

    Args:
        store: whose folder they are in.
        key: of the hops.
        model: that computes them.
        block_width: columns that may be propagated at a time.
    """
    shape = (store.num_nodes, model.num_hops + 1, model.head.in_features)
    folder = store.hops_folder(key.encoder, key.graph)
    begun = [
        HopFiles(folder, shape, store.hops_dtype, width) for width in HopFiles.widths_in(folder)
    ]
    whole = (files for files in begun if not files.missing())
    # Free memory varies: a resumed run keeps the column blocks that it was started with, unless
    # they are so narrow that P would be read more than twice as often.
    near = (files for files in begun if block_width // 2 <= files.widths[0] <= block_width)
    return next(whole, None) or next(near, HopFiles(folder, shape, store.hops_dtype, block_width))


def target_of(
    graph: "GraphLike | GraphStore",
    model: "Backbone",
    method: BaseMethod,
    settings: dict[str, Any],
    memory: int | str | None,
) -> Graph:
    """A checked graph for adaptation, with a memory plan where it is a store.

    Args:
        graph: as given to `adapt`.
        model: the trained backbone.
        method: the base method.
        settings: every argument of `adapt` that determines the result.
        memory: the limit, for a store.

    Raises:
        IncompatibleError: model, method or settings that are not supported with a store.
        InvalidArgumentError: too little memory or disk.
        InvalidFileError: a store whose files are not as they were written.
    """
    if not isinstance(graph, GraphStore):
        return _in_memory(unlabelled(graph), model, method, settings, memory)
    _require_streaming(model, method, settings)
    require_float32(model)
    graph.verify()
    work = _work(graph, model, method, settings)
    target = StoredGraph(graph, plan_for(work, memory), model.gamma.device)
    files = hop_files(graph, model.hops_key(target), model, target.plan.block_width)
    missing = sum(files.bytes_of(*each) for each in files.missing())
    graph.tell(str(estimate(work, target.plan, graph.folder, graph.folder / "x.npy", missing)))
    return target


def require_float32(model: "Backbone") -> None:
    """Raise InvalidArgumentError for a model of higher precision than a store's hops."""
    if model.gamma.dtype != torch.float32:
        allowed = "float32 weights for a store; model.float() makes them float32"
        raise InvalidArgumentError("model", f"{model.gamma.dtype} weights", allowed)


def _in_memory(
    graph: Graph,
    model: "Backbone",
    method: BaseMethod,
    settings: dict[str, Any],
    memory: int | str | None,
) -> Graph:
    """The graph, or a copy whose hops stay on the host where a GPU has no room for them."""
    if graph.device.type != "cuda":
        if memory is not None:
            allowed = "a limit for a GraphStore, or for a graph on a GPU"
            raise InvalidArgumentError("memory", repr(memory), allowed)
        return graph
    limit = room_on(graph.device) if memory is None else bytes_of(memory)
    if not model.mixes_linearly or stack_bytes(model, graph) <= limit:
        return graph
    _require_streaming(model, method, settings)
    return hosted(graph, limit)


def _require_streaming(model: "Backbone", method: BaseMethod, settings: dict[str, Any]) -> None:
    """Raise IncompatibleError for what cannot be computed in blocks."""
    if not method.streams:
        able = ", ".join(name for name, kind in METHODS.items() if kind.streams)
        raise IncompatibleError(
            f"method: {method.name} is not supported with GraphStore (supported: {able})"
        )
    if not (model.is_filter and model.mixes_linearly and model.is_its_layers):
        raise IncompatibleError(
            f"model: {model.name} is not supported with GraphStore (supported: GPRGNN, APPNP)"
        )
    if settings["moves"] != "gamma" or settings["features"] != "source":
        raise IncompatibleError(
            f"moves, features: got {settings['moves']!r}, {settings['features']!r}; allowed with "
            "GraphStore: 'gamma', 'source'"
        )
    if settings["protect"] and Modifies.NORM in method.modifies and settings["epochs"] > 0:
        raise IncompatibleError(
            f"method: accuracy with {method.name} cannot be estimated with GraphStore; use a graph "
            "in memory"
        )


def _work(
    store: GraphStore, model: "Backbone", method: BaseMethod, settings: dict[str, Any]
) -> Work:
    classes, hops = model.head.out_features, model.num_hops + 1
    rounds = settings["epochs"] + 1
    # Predictions now and before, logits, labels, and temporaries.
    node_bytes, reads, for_logits = 32 * classes + 16, 3 + rounds, rounds
    if Modifies.HEAD in method.modifies:
        node_bytes, reads, for_logits = node_bytes + 20 * classes + 48, 3 + 4 * rounds, 0
    if Modifies.NORM in method.modifies:
        node_bytes, for_logits = node_bytes + 4 * (classes - 1) * (2 * hops + 8), 0
    guarded = settings["protect"] and settings["epochs"] > 0
    if guarded:
        node_bytes, reads, for_logits = node_bytes + 72 * classes + 4 * hops + 24, 15, 15
    shape = store.num_nodes, store.num_features, hops, model.head.in_features, classes
    itemsize = TORCH_TYPES[store.hops_dtype].itemsize
    return Work(*shape, itemsize, node_bytes, reads, for_logits, guarded)
