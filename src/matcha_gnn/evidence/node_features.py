"""A sample of a network's node-only features, block by block."""

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.evidence.shift_kinds import FeatureSample, stride
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.graphs.base import BaseGraph


def sample_node_features(model: Backbone, graph: BaseGraph) -> FeatureSample:
    """Node-only features of every n-th of all nodes, [M, D] in float64, and the mean."""
    shard = graph.shard
    number = shard.count(graph.num_nodes)
    every, sums, filled = stride(number), np.zeros(()), 0
    points: Tensor | None = None
    for rows, block in graph.blocks():
        u = model.node_features(block)
        if points is None:
            # One buffer for all: many small ones would keep freed memory from the system.
            most = -(-graph.num_nodes // every) + 1
            points = u.new_empty(most, u.shape[1], dtype=torch.float64)
        some = u[-(shard.start + rows.start) % every :: every]
        points[filled : filled + len(some)] = some
        filled += len(some)
        sums = sums + u.sum(0, dtype=torch.float64).cpu().numpy()
    assert points is not None
    (total,) = shard.total(sums)
    sample = shard.gather(points[:filled])
    return FeatureSample(sample, torch.from_numpy(total).to(sample) / number, number)
