"""Adaptation over the ranks of a cluster, on PyTorch's own engine."""

from matcha_gnn.graphs.sharded.outputs import write_shards
from matcha_gnn.graphs.sharded.ranks import Ranks, joined
from matcha_gnn.graphs.sharded.result import PartAdaptation
from matcha_gnn.graphs.sharded.sharding import ShardedGraph, shard

__all__ = ["PartAdaptation", "Ranks", "ShardedGraph", "joined", "shard", "write_shards"]
