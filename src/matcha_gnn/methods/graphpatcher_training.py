"""GraphPatcher's patcher, the graph with virtual neighbours on it, and its training at the source.

A virtual node sends to its centre and receives nothing, so it has degree 1 (its own self loop)
and keeps its encoding v through every hop. A centre i of degree d_i that has p of them gets the
degree d_i + p, and the hops of the real nodes follow without building the larger graph:
H_{k+1}[i] = (P' H_k)[i] + Σ_q v_iq / √(d_i + p), with P' the real rows and columns of the
normalised adjacency at the raised degrees.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from matcha_gnn.backbones import Backbone
from matcha_gnn.graph import Graph
from matcha_gnn.kernels import Adjacency, filter_hops
from matcha_gnn.kernels.propagate import csr_tensor, no_beta_warning
from matcha_gnn.typing import Coefficients, HopStack, Repr

DROPPED = 0.9
"""Share of the centres' neighbours that the patcher has to do without."""
RESTORED = (0.6, 0.3, 0.0)
"""Shares that are missing from the neighbourhoods it should imitate, patch after patch."""
DROPOUT, WEIGHT_DECAY = 0.2, 5e-4
EVALUATE_EVERY, PATIENCE = 10, 10
MOST_PATCHES = 5
"""Numbers of patches from 1 to this are tried on the source."""
ROWS_AT_ONCE = 4096
"""Rows of features F wide that exist at the same time when a whole graph is patched."""


class Patcher(nn.Module):
    """Weights of the generator: two mean-aggregating graph layers, then an MLP of three layers.

    The constructor draws nothing: call `reset_parameters`, or load a state.

    Args:
        num_features: F.
        width: of every hidden layer.
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

    def reset_parameters(self) -> None:
        """Xavier weights from torch's global generator, and no bias."""
        for layer in (self.first, self.second, self.merge, self.middle, self.last):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class Patching:
    """Invents virtual neighbours for some nodes of a graph, one for each of them at every call.

    Only what the graph layers reach from the centres is computed. A virtual node counts as a
    neighbour of its centre for the ones invented after it, without a gradient to its features.

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
        own = centres.cpu().numpy()
        near = np.unique(sums[own].indices)
        far = np.unique(sums[near].indices)
        self._into_centres, self._centre_weight = _sliced(sums, own, near, x)
        into_near, self._near_weight = _sliced(sums, near, far, x)
        self._place = torch.from_numpy(np.searchsorted(near, own)).to(x.device)
        self._near = into_near @ _times(x, far, patcher.first.weight)
        self._own = _times(x, own, patcher.merge.weight[:, patcher.width :])
        self._sent = torch.zeros_like(self._own)
        self._sent_hidden = torch.zeros_like(self._own)

    def __call__(self) -> Tensor:
        """The generator's last hidden layer for the next patch, [B, width].

        `patcher.last` makes features [B, F] of it; they may be too many to hold for a whole graph.
        """
        patcher, known = self.patcher, float(self.count)
        received = self._near.index_add(0, self._place, self._sent)
        weight = self._near_weight.index_add(
            0, self._place, torch.full_like(self._centre_weight, known)
        )
        near = F.relu(received / weight + patcher.first.bias)
        gathered = (self._into_centres @ near + self._sent_hidden) / (self._centre_weight + known)
        graph_part = F.relu(patcher.second(gathered))
        merge = patcher.merge
        hidden = F.linear(graph_part, merge.weight[:, : patcher.width], merge.bias) + self._own
        hidden = F.dropout(F.relu(hidden), DROPOUT, patcher.training)
        hidden = F.dropout(F.relu(patcher.middle(hidden)), DROPOUT, patcher.training)
        self._remember(hidden.detach())
        return hidden

    def _remember(self, hidden: Tensor) -> None:
        # (hidden · lastᵀ) · firstᵀ with the small product first: no features F wide are needed.
        through = self.patcher.first.weight @ self.patcher.last.weight.detach()
        sent = F.linear(hidden, through)
        self._sent = self._sent + sent
        self._sent_hidden = self._sent_hidden + F.relu(sent + self.patcher.first.bias)
        self.count += 1


def neighbour_sums(graph: Graph) -> scipy.sparse.csr_array:
    """A + I without self loops of A: row i adds up node i and what it receives, [N, N]."""
    sender, receiver = graph.edge_index.cpu().numpy()
    given = graph.edge_weight
    weight = np.ones(len(sender)) if given is None else given.detach().cpu().numpy()
    apart = sender != receiver
    shape = (graph.num_nodes, graph.num_nodes)
    edges = (weight[apart], (receiver[apart], sender[apart]))
    received = scipy.sparse.coo_array(edges, shape=shape).tocsr()
    return scipy.sparse.csr_array(received + scipy.sparse.eye_array(graph.num_nodes))


def encode_virtual(model: Backbone, patcher: Patcher, hidden: Tensor) -> Repr:
    """Encodings of the virtual nodes that `Patching` gave hidden layers [B, width] for: [B, D]."""
    parts = torch.split(hidden, ROWS_AT_ONCE)
    return torch.cat([model.encode(patcher.last(part)) for part in parts])


def patched_adjacency(
    graph: Graph, centres: Tensor, patches: int, dtype: torch.dtype
) -> tuple[Adjacency, Tensor]:
    """P' between real nodes, and 1/√(d_i + patches), by which node i receives each virtual one.

    Args:
        graph: the graph without virtual nodes.
        centres: nodes that have them, ascending, [B].
        patches: how many each of them has, at least 1.
        dtype: of the result.

    Returns:
        The matrix [N, N] and the factors [N]; zero for nodes that are no centres.
    """
    nodes, edges, weight = graph.num_nodes, graph.edge_index, graph.edge_weight
    # One sender of weight p stands for p senders of weight 1: the degrees are the same.
    senders = torch.arange(nodes, nodes + len(centres), device=edges.device)
    ones = torch.ones(edges.shape[1], dtype=dtype, device=edges.device)
    sent = torch.full_like(centres, patches, dtype=dtype)
    weights = torch.cat([ones if weight is None else weight, sent])
    edges = torch.cat([edges, torch.stack([senders, centres])], 1)
    whole = Adjacency.normalised(edges, nodes + len(centres), weights, dtype).matrix
    starts = whole.crow_indices()[: nodes + 1]
    column, value = whole.col_indices()[: starts[-1]], whole.values()[: starts[-1]]
    real = column < nodes
    share = value.new_zeros(nodes)
    share[centres] = value[~real] / patches
    starts = F.pad(real.cumsum(0), (1, 0))[starts]
    with no_beta_warning():
        matrix = torch.sparse_csr_tensor(
            starts, column[real], value[real], (nodes, nodes), check_invariants=False
        )
    return Adjacency(matrix), share


def propagate_patched(adjacency: Adjacency, h: Repr, pushed: Repr, num_hops: int) -> HopStack:
    """Hops of the real nodes of a patched graph, [N, K+1, D].

    Args:
        adjacency: P' of `patched_adjacency`.
        h: H_0, [N, D].
        pushed: what virtual nodes add to each node at every hop, [N, D].
        num_hops: K.
    """
    stack = h.new_empty(h.shape[0], num_hops + 1, h.shape[1])
    stack[:, 0] = h
    for k in range(1, num_hops + 1):
        h = adjacency @ h + pushed
        stack[:, k] = h
    return stack


def filter_patched(adjacency: Adjacency, h: Repr, pushed: Repr, coef: Coefficients) -> Repr:
    """Σ_k c_k H_k of `propagate_patched`, differentiable in `pushed`, [N, D]; needs K ≥ 1.

    H_k = P'^k h + Σ_{m<k} P'^m pushed, so the mix is one polynomial of h and one of `pushed`,
    whose coefficient of P'^m is Σ_{k>m} c_k.
    """
    later = coef.flip(0).cumsum(0).flip(0)[1:]
    return filter_hops(adjacency, h, coef) + filter_hops(adjacency, pushed, later)


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


class PatcherTraining:
    """One training run of a patcher on the source graph; the model is left alone.

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
        self.coef = self.model.coefficients(self.model.gamma)
        with torch.no_grad():
            self.own = self._head(self.model.encode(self.x))
            self.full = self._logits(source)
        receiver = source.edge_index[1][source.edge_index[0] != source.edge_index[1]]
        self.nodes = torch.arange(source.num_nodes, device=self.x.device)
        self.candidates = torch.unique(receiver) if len(receiver) else self.nodes
        self.patcher = Patcher(self.x.shape[1], schedule.hidden_channels).to(self.own)
        self.best_score, self.best_patches = -1.0, 1

    def run(self, seed: int) -> tuple[Patcher, int]:
        """Train; the patcher, and the number of patches that suits the source best."""
        kept: dict[str, Tensor] = {}
        age = 0
        with torch.random.fork_rng(devices=[self.x.device] if self.x.is_cuda else []):
            torch.manual_seed(seed)
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
        starved = self._thinned(centres, DROPPED)
        patching = Patching(self.patcher, self.x, neighbour_sums(starved), centres)
        sent = self.own.new_zeros(len(centres), self.own.shape[1])
        terms = []
        for patches, dropped in enumerate(RESTORED, start=1):
            virtual = self._head(encode_virtual(self.model, self.patcher, patching()))
            logits = self._patched_logits(starved, centres, patches, sent + virtual)
            target = self._target(centres, dropped)
            terms.append(restoring_loss(logits[centres], target, self.schedule.axis))
            sent = sent + virtual.detach()
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
        sent = torch.zeros_like(self.own)
        for patches in range(1, MOST_PATCHES + 1):
            sent = sent + self._head(encode_virtual(self.model, self.patcher, patching()))
            logits = self._patched_logits(self.source, self.nodes, patches, sent)
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
        weight = self.source.edge_weight
        edges = self.source.edge_index[:, kept]
        return Graph(self.source.x, edges, None if weight is None else weight[kept])

    @torch.no_grad()
    def _target(self, centres: Tensor, dropped: float) -> Tensor:
        if not dropped:
            return self.full[centres]
        copies = range(self.schedule.copies)
        return torch.stack(
            [self._logits(self._thinned(centres, dropped))[centres] for _ in copies], 1
        )

    def _logits(self, graph: Graph) -> Tensor:
        return self._biased(filter_hops(graph.adjacency, self.own, self.coef))

    def _patched_logits(self, graph: Graph, centres: Tensor, patches: int, sent: Tensor) -> Tensor:
        """Logits of all nodes when each centre has `patches` neighbours that send [B, C] in all."""
        adjacency, share = patched_adjacency(graph, centres, patches, self.own.dtype)
        pushed = torch.zeros_like(self.own).index_add(0, centres, sent) * share[:, None]
        return self._biased(filter_patched(adjacency, self.own, pushed, self.coef))

    def _head(self, encoding: Repr) -> Tensor:
        # The head is linear: its C columns go through the hops in place of the D of encodings.
        return F.linear(encoding, self.model.head.weight)

    def _biased(self, logits: Tensor) -> Tensor:
        bias: Any = self.model.head.bias
        return logits if bias is None else logits + bias


def _sliced(
    sums: scipy.sparse.csr_array, rows: Any, columns: Any, like: Tensor
) -> tuple[Tensor, Tensor]:
    """The chosen rows and columns as a tensor, and each row's weight, [rows, 1]."""
    part = scipy.sparse.csr_array(sums[rows][:, columns])
    part.sort_indices()
    weight = torch.from_numpy(np.asarray(part.sum(1))).to(like.device, like.dtype)
    return csr_tensor(part, like.dtype).to(like.device), weight[:, None]


def _times(x: Tensor, rows: Any, weight: Tensor) -> Tensor:
    """x[rows] · weightᵀ, [rows, width], a few thousand rows at a time."""
    index = torch.from_numpy(rows).to(x.device)
    if x.layout == torch.strided:
        parts = [F.linear(x[part], weight) for part in torch.split(index, ROWS_AT_ONCE)]
        return torch.cat(parts)
    product: Tensor = torch.sparse.mm(x, weight.T)
    return product[index]
