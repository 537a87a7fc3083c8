"""AdaNPC: a vote of nearest neighbours in a memory replaces the classifier."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.errors import IncompatibleError, as_whole, require_number
from matcha_gnn.gamma.methods.base import Arrays, BaseMethod, Modifies, Prediction, State, View
from matcha_gnn.gamma.methods.lame import nearest
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.typing import Probs, Repr

FLOOR = 1e-5
"""What every class gets beside its votes, as in the released code."""

Memory = tuple[Tensor, Tensor]
"""Unit rows [Q, D] and their classes [Q]."""


@dataclass(frozen=True)
class AdaNPC(BaseMethod):
    """Non-parametric classifier for test-time adaptation (Zhang et al., ICML 2023).

    The memory holds the representations of labelled source nodes at the source's γ; training
    stores it in the model. For each node the `k` rows of largest cosine s vote for their class
    with weights softmax(s / temperature). Cosines do not depend on the length of z, so predictions
    do not depend on the length of γ.

    Deviations: the paper takes nodes in small batches, predicts a batch, then appends its confident
    nodes to the memory. Here the whole graph is one batch, so that no appended node would be asked.
    The random first row of the released memory is left out, and votes are scaled to sum to one.

    Args:
        k: neighbours that vote; all rows where the memory holds fewer.
        temperature: of the softmax over similarities, > 0.

    Shapes:
        view.z [N, D], memory [Q, D] → probs [N, C]

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> model = mg.GPRGNN(8, 2)
        >>> run = mg.fit(model, graph, epochs=5, methods=[AdaNPC()])
        >>> mg.adapt(model, graph, strategy=AdaNPC(k=10)).probs.shape
        torch.Size([100, 2])
    """

    name = "adanpc"
    needs_hops = False
    keeps_state = False
    needs_linear_head = True
    modifies = frozenset({Modifies.HEAD})

    k: int = 100
    temperature: float = 0.1

    def __post_init__(self) -> None:
        as_whole("k", self.k, least=1)
        require_number("temperature", self.temperature, above=0)

    def require(self, model: Backbone) -> None:
        """A linear head, and the memory."""
        super().require(model)
        if not {"rows", "labels"} <= model.source_arrays.get(self.name, {}).keys():
            raise IncompatibleError(
                "the model has no memory for AdaNPC: train it with fit(..., methods=[AdaNPC()]) "
                "or `matcha train --method adanpc`"
            )

    @torch.no_grad()
    def source_arrays(
        self, model: Backbone, source: Graph, labels: Tensor, labelled: Tensor, seed: int
    ) -> Arrays:
        """Unit representations of the labelled nodes at the model's γ, and their classes."""
        z = model.hops(source, keyed=False).mix(model.hop_weights_now())
        return {"rows": F.normalize(z[labelled]), "labels": labels[labelled]}

    def prepare(self, view: View) -> Memory:
        """The memory in the precision of the model."""
        stored, like = view.model.source_arrays[self.name], view.hops.stack
        return stored["rows"].to(like), stored["labels"].to(like.device)

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """One vote; the state is the memory."""
        return Prediction(
            self._vote(F.normalize(view.z), state, view.model.head.out_features)
        ), state

    def _vote(self, unit: Repr, memory: Memory, num_classes: int) -> Probs:
        """The vote of the k nearest rows, [N, C]."""
        rows, labels = memory
        temperature = max(self.temperature, torch.finfo(unit.dtype).tiny)
        ballot = torch.eye(num_classes, dtype=unit.dtype, device=unit.device)
        scores = unit.new_empty(len(unit), num_classes)
        for block, similarity, neighbours in nearest(unit, rows, min(self.k, len(rows))):
            # The largest is made zero first: a small temperature would overflow.
            distance = similarity - similarity.amax(1, keepdim=True)
            weights = (distance / temperature).softmax(1)
            scores[block] = F.embedding_bag(
                labels[neighbours], ballot, mode="sum", per_sample_weights=weights
            )
        scores = (scores + FLOOR).clamp_max_(1)
        return scores / scores.sum(1, keepdim=True)
