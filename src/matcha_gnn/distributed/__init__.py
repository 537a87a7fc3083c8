"""Adaptation over the ranks of a cluster, on PyTorch's own engine."""

from matcha_gnn.distributed.adaptation import adapt
from matcha_gnn.distributed.outputs import write_shards
from matcha_gnn.distributed.ranks import Ranks, joined
from matcha_gnn.distributed.result import PartAdaptation

__all__ = ["PartAdaptation", "Ranks", "adapt", "joined", "write_shards"]
