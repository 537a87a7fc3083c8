"""The shift card: the source graph, by its summary in the model file, and the target."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from matcha_gnn.class_names import class_title
from matcha_gnn.evidence.shift_kinds import ShiftKind
from matcha_gnn.evidence.summary import CONFIDENCE_BINS
from matcha_gnn.graphs.memory import whole_in_memory
from matcha_gnn.metrics import average_degree, edge_homophily
from matcha_gnn.report.template import number, percent
from matcha_gnn.result import Adaptation

MAX_CLASSES = 5
SHIFTS = {
    ShiftKind.SAME: "as on the source",
    ShiftKind.SHARES: "other class shares",
    ShiftKind.OFFSET: "offset",
    ShiftKind.BOTH: "offset, other class shares",
}


class Quantity(NamedTuple):
    """One quantity of both graphs, as text."""

    name: str
    source: str
    target: str


def shift_card(result: Adaptation) -> list[Quantity]:
    """Statistics of both graphs; empty where the model has no source summary.

    The target has no labels: its homophily and class shares are those of the posterior, or of the
    predictions before adaptation where there is none.
    """
    source = result.model.source
    posterior = result.decision.believed if result.decision else None
    if source is None:
        return []
    graph = whole_in_memory(result.graph, "the report")
    degree = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
    mean_degree = average_degree(graph.edge_index, graph.num_nodes)
    inside = edge_homophily(graph.edge_index, result.labels_before)
    shares = result.probs_before.double().mean(0)
    if posterior is not None:
        inside, shares = posterior.homophily, posterior.probs.double().mean(0)
    rows = [
        Quantity("average degree", number(float(source.mean_degree), 2), number(mean_degree, 2)),
        Quantity(
            "nodes without an incoming edge",
            percent(float(source.degree_histogram[0]), 1),
            percent(float((degree == 0).double().mean()), 1),
        ),
        Quantity("edges inside a class", percent(source.edge_homophily, 1), percent(inside, 1)),
        Quantity(
            "mean confidence",
            percent(_mean_confidence(source.confidence_histogram), 1),
            percent(float(result.probs_before.amax(1).double().mean()), 1),
        ),
    ]
    if posterior is not None:
        rows.append(Quantity("node-only features", "", SHIFTS[posterior.shift.kind]))
        off = [
            f"± {100 * error:.1f} points"
            for error in (posterior.trust.parts, posterior.trust.error)
        ]
        rows.append(Quantity("error of estimates, on its parts and here", *off))
    return rows + _class_shares(source.class_prior, shares, result.class_names)


def _mean_confidence(histogram: Tensor) -> float:
    """The mean of a histogram, from the middles of the bins."""
    middles = (torch.arange(CONFIDENCE_BINS) + 0.5) / CONFIDENCE_BINS
    return float((histogram.cpu() * middles).sum())


def _class_shares(prior: Tensor, shares: Tensor, names: Sequence[str]) -> list[Quantity]:
    """The classes whose shares differ most, at most `MAX_CLASSES` of them."""
    before, after = prior.double().cpu(), shares.cpu()
    chosen = (before - after).abs().argsort(descending=True, stable=True)[:MAX_CLASSES]
    return [
        Quantity(
            f"share of {class_title(names, c)}",
            percent(float(before[c]), 1),
            percent(float(after[c]), 1),
        )
        for c in sorted(chosen.tolist())
    ]
