"""Networks that somebody else wrote and trained, with γ.

- `sites`  the places that hold γ: numbers by path, and layers that can be reweighted
- `heads`  the layer that classifies, and what enters it
- `wrap`   a network with hop weights of its own
- `added`  a network without any, with neutral ones put on its representation
"""

from matcha_gnn.gamma.networks.added import AddedHops, add_hops, as_backbone
from matcha_gnn.gamma.networks.sites import Found, find_gamma
from matcha_gnn.gamma.networks.wrap import Wrapped, wrap

__all__ = ["AddedHops", "Found", "Wrapped", "add_hops", "as_backbone", "find_gamma", "wrap"]
