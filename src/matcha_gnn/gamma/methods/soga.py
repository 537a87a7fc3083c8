"""SOGA (Mao et al., WSDM 2024): train on mutual information and agreement of neighbours."""

from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from matcha_gnn.errors import (
    IncompatibleError,
    require_default,
    require_kind,
    require_number,
    require_whole,
)
from matcha_gnn.gamma.methods.base import (
    BaseMethod,
    Modifies,
    Prediction,
    State,
    View,
    require_linear_head,
)
from matcha_gnn.gamma.methods.tent import STATISTICS
from matcha_gnn.gamma.methods.tuning import (
    Descent,
    FilterTuner,
    Tuned,
    Tuner,
    Values,
    check_choice,
    check_descent,
    descend,
)
from matcha_gnn.gamma.methods.whole import WholeTuner, trained_values
from matcha_gnn.gamma.models import Backbone, FilterBackbone, NormedFilterBackbone
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.streams import Purpose, torch_stream
from matcha_gnn.typing import Repr

NEGATIVES = 5
NODE_EPS, MEAN_EPS = 1e-5, 1e-8


class SOGA(BaseMethod):
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
        negatives: negative samples per node, in each contrast; an error without a contrast.
        statistics: batch norm by the "source" running statistics, or by those of the "target"
            graph, which then move with the encoder.
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

    def __init__(
        self,
        steps: int = 1,
        lr: float = 0.1,
        optimizer: str = "sgd",
        lambda_struct: float = 1.0,
        lambda_neigh: float = 1.0,
        negatives: int = NEGATIVES,
        statistics: str = "source",
        moves_gamma: bool = False,
    ) -> None:
        check_descent(steps, lr, optimizer)
        check_choice("statistics", statistics, STATISTICS)
        for name, weight in (("lambda_struct", lambda_struct), ("lambda_neigh", lambda_neigh)):
            require_number(name, weight, least=0)
        require_whole("negatives", negatives, least=1)
        if lambda_struct == lambda_neigh == 0:
            unless = "lambda_struct or lambda_neigh is above 0"
            require_default("negatives", negatives, NEGATIVES, unless)
        require_kind("moves_gamma", moves_gamma, bool, "True or False")
        self.steps, self.lr, self.optimizer = steps, lr, optimizer
        self.lambda_struct, self.lambda_neigh = lambda_struct, lambda_neigh
        self.negatives, self.statistics, self.moves_gamma = negatives, statistics, moves_gamma

    def require(self, model: Backbone) -> None:
        """A linear head, and for target statistics a batch norm."""
        require_linear_head(self.name, model)
        if self.statistics == "target" and not any(
            isinstance(m, _BatchNorm) for m in model.modules()
        ):
            raise IncompatibleError(f"soga: {model.name} has no batch norm for target statistics")

    def prepare(self, view: View) -> "Prepared":
        """Draw the pairs, and encode with the source weights: every round starts there."""
        generator = torch_stream(view.seed, Purpose.SOGA_PAIRS)
        contrasts = [
            Contrast(weight, draw_pairs(view.graph, self.negatives, generator))
            for weight in (self.lambda_struct, self.lambda_neigh)
        ]
        return Prepared(contrasts, self._tuner(view).start(trained_values(view.model)))

    def _tuner(self, view: View) -> Tuner:
        encoder = None if self.moves_gamma else _encoder(view.model, self.statistics)
        if encoder is None:
            return WholeTuner(view, self.statistics)
        x = view.model.accept(view.graph.x)

        def encode(values: Values) -> Repr:
            weights = {f"model.{name}": value for name, value in values.items()}
            return cast(Tensor, functional_call(encoder, weights, (x,)))

        return FilterTuner(view, encode)

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """Take the steps at the view's γ; the state is the weights and Adam's moments."""
        contrasts, tuned = state
        if self.moves_gamma:
            tuned = tuned.also({"gamma": view.gamma})
        slope, descent = partial(loss_slope, contrasts=contrasts), Descent(self.optimizer, self.lr)
        prediction, tuned = descend(tuned, view, slope, self.steps, descent)
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


def _encoder(model: Backbone, statistics: str) -> nn.Module | None:
    """H_0 of a filter as a module; None for models of which no such part is known."""
    if statistics == "target":
        return _TargetEncoder(model) if isinstance(model, NormedFilterBackbone) else None
    return _Encoder(model) if isinstance(model, FilterBackbone) else None


class _Encoder(nn.Module):
    """H_0 from features as a module, so that torch can run it with other weights."""

    def __init__(self, model: FilterBackbone) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Repr:
        return self.model.encode(x)


class _TargetEncoder(nn.Module):
    """The same with the batch norm by the statistics of the features it is given."""

    def __init__(self, model: NormedFilterBackbone) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Repr:
        norm, hidden = self.model.norm, self.model.before_norm(x)
        # Gradients go through the statistics.
        variance, mean = torch.var_mean(hidden, 0, correction=0)
        normal = (hidden - mean) * torch.rsqrt(variance + norm.eps)
        return self.model.after_norm(
            torch.addcmul(norm.bias, normal, norm.weight) if norm.affine else normal
        )
