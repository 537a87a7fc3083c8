"""SOGA (Mao et al., WSDM 2024): train on mutual information and agreement of neighbours."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.errors import require_flag, require_number
from matcha_gnn.gamma.methods.base import Modifies, Prediction, State, View
from matcha_gnn.gamma.methods.tuning import (
    DescentMethod,
    FilterTuner,
    Tuned,
    Tuner,
    WholeTuner,
    descend,
)
from matcha_gnn.gamma.methods.whole import Values, run_with
from matcha_gnn.gamma.models import Backbone, FilterBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.streams import Purpose, torch_stream

NEGATIVES = 5
"""Negative samples per node, in each contrast."""
NODE_EPS, MEAN_EPS = 1e-5, 1e-8


@dataclass(frozen=True)
class SOGA(DescentMethod):
    """Train encoder and head on mutual information and agreement along edges; γ is optional.

    With p_i the prediction of node i and q = mean_i p_i, the loss is
    mean_i H(p_i) − H(q) + λ_struct NCE + λ_neigh NCE', where
    NCE = mean_i −log( exp(p_i·p_pos(i)) / Σ_j exp(p_i·p_neg_j(i)) ) over one successor and a few
    nodes drawn by degree: the positive is not in the denominator. The pairs are drawn once for a
    target, with one sort of its edges. A step reads the features twice, forward and backward, and
    propagates C − 1 columns.

    Mao et al., "Source Free Graph Unsupervised Domain Adaptation", WSDM 2024. Deviations: no
    epoch is chosen by target labels, as the released code does; dropout is off; and, as in that
    code, the structural term draws its pairs from the edges too, where the paper has a graph of
    structurally similar nodes. So the two terms differ only in their draws.

    Args:
        steps: gradient steps in each round.
        lr: step size.
        optimizer: "sgd", or "adam", as in SOGA's paper.
        lambda_struct: weight of the first contrast.
        lambda_neigh: weight of the second.
        moves_gamma: also train γ, for the prediction only, as the published runs do. Every run
            starts at the γ that it is given. A step then runs the whole model.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> mg.predict(mg.GPRGNN(8, 2), graph, SOGA()).probs.shape
        torch.Size([100, 2])
    """

    name = "soga"
    modifies = frozenset({Modifies.ENCODER, Modifies.NORM, Modifies.HEAD})
    draws_at_random = True

    lr: float = 0.1
    lambda_struct: float = 1.0
    lambda_neigh: float = 1.0
    moves_gamma: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("lambda_struct", self.lambda_struct, least=0)
        require_number("lambda_neigh", self.lambda_neigh, least=0)
        require_flag("moves_gamma", self.moves_gamma)

    def prepare(self, view: View) -> "Prepared":
        """Draw the pairs, and encode with the source weights: every round starts there."""
        generator = torch_stream(view.seed, Purpose.SOGA_PAIRS)
        contrasts = [
            Contrast(weight, draw_pairs(view.graph, NEGATIVES, generator))
            for weight in (self.lambda_struct, self.lambda_neigh)
        ]
        return Prepared(contrasts, self._tuner(view).start(all_but_gamma(view.model)))

    def _tuner(self, view: View) -> Tuner:
        model = view.model
        if self.moves_gamma or not isinstance(model, FilterBackbone):
            return WholeTuner(view, on_target=False)
        x = model.accept(view.graph.x)
        return FilterTuner(view, lambda values: run_with(model, values, lambda _: model.encode(x)))

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """Take the steps at the view's γ; the state is the weights and Adam's moments."""
        contrasts, tuned = state
        if self.moves_gamma:
            tuned = tuned.also({"gamma": view.gamma})
        prediction, tuned = descend(tuned, view, partial(loss_slope, contrasts=contrasts), self)
        return prediction, Prepared(contrasts, tuned)


class Pairs(NamedTuple):
    """For each node one successor, [N], and negative samples, [M, N]."""

    positive: Tensor
    negative: Tensor


class Contrast(NamedTuple):
    """A contrast's weight in the loss, and its pairs."""

    weight: float
    pairs: Pairs


class Prepared(NamedTuple):
    """What a run starts from, and its state: the contrasts, and the weights so far."""

    contrasts: list[Contrast]
    tuned: Tuned


def draw_pairs(graph: Graph, negatives: int, generator: torch.Generator) -> Pairs:
    """Draw a successor of each node uniformly, itself where it has none; others by degree.

    As in the original, which differs from taking senders on directed graphs alone: a node's
    positives are the receivers of its outgoing edges, and negatives are drawn by the number of
    edges at a node, incoming and outgoing. Self loops do not count, repeated edges count once.
    Random numbers are drawn on the host, so that a seed means the same on every device.
    """
    matrix = graph.adjacency.matrix
    nodes = torch.arange(graph.num_nodes, device=matrix.device)
    sender = matrix.col_indices().long()
    receiver = nodes.repeat_interleave(matrix.crow_indices().long().diff())
    # Every row of the adjacency holds its own node once.
    between = sender != receiver
    sender, order = sender[between].sort(stable=True)
    receiver = receiver[between][order]
    degree = torch.bincount(sender, minlength=len(nodes))
    first = degree.cumsum(0) - degree
    uniform = torch.rand(1 + negatives, len(nodes), dtype=torch.float64, generator=generator)
    uniform = uniform.to(matrix.device)
    if not len(sender):
        return Pairs(nodes, (uniform[1:] * len(nodes)).long())
    # A node without successors may point one past the end; what it reads is not used.
    successor = receiver[(first + (uniform[0] * degree).long()).clamp(max=len(sender) - 1)]
    # The ends of uniformly drawn edges, either of the two, are nodes drawn by degree.
    ends = torch.cat([sender, receiver])
    return Pairs(successor.where(degree > 0, nodes), ends[(uniform[1:] * len(ends)).long()])


def loss_slope(log_probs: Tensor, contrasts: list[Contrast]) -> Tensor:
    """Derivative of the loss in the logits, from log probabilities [C, N]: [C, N]."""
    probs = log_probs.exp()
    slope = information_slope(probs)
    for weight, pairs in contrasts:
        if weight:
            slope.add_(contrast_slope(probs, pairs), alpha=weight)
    return probs * (slope - (probs * slope).sum(0))


def information_slope(probs: Tensor) -> Tensor:
    """Derivative of mean_i H(p_i) − H(mean_i p_i) in p, for [C, N].

    The logarithms are of p + 1e-5 and q + 1e-8, as in the released code.
    """
    mean = probs.mean(1, keepdim=True)
    spread = (mean + MEAN_EPS).log() + mean / (mean + MEAN_EPS)
    return (spread - (probs + NODE_EPS).log() - probs / (probs + NODE_EPS)) / probs.shape[1]


def contrast_slope(probs: Tensor, pairs: Pairs) -> Tensor:
    """Derivative of mean_i [ log Σ_j exp(p_i·p_neg_j) − p_i·p_pos ] in p, for [C, N].

    Classes are processed one by one, so that memory does not grow with their number.
    """
    positive, (count, nodes) = pairs.positive, pairs.negative.shape
    negative = pairs.negative.reshape(-1)
    score = probs.new_zeros(count, nodes)
    for row in probs:
        score.addcmul_(row.index_select(0, negative).view(count, nodes), row)
    share = score.softmax(0)
    slope = torch.empty_like(probs)
    for out, row in zip(slope, probs, strict=True):
        far = row.index_select(0, negative).view(count, nodes)
        torch.sum(share * far, 0, out=out)
        out.sub_(row.index_select(0, positive)).index_add_(0, positive, row, alpha=-1)
        out.index_add_(0, negative, (share * row).reshape(-1))
    return slope.div_(nodes)


def all_but_gamma(model: Backbone) -> Values:
    """Every parameter but γ; those of the head under the name of a backbone's head."""
    head: Values = {f"head.{name}": parameter for name, parameter in model.head.named_parameters()}
    apart = {id(model.gamma), *(id(p) for p in head.values())}
    values: Values = {n: p for n, p in model.named_parameters() if id(p) not in apart}
    return values | head
