"""Training of GraphPatcher's patcher at the source."""

import abc
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.gamma.methods.graphpatcher.patching import (
    Patcher,
    Patching,
    encode_virtual,
    filter_patched,
    neighbour_sums,
    patched_adjacency,
    patched_graph,
)
from matcha_gnn.gamma.models import Backbone, FilterBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import filter_hops
from matcha_gnn.kernels.contexts import seeded
from matcha_gnn.streams import Purpose, torch_seed
from matcha_gnn.typing import Repr

DROPPED = 0.9
"""Share of the centres' neighbours that is dropped from the patcher's input."""
RESTORED = (0.6, 0.3, 0.0)
"""Shares that are dropped from the neighbourhoods it should imitate, patch after patch."""
WEIGHT_DECAY = 5e-4
EVALUATE_EVERY, PATIENCE = 10, 10
MOST_PATCHES = 5
"""Numbers of patches from 1 to this are tried on the source."""


def restoring_loss(patched: Tensor, target: Tensor, axis: str) -> Tensor:
    """KL(target ‖ patched) averaged over nodes, and over copies where there are several.

    Args:
        patched: logits of the patched nodes, [B, C].
        target: logits of the fuller graph, [B, C], or of its random copies, [B, copies, C].
        axis: "classes"; or "copies": the softmax is taken over axis 1 whatever it holds, and the
            patched prediction, which is the same for all copies, gets no gradient from them.
    """
    dim = 1 if axis == "copies" else -1
    if target.dim() == 3:
        patched = patched[:, None].expand_as(target)
    wanted, given = target.log_softmax(dim), patched.log_softmax(dim)
    return (wanted.exp() * (wanted - given)).sum(-1).mean()


@dataclass(frozen=True)
class Schedule:
    """Options of training; `GraphPatcher` explains them."""

    hidden_channels: int
    iterations: int
    batch_size: int | None
    copies: int
    lr: float
    axis: str
    keep: str


class Predictor(abc.ABC):
    """Logits of a frozen model on the source graph, with and without virtual nodes."""

    @abc.abstractmethod
    def message(self, patcher: Patcher, hidden: Tensor) -> Tensor:
        """The message of virtual nodes from their last hidden layer, one row for each."""

    @abc.abstractmethod
    def logits(self, graph: Graph) -> Tensor:
        """Of all nodes, [N, C]."""

    @abc.abstractmethod
    def patched(self, graph: Graph, centres: Tensor, messages: Sequence[Tensor]) -> Tensor:
        """The same when each centre has virtual neighbours, one for each message [B, ·]."""


class FilterPredictor(Predictor):
    """For filters: the head is linear, so its C columns go through the hops, not the D of H_0."""

    def __init__(self, model: FilterBackbone, x: Tensor) -> None:
        self.model, self.hop_weights = model, model.hop_weights(model.gamma)
        with torch.no_grad():
            self.own = self._head(model.encode(x))

    def message(self, patcher: Patcher, hidden: Tensor) -> Tensor:
        """The head on their encodings, [B, C]."""
        return self._head(encode_virtual(self.model, patcher, hidden))

    def logits(self, graph: Graph) -> Tensor:
        """A filter of the node-only logits."""
        return self._biased(filter_hops(graph.adjacency, self.own, self.hop_weights))

    def patched(self, graph: Graph, centres: Tensor, messages: Sequence[Tensor]) -> Tensor:
        """One filter of the node-only logits, and one of the messages."""
        adjacency, share = patched_adjacency(graph, centres, len(messages), self.own.dtype)
        sent = torch.stack([*messages]).sum(0)
        pushed = torch.zeros_like(self.own).index_add(0, centres, sent) * share[:, None]
        return self._biased(filter_patched(adjacency, self.own, pushed, self.hop_weights))

    def _head(self, encoding: Repr) -> Tensor:
        return F.linear(encoding, self.model.head.weight)

    def _biased(self, logits: Tensor) -> Tensor:
        bias: Any = self.model.head.bias
        return logits if bias is None else logits + bias


class WholePredictor(Predictor):
    """For models of any form, on the graph that has the virtual nodes."""

    def __init__(self, model: Backbone) -> None:
        self.model = model

    def message(self, patcher: Patcher, hidden: Tensor) -> Tensor:
        """Their features, [B, F]."""
        return patcher.last(hidden)  # type: ignore[no-any-return]

    def logits(self, graph: Graph) -> Tensor:
        """The model's logits."""
        return self.model.head(self.model.representation(graph))  # type: ignore[no-any-return]

    def patched(self, graph: Graph, centres: Tensor, messages: Sequence[Tensor]) -> Tensor:
        """The model's logits of the real nodes."""
        return self.logits(patched_graph(graph, centres, messages))[: graph.num_nodes]


class PatcherTraining:
    """One training run of a patcher on the source graph; the model does not change.

    Args:
        model: the trained model.
        source: the source graph.
        labels: classes, [N]; they choose weights and the number of patches, and enter no loss.
        labelled: bool [N].
        schedule: the options.
    """

    def __init__(
        self,
        model: Backbone,
        source: Graph,
        labels: Tensor,
        labelled: Tensor,
        schedule: Schedule,
    ) -> None:
        self.model = copy.deepcopy(model).frozen()
        self.source, self.labels, self.labelled = source, labels, labelled
        self.schedule = schedule
        self.x = self.model.accept(source.x)
        self.predictor: Predictor = WholePredictor(self.model)
        if isinstance(self.model, FilterBackbone):
            self.predictor = FilterPredictor(self.model, self.x)
        with torch.no_grad():
            self.full = self.predictor.logits(source)
        receiver = source.edge_index[1][source.edge_index[0] != source.edge_index[1]]
        self.nodes = torch.arange(source.num_nodes, device=self.x.device)
        self.candidates = torch.unique(receiver) if len(receiver) else self.nodes
        self.patcher = Patcher(self.x.shape[1], schedule.hidden_channels).to(self.full)
        self.best_score, self.best_patches = -1.0, 1

    def run(self, seed: int) -> tuple[Patcher, int]:
        """Train; the patcher, and the number of patches with the best source accuracy."""
        kept: dict[str, Tensor] = {}
        age = 0
        with seeded(torch_seed(seed, Purpose.GRAPHPATCHER_TRAINING), self.x):
            self.patcher.reset_parameters()
            steps = torch.optim.AdamW(
                self.patcher.parameters(), lr=self.schedule.lr, weight_decay=WEIGHT_DECAY
            )
            for done in range(1, self.schedule.iterations + 1):
                self._step(steps)
                if self.schedule.keep == "last" or done % EVALUATE_EVERY:
                    continue
                better = self._evaluate()
                kept = copy.deepcopy(self.patcher.state_dict()) if better else kept
                age = 0 if better else age + 1
                if age == PATIENCE:
                    break
        if kept:
            self.patcher.load_state_dict(kept)
        else:
            self._evaluate()
        return self.patcher.eval(), self.best_patches

    def loss(self, centres: Tensor) -> Tensor:
        """One pass 0.9 → 0.6 → 0.3 → whole for the given nodes, ascending, [B]."""
        thinned = self._thinned(centres, DROPPED)
        patching = Patching(self.patcher, self.x, neighbour_sums(thinned), centres)
        messages: list[Tensor] = []
        terms = []
        for dropped in RESTORED:
            latest = self.predictor.message(self.patcher, patching())
            logits = self.predictor.patched(thinned, centres, [*messages, latest])
            target = self._target(centres, dropped)
            terms.append(restoring_loss(logits[centres], target, self.schedule.axis))
            messages.append(latest.detach())
        return torch.stack(terms).sum()

    def _step(self, steps: torch.optim.Optimizer) -> None:
        self.patcher.train()
        size, candidates = self.schedule.batch_size, self.candidates
        if size is None or size >= len(candidates):
            centres = candidates
        else:
            drawn = torch.randperm(len(candidates), device=candidates.device)[:size]
            centres = candidates[drawn].sort().values
        steps.zero_grad()
        self.loss(centres).backward()  # type: ignore[no-untyped-call]
        steps.step()

    @torch.no_grad()
    def _evaluate(self) -> bool:
        """Whether these weights do at least as well as all before on the labelled source nodes.

        At equal accuracy the longer training wins, and among its numbers of patches the lowest.
        """
        self.patcher.eval()
        scores = {}
        patching = Patching(self.patcher, self.x, neighbour_sums(self.source), self.nodes)
        messages: list[Tensor] = []
        for patches in range(1, MOST_PATCHES + 1):
            messages.append(self.predictor.message(self.patcher, patching()))
            logits = self.predictor.patched(self.source, self.nodes, messages)
            hits = (logits.argmax(1) == self.labels)[self.labelled]
            scores[patches] = float(hits.double().mean())
        patches = max(scores, key=lambda tried: scores[tried])
        if scores[patches] < self.best_score:
            return False
        self.best_score, self.best_patches = scores[patches], patches
        return True

    def _thinned(self, centres: Tensor, dropped: float) -> Graph:
        """The source graph without a random share of what the centres receive."""
        sender, receiver = self.source.edge_index
        is_centre = torch.zeros_like(self.nodes, dtype=torch.bool)
        is_centre[centres] = True
        spared = ~is_centre[receiver] | (sender == receiver)
        kept = spared | (torch.rand(len(sender), device=sender.device) >= dropped)
        return self.source.at_edges(kept)

    @torch.no_grad()
    def _target(self, centres: Tensor, dropped: float) -> Tensor:
        if not dropped:
            return self.full[centres]
        copies = range(self.schedule.copies)
        return torch.stack(
            [self.predictor.logits(self._thinned(centres, dropped))[centres] for _ in copies], 1
        )
