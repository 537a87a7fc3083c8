"""How a target graph differs from the source, as one card; labels are not read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from matcha_gnn.evidence.goals import class_title
from matcha_gnn.evidence.shift_kinds import ShiftKind
from matcha_gnn.evidence.summary import CONFIDENCE_BINS, SourceSummary
from matcha_gnn.metrics import average_degree, edge_homophily
from matcha_gnn.typing import Parameters

if TYPE_CHECKING:
    from matcha_gnn.result import Result

ADAPT, LEAVE, CHECK_FEATURES = "adapt", "leave it", "check the features"
MOST_CLASSES = 5
FEATURES = {
    ShiftKind.SAME: "as on the source",
    ShiftKind.SHARES: "other class shares",
    ShiftKind.OFFSET: "offset",
    ShiftKind.BOTH: "offset, other class shares",
}


class Row(NamedTuple):
    """One quantity of both graphs, as text."""

    name: str
    source: str
    target: str


@dataclass(frozen=True, eq=False, repr=False)
class ShiftCard:
    """The source graph and the target. Pairs are (source, target); the target's are estimates.

    Attributes:
        degree: average incoming degree.
        isolated: share of nodes without an incoming edge.
        homophily: share of edges inside a class.
        class_shares: [C] each.
        confidence: mean largest probability of the network.
        features: how the probe's logits differ from the source's; None where nothing is known.
        errors: of estimates, on parts of the source that were left out whole and on the target, as
            shares; None where nothing is known.
        advice: "adapt", "leave it", or "check the features" where they cannot be the source's.
        reason: what was done and why, in a few sentences.
        classes: names of the classes, [C], or empty.
    """

    degree: tuple[float, float]
    isolated: tuple[float, float]
    homophily: tuple[float, float]
    class_shares: tuple[Tensor, Tensor]
    confidence: tuple[float, float]
    features: ShiftKind | None
    errors: tuple[float, float] | None
    advice: str
    reason: str
    classes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """One row a quantity; of the classes those whose shares differ most."""
        rows = [
            Row("average degree", *(f"{value:,.2f}" for value in self.degree)),
            Row("nodes without an incoming edge", *map(_percent, self.isolated)),
            Row("edges inside a class", *map(_percent, self.homophily)),
            Row("mean confidence", *map(_percent, self.confidence)),
        ]
        if self.features is not None:
            rows.append(Row("features of a node", "", FEATURES[self.features]))
        if self.errors is not None:
            off = (f"± {100 * error:.1f}" for error in self.errors)
            rows.append(Row("error of estimates, in points", *off))
        return rows + _class_rows(*self.class_shares, self.classes)

    def __repr__(self) -> str:
        """A small table, and the advice."""
        rows = [Row("", "source", "target"), *self.rows]
        first, second = (max(len(row[place]) for row in rows) for place in (0, 1))
        lines = [f"{name:<{first}}  {source:>{second}}  {target}" for name, source, target in rows]
        return "\n".join([*lines, f"advice: {self.advice}", self.reason])

    def to_dict(self) -> Parameters:
        """JSON values."""
        pairs = ("degree", "isolated", "homophily", "confidence")
        return {
            **{name: list(getattr(self, name)) for name in pairs},
            "class_shares": [shares.tolist() for shares in self.class_shares],
            "features": None if self.features is None else str(self.features),
            "errors": self.errors and list(self.errors),
            "advice": self.advice,
            "reason": self.reason,
        }


def shift_card(result: "Result", source: SourceSummary) -> ShiftCard:
    """The card of a result.

    The target has no labels: its homophily and class shares are those of the posterior, or of the
    network's answer where there is none that is believed.
    """
    graph, posterior = result.graph, result.believed
    degree = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
    inside = edge_homophily(graph.edge_index, result.labels_before)
    shares = result.probs_before.double().mean(0)
    if posterior is not None:
        inside, shares = posterior.homophily, posterior.probs.double().mean(0)
    advice = ADAPT if result.adapted else LEAVE
    return ShiftCard(
        degree=(float(source.mean_degree), average_degree(graph.edge_index, graph.num_nodes)),
        isolated=(float(source.degree_histogram[0]), float((degree == 0).double().mean())),
        homophily=(source.edge_homophily, inside),
        class_shares=(source.class_prior.double().cpu(), shares.cpu()),
        confidence=(
            _mean_confidence(source.confidence_histogram),
            float(result.probs_before.amax(1).double().mean()),
        ),
        features=None if posterior is None else posterior.gathered.shift.kind,
        errors=None if posterior is None else (posterior.trust.parts, posterior.trust.error),
        advice=CHECK_FEATURES if result.broken else advice,
        reason=result.summary(),
        classes=result.class_names,
    )


def _mean_confidence(histogram: Tensor) -> float:
    """The mean of a histogram, from the middles of the bins."""
    middles = (torch.arange(CONFIDENCE_BINS) + 0.5) / CONFIDENCE_BINS
    return float((histogram.cpu() * middles).sum())


def _class_rows(before: Tensor, after: Tensor, names: Sequence[str]) -> list[Row]:
    """The classes whose shares differ most, at most `MOST_CLASSES` of them."""
    chosen = (before - after).abs().argsort(descending=True, stable=True)[:MOST_CLASSES]
    return [
        Row(
            f"share of {class_title(names, c)}",
            _percent(float(before[c])),
            _percent(float(after[c])),
        )
        for c in sorted(chosen.tolist())
    ]


def _percent(value: float) -> str:
    return f"{value:.1%}"
