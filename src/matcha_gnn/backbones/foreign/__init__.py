"""Networks that somebody else wrote and trained: where their hop weights are, and how to run them.

- `patches`  change a few attributes of a network for a while
- `sites`    the places that hold γ: numbers by path, and layers that can be reweighted
- `arguments`  which fields of a graph a network asks for
- `network_data`  the `Data` that a network is given
- `calling`  run a network on a graph, and see what enters its head
- `wrap`     a network with hop weights of its own as a backbone
- `added`    a network without any, with neutral ones put on its representation
"""

from matcha_gnn.backbones.foreign.added import AddedHops, add_hops
from matcha_gnn.backbones.foreign.sites import Found, find_gamma
from matcha_gnn.backbones.foreign.wrap import Wrapped, wrap

__all__ = ["AddedHops", "Found", "Wrapped", "add_hops", "find_gamma", "wrap"]
