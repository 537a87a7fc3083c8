"""Stein's unbiased estimate of the distance of mixed logits from noise-free node-only logits.

Node-only logits l_0 = H_0 Wᵀ are those of the class plus noise that is independent between nodes. A
structure shift does not change this and only changes what the neighbours add, so the risk of hop
weights is how well the mixed logits Σ_k c_k ℓ_k estimate the noise-free l_0. The estimate needs no
label and no prediction, is quadratic in c, and so has one minimum, in closed form.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError, require_number
from matcha_gnn.gamma import functional
from matcha_gnn.gamma.losses.base import Loss
from matcha_gnn.gamma.methods.base import Prediction, View
from matcha_gnn.kernels import Adjacency
from matcha_gnn.kernels.devices import device_of
from matcha_gnn.streams import Purpose, torch_stream
from matcha_gnn.typing import FloatArray, HopForm, Probs, Repr

EXACT = 256
"""Nodes up to which traces are exact: there, signs, which follow node numbers, would decide."""
PROBES = 16
"""Most random sign vectors for the traces of the powers of P on larger graphs."""
TRACE_ERROR = 0.005
"""Standard deviation that the estimate of tr P^k / N may have."""


class SteinForms(NamedTuple):
    """The numbers of a target graph that determine the estimate.

    Attributes:
        gram: S_jk = mean_i ⟨ℓ_j[i], ℓ_k[i]⟩, [K+1, K+1].
        signal: S_0k − σ² t_k, the covariance of ℓ_k with the noise-free l_0, [K+1].
        noise: σ², the variance of l_0 within classes, summed over logits.
    """

    gram: HopForm
    signal: FloatArray
    noise: float


@dataclass(frozen=True)
class SURE(Loss):
    """E‖Σ_k c_k ℓ_k − E[l_0 | class]‖² by Stein's estimate, per node, for the best scale of c.

    ℓ_k = P^k (l_0 − mean l_0), with logits taken relative to their mean over classes. Like PIC it
    does not change when γ is scaled; unlike PIC it depends on the sign.

    Args:
        noise_share: share of the variance of the node-only logits that is noise; by default σ²
            comes from the source summary in the model.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> strategy = mg.ClosedForm(loss=SURE(noise_share=0.5))
        >>> result = mg.adapt(mg.GPRGNN(8, 2), graph, strategy=strategy)
        >>> result.trace.loss[1] <= result.trace.loss[0]
        True
    """

    name = "sure"
    needs_filter = True

    noise_share: float | None = None

    def __post_init__(self) -> None:
        if self.noise_share is not None:
            require_number("noise_share", self.noise_share, least=0, most=1)

    def __call__(self, z: Repr, logits: Tensor, probs: Probs) -> Tensor:
        """Refused: the estimate is a function of hop weights, not of representations."""
        raise IncompatibleError("loss 'sure' is not defined on representations, only on hops")

    def prepare(self, view: View) -> SteinForms:
        """The quadratic form; the same in every round."""
        return stein_forms(view, self.noise_share)

    def from_sums(
        self, view: View, prediction: Prediction, prepared: SteinForms
    ) -> tuple[float, FloatArray]:
        """The estimate and its gradient in the hop weights; predictions are not used."""
        return functional.scaled_stein_risk(view.hop_weights_array, *prepared)

    def minimiser(self, view: View, prediction: Prediction, prepared: SteinForms) -> FloatArray:
        """The hop weights of the smallest estimate."""
        return functional.stein_hop_weights(prepared.gram, prepared.signal)


def stein_forms(view: View, noise_share: float | None = None) -> SteinForms:
    """Compute the estimate's few numbers on a target graph; `noise_share` as in `SURE`."""
    head = view.model.head.weight.detach()
    own_mean = (head[:-1] - head[-1]) @ torch.from_numpy(view.hops.mean[0]).to(head)
    ones, traces = _powers(view)
    sums = torch.zeros((), dtype=torch.float64, device=head.device)
    for rows, logits in view.hops.hop_logits(view.model.head):
        apart = torch.addcmul(logits, ones[:, None, rows], own_mean[:, None].double(), value=-1)
        # Relative to the last class, a sum of squares over classes is C times their mean too much.
        flat, over_classes = apart.flatten(1), apart.sum(1)
        sums = sums + flat @ flat.T - over_classes @ over_classes.T / len(head)
    gram = sums.cpu().numpy() / view.hops.num_nodes
    noise = float(gram[0, 0]) * noise_share if noise_share is not None else _source_noise(view)
    return SteinForms(gram, gram[0] - noise * traces, noise)


def _powers(view: View) -> tuple[Tensor, FloatArray]:
    """P^k 1, [K+1, N], and tr P^k / N, [K+1]: exact on small graphs, else estimated by signs."""
    num_nodes, num_hops, _ = view.hops.shape
    like = view.model.head.weight.detach()
    columns, probes = _ones_and_probes(view, num_nodes)
    if view.graph.symmetric:
        powers, sums = half_way(view.graph.adjacency, columns.to(like), num_hops)
        return powers, sums / (probes * num_nodes)
    powers, traces = like.new_ones(num_hops, num_nodes), np.zeros(num_hops)
    h = columns.to(like)
    for k in range(num_hops):
        h = view.graph.adjacency @ h if k else h
        powers[k] = h[:, 0]
        traces[k] = float(_dot(h, columns)) - float(h[:, 0].sum(dtype=torch.float64))
    return powers, traces / (probes * num_nodes)


def half_way(
    adjacency: Adjacency, ones_and_signs: Tensor, num_hops: int
) -> tuple[Tensor, FloatArray]:
    """P^k 1, [K+1, N], and Σ ⟨s, P^k s⟩ over columns of signs s, [K+1], for a symmetric P.

    Signs go half as far: ⟨s, P^2j s⟩ is ⟨P^j s, P^j s⟩, and likewise for odd powers. Given are
    ones and S columns of signs, [N, 1+S]; `num_hops` is K+1.
    """
    h = ones_and_signs
    powers, sums = h.new_ones(num_hops, len(h)), [_dot(h[:, 1:], h[:, 1:])]
    for k in range(1, num_hops):
        before, h = h, adjacency @ h
        powers[k] = h[:, 0]
        if len(sums) < num_hops:
            sums += [_dot(h[:, 1:], before[:, 1:]), _dot(h[:, 1:], h[:, 1:])]
        if len(sums) >= num_hops:
            h = h[:, :1]
    return powers, torch.stack(sums[:num_hops]).cpu().numpy()


def _dot(h: Tensor, signs: Tensor) -> Tensor:
    """Σ h · signs in float64, by blocks: their product is as large as h."""
    size = max(1, device_of(h).block_floats // h.shape[1])
    pairs = zip(torch.split(h, size), torch.split(signs, size), strict=True)
    sums = [(rows * of_rows).sum(dtype=torch.float64) for rows, of_rows in pairs]
    return torch.stack(sums).sum()


def probes_for(num_nodes: int) -> int:
    """Sign vectors for a graph of so many nodes.

    The estimate of tr P^k / N by one of them has a variance of at most 2 ‖P^k‖² / N² ≤ 2 / N, as
    no eigenvalue of a symmetric P is larger than 1: the larger a graph, the fewer are needed.
    """
    return min(PROBES, math.ceil(2 / (num_nodes * TRACE_ERROR**2)))


def _ones_and_probes(view: View, num_nodes: int) -> tuple[Tensor, int]:
    """Ones beside S columns v, in bytes [N, 1+S], and by how much Σ ⟨v, M v⟩ exceeds tr M.

    Columns are those of the identity on small graphs, else random signs. These are drawn where the
    graph is: a seed means other signs on a GPU than on the CPU.
    """
    if num_nodes <= EXACT:
        identity = torch.eye(num_nodes, dtype=torch.int8, device=view.graph.device)
        return torch.cat([torch.ones_like(identity[:, :1]), identity], 1), 1
    place, probes = view.graph.device, probes_for(num_nodes)
    generator = torch_stream(view.seed, Purpose.SURE_SIGNS, place)
    columns = torch.ones(num_nodes, 1 + probes, dtype=torch.int8, device=place)
    block = device_of(place).block_floats // (2 * PROBES)
    for start in range(0, num_nodes, block):
        size = min(block, num_nodes - start)
        drawn = torch.randint(
            0, 2, (size, probes), generator=generator, dtype=torch.int8, device=place
        )
        columns[start : start + size, 1:] = 2 * drawn - 1
    return columns, probes


def _source_noise(view: View) -> float:
    source = view.model.source
    if source is None or "logit_covariance" not in source.own:
        raise IncompatibleError(
            "loss 'sure' needs a model with a source summary, as mg.fit makes it; or give "
            "noise_share"
        )
    covariance = source.own["logit_covariance"].double()
    return float(covariance.trace() - covariance.mean(0).sum())
