"""What γ minimises: one file per loss."""

from matcha_gnn.losses.base import ClusterLoss, LogitLoss, Loss
from matcha_gnn.losses.difference import Difference
from matcha_gnn.losses.entropy import Entropy
from matcha_gnn.losses.pic import PIC
from matcha_gnn.losses.pseudo_label import PseudoLabel
from matcha_gnn.losses.sure import SURE, SteinForms, stein_forms

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (PIC, Entropy, PseudoLabel, Difference, SURE)
}

__all__ = [
    "LOSSES",
    "PIC",
    "SURE",
    "ClusterLoss",
    "Difference",
    "Entropy",
    "LogitLoss",
    "Loss",
    "PseudoLabel",
    "SteinForms",
    "stein_forms",
]
