"""How an adaptation ended."""

import enum
import math

import numpy as np
import torch

from matcha_gnn.alarms import emptied, jumped
from matcha_gnn.gamma.functional import entropy
from matcha_gnn.gamma.methods import Prediction
from matcha_gnn.gamma.trace import Trace
from matcha_gnn.typing import FloatArray, Probs

CONVERGED_WITHIN = 1e-4
"""A last step that moves the loss by less than this counts as converged."""
UNINFORMATIVE_FROM = 0.99
"""Mean entropy of the first prediction, as a share of its maximum, from which it says nothing."""


class Status(enum.StrEnum):
    """How an adaptation ended."""

    UNADAPTED = "unadapted"
    CONVERGED = "converged"
    STOPPED = "stopped"
    COLLAPSED_CLASS = "collapsed class"
    SHARES_JUMPED = "class shares jumped"
    UNINFORMATIVE = "uninformative predictions"
    NON_FINITE = "non-finite"
    LOSS_ROSE = "loss rose"

    @property
    def meaning(self) -> str:
        """What it means, for a reader."""
        return {
            Status.UNADAPTED: "Not adapted: this is the source model's prediction.",
            Status.CONVERGED: "The loss had stopped moving at the last round.",
            Status.STOPPED: "All rounds were run; the loss was still moving.",
            Status.COLLAPSED_CLASS: (
                "A class that some nodes had before adaptation is given to no node any more."
            ),
            Status.SHARES_JUMPED: (
                "Adaptation moved many nodes from one class to another; use the predictions only "
                "where such a change of class shares is known to be true."
            ),
            Status.UNINFORMATIVE: (
                "The source model's predictions were close to uniform, so the loss had little "
                "to go by."
            ),
            Status.NON_FINITE: (
                "A loss or gradient was not finite; the γ of the last finite round is returned."
            ),
            Status.LOSS_ROSE: (
                "The loss ended higher than it began: predictions changed faster than γ followed. "
                "Fewer rounds or a smaller step size may help."
            ),
        }[self]


DOUBTFUL = (Status.UNINFORMATIVE, Status.NON_FINITE, Status.LOSS_ROSE)
"""Statuses that are warnings by themselves."""
NOT_CHECKED = "Not checked: this strategy does not compare its result with the source model."


def outcome(trace: Trace, first: Prediction, last: Prediction, finite: bool) -> Status:
    """Name how a run ended, the most serious finding first."""
    if not finite:
        return Status.NON_FINITE
    num_nodes, num_classes = first.probs.shape
    doubt = float(entropy(first.probs).sum(dtype=torch.float64))
    had, has = class_counts_of(first.probs), class_counts_of(last.probs)
    if doubt / num_nodes > UNINFORMATIVE_FROM * math.log(num_classes):
        return Status.UNINFORMATIVE
    if emptied(had, has):
        return Status.COLLAPSED_CLASS
    if jumped(had, has):
        return Status.SHARES_JUMPED
    if trace.loss[-1] > trace.loss[0]:
        return Status.LOSS_ROSE
    moved = abs(trace.loss[-1] - trace.loss[-2])
    return Status.CONVERGED if moved < CONVERGED_WITHIN else Status.STOPPED


def class_counts_of(probs: Probs) -> FloatArray:
    """How many nodes are given each class, [C]."""
    counts = torch.bincount(probs.argmax(1), minlength=probs.shape[1])
    return np.asarray(counts.double().cpu())
