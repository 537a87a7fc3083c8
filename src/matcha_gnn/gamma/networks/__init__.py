"""Networks that somebody else wrote and trained: where their hop weights are, and how to run them.

- `patches`  change a few attributes of a network for a while
- `sites`    the places that hold γ: numbers by path, and layers that can be reweighted
- `arguments`  which fields of a graph a network asks for
- `network_data`  the `Data` that a network is given
- `outputs`  what a network returns, read as logits
- `batches`  run a network through a loader of its own
- `calling`  run a network on a graph, and see what enters its head
- `wrap`     a network with hop weights of its own as a backbone
- `added`    a network without any, with neutral ones put on its representation
- `network`  a plain network as `adapt` takes it: both of these
"""

from matcha_gnn.gamma.networks.added import AddedHops, add_hops
from matcha_gnn.gamma.networks.network import Network, as_backbone
from matcha_gnn.gamma.networks.sites import Found, find_gamma
from matcha_gnn.gamma.networks.wrap import Wrapped, wrap
from matcha_gnn.network.batches import Loader

__all__ = [
    "AddedHops",
    "Found",
    "Loader",
    "Network",
    "Wrapped",
    "add_hops",
    "as_backbone",
    "find_gamma",
    "wrap",
]
