"""What γ minimises."""

from matcha_gnn.gamma.losses.base import Loss as Loss
from matcha_gnn.gamma.losses.clusters import PIC as PIC
from matcha_gnn.gamma.losses.clusters import ClusterLoss as ClusterLoss
from matcha_gnn.gamma.losses.clusters import Difference as Difference
from matcha_gnn.gamma.losses.logits import Entropy as Entropy
from matcha_gnn.gamma.losses.logits import LogitLoss as LogitLoss
from matcha_gnn.gamma.losses.logits import PseudoLabel as PseudoLabel
from matcha_gnn.gamma.losses.sure import SURE as SURE
from matcha_gnn.registry import registered

LOSSES: dict[str, type[Loss]] = registered(vars(), Loss)
