"""What γ minimises: one file per loss."""

from matcha_gnn.gamma.losses.base import ClusterLoss as ClusterLoss
from matcha_gnn.gamma.losses.base import LogitLoss as LogitLoss
from matcha_gnn.gamma.losses.base import Loss as Loss
from matcha_gnn.gamma.losses.difference import Difference as Difference
from matcha_gnn.gamma.losses.entropy import Entropy as Entropy
from matcha_gnn.gamma.losses.pic import PIC as PIC
from matcha_gnn.gamma.losses.pseudo_label import PseudoLabel as PseudoLabel
from matcha_gnn.gamma.losses.sure import SURE as SURE
from matcha_gnn.registry import registered

LOSSES: dict[str, type[Loss]] = registered(vars(), Loss)
