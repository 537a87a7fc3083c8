"""Backbones as another package would write them."""

import torch
from torch import nn

import matcha_gnn as mg


class Mean(mg.Backbone):
    """A node and γ times the sum of its neighbours: nothing is known but Z."""

    def __init__(self, in_channels=6, out_channels=3):
        super().__init__()
        self.in_channels = in_channels
        self.gamma = nn.Parameter(torch.tensor([0.5]))
        self.head = nn.Linear(in_channels, out_channels)

    def representation(self, graph, constants=None):
        x = self.accept(graph.x)
        return torch.tanh(x + self.gamma * (graph.adjacency @ x))


class TwoSteps(mg.LinearBackbone):
    """H_0 = X and H_1 = tanh(P X): hops that are no powers of P."""

    def __init__(self, in_channels=6, out_channels=3):
        super().__init__()
        self.in_channels, self.num_hops = in_channels, 1
        self.gamma = nn.Parameter(torch.tensor([0.5, 0.5]))
        self.head = nn.Linear(in_channels, out_channels)

    def stack(self, graph):
        x = self.accept(graph.x)
        return torch.stack([x, torch.tanh(graph.adjacency @ x)], 1)


class SGC(mg.FilterBackbone, mg.TrainableBackbone):
    """A linear encoder and free hop weights."""

    def __init__(self, in_channels, out_channels, hidden_channels=8, K=2):  # noqa: N803
        super().__init__()
        self.in_channels, self.num_hops = in_channels, K
        self.linear = nn.Linear(in_channels, hidden_channels)
        self.gamma = nn.Parameter(torch.full((K + 1,), 1 / (K + 1)))
        self.head = nn.Linear(hidden_channels, out_channels)

    def encode(self, x):
        return self.linear(x)

    def config(self):
        return {
            "in_channels": self.in_channels,
            "out_channels": self.head.out_features,
            "hidden_channels": self.head.in_features,
            "K": self.num_hops,
        }

    def reset_parameters(self):
        self.linear.reset_parameters()
        self.head.reset_parameters()
        with torch.no_grad():
            self.gamma.fill_(1 / len(self.gamma))


class HiddenNorm(SGC):
    """A batch norm inside the encoder that the class does not say anything of."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.inner = nn.BatchNorm1d(self.head.in_features)

    def encode(self, x):
        return self.inner(self.linear(x)).relu()
