"""Evidence from the network and the target alone, where nothing is known of the source."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.errors import NoEvidenceError
from matcha_gnn.evidence.features import profile
from matcha_gnn.evidence.gathering import gather
from matcha_gnn.evidence.measuring import Known, measure_probe, with_parts
from matcha_gnn.evidence.summarising import summarise
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.evidence.weighing import EvidenceWeights
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.typing import Probs

FEWEST_NODES = 100
"""Nodes that the network must give each class: with fewer the probe learns its errors by heart."""
LEAST_DISTANCE = 0.8
"""Gaussian classes that are fitted without labels must be apart so far, in units of the distance by
the network's labels: otherwise features do not show these classes."""


class StandIn(NamedTuple):
    """A summary of a target by the network's own labels.

    Attributes:
        summary: in place of the source's.
        logits: of the target's nodes by a probe of features, each by fits without the node, [N, C].
    """

    summary: SourceSummary
    logits: Tensor


@torch.no_grad()
def stand_in_summary(graph: Graph, network: Probs) -> StandIn:
    """Let the network's labels of a target stand in for labels of the source.

    A probe of features is fitted to the network's labels. Where the network errs because edges
    changed, its errors do not depend on a node's own features, and the probe averages them out.
    That fails where errors do depend on features that neighbours share. So linked nodes must not
    share more than their classes, by what the probe's logits show.

    Args:
        graph: the target; its labels are not read.
        network: the network's class probabilities there, [N, C].

    Raises:
        NoEvidenceError: there are too few nodes, linked nodes share more than their classes, or
            features do not show the network's classes.
    """
    classes = network.shape[1]
    labels = network.argmax(1)
    counts = torch.bincount(labels, minlength=classes)
    if int(counts.min()) < FEWEST_NODES:
        raise NoEvidenceError(
            f"the network gives class {int(counts.argmin())} to {int(counts.min())} nodes of this "
            f"graph, and without a source summary at least {FEWEST_NODES} are needed"
        )
    everywhere = torch.ones_like(labels, dtype=torch.bool)
    known = Known(labels, everywhere, ~everywhere)
    evidence, fit = measure_probe(graph, known, classes)
    logits = fit.logits.to(graph.device)
    shared = float(evidence.residual_correlation)
    if shared > 0:
        raise NoEvidenceError(
            "linked nodes of this graph share more than their classes (correlation "
            f"{shared:.2f}), so that a source summary is needed"
        )
    if float(evidence.class_distance) < LEAST_DISTANCE:
        raise NoEvidenceError(
            "features of this graph do not show the classes that the network gives its nodes, so "
            "that a source summary is needed"
        )
    evidence = replace(
        evidence,
        weights=torch.tensor(EvidenceWeights(degree=0.0)),
        # Class-to-class shares by the network's labels are what may be wrong.
        misfit_of_edges=torch.tensor(0.0),
        stand_in=torch.tensor(True),
    )
    evidence = with_parts(evidence, graph, known, fit, gather(evidence, logits, graph))
    features = profile(graph, labels, everywhere)
    measured = (evidence.to(torch.device("cpu")), features)
    summary = summarise(network, labels, everywhere, ~everywhere, graph.edge_index, *measured)
    return StandIn(summary, logits)
