"""A model with the numbers of a GPRGNN that is not known to be a filter."""

import copy

import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import matcha_gnn as mg
from matcha_gnn.gamma.kernels.edge_weights import hop


class Unknown(mg.LinearBackbone):
    """A copy of a GPRGNN in evaluation mode, of which nothing is known but its layers."""

    def __init__(self, model):
        super().__init__()
        self.in_channels, self.num_hops = model.in_channels, model.num_hops
        for part in ("linear", "norm", "head", "gamma"):
            setattr(self, part, copy.deepcopy(getattr(model, part)))
        self.frozen()

    def stack(self, graph):
        hops = [self.norm(self.linear(self.accept(graph.x))).relu()]
        for _ in range(self.num_hops):
            hops.append(hop(graph, hops[-1]))
        return torch.stack(hops, 1)


class UnknownNet(torch.nn.Module):
    """The same as a network that somebody else wrote."""

    def __init__(self, model):
        super().__init__()
        self.linear, self.norm, self.head = model.linear, model.norm, model.head
        self.temp = torch.nn.Parameter(model.gamma.detach().clone())

    def forward(self, x, edge_index, edge_weight=None):
        edges, weight = gcn_norm(edge_index, edge_weight, len(x), dtype=x.dtype)
        hop = self.norm(self.linear(x)).relu()
        z = self.temp[0] * hop
        for c in self.temp[1:]:
            messages = weight[:, None] * hop[edges[0]]
            hop = torch.zeros_like(hop).index_add(0, edges[1], messages)
            z = z + c * hop
        return self.head(z)
