"""PR-BCD: an adversary flips edges of the target graph (Geisler et al. 2021), through PyG."""

import warnings
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, InvalidGraphError
from matcha_gnn.gamma.kernels.edge_weights import EdgePattern, weighted_filter
from matcha_gnn.gamma.models import FilterBackbone
from matcha_gnn.kernels.contexts import plain_torch, seeded
from matcha_gnn.registry import resolve
from matcha_gnn.streams import Purpose, torch_seed

if TYPE_CHECKING:
    from torch_geometric.data import Data

# PyG's defaults. PyG keeps them in one dictionary for all attacks, and an attack with other values
# changes it for the rest of the process, so `_isolated` uses a separate dictionary.
_SETTINGS = {
    "max_final_samples": 20,
    "max_trials_sampling": 20,
    "with_early_stopping": True,
    "eps": 1e-7,
}
LOSSES = ("prob_margin", "tanh_margin", "margin", "masked")


@plain_torch()
def attacked(
    model: nn.Module,
    graph: "Data",
    rate: float,
    *,
    nodes: Tensor | None = None,
    epochs: int = 125,
    block_size: int = 100_000,
    loss: str = "prob_margin",
    seed: int = 0,
) -> "Data":
    """Add and remove the edges that lower a model's accuracy most.

    Args:
        model: a backbone of this package whose representation is a polynomial filter, or any
            module that is called with (x, edge_index, edge_weight) and can be differentiated in
            the weights, such as a network of PyG's `GCNConv`. It is not changed.
        graph: the graph to attack, with labels `y`, which the adversary knows; not changed. In an
            undirected graph both directions of an edge are flipped together.
        rate: edges that may be flipped, as a share of the edges that there are; the paper uses
            0.05 to 0.2.
        nodes: whose predictions are attacked, bool [N]; by default the graph's `test_mask`, or all.
        epochs: steps; in the last fifth the candidates stay fixed.
        block_size: candidate edges considered together. More is stronger and slower.
        loss: what the adversary maximises, as PyG names it: "prob_margin", "tanh_margin", "margin"
            of the log probabilities, or "masked", the cross-entropy of nodes that are still right.
        seed: random seed of the candidates; torch's global generator is not changed.

    Returns:
        The same graph with other edges.

    Example:
        >>> from matcha_gnn.gamma.testing import tiny_graph, trained_model
        >>> hurt = attacked(trained_model(), tiny_graph(), rate=0.1, epochs=5, block_size=2000)
        >>> hurt.num_nodes, hurt.is_undirected()
        (120, True)
    """
    from torch_geometric.utils import is_undirected

    _check(graph, rate, epochs)
    loss = resolve("loss", loss, {name: name for name in LOSSES})
    both = is_undirected(graph.edge_index, num_nodes=graph.num_nodes)
    budget = round(rate * graph.edge_index.shape[1] / (2 if both else 1))
    if not 1 <= budget < block_size:
        allowed = f"one edge or more, and fewer than the {block_size} candidates"
        raise InvalidArgumentError("rate", f"{rate}, {budget} edges", allowed)
    attack = _isolated()(
        _differentiable(model, graph),
        block_size=block_size,
        epochs=epochs,
        epochs_resampling=max(1, round(0.8 * epochs)),
        loss=loss,
        is_undirected=both,
        log=False,
    )
    nodes = getattr(graph, "test_mask", None) if nodes is None else nodes
    with seeded(torch_seed(seed, Purpose.ATTACK), graph.x):
        edge_index, _ = attack.attack(graph.x, graph.edge_index, graph.y, budget, nodes)
    hurt = copy(graph)
    hurt.edge_index = edge_index
    return hurt


def _isolated() -> Any:
    """PyG's attack with a separate dictionary of settings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "'torch_geometric.contrib' contains experimental code")
        from torch_geometric.contrib.nn import PRBCDAttack
    return type("IsolatedAttack", (PRBCDAttack,), {"coeffs": dict(_SETTINGS)})


class _Filter(nn.Module):
    """Logits of a polynomial filter as a function of the edge weights alone.

    The head is linear, so it is applied before propagation, to propagate C columns instead of D.
    """

    def __init__(self, model: FilterBackbone, x: Tensor) -> None:
        super().__init__()
        with torch.no_grad():
            self._start = model.encode(model.accept(x)) @ model.head.weight.T
            self._hop_weights = model.hop_weights(model.gamma).detach()
            self._bias = model.head.bias

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        apart = edge_index[0] != edge_index[1]
        edge_index, edge_weight = edge_index[:, apart], edge_weight[apart]
        pattern = EdgePattern.of(edge_index, len(self._start), None, self._start.dtype)
        # Entries of the pattern are sorted by receiver, then sender; self loops keep weight 1.
        order = torch.argsort(edge_index[1] * len(self._start) + edge_index[0])
        weight = torch.ones_like(pattern.weight).masked_scatter(
            pattern.row != pattern.col, edge_weight[order].to(self._start.dtype)
        )
        logits = weighted_filter(pattern, weight, self._start, self._hop_weights)
        return logits if self._bias is None else logits + self._bias


def _differentiable(model: nn.Module, graph: "Data") -> nn.Module:
    """A copy of the model that PyG's attack can call; the original does not change."""
    frozen = deepcopy(model).eval().requires_grad_(False)
    return _Filter(frozen, graph.x) if isinstance(frozen, FilterBackbone) else _Foreign(frozen)


class _Foreign(nn.Module):
    """Any module in PyG's calling convention; raises if it has no gradient in the edge weights."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        logits: Tensor = self._model(x, edge_index, edge_weight)
        if edge_weight.requires_grad and not logits.requires_grad:
            raise IncompatibleError(
                f"{type(self._model).__name__} cannot be differentiated in its edge weights: "
                "attack a GPRGNN and use the graph for this model"
            )
        return logits


def _check(graph: "Data", rate: float, epochs: int) -> None:
    if graph.y is None:
        raise InvalidGraphError("graph.y", None, "labels, one for each node")
    extra = [name for name in graph.edge_attrs() if name != "edge_index"]
    if extra:
        raise InvalidGraphError(f"graph.{extra[0]}", "given", "a graph with edges alone")
    if not 0 < rate <= 1:
        raise InvalidArgumentError("rate", rate, "a share in (0, 1]")
    if epochs < 1:
        raise InvalidArgumentError("epochs", epochs, "an integer >= 1")
