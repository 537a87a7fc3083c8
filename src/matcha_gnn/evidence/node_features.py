"""A sample of a network's node-only features."""

import torch

from matcha_gnn.evidence.shift_kinds import FeatureSample, stride
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.graphs.memory import Graph


def sample_node_features(model: Backbone, graph: Graph) -> FeatureSample:
    """Node-only features of every n-th of all nodes, [M, D] in float64, and the mean."""
    number, features = graph.num_nodes, model.node_features(graph)
    points = features[:: stride(number)].double().contiguous()
    return FeatureSample(points, features.sum(0, dtype=torch.float64) / number, number)
