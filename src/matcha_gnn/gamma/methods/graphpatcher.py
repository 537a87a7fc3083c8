"""GraphPatcher (Ju et al., NeurIPS 2023): virtual neighbours for nodes that lack real ones."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from typing_extensions import override

from matcha_gnn.errors import IncompatibleError, as_whole
from matcha_gnn.gamma.kernels.virtual_nodes import (
    filter_patched,
    neighbour_sums,
    patched_adjacency,
    patched_graph,
    propagate_patched,
)
from matcha_gnn.gamma.methods.base import Arrays, BaseMethod, Modifies, Prediction, State, View
from matcha_gnn.gamma.methods.whole import ModifiedHops
from matcha_gnn.gamma.models import Backbone, FilterBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels import filter_hops
from matcha_gnn.kernels.contexts import seeded
from matcha_gnn.kernels.sparse import csr_tensor
from matcha_gnn.metrics import accuracy
from matcha_gnn.streams import Purpose, torch_seed
from matcha_gnn.typing import Repr

DROPPED = 0.9
"""Share of the centres' neighbours that is dropped from the patcher's input."""
RESTORED = (0.6, 0.3, 0.0)
"""Shares that are dropped from the neighbourhoods it should imitate, patch after patch."""
BATCH, LR, WEIGHT_DECAY, DROPOUT = 512, 1e-4, 5e-4, 0.2
"""Nodes that lose neighbours per step, and AdamW's step size: much larger ones kill every unit."""
EVALUATE_EVERY, PATIENCE, MOST_PATCHES = 10, 10, 5
"""Iterations, evaluations without a better one, and patches that are tried on the source."""
ROWS_AT_ONCE = 4096
"""Rows of features F wide that exist at the same time when a whole graph is patched."""


@dataclass(frozen=True)
class GraphPatcher(BaseMethod):
    """Give every node virtual neighbours, and predict on the patched graph with the source model.

    At the source, a generator ("patcher") learns to generate features of a neighbour such that a
    node that lost 90% of its neighbours is predicted as it would be with 60%, then 30%, then none
    of them missing. It is stored in the model, and is frozen at the target. It does not depend on
    γ, so a round of Matcha costs what it costs with ERM.

    Deviations from "GraphPatcher: Mitigating Degree Bias for Graph Neural Networks via Test-time
    Augmentation", of which paper/docs/methods/graphpatcher.md says more:

    - All nodes are patched at once, neighbours too: ego graphs of K = 9 hops are the whole graph.
      Losing a neighbour means not receiving from it.
    - Each thinner graph is drawn once for a step, where the released code takes ten copies: the
      gradient is linear in the target, so one has the same mean gradient. The softmax in the loss
      runs over classes; in the released code it runs over these copies.
    - Weights and the number of patches are chosen by accuracy on the labelled source nodes, where
      the paper has validation nodes. Training ends after ten evaluations without a better one.

    Args:
        patches: virtual neighbours per node at the target, or "source": the number from 1 to 5 that
            gives the labelled source nodes the highest accuracy. It does not change training.
        hidden_channels: the patcher's width; 1,024 in its paper.
        iterations: training steps at most.

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

    def __post_init__(self) -> None:
        if self.patches != "source":
            as_whole("patches", self.patches, least=1)
        as_whole("hidden_channels", self.hidden_channels, least=1)
        as_whole("iterations", self.iterations, least=1)

    def require(self, model: Backbone) -> None:
        """A model with hops, and a patcher for its features."""
        _require_hops(model)
        if self.name not in model.source_arrays:
            raise IncompatibleError(
                "GraphPatcher needs a patcher that was trained on the source graph: train with "
                "fit(..., methods=[GraphPatcher()]) or `matcha train --method graphpatcher`"
            )
        if model.in_channels:  # a wrapped network does not say
            Patcher.of(model.source_arrays[self.name], model.in_channels)

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
        model, graph, count = view.model, view.graph, view.graph.num_nodes
        arrays, x = model.source_arrays[self.name], model.accept(graph.x)
        patches = int(arrays["patches"] if self.patches == "source" else self.patches)
        patcher = Patcher.of(arrays, x.shape[1]).to(view.gamma)
        nodes = torch.arange(count, device=x.device)
        patching = Patching(patcher, x, neighbour_sums(graph), nodes)
        if not isinstance(model, FilterBackbone):
            larger = patched_graph(graph, nodes, [patcher.last(patching()) for _ in range(patches)])
            return ModifiedHops(view, lambda model: model.hops(larger, keyed=False).stack[:count])
        h, virtual = view.hops.stack[:, 0].contiguous(), torch.zeros_like(view.hops.stack[:, 0])
        for _ in range(patches):
            virtual += encode_virtual(model, patcher, patching())
        adjacency, share = patched_adjacency(graph, nodes, patches, virtual.dtype)
        pushed = virtual * share[:, None]
        return ModifiedHops(view, lambda m: propagate_patched(adjacency, h, pushed, m.num_hops))

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """The source head on the patched hops, mixed by the current γ."""
        patched = state.hops_at(view)
        probs, sums, mass = patched.classify(view.hop_weights, view.model.head, over=view.hops)
        return Prediction(probs, patched, mass=mass, class_sums=(view.hops, sums)), state


def _require_hops(model: Backbone) -> None:
    if isinstance(model, FilterBackbone) and model.num_hops < 1:
        raise IncompatibleError("GraphPatcher needs a model with at least one hop (K >= 1)")


class Patcher(nn.Module):
    """Weights of the generator: two mean-aggregating graph layers, then an MLP of three layers.

    The constructor draws nothing: call `reset_parameters`, or load a state.
    """

    def __init__(self, num_features: int, width: int) -> None:
        super().__init__()
        self.width = width
        with torch.device("meta"):
            self.first = nn.Linear(num_features, width)
            self.second = nn.Linear(width, width)
            self.merge = nn.Linear(width + num_features, width)
            self.middle = nn.Linear(width, width)
            self.last = nn.Linear(width, num_features, bias=False)
        self.to_empty(device="cpu")

    @classmethod
    def of(cls, arrays: Arrays, num_features: int) -> "Patcher":
        """The generator in a model, sharing its weights."""
        weights = {name: tensor for name, tensor in arrays.items() if name != "patches"}
        try:
            patcher = cls(num_features, len(weights["second.bias"])).eval().requires_grad_(False)
            patcher.load_state_dict(weights, assign=True)
        except (KeyError, TypeError, RuntimeError) as error:
            said = "GraphPatcher: the patcher in the model file does not fit it"
            raise IncompatibleError(said) from error
        return patcher

    def reset_parameters(self) -> None:
        """Xavier weights from torch's global generator, and no bias."""
        for layer in (self.first, self.second, self.merge, self.middle, self.last):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class Patching:
    """Generates virtual neighbours for some nodes of a graph, one for each of them at every call.

    Only what the graph layers reach from the centres is computed. A virtual node counts as a
    neighbour of its centre for the ones generated after it, without a gradient to its features.

    Args:
        patcher: the generator.
        x: features, [N, F], dense or CSR.
        sums: `neighbour_sums` of the graph.
        centres: nodes to patch, ascending, [B].
    """

    def __init__(
        self, patcher: Patcher, x: Tensor, sums: scipy.sparse.csr_array, centres: Tensor
    ) -> None:
        self.patcher, self.count = patcher, 0
        rows = centres.cpu().numpy()
        near = np.unique(sums[rows].indices)
        far = np.unique(sums[near].indices)
        self._into_centres, self._centre_weight = _sliced(sums, rows, near, x)
        into_near, self._near_weight = _sliced(sums, near, far, x)
        self._place = torch.from_numpy(np.searchsorted(near, rows)).to(x.device)
        self._near = into_near @ _times(x, far, patcher.first.weight)
        self._own = _times(x, rows, patcher.merge.weight[:, patcher.width :])
        self._sent = self._sent_hidden = torch.zeros_like(self._own)

    def __call__(self) -> Tensor:
        """The last hidden layer for the next patch, [B, width]; features are what `last` makes."""
        patcher, merge = self.patcher, self.patcher.merge
        known = torch.full_like(self._centre_weight, self.count)
        received = self._near.index_add(0, self._place, self._sent)
        weight = self._near_weight.index_add(0, self._place, known)
        near = F.relu(received / weight + patcher.first.bias)
        gathered = (self._into_centres @ near + self._sent_hidden) / (self._centre_weight + known)
        from_graph = F.relu(patcher.second(gathered))
        hidden = F.linear(from_graph, merge.weight[:, : patcher.width], merge.bias) + self._own
        hidden = F.dropout(F.relu(hidden), DROPOUT, patcher.training)
        hidden = F.dropout(F.relu(patcher.middle(hidden)), DROPOUT, patcher.training)
        # (hidden · lastᵀ) · firstᵀ with the small product first: no features F wide are needed.
        through = patcher.first.weight @ patcher.last.weight.detach()
        sent = F.linear(hidden.detach(), through)
        self._sent = self._sent + sent
        self._sent_hidden = self._sent_hidden + F.relu(sent + patcher.first.bias)
        self.count += 1
        return hidden


class PatcherTraining:
    """One training run of a patcher on the source graph; the model does not change.

    Labels [N], valid where labelled, choose weights and the number of patches; no loss has them.
    """

    def __init__(
        self, model: Backbone, source: Graph, labels: Tensor, labelled: Tensor, method: GraphPatcher
    ) -> None:
        self.model = copy.deepcopy(model).frozen()
        self.source, self.labels, self.labelled = source, labels, labelled
        self.iterations, self.x = method.iterations, self.model.accept(source.x)
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
        best, age = dict[str, Tensor](), 0
        with seeded(torch_seed(seed, Purpose.GRAPHPATCHER_TRAINING), self.x):
            self.patcher.reset_parameters()
            steps = torch.optim.AdamW(self.patcher.parameters(), LR, weight_decay=WEIGHT_DECAY)
            for done in range(1, self.iterations + 1):
                self.patcher.train()
                steps.zero_grad()
                self.loss(self._batch()).backward()  # type: ignore[no-untyped-call]
                steps.step()
                if done % EVALUATE_EVERY:
                    continue
                age += 1
                if self._evaluate():
                    best, age = copy.deepcopy(self.patcher.state_dict()), 0
                if age == PATIENCE:
                    break
        if not best:
            self._evaluate()
        self.patcher.load_state_dict(best or self.patcher.state_dict())
        return self.patcher.eval(), self.best_patches

    def loss(self, centres: Tensor) -> Tensor:
        """One pass 0.9 → 0.6 → 0.3 → whole for the given nodes, ascending, [B]."""
        thinned = self._thinned(centres, DROPPED)
        patching = Patching(self.patcher, self.x, neighbour_sums(thinned), centres)
        messages, terms = list[Tensor](), list[Tensor]()
        for dropped in RESTORED:
            latest = self.predictor.message(self.patcher, patching())
            logits = self.predictor.patched(thinned, centres, [*messages, latest])
            with torch.no_grad():
                fuller = self._thinned(centres, dropped) if dropped else None
                target = self.full if fuller is None else self.predictor.logits(fuller)
            terms.append(divergence(target[centres], logits[centres]))
            messages.append(latest.detach())
        return torch.stack(terms).sum()

    def _batch(self) -> Tensor:
        """Some of the nodes that have neighbours to lose, ascending, [B]."""
        if len(self.candidates) <= BATCH:
            return self.candidates
        drawn = torch.randperm(len(self.candidates), device=self.candidates.device)[:BATCH]
        return self.candidates[drawn].sort().values

    @torch.no_grad()
    def _evaluate(self) -> bool:
        """Whether these weights do at least as well as all before on the labelled source nodes.

        At equal accuracy the longer training wins, and among its numbers of patches the lowest.
        """
        self.patcher.eval()
        patching = Patching(self.patcher, self.x, neighbour_sums(self.source), self.nodes)
        messages, scores = list[Tensor](), list[float]()
        for _ in range(MOST_PATCHES):
            messages.append(self.predictor.message(self.patcher, patching()))
            logits = self.predictor.patched(self.source, self.nodes, messages)
            scores.append(accuracy(logits, self.labels, self.labelled))
        if max(scores) < self.best_score:
            return False
        self.best_score, self.best_patches = max(scores), 1 + scores.index(max(scores))
        return True

    def _thinned(self, centres: Tensor, dropped: float) -> Graph:
        """The source graph without a random share of what the centres receive."""
        sender, receiver = self.source.edge_index
        spared = ~torch.isin(receiver, centres) | (sender == receiver)
        kept = spared | (torch.rand(len(sender), device=sender.device) >= dropped)
        return self.source.at_edges(kept)


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
        self.bias: Tensor | int = 0 if model.head.bias is None else model.head.bias
        with torch.no_grad():
            self.own = F.linear(model.encode(x), model.head.weight)

    @override
    def message(self, patcher: Patcher, hidden: Tensor) -> Tensor:
        return F.linear(encode_virtual(self.model, patcher, hidden), self.model.head.weight)

    @override
    def logits(self, graph: Graph) -> Tensor:
        return filter_hops(graph.adjacency, self.own, self.hop_weights) + self.bias

    @override
    def patched(self, graph: Graph, centres: Tensor, messages: Sequence[Tensor]) -> Tensor:
        adjacency, share = patched_adjacency(graph, centres, len(messages), self.own.dtype)
        sent = torch.stack([*messages]).sum(0)
        pushed = torch.zeros_like(self.own).index_add(0, centres, sent) * share[:, None]
        return filter_patched(adjacency, self.own, pushed, self.hop_weights) + self.bias


def encode_virtual(model: FilterBackbone, patcher: Patcher, hidden: Tensor) -> Repr:
    """Encodings of the virtual nodes that `Patching` gave hidden layers [B, width] for: [B, D]."""
    blocks = torch.split(hidden, ROWS_AT_ONCE)
    return torch.cat([model.encode(patcher.last(block)) for block in blocks])


def _sliced(
    sums: scipy.sparse.csr_array, rows: Any, columns: Any, like: Tensor
) -> tuple[Tensor, Tensor]:
    """The chosen rows and columns as a tensor, and each row's weight, [rows, 1]."""
    chosen = scipy.sparse.csr_array(sums[rows][:, columns])
    chosen.sort_indices()
    weight = torch.from_numpy(np.asarray(chosen.sum(1))).to(like.device, like.dtype)
    return csr_tensor(chosen, like.dtype).to(like.device), weight[:, None]


def _times(x: Tensor, rows: Any, weight: Tensor) -> Tensor:
    """x[rows] · weightᵀ, [rows, width], a few thousand rows at a time."""
    index = torch.from_numpy(rows).to(x.device)
    if x.layout == torch.strided:
        return torch.cat([F.linear(x[block], weight) for block in torch.split(index, ROWS_AT_ONCE)])
    product: Tensor = torch.sparse.mm(x, weight.T)
    return product[index]
