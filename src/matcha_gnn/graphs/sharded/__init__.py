"""Adaptation over the ranks of a cluster, with torch.distributed."""

from matcha_gnn.graphs.sharded.outputs import write_shards
from matcha_gnn.graphs.sharded.ranks import Ranks, joined
from matcha_gnn.graphs.sharded.result import ShardAdaptation
from matcha_gnn.graphs.sharded.sharding import ShardedGraph, shard

__all__ = ["Ranks", "ShardAdaptation", "ShardedGraph", "joined", "shard", "write_shards"]
