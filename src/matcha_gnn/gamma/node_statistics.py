"""How a network's node-only features differ between source and target.

For networks with hop weights: what enters their first non-linearity is close to Gaussian, and an
offset of all features is an offset there.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.evidence.posterior import require_finite_logits
from matcha_gnn.evidence.shift_kinds import (
    FeatureSample,
    FeatureShift,
    FeatureStatistics,
    class_statistics,
    estimate_shift,
    misfit,
    stride,
)
from matcha_gnn.evidence.summarising import measured_on
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.gamma.models.base import Backbone
from matcha_gnn.graphs.memory import Graph

UNSEEN_SHARE = 1e-4
"""Share that is assumed for a class without a labelled node: zero has no logarithm."""


class NodeStatistics(NamedTuple):
    """What a source summary keeps of a network with hop weights, in `SourceSummary.own`.

    Attributes:
        logit_covariance: of the node-only logits H_0 Wᵀ within classes, [C, C].
        centroids: mean of `Backbone.node_features` per class, [C, D'].
        covariance: their covariance within classes, [D', D'].
        misfit: how badly Gaussians describe them, see `shift_kinds.misfit`, [3].
    """

    logit_covariance: Tensor
    centroids: Tensor
    covariance: Tensor
    misfit: Tensor

    @classmethod
    def of(cls, summary: SourceSummary | None, model: Backbone) -> "NodeStatistics":
        """Those that a summary has; IncompatibleError where there are none."""
        try:
            assert summary is not None
            return cls(*(summary.own[name] for name in cls._fields))
        except (AssertionError, KeyError) as error:
            raise IncompatibleError(
                f"{model.name} has no source summary with statistics of its node features: "
                "mg.summarise_source(model, source_graph) makes one"
            ) from error


@torch.no_grad()
def node_statistics(
    model: Backbone, graph: Graph, labels: Tensor, trained: Tensor, held_out: Tensor, classes: int
) -> NodeStatistics:
    """Measure a source graph; arguments as in `evidence.summary.summarise`."""
    features = model.node_features(graph)
    logits = model.node_logits(features)
    measured, enough = measured_on(labels, trained, held_out, classes)
    members = torch.nn.functional.one_hot(labels[measured], classes).double()
    counts = members.sum(0)
    centroids, covariance = class_statistics(features[measured], members)
    described = _with_unseen(FeatureStatistics(centroids, covariance, counts / counts.sum()))
    return NodeStatistics(
        logit_covariance=class_statistics(logits[measured], members)[1].float().cpu(),
        centroids=centroids.float().cpu(),
        covariance=covariance.float().cpu(),
        misfit=misfit(features[measured] if enough else features, described).float().cpu(),
    )


@torch.no_grad()
def feature_shift(model: Backbone, graph: Graph, classes: int) -> FeatureShift:
    """How the network's node features differ between source and target; no edge is looked at.

    Raises:
        IncompatibleError: there is no source summary, or one of other features or classes.
        NoEvidenceError: features are not finite.
    """
    statistics = NodeStatistics.of(model.source, model)
    assert model.source is not None
    model.source.require(graph.num_features, classes)
    sample = sample_node_features(model, graph)
    require_finite_logits(sample.points)
    gaussians = FeatureStatistics(
        statistics.centroids, statistics.covariance, model.source.class_prior
    )
    source = _with_unseen(gaussians).to(graph.device)
    return estimate_shift(sample, source, statistics.misfit)


def sample_node_features(model: Backbone, graph: Graph) -> FeatureSample:
    """Node-only features of every n-th of all nodes, [M, D] in float64, and the mean."""
    number, features = graph.num_nodes, model.node_features(graph)
    points = features[:: stride(number)].double().contiguous()
    return FeatureSample(points, features.sum(0, dtype=torch.float64) / number, number)


def _with_unseen(given: FeatureStatistics) -> FeatureStatistics:
    """Give classes without a labelled node a small share, and the mean as centroid."""
    unseen = given.shares == 0
    if not unseen.any():
        return given
    shares = given.shares.masked_fill(unseen, UNSEEN_SHARE)
    centroids = given.centroids.clone()
    centroids[unseen] = given.shares @ given.centroids
    return given._replace(centroids=centroids, shares=shares / shares.sum())
