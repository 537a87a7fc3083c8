"""AdaNPC: a vote of nearest neighbours in a memory replaces the classifier."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    require_default,
    require_number,
)
from matcha_gnn.gamma.methods.base import (
    Arrays,
    BaseMethod,
    Modifies,
    Prediction,
    Prepared,
    State,
    View,
    require_linear_head,
)
from matcha_gnn.gamma.methods.lame import is_count, nearest
from matcha_gnn.gamma.models import Backbone, hop_weights_of
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.typing import Probs, Repr

THRESHOLD = 0.1
MEMORIES = ("source", "prototype", "target")
CONFIDENCES = ("max_prob", "softmax_of_prob")
_FLOOR = 1e-5

Memory = tuple[Tensor, Tensor]
"""Unit rows [Q, D] and their classes [Q]."""


class AdaNPC(BaseMethod):
    """Non-parametric classifier for test-time adaptation (Zhang et al., ICML 2023).

    For each node the `k` memory rows of largest cosine s vote for their class with weights
    softmax(s / temperature). Confident nodes may join the memory with their predicted class.
    Cosines do not depend on the length of z, so predictions do not depend on the length of γ.

    Deviations: the paper takes nodes in small batches, predicts a batch, then appends it. With
    the whole graph as one batch that is a single pass, and what is appended is never used:
    `passes=1`. With `passes=2` it is: confident nodes are appended, and all nodes are predicted
    again, none of them voting for itself. The random first row of the released memory is left
    out, and votes, which get 1e-5 each as in the released code, are scaled to sum to one.

    There is no state from round to round: appended rows belong to the γ of their round. The memory
    from the source stays as it was made, at the source model's γ.

    Args:
        k: neighbours that vote; all rows where the memory holds fewer.
        temperature: of the softmax over similarities, > 0.
        threshold: a node of at least this confidence joins the memory. An error together with
            `passes=1`, where no node joins, unless the memory is the target.
        memory: "source", the source representations of labelled nodes and their classes, which
            are stored in the model; "prototype", the classifier's rows; "target", the target nodes
            themselves under the source classifier's predictions.
        passes: 1 or 2, see above.
        confidence: "max_prob", the largest class probability; "softmax_of_prob", the largest
            entry of the softmax of the probabilities, as in the released code. The latter cannot
            exceed e / (e + C − 1), 0.73 for two classes and 0.07 for forty. As for `threshold`.
        capacity: keep at most this many source rows, in proportion to classes, and add at most
            this many target rows, the most confident; None for no limit. An error for the
            memory "prototype" with `passes=1`, which has neither.

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
    modifies = frozenset({Modifies.HEAD})

    def __init__(
        self,
        k: int = 100,
        temperature: float = 0.1,
        threshold: float = THRESHOLD,
        memory: str = "source",
        passes: int = 1,
        confidence: str = "max_prob",
        capacity: int | None = None,
    ) -> None:
        if not is_count(k, 1):
            raise InvalidArgumentError("k", k, "an integer >= 1")
        require_number("temperature", temperature, above=0)
        require_number("threshold", threshold)
        for name, value, allowed in (
            ("memory", memory, MEMORIES),
            ("confidence", confidence, CONFIDENCES),
        ):
            if value not in allowed:
                raise InvalidArgumentError(name, repr(value), ", ".join(allowed))
        if not is_count(passes, 1) or passes > 2:
            raise InvalidArgumentError("passes", repr(passes), "1 or 2")
        if passes == 2 and memory == "target":
            raise InvalidArgumentError("passes", 2, "1 where the memory is the target itself")
        if capacity is not None and not is_count(capacity, 1):
            raise InvalidArgumentError("capacity", capacity, "an integer >= 1, or None")
        if passes == 1 and memory != "target":
            unless = "passes is 2 or memory is 'target'"
            require_default("threshold", threshold, THRESHOLD, unless)
            require_default("confidence", confidence, "max_prob", unless)
        if passes == 1 and memory == "prototype":
            require_default("capacity", capacity, None, "passes is 2 or memory is another")
        self.k, self.temperature, self.threshold = k, temperature, threshold
        self.memory, self.passes = memory, passes
        self.confidence, self.capacity = confidence, capacity

    def require(self, model: Backbone) -> None:
        """A linear head, and the memory from the source where it is used."""
        require_linear_head(self.name, model)
        if self.memory == "source" and not {"rows", "labels"} <= _arrays(model).keys():
            raise IncompatibleError(
                "the model has no memory for AdaNPC: train it with fit(..., methods=[AdaNPC()]) "
                "or `matcha train --method adanpc`, or choose memory 'prototype' or 'target'"
            )

    def source_arrays(
        self, model: Backbone, source: Graph, labels: Tensor, labelled: Tensor, seed: int
    ) -> Arrays:
        """Unit representations of the labelled nodes at the model's γ, and their classes."""
        if self.memory != "source":
            return {}
        with torch.no_grad():
            hop_weights = hop_weights_of(model, model.gamma).detach()
            z = model.hops(source, keyed=False).mix(hop_weights)
        rows, classes = self._thinned(F.normalize(z[labelled]), labels[labelled])
        return {"rows": rows, "labels": classes}

    def prepare(self, view: View) -> Prepared:
        """The memory that does not depend on γ; none where it is the target itself."""
        if self.memory == "target":
            return None
        if self.memory == "prototype":
            rows = view.model.head.weight.detach()
            return F.normalize(rows), torch.arange(len(rows), device=rows.device)
        stored = _arrays(view.model)
        like = view.hops.stack
        return self._thinned(stored["rows"].to(like), stored["labels"].to(like.device))

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """Vote once, or twice for `passes=2`; the state is the memory from the source."""
        unit = F.normalize(view.z)
        if self.memory == "target":
            return Prediction(self._vote_with(view.classify().probs, unit, None)), state
        memory: Memory = state
        probs = self._vote(unit, memory, view.model.head.out_features)
        if self.passes == 2:
            probs = self._vote_with(probs, unit, memory)
        return Prediction(probs), state

    def _vote_with(self, probs: Probs, unit: Repr, memory: Memory | None) -> Probs:
        """The vote of a memory with the confident nodes appended; no node votes for itself."""
        joining = self._joining(probs)
        rows, labels = unit[joining], probs.argmax(1)[joining]
        start = 0
        if memory is not None:
            start = len(memory[0])
            rows, labels = torch.cat([memory[0], rows]), torch.cat([memory[1], labels])
        # No node joined, or there is one row only, which may be the voting node itself.
        if start == len(rows) or len(rows) < 2:
            return probs
        barred = torch.full_like(joining, -1, dtype=torch.long)
        barred[joining] = torch.arange(start, len(rows), device=rows.device)
        return self._vote(unit, (rows, labels), probs.shape[1], barred)

    def _joining(self, probs: Probs) -> Tensor:
        """Which nodes are confident enough to join the memory, bool [N]."""
        votes = probs.softmax(1) if self.confidence == "softmax_of_prob" else probs
        confidence = votes.amax(1)
        joining = confidence >= self.threshold
        if self.capacity is not None:
            joining[confidence.argsort(descending=True, stable=True)[self.capacity :]] = False
        return joining

    def _vote(
        self, unit: Repr, memory: Memory, num_classes: int, barred: Tensor | None = None
    ) -> Probs:
        """The vote of the k nearest rows, [N, C]; `barred` as in `nearest`."""
        rows, labels = memory
        k = min(self.k, len(rows) - (barred is not None))
        temperature = max(self.temperature, torch.finfo(unit.dtype).tiny)
        ballot = torch.eye(num_classes, dtype=unit.dtype, device=unit.device)
        scores = unit.new_empty(len(unit), num_classes)
        for block, similarity, found in nearest(unit, rows, k, barred):
            # The largest is made zero first: a small temperature would overflow.
            distance = similarity - similarity.amax(1, keepdim=True)
            weights = (distance / temperature).softmax(1)
            scores[block] = F.embedding_bag(
                labels[found], ballot, mode="sum", per_sample_weights=weights
            )
        scores = (scores + _FLOOR).clamp_max_(1)
        return scores / scores.sum(1, keepdim=True)

    def _thinned(self, rows: Tensor, labels: Tensor) -> Memory:
        """At most `capacity` rows, evenly spaced among those of each class."""
        if self.capacity is None or len(rows) <= self.capacity:
            return rows, labels
        by_class = labels.argsort(stable=True)
        steps = torch.arange(self.capacity, device=labels.device)
        chosen = by_class[steps * len(rows) // self.capacity]
        return rows[chosen], labels[chosen]


def _arrays(model: Backbone) -> Arrays:
    return model.source_arrays.get(AdaNPC.name, {})
