"""How far an estimate may be off on a target because the model of the evidence is wrong there.

Sampling noise is not what estimates on a new population miss by. Numbers that need no label of the
target say more:

- *parts*: by how much estimates missed on parts of the source that were left out whole
  (`evidence.parts`), and *bias*, by how much they were too high there;
- *mix*: how far the mean probabilities on the target are from the class shares of the source;
- *surplus*: by how much the estimate is above all that was true on any part of the source.

Of any group of nodes the share of true labels may be lower than estimated by

    error = PARTS_FACTOR · parts + BEYOND_FACTOR · (max(0, mix − FREE) + max(0, surplus − FREE)),

and a gain by the error times the share of nodes whose label changes. Where probe and belief
contradict each other on the nodes of which the probe is surest, more than on the source, none of
them is believed: what edges follow is then another partition than the classes.

The constants were fitted on natural families of graphs, each judged without itself
(`matcha_paper.studies.natural`, docs/trust.md).
"""

import math
from dataclasses import dataclass

from torch import Tensor

from matcha_gnn.evidence.gathering import Gathered
from matcha_gnn.evidence.parts import BELIEF, THIRDS
from matcha_gnn.evidence.summary import SourceEvidence
from matcha_gnn.typing import Probs

PARTS_FACTOR = 2.0
"""A target is farther from the source than its parts are from each other, by this factor."""
BEYOND_FACTOR, FREE = 0.5, 0.1
"""How much of class mix and surplus counts, beyond what chance and small changes make."""
UPWARD = 0.5
"""Estimates are too high where they are wrong: an accuracy is above by this share of the error."""
CONTRADICTION, SUREST = 0.15, 0.3
"""More contradiction than on the source by which nothing is believed; share of the nodes, those of
which the probe is surest, on which it is counted."""
FEW_LABELS = 300
"""Labelled nodes of a source below which a reader is told so."""
MOST_ERROR = 0.5
"""Error from which nothing can be told."""


@dataclass(frozen=True)
class Trust:
    """What an estimate may be off by.

    Attributes:
        parts: root mean square error of estimates on parts of the source left out whole, with the
            chance of so few nodes; 1 where there are too few for a part.
        bias: by how much estimates were too high there on average; never below 0.
        mix: total variation distance between the mean probabilities and the source's class shares.
        surplus: estimated accuracy less the largest true one on any part.
        contradiction: among nodes of which the probe is surest, the share that belief names
            otherwise, less the same on the source.
        labelled: nodes of the source whose class is known.
    """

    parts: float
    bias: float
    mix: float
    surplus: float
    contradiction: float
    labelled: int

    @property
    def error(self) -> float:
        """By how much a share of true labels may be lower than estimated."""
        beyond = max(0.0, self.mix - FREE) + max(0.0, self.surplus - FREE)
        return min(1.0, PARTS_FACTOR * self.parts + BEYOND_FACTOR * beyond)

    @property
    def obstacle(self) -> str:
        """Why nothing can be told, or empty."""
        if self.contradiction > CONTRADICTION:
            return (
                "cannot tell: features and edges contradict each other on "
                f"{self.contradiction:.0%} more of the surest nodes than on the source"
            )
        if self.parts >= 1:
            return "cannot tell: the source has too few labelled nodes to learn by how much it errs"
        if self.error < MOST_ERROR:
            return ""
        parts, most = PARTS_FACTOR * self.parts, max(self.mix, self.surplus)
        if parts < BEYOND_FACTOR * (most - FREE) and most == self.mix:
            return f"cannot tell: {self.mix:.0%} of nodes would have changed class since the source"
        if parts < BEYOND_FACTOR * (most - FREE):
            return (
                f"cannot tell: the estimate is {100 * self.surplus:.0f} points above all that was "
                "right on any part of the source"
            )
        return (
            "cannot tell: estimates miss by "
            f"{100 * self.parts:.0f} points on parts of the source itself"
        )

    @property
    def assumption(self) -> str:
        """What an estimate assumes, and what makes it less sure, for a reader.

        Example:
            >>> Trust(0.07, 0.0, 0.05, 0.0, 0.0, 190).assumption
            'Assumes that features mean here what they meant on the source, parts of which were \
misjudged by ± 7 points; the source has only 190 labelled nodes.'
        """
        said = (
            "Assumes that features mean here what they meant on the source, parts of which were "
            f"misjudged by ± {100 * self.parts:.0f} points"
        )
        if self.mix > FREE:
            said += f"; the mix of classes seems {100 * self.mix:.0f} points off the source's"
        if self.surplus > FREE:
            above = f"{100 * self.surplus:.0f} points"
            said += f"; as it is {above} above what was right on any part of the source, doubt it"
        if self.labelled < FEW_LABELS:
            said += f"; the source has only {self.labelled} labelled nodes"
        return f"{said}."


def trust_in(source: SourceEvidence, gathered: Gathered, probs: Probs) -> Trust:
    """Compare a target with the source; labels are not read.

    Args:
        source: what was measured on the source.
        gathered: evidence of the target's nodes and edges.
        probs: of the true classes by features, edges and network, [N, C].
    """
    likely = probs.double()
    sure = float(likely.amax(1).mean())
    return trust_of(source, likely.mean(0), sure, contradiction(gathered, source))


def trust_of(source: SourceEvidence, mean: Tensor, sure: float, contradicted: float) -> Trust:
    """The same from sums over nodes.

    Args:
        source: what was measured on the source.
        mean: of the probabilities of the true classes, [C].
        sure: mean of the largest one of each node.
        contradicted: see `contradiction`, on the target.
    """
    missed = source.parts[..., 0] - source.parts[..., 1]
    few = len(missed) == 0
    return Trust(
        parts=parts_error(source),
        bias=0.0 if few else max(0.0, float(missed[:, BELIEF].mean())),
        mix=mix_distance(mean, source.shares),
        surplus=0.0 if few else sure - float(source.parts[..., 1].max()),
        contradiction=contradicted - float(source.contradiction),
        labelled=round(THIRDS * float(source.part_nodes)),
    )


def parts_error(source: SourceEvidence) -> float:
    """By how much estimates miss on parts of the source, the larger of probe and belief.

    A part of n nodes shows an error with the variance p (1 − p) / n by chance; 1 / 4 n is added, so
    that few nodes never look safe.
    """
    if len(source.parts) == 0:
        return 1.0
    missed = (source.parts[..., 0] - source.parts[..., 1]).double()
    largest = float(missed.square().mean(0).max())
    return min(1.0, math.sqrt(largest + 1 / (4 * float(source.part_nodes))))


def mix_distance(mean: Tensor, shares: Tensor) -> float:
    """Total variation distance of two class mixes, [C] each.

    Example:
        >>> import torch
        >>> mix_distance(torch.tensor([0.75, 0.25]), torch.tensor([0.5, 0.5]))
        0.25
    """
    return 0.5 * float((mean - shares.to(mean)).abs().sum())


def contradiction(gathered: Gathered, source: SourceEvidence, nodes: Tensor | None = None) -> float:
    """Among the nodes of which the probe is surest, the share that belief names otherwise.

    Args:
        gathered: evidence of nodes and edges.
        source: how both are weighed.
        nodes: of which to look at, bool [N]; all by default.
    """
    probe, belief = gathered.node, gathered.weighted(source)
    if nodes is not None:
        probe, belief = probe[nodes], belief[nodes]
    if len(probe) == 0:
        return 0.0
    sure, label = probe.max(1)
    differs = (label != belief.argmax(1)).double()
    number = max(1, round(SUREST * len(sure)))
    least = sure.topk(number).values[-1]
    above, tied = sure > least, sure == least
    # Nodes that are as sure as the last one share its places, so that their order does not matter.
    places = number - float(above.sum())
    return float((differs[above].sum() + places * differs[tied].mean()) / number)
