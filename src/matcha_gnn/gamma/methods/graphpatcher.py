"""GraphPatcher (Ju et al., NeurIPS 2023): virtual neighbours for nodes that lack real ones."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from typing_extensions import override

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, as_whole, require_number
from matcha_gnn.gamma.methods.base import Arrays, BaseMethod, Modifies, Prediction, State, View
from matcha_gnn.gamma.methods.patching import (
    Patcher,
    Patching,
    encode_virtual,
    filter_patched,
    neighbour_sums,
    patched_adjacency,
    patched_graph,
    propagate_patched,
)
from matcha_gnn.gamma.methods.whole import ModifiedHops
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


@dataclass(frozen=True)
class GraphPatcher(BaseMethod):
    """Give every node virtual neighbours, and predict on the patched graph with the source model.

    At the source, a generator ("patcher") learns to generate features of a neighbour such that a
    node that lost 90% of its neighbours is predicted as it would be with 60%, then 30%, then none
    of them missing. It is stored in the model, and is frozen at the target. It does not depend on
    γ, so a round of Matcha costs what it costs with ERM.

    Deviations from "GraphPatcher: Mitigating Degree Bias for Graph Neural Networks via Test-time
    Augmentation" (Ju et al., NeurIPS 2023):

    - Ego graphs of K = 9 hops are the whole graph, so all nodes of a graph are patched at once,
      neighbours too. In training a batch of nodes loses neighbours and is patched inside the whole
      graph; a batch of one node is the paper's form.
    - Losing a neighbour means not receiving from it; the neighbour's own input does not change.
    - Each thinner graph is drawn once for a step, where the released code takes ten copies: the
      gradient is linear in the target, so one has the same mean gradient. The softmax in the loss
      runs over classes; in the released code it runs over these copies, see
      docs/methods/graphpatcher.md.
    - Weights and the number of patches are chosen by accuracy on the labelled source nodes, where
      the paper has validation nodes, from the tenth iteration on (its code waits for 100), and
      training ends after ten evaluations, ten iterations apart, without a better one.

    Args:
        patches: virtual neighbours per node at the target, or "source": the number from 1 to 5 that
            gives the labelled source nodes the highest accuracy. It does not change training.
        hidden_channels: the patcher's width; 1,024 in its paper.
        iterations: training steps at most.
        batch_size: nodes that lose neighbours and are patched per step; None for all.
        lr: AdamW's step size. Much larger ones kill every unit of the encoder.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(num_nodes=100, num_features=8, homophily=0.8, seed=0)
        >>> target = mg.datasets.csbm(num_nodes=100, num_features=8, homophily=0.2, seed=1)
        >>> method, model = GraphPatcher(hidden_channels=8, iterations=20), mg.GPRGNN(8, 2)
        >>> _ = mg.fit(model, source, epochs=20, methods=[method])
        >>> mg.adapt(model, target, strategy=method).probs.shape
        torch.Size([100, 2])
    """

    name = "graphpatcher"
    keeps_state = False
    modifies = frozenset({Modifies.FEATURES, Modifies.EDGES})

    patches: int | str = "source"
    hidden_channels: int = 64
    iterations: int = 300
    batch_size: int | None = 512
    lr: float = 1e-4

    def __post_init__(self) -> None:
        if isinstance(self.patches, str) and self.patches != "source":
            allowed = "'source', or an integer >= 1"
            raise InvalidArgumentError("patches", repr(self.patches), allowed)
        if not isinstance(self.patches, str):
            as_whole("patches", self.patches, least=1)
        if self.batch_size is not None:
            as_whole("batch_size", self.batch_size, least=1)
        as_whole("hidden_channels", self.hidden_channels, least=1)
        as_whole("iterations", self.iterations, least=1)
        require_number("lr", self.lr, above=0)

    def require(self, model: Backbone) -> None:
        """A model with hops, and a patcher for its features."""
        _require_hops(model)
        if self.name not in model.source_arrays:
            raise IncompatibleError(
                "GraphPatcher needs a patcher that was trained on the source graph: train with "
                "fit(..., methods=[GraphPatcher()]) or `matcha train --method graphpatcher`"
            )
        if model.in_channels:  # unknown for a wrapped network
            _patcher(model.source_arrays[self.name], model.in_channels)

    def source_arrays(
        self, model: Backbone, source: Graph, labels: Tensor, labelled: Tensor, seed: int
    ) -> Arrays:
        """Train the patcher: its weights, and the number of patches chosen at the source."""
        _require_hops(model)
        patcher, patches = PatcherTraining(model, source, labels, labelled, self).run(seed)
        weights = {name: weight.detach().clone() for name, weight in patcher.state_dict().items()}
        return weights | {"patches": torch.tensor([patches])}

    def prepare(self, view: View) -> ModifiedHops:
        """Generate the virtual nodes, which do not depend on γ, and patch the graph with them."""
        model, graph = view.model, view.graph
        arrays, x = model.source_arrays[self.name], model.accept(graph.x)
        patches = int(arrays["patches"] if self.patches == "source" else self.patches)
        patcher = _patcher(arrays, x.shape[1]).to(view.gamma)
        nodes = torch.arange(graph.num_nodes, device=x.device)
        patching = Patching(patcher, x, neighbour_sums(graph), nodes)
        if not isinstance(model, FilterBackbone):
            larger = patched_graph(graph, nodes, [patcher.last(patching()) for _ in range(patches)])
            count = graph.num_nodes
            return ModifiedHops(view, lambda model: model.hops(larger, keyed=False).stack[:count])
        virtual = torch.zeros_like(view.hops.stack[:, 0])
        for _ in range(patches):
            virtual += encode_virtual(model, patcher, patching())
        adjacency, share = patched_adjacency(graph, nodes, patches, virtual.dtype)
        h, pushed = view.hops.stack[:, 0].contiguous(), virtual * share[:, None]
        return ModifiedHops(view, lambda m: propagate_patched(adjacency, h, pushed, m.num_hops))

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """The source head on the patched hops, mixed by the current γ."""
        target: ModifiedHops = state
        patched = target.hops_at(view)
        probs, sums, mass = patched.classify(view.hop_weights, view.model.head, over=view.hops)
        return Prediction(probs, patched, mass=mass, class_sums=(view.hops, sums)), target


def _require_hops(model: Backbone) -> None:
    if isinstance(model, FilterBackbone) and model.num_hops < 1:
        raise IncompatibleError("GraphPatcher needs a model with at least one hop (K >= 1)")


def _patcher(arrays: Arrays, num_features: int) -> Patcher:
    """The generator in the model, sharing its weights."""
    weights = {name: tensor for name, tensor in arrays.items() if name != "patches"}
    try:
        patcher = Patcher(num_features, len(weights["second.bias"])).eval().requires_grad_(False)
        patcher.load_state_dict(weights, assign=True)
        fits = "patches" in arrays
    except (KeyError, TypeError, RuntimeError):
        fits = False
    if not fits:
        raise IncompatibleError("GraphPatcher: the patcher in the model file does not fit it")
    return patcher


class PatcherTraining:
    """One training run of a patcher on the source graph; the model does not change.

    Labels [N], valid where labelled, choose weights and the number of patches; no loss has them.
    """

    def __init__(
        self, model: Backbone, source: Graph, labels: Tensor, labelled: Tensor, method: GraphPatcher
    ) -> None:
        self.model = copy.deepcopy(model).frozen()
        self.source, self.labels, self.labelled = source, labels, labelled
        self.method = method
        self.x = self.model.accept(source.x)
        self.predictor = Predictor(self.model)
        if isinstance(self.model, FilterBackbone):
            self.predictor = FilterPredictor(self.model, self.x)
        with torch.no_grad():
            self.full = self.predictor.logits(source)
        receiver = source.edge_index[1][source.edge_index[0] != source.edge_index[1]]
        self.nodes = torch.arange(source.num_nodes, device=self.x.device)
        self.candidates = torch.unique(receiver) if len(receiver) else self.nodes
        self.patcher = Patcher(self.x.shape[1], method.hidden_channels).to(self.full)
        self.best_score, self.best_patches = -1.0, 1

    def run(self, seed: int) -> tuple[Patcher, int]:
        """Train; the patcher, and the number of patches with the best source accuracy."""
        best: dict[str, Tensor] = {}
        age = 0
        with seeded(torch_seed(seed, Purpose.GRAPHPATCHER_TRAINING), self.x):
            self.patcher.reset_parameters()
            steps = torch.optim.AdamW(
                self.patcher.parameters(), lr=self.method.lr, weight_decay=WEIGHT_DECAY
            )
            for done in range(1, self.method.iterations + 1):
                self._step(steps)
                if done % EVALUATE_EVERY:
                    continue
                better = self._evaluate()
                best = copy.deepcopy(self.patcher.state_dict()) if better else best
                age = 0 if better else age + 1
                if age == PATIENCE:
                    break
        if best:
            self.patcher.load_state_dict(best)
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
            terms.append(divergence(self._target(centres, dropped), logits[centres]))
            messages.append(latest.detach())
        return torch.stack(terms).sum()

    def _step(self, steps: torch.optim.Optimizer) -> None:
        self.patcher.train()
        size, centres = self.method.batch_size, self.candidates
        if size is not None and size < len(centres):
            drawn = torch.randperm(len(centres), device=centres.device)[:size]
            centres = centres[drawn].sort().values
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
        """Logits of the fuller graph, [B, C]."""
        if not dropped:
            return self.full[centres]
        return self.predictor.logits(self._thinned(centres, dropped))[centres]


def divergence(target: Tensor, patched: Tensor) -> Tensor:
    """Mean over nodes of KL(target ‖ patched), from logits [B, C] each."""
    wanted, given = target.log_softmax(-1), patched.log_softmax(-1)
    return (wanted.exp() * (wanted - given)).sum(-1).mean()


class Predictor:
    """Logits of a frozen model of any form on the source graph, with and without virtual nodes."""

    def __init__(self, model: Backbone) -> None:
        self.model = model

    def message(self, patcher: Patcher, hidden: Tensor) -> Tensor:
        """The message of virtual nodes from their last hidden layer, one row for each."""
        return patcher.last(hidden)  # type: ignore[no-any-return]

    def logits(self, graph: Graph) -> Tensor:
        """Of all nodes, [N, C]."""
        return self.model.logits(graph)

    def patched(self, graph: Graph, centres: Tensor, messages: Sequence[Tensor]) -> Tensor:
        """The same when each centre has virtual neighbours, one for each message [B, ·]."""
        return self.logits(patched_graph(graph, centres, messages))[: graph.num_nodes]


class FilterPredictor(Predictor):
    """For filters: the head is linear, so its C columns go through the hops, not the D of H_0."""

    model: FilterBackbone

    def __init__(self, model: FilterBackbone, x: Tensor) -> None:
        super().__init__(model)
        self.hop_weights = model.hop_weights(model.gamma)
        with torch.no_grad():
            self.own = self._head(model.encode(x))

    @override
    def message(self, patcher: Patcher, hidden: Tensor) -> Tensor:
        return self._head(encode_virtual(self.model, patcher, hidden))

    @override
    def logits(self, graph: Graph) -> Tensor:
        return self._biased(filter_hops(graph.adjacency, self.own, self.hop_weights))

    @override
    def patched(self, graph: Graph, centres: Tensor, messages: Sequence[Tensor]) -> Tensor:
        adjacency, share = patched_adjacency(graph, centres, len(messages), self.own.dtype)
        sent = torch.stack([*messages]).sum(0)
        pushed = torch.zeros_like(self.own).index_add(0, centres, sent) * share[:, None]
        return self._biased(filter_patched(adjacency, self.own, pushed, self.hop_weights))

    def _head(self, encoding: Repr) -> Tensor:
        return F.linear(encoding, self.model.head.weight)

    def _biased(self, logits: Tensor) -> Tensor:
        bias: Any = self.model.head.bias
        return logits if bias is None else logits + bias
