"""Networks as PyG's users write them, and their training as in PyG's examples."""

from functools import cache

import torch
import torch_geometric.nn as pyg
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from matcha_gnn.datasets import csbm

FEATURES, CLASSES, WIDTH = 40, 2, 16


class APPNPNet(nn.Module):
    def __init__(self, cached=False):
        super().__init__()
        self.lin1 = nn.Linear(FEATURES, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.prop = pyg.APPNP(K=5, alpha=0.1, cached=cached)
        self.lin2 = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        h = self.norm(self.lin1(x)).relu()
        return self.lin2(self.prop(h, edge_index, edge_weight))


class PropagatesLast(nn.Module):
    """PyG's own example of APPNP: logits are propagated, log-probabilities returned."""

    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(FEATURES, WIDTH)
        self.lin2 = nn.Linear(WIDTH, CLASSES)
        self.prop1 = pyg.APPNP(K=5, alpha=0.1)

    def forward(self, x, edge_index):
        h = self.lin2(self.lin1(x).relu())
        return F.log_softmax(self.prop1(h, edge_index), dim=1)


class GCN2Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, WIDTH)
        self.convs = nn.ModuleList(
            pyg.GCN2Conv(WIDTH, alpha=0.2, theta=0.5, layer=k + 1) for k in range(3)
        )
        self.last = pyg.Linear(WIDTH, CLASSES)

    def forward(self, data):
        h = start = self.first(data.x).relu()
        for conv in self.convs:
            h = conv(h, start, data.edge_index).relu()
        return F.log_softmax(self.last(h), dim=1)


class JumpingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = pyg.GCNConv(FEATURES, WIDTH)
        self.conv2 = pyg.GCNConv(WIDTH, WIDTH)
        self.jump = pyg.JumpingKnowledge("cat")
        self.lin = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, x, edge_index):
        first = self.conv1(x, edge_index).relu()
        return self.lin(self.jump([first, self.conv2(first, edge_index).relu()]))


class SGNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.SGConv(FEATURES, CLASSES, K=2)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


class TAGNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.TAGConv(FEATURES, WIDTH, K=3)
        self.lin = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edge_index):
        return self.lin(self.conv(x, edge_index).relu())


class MixHopNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.MixHopConv(FEATURES, WIDTH, powers=[0, 2])
        self.lin = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, x, edge_index):
        return self.lin(self.conv(x, edge_index))


class SSGNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.SSGConv(FEATURES, CLASSES, alpha=0.1, K=3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


class GPRProp(pyg.MessagePassing):
    def __init__(self, hops):
        super().__init__(aggr="add")
        self.K, self.temp = hops, nn.Parameter(0.1 * 0.9 ** torch.arange(hops + 1.0))

    def forward(self, x, edge_index):
        edge_index, norm = gcn_norm(edge_index, num_nodes=len(x))
        hidden = self.temp[0] * x
        for k in range(self.K):
            x = self.propagate(edge_index, x=x, norm=norm)
            hidden = hidden + self.temp[k + 1] * x
        return hidden

    def message(self, x_j, norm):
        return norm[:, None] * x_j


class GPRNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(FEATURES, WIDTH)
        self.prop = GPRProp(4)
        self.lin2 = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edge_index):
        return self.lin2(self.prop(self.lin1(x).relu(), edge_index))


class Convolutions(nn.Module):
    """Two convolutions of one kind, a batch norm between them, and a linear layer."""

    def __init__(self, kind):
        super().__init__()
        self.conv1, self.conv2 = kind(FEATURES, WIDTH), kind(WIDTH, WIDTH)
        self.norm = pyg.BatchNorm(WIDTH)
        self.lin = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edge_index):
        h = self.norm(self.conv1(x, edge_index)).relu()
        return self.lin(self.conv2(h, edge_index).relu())


EDGE_WIDTH, RELATIONS = 3, 2


class EdgeGAT(nn.Module):
    """Edge features are optional, as in most of PyG's examples; log-probabilities come out."""

    def __init__(self):
        super().__init__()
        self.conv = pyg.GATConv(FEATURES, CLASSES, edge_dim=EDGE_WIDTH)

    def forward(self, x, edge_index, edge_attr=None):
        return F.log_softmax(self.conv(x, edge_index, edge_attr), dim=1)


class EdgeAPPNP(nn.Module):
    """Edge features are required, and hop weights follow."""

    def __init__(self):
        super().__init__()
        self.conv = pyg.TransformerConv(FEATURES, WIDTH, edge_dim=EDGE_WIDTH)
        self.prop = pyg.APPNP(K=3, alpha=0.1)
        self.lin = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edge_index, edge_attr):
        h = self.conv(x, edge_index, edge_attr).relu()
        return self.lin(self.prop(h, edge_index))


class EdgeNN(nn.Module):
    """Features come last, and parameters go by other names where PyG has none."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(FEATURES, 4)
        self.conv = pyg.NNConv(4, WIDTH, nn.Linear(EDGE_WIDTH, 4 * WIDTH))
        self.prop = pyg.APPNP(K=2, alpha=0.2)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, edge_attr, features, edges, /, *, num_nodes):
        h = self.conv(self.lin(features) / num_nodes**0.1, edges, edge_attr).relu()
        return self.last(self.prop(h, edges))


class PositionNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(FEATURES + 2, WIDTH)
        self.prop = pyg.APPNP(K=3, alpha=0.1)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, pos, x, edge_index, edge_weight=None):
        h = self.lin(torch.cat([x, pos], 1)).relu()
        return self.last(self.prop(h, edge_index, edge_weight))


class RelationNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.RGCNConv(FEATURES, WIDTH, RELATIONS)
        self.prop = pyg.APPNP(K=3, alpha=0.1)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edge_index, edge_type):
        return self.last(self.prop(self.conv(x, edge_index, edge_type).relu(), edge_index))


class DataNet(nn.Module):
    """Takes a `Data`; every copy notes in one list the names of what it was given."""

    given = []

    def __init__(self):
        super().__init__()
        self.conv = pyg.TransformerConv(FEATURES + 2, WIDTH, edge_dim=EDGE_WIDTH)
        self.prop = pyg.APPNP(K=3, alpha=0.1)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, batch):
        self.given.append(set(batch.keys()))
        x = torch.cat([batch.x, batch.pos], 1)
        h = self.conv(x, batch.edge_index, batch.edge_attr).relu()
        return F.log_softmax(self.last(self.prop(h, batch.edge_index)), dim=1)


def convolutions(kind):
    return lambda: Convolutions(kind)


@cache
def graphs(seed=10):
    return (
        csbm(600, FEATURES, 4.0, homophily=0.8, signal=1.8, seed=seed),
        csbm(600, FEATURES, 4.0, homophily=0.2, signal=1.8, seed=1000 + seed),
    )


@cache
def graphs_with_fields(seed=10):
    """The same graphs with fields of nodes and of edges beside features; masks as in PyG."""
    return tuple(_with_fields(graph, torch.Generator().manual_seed(seed)) for graph in graphs(seed))


def _with_fields(graph, draw):
    nodes, edges = graph.num_nodes, graph.num_edges
    graph = graph.clone()
    graph.edge_attr = torch.randn(edges, EDGE_WIDTH, generator=draw)
    graph.edge_type = torch.randint(RELATIONS, (edges,), generator=draw)
    graph.pos = torch.randn(nodes, 2, generator=draw)
    graph.batch = torch.zeros(nodes, dtype=torch.long)
    for name in ("train_mask", "val_mask", "test_mask"):
        graph[name] = torch.rand(nodes, generator=draw) < 0.5
    return graph


def answer(net, graph):
    out = net(graph) if isinstance(net, GCN2Net) else net(graph.x, graph.edge_index)
    return out.log_softmax(1)


def trained(build, epochs=60):
    """A network trained on the homophilous graph, in the plain loop of PyG's examples."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net, (source, _) = build(), graphs()
        steps = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
        net.train()
        for _ in range(epochs):
            steps.zero_grad()
            F.nll_loss(answer(net, source), source.y).backward()
            steps.step()
    return net.eval()


def accuracy(probs, graph):
    return float((probs.argmax(1) == graph.y).float().mean())
