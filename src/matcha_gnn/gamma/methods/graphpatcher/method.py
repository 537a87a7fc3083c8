"""GraphPatcher (Ju et al., NeurIPS 2023): virtual neighbours for nodes that lack real ones."""

import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, require_number
from matcha_gnn.gamma.methods.base import Arrays, BaseMethod, Modifies, Prediction, State, View
from matcha_gnn.gamma.methods.graphpatcher.patching import (
    Patcher,
    Patching,
    encode_virtual,
    neighbour_sums,
    patched_adjacency,
    patched_graph,
    propagate_patched,
)
from matcha_gnn.gamma.methods.graphpatcher.training import PatcherTraining, Schedule
from matcha_gnn.gamma.methods.lame import is_count
from matcha_gnn.gamma.methods.whole import ModifiedHops
from matcha_gnn.gamma.models import Backbone, FilterBackbone
from matcha_gnn.graphs.memory import Graph

AXES = ("classes", "copies")
KEEPS = ("best", "last")


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
    - Weights and the number of patches are chosen by accuracy on the labelled source nodes, where
      the paper has validation nodes, from the tenth iteration on (its code waits for 100).

    Args:
        patches: virtual neighbours per node at the target, or "source": the number from 1 to 5 that
            gives the labelled source nodes the highest accuracy. It does not change training.
        hidden_channels: the patcher's width; 1,024 in its paper.
        iterations: training steps at most.
        batch_size: nodes that lose neighbours and are patched per step; None for all.
        copies: random copies of each thinner graph that serve as targets; 10 in the released
            code. The gradient is linear in the target: one copy has the same mean gradient.
        lr: AdamW's step size. Much larger ones kill every unit of the encoder.
        axis: what the softmax in the loss runs over: "classes", or "copies" as in the released
            code, where it leaves the first two of three steps without any gradient.
        keep: "best", the weights with the highest accuracy on the labelled source nodes (and stop
            after ten evaluations, ten iterations apart, without a better one), or "last".

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

    def __init__(
        self,
        patches: int | str = "source",
        hidden_channels: int = 64,
        iterations: int = 300,
        batch_size: int | None = 512,
        copies: int = 1,
        lr: float = 1e-4,
        axis: str = "classes",
        keep: str = "best",
    ) -> None:
        if patches != "source" and not is_count(patches, 1):
            raise InvalidArgumentError("patches", repr(patches), "'source', or an integer >= 1")
        if batch_size is not None and not is_count(batch_size, 1):
            raise InvalidArgumentError("batch_size", repr(batch_size), "None, or an integer >= 1")
        sizes = {"hidden_channels": hidden_channels, "iterations": iterations, "copies": copies}
        for argument, size in sizes.items():
            if not is_count(size, 1):
                raise InvalidArgumentError(argument, repr(size), "an integer >= 1")
        require_number("lr", lr, above=0)
        for argument, choice, allowed in (("axis", axis, AXES), ("keep", keep, KEEPS)):
            if choice not in allowed:
                raise InvalidArgumentError(argument, repr(choice), ", ".join(allowed))
        self.patches, self.hidden_channels, self.iterations = patches, hidden_channels, iterations
        self.batch_size, self.copies, self.lr = batch_size, copies, lr
        self.axis, self.keep = axis, keep

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
        schedule = Schedule(
            self.hidden_channels,
            self.iterations,
            self.batch_size,
            self.copies,
            self.lr,
            self.axis,
            self.keep,
        )
        training = PatcherTraining(model, source, labels, labelled, schedule)
        patcher, patches = training.run(seed)
        weights = {name: weight.detach().clone() for name, weight in patcher.state_dict().items()}
        return weights | {"patches": torch.tensor([patches])}

    def prepare(self, view: View) -> ModifiedHops:
        """Generate the virtual nodes, which do not depend on γ, and patch the graph with them."""
        model = view.model
        arrays, x = model.source_arrays[self.name], model.accept(view.graph.x)
        patches = int(arrays["patches"] if self.patches == "source" else self.patches)
        patcher = _patcher(arrays, x.shape[1]).to(view.gamma)
        nodes = torch.arange(view.graph.num_nodes, device=x.device)
        patching = Patching(patcher, x, neighbour_sums(view.graph), nodes)
        if isinstance(model, FilterBackbone):
            virtual = torch.zeros_like(view.hops.stack[:, 0])
            for _ in range(patches):
                virtual += encode_virtual(model, patcher, patching())
            return _patched_hops(view, nodes, virtual, patches)
        features = [patcher.last(patching()) for _ in range(patches)]
        graph, count = patched_graph(view.graph, nodes, features), len(nodes)
        return ModifiedHops(view, lambda model: model.hops(graph, keyed=False).stack[:count])

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """The source head on the patched hops, mixed by the current γ."""
        target: ModifiedHops = state
        patched = target.hops_at(view)
        probs, sums, mass = patched.classify(view.hop_weights, view.model.head, over=view.hops)
        return Prediction(probs, patched, mass=mass, class_sums=(view.hops, sums)), target


def _patched_hops(view: View, nodes: Tensor, virtual: Tensor, patches: int) -> ModifiedHops:
    """Hops of a filter, from the summed encodings of each node's virtual neighbours, [N, D]."""
    adjacency, share = patched_adjacency(view.graph, nodes, patches, virtual.dtype)
    h, pushed = view.hops.stack[:, 0].contiguous(), virtual * share[:, None]
    return ModifiedHops(view, lambda model: propagate_patched(adjacency, h, pushed, model.num_hops))


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
