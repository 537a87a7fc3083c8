"""Fourteen kinds of plain PyG networks, and plain training, as their users write them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm

WIDTH, HOPS = 32, 5
EDGE_WIDTH = 2


class APPNPNet(nn.Module):
    """Linear layers around PyG's APPNP."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(features, WIDTH), nn.Linear(WIDTH, classes)
        self.prop = pyg.APPNP(K=HOPS, alpha=0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        """Logits."""
        return self.lin2(self.prop(F.dropout(self.lin1(x).relu(), 0.5, self.training), edge_index))


class GPRProp(pyg.MessagePassing):  # type: ignore[misc]
    """The propagation of GPRGNN with its weights `temp`."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.temp = nn.Parameter(0.1 * 0.9 ** torch.arange(HOPS + 1.0))

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        """Σ_k temp_k P^k x."""
        edge_index, norm = gcn_norm(edge_index, num_nodes=len(x))
        hidden = self.temp[0] * x
        for weight in self.temp[1:]:
            x = self.propagate(edge_index, x=x, norm=norm)
            hidden = hidden + weight * x
        return hidden

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        """Along an edge."""
        return norm[:, None] * x_j


class GPRNet(nn.Module):
    """Linear layers before `GPRProp`, which comes last."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(features, WIDTH), nn.Linear(WIDTH, classes)
        self.prop = GPRProp()

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        """Logits."""
        h = F.dropout(self.lin1(x).relu(), 0.5, self.training)
        return self.prop(self.lin2(h), edge_index)


class SGNet(nn.Module):
    """One SGConv."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.conv = pyg.SGConv(features, classes, K=2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        """Logits."""
        return self.conv(x, edge_index)


class TwoLayers(nn.Module):
    """Two convolutions; subclasses say what they are given and what they return."""

    def __init__(self, features: int, classes: int, kind: Any = pyg.GCNConv, **options: Any):
        super().__init__()
        self.conv1 = kind(features, WIDTH, **options)
        self.conv2 = kind(WIDTH, classes, **options)

    def layers(self, x: Tensor, *edges: Any) -> tuple[Any, Tensor]:
        """Logits and the hidden layer."""
        h = F.dropout(self.conv1(x, *edges).relu(), 0.5, self.training)
        return self.conv2(h, *edges), h


class TakesData(TwoLayers):
    """Takes a `Data`."""

    def forward(self, data: Data) -> Any:
        """Logits."""
        return self.layers(data.x, data.edge_index)[0]


class SparseLinear(nn.Module):
    """A layer of a torch.sparse matrix."""

    def __init__(self, features: int, out: int) -> None:
        super().__init__()
        self.lin = nn.Linear(features, out)

    def forward(self, x: Tensor, adj_t: Tensor) -> Any:
        """A (x W + b)."""
        return torch.sparse.mm(adj_t, self.lin(x))


class TakesMatrix(TwoLayers):
    """Takes a normalised torch.sparse matrix."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes, SparseLinear)

    def forward(self, x: Tensor, adj_t: Tensor) -> Any:
        """Logits."""
        return self.layers(x, adj_t)[0]


class EdgeGAT(TwoLayers):
    """Attention that sees features of edges."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes, pyg.GATConv, edge_dim=EDGE_WIDTH)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Any:
        """Logits."""
        return self.layers(x, edge_index, edge_attr)[0]


class WeightedGCN(TwoLayers):
    """Edges have weights."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Any:
        """Logits."""
        return self.layers(x, edge_index, edge_weight)[0]


class OneLogit(TwoLayers):
    """The logit of class 1, [N]."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        """One number per node."""
        return self.layers(x, edge_index)[0].squeeze(1)


class LogSoftmax(TwoLayers):
    """Log-probabilities, as in PyG's examples."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        """Log-probabilities."""
        return self.layers(x, edge_index)[0].log_softmax(1)


class ReturnsTuple(TwoLayers):
    """Logits and the hidden layer."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        """A tuple."""
        return self.layers(x, edge_index)


def _with_matrix(graph: Data) -> Data:
    edges, norm = gcn_norm(graph.edge_index, num_nodes=graph.num_nodes)
    size = (graph.num_nodes, graph.num_nodes)
    matrix = torch.sparse_coo_tensor(edges.flip(0), norm, size, check_invariants=False)
    graph.adj_t = matrix.coalesce()
    return graph


def _with_edge_attr(graph: Data) -> Data:
    """Likeness and distance of the features of an edge's ends."""
    sender, receiver = graph.x[graph.edge_index]
    likeness = F.cosine_similarity(sender, receiver)
    graph.edge_attr = torch.stack([likeness, (sender - receiver).norm(dim=1)], 1)
    return graph


def _with_edge_weight(graph: Data) -> Data:
    sender, receiver = graph.x[graph.edge_index]
    graph.edge_weight = (1 + F.cosine_similarity(sender, receiver)) / 2
    return graph


def _plain(graph: Data) -> Data:
    return graph


def _by_edges(net: nn.Module, data: Data) -> Any:
    return net(data.x, data.edge_index)


def _cross_entropy(output: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(output, labels)


def _binary_loss(output: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, labels.to(output))


def _softmax(output: Tensor) -> Tensor:
    return output.softmax(1)


def _two_columns(output: Tensor) -> Tensor:
    return torch.stack([1 - output.sigmoid(), output.sigmoid()], 1)


@dataclass(frozen=True)
class Kind:
    """A kind of network, and how its users call it.

    Attributes:
        build: from features and classes.
        fields: adds the fields that it needs to a graph.
        call: runs it on a graph.
        logits: among what it returns.
        loss: of logits and labels.
        probs: of logits, [N, C].
    """

    build: Callable[[int, int], nn.Module]
    fields: Callable[[Data], Data] = _plain
    call: Callable[[nn.Module, Data], Any] = _by_edges
    logits: Callable[[Any], Tensor] = lambda output: output
    loss: Callable[[Tensor, Tensor], Tensor] = _cross_entropy
    probs: Callable[[Tensor], Tensor] = _softmax

    def data(self, graph: Data) -> Data:
        """A copy of a graph with the fields that the network needs."""
        return self.fields(graph.clone())

    @torch.no_grad()
    def answer(self, net: nn.Module, data: Data) -> Tensor:
        """The network's own class probabilities, [N, C]."""
        return self.probs(self.logits(self.call(net.eval(), data)))


def _of(model: Any, **options: Any) -> Callable[[int, int], nn.Module]:
    """A network of PyG's own models."""

    def build(features: int, classes: int) -> nn.Module:
        net: nn.Module = model(
            features, WIDTH, num_layers=2, out_channels=classes, dropout=0.5, **options
        )
        return net

    return build


KINDS: dict[str, Kind] = {
    "GCN": Kind(_of(pyg.GCN)),
    "GraphSAGE": Kind(_of(pyg.GraphSAGE)),
    "GAT": Kind(_of(pyg.GAT)),
    "APPNP": Kind(APPNPNet),
    "GPR": Kind(GPRNet),
    "SGConv": Kind(SGNet),
    "SAGE with JK": Kind(_of(pyg.GraphSAGE, jk="cat")),
    "takes Data": Kind(TakesData, call=lambda net, data: net(data)),
    "torch.sparse": Kind(TakesMatrix, _with_matrix, call=lambda net, data: net(data.x, data.adj_t)),
    "GAT, edge_attr": Kind(
        EdgeGAT,
        _with_edge_attr,
        call=lambda net, data: net(data.x, data.edge_index, data.edge_attr),
    ),
    "GCN, edge_weight": Kind(
        WeightedGCN,
        _with_edge_weight,
        call=lambda net, data: net(data.x, data.edge_index, data.edge_weight),
    ),
    "one logit": Kind(OneLogit, loss=_binary_loss, probs=_two_columns),
    "log-softmax": Kind(LogSoftmax),
    "tuple": Kind(ReturnsTuple, logits=lambda output: output[0]),
}
"""By the names of the table."""


def trained(kind: Kind, data: Data, classes: int, seed: int, epochs: int = 200) -> nn.Module:
    """A network trained on the nodes of `train_mask`, in the plain loop of PyG's examples."""
    torch.manual_seed(seed)
    net = kind.build(data.num_features, classes).to(data.x.device)
    steps = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    net.train()
    for _ in range(epochs):
        steps.zero_grad()
        logits = kind.logits(kind.call(net, data))[data.train_mask]
        kind.loss(logits, data.y[data.train_mask]).backward()  # type: ignore[no-untyped-call]
        steps.step()
    return net.eval()
