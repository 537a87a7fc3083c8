"""Step 7: the one object that adaptation returns."""

import enum
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.alarms import Severity, class_alarms, emptied, jumped
from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import MatchaError, optional_imports
from matcha_gnn.evidence import Posterior
from matcha_gnn.functional import entropy
from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.methods import BaseMethod, Prediction
from matcha_gnn.typing import FloatArray, Parameters, Probs

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from matcha_gnn.strategies.base import Strategy

CONVERGED_WITHIN = 1e-4
"""A last step that moves the loss by less than this counts as converged."""
UNINFORMATIVE_FROM = 0.99
"""Mean entropy of the first prediction, as a share of its maximum, from which it says nothing."""


class Status(enum.StrEnum):
    """How an adaptation ended."""

    ADAPTED = "adapted"
    KEPT_SOURCE = "kept source"
    UNADAPTED = "unadapted"
    FITTED = "fitted"
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
            Status.ADAPTED: "The adapted model is expected to be better than the source model.",
            Status.KEPT_SOURCE: "Nothing that was tried is expected to beat the source model.",
            Status.UNADAPTED: "Not adapted: this is the source model's prediction.",
            Status.FITTED: "The hop weights are those that fit the estimated classes best.",
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


@dataclass(frozen=True)
class Candidate:
    """A model that was tried.

    Attributes:
        name: "source", or how it was made.
        expected_accuracy: share of its labels that are expected to be true.
        expected_gain: by how much that is more than the source's.
        gain_lower_bound: lower bound of the gain, over all estimates that fit the edges as well.
        changed: share of labels that differ from the source's: accuracy cannot differ by more.
    """

    name: str
    expected_accuracy: float
    expected_gain: float
    gain_lower_bound: float
    changed: float


@dataclass(frozen=True, eq=False)
class Decision:
    """Which candidate was taken, and why.

    Attributes:
        chosen: its name.
        candidates: all that were tried, the source first; empty without an estimate.
        posterior: the estimate that scored them; None where there is none.
        obstacle: why accuracy could not be estimated, or empty.
        threshold: what the lower bound of a gain had to reach; None without an estimate.
        moved_back: all nodes were moved back by the offset of their features.
    """

    chosen: str
    candidates: tuple[Candidate, ...]
    posterior: Posterior | None
    obstacle: str = ""
    threshold: float | None = None
    moved_back: bool = False

    @property
    def adapted(self) -> bool:
        """Whether another model than the source's was taken."""
        return self.chosen != "source"

    def summary(self) -> str:
        """What was done and why, in one line."""
        if self.obstacle:
            return f"Kept the source model: {self.obstacle}."
        source = self.candidates[0]
        if self.adapted:
            chosen = next(c for c in self.candidates if c.name == self.chosen)
            return (
                f"Adapted ({self.chosen}). Estimated accuracy: "
                f"{estimate(source.expected_accuracy)} → {estimate(chosen.expected_accuracy)}. "
                f"{chosen.changed:.1%} of labels changed: accuracy cannot move by more."
            )
        best = max(self.candidates[1:], key=lambda c: c.gain_lower_bound, default=source)
        if not math.isfinite(source.expected_accuracy + best.expected_gain + best.gain_lower_bound):
            return f"Kept the source model: its accuracy {UNKNOWN}."
        threshold = 100 * (self.threshold or 0)
        return (
            f"Kept the source model: estimated accuracy {source.expected_accuracy:.1%}; best "
            f"candidate ({best.name}): expected gain {100 * best.expected_gain:+z.1f} points, "
            f"lower bound {_below(100 * best.gain_lower_bound, threshold)}, below the threshold of "
            f"{threshold:g}."
        )


UNKNOWN = "cannot be estimated"


def estimate(value: float) -> str:
    """An estimated share in percent, or that there is none.

    Example:
        >>> estimate(0.869), estimate(math.nan)
        ('86.9%', 'cannot be estimated')
    """
    return f"{value:.1%}" if math.isfinite(value) else UNKNOWN


def _below(points: float, threshold: float) -> str:
    """Points with as many decimals as show that they are below a threshold.

    Example:
        >>> _below(0.52, 2), _below(1.97, 2)
        ('+0.5', '+1.97')
    """
    short = f"{points:+z.1f}"
    return short if float(short) < threshold else f"{points:+.3g}"


@dataclass
class Trace:
    """What each round saw before its step; the last entry is after the last step.

    A strategy that minimises a loss records the loss, one that estimates accuracy the estimate: for
    the source model first, then for the model that was taken.

    Attributes:
        loss: one number per entry, or empty.
        expected_accuracy: one number per entry, or empty.
        gamma: γ, [K+1] each.
        class_shares: the mean prediction, [C] each.
    """

    loss: list[float] = field(default_factory=list)
    expected_accuracy: list[float] = field(default_factory=list)
    gamma: list[Tensor] = field(default_factory=list)
    class_shares: list[FloatArray] = field(default_factory=list)

    def add(self, loss: float, gamma: Tensor, class_shares: FloatArray) -> None:
        """Record one round of a loss."""
        self.loss.append(loss)
        self._add(gamma, class_shares)

    def add_estimate(self, expected: float, gamma: Tensor, class_shares: FloatArray) -> None:
        """Record a model and its expected accuracy."""
        self.expected_accuracy.append(expected)
        self._add(gamma, class_shares)

    def _add(self, gamma: Tensor, class_shares: FloatArray) -> None:
        self.gamma.append(gamma.detach().clone())
        self.class_shares.append(class_shares)

    def __len__(self) -> int:
        """Entries."""
        return len(self.gamma)

    def row(self, number: int) -> dict[str, float]:
        """One entry by flat names."""
        named = {"loss": self.loss, "expected_accuracy": self.expected_accuracy}
        gamma, shares = self.gamma[number], self.class_shares[number]
        return (
            {name: values[number] for name, values in named.items() if values}
            | {f"gamma_{k}": g for k, g in enumerate(gamma.tolist())}
            | {f"share_{c}": s for c, s in enumerate(shares.tolist())}
        )

    def rows(self) -> list[dict[str, float]]:
        """One flat row per entry, for CSV files and data frames."""
        return [{"round": t} | self.row(t) for t in range(len(self))]

    def frame(self) -> "DataFrame":
        """The rows as a pandas DataFrame, one line per entry.

        Raises:
            MatchaError: pandas is not installed.
        """
        with optional_imports("frame"):
            from pandas import DataFrame
        return DataFrame(self.rows() or {"round": [], "loss": []}).set_index("round")


@dataclass(frozen=True, eq=False, repr=False)
class Adaptation:
    """Predictions on the target graph, and how they came about.

    Attributes:
        probs: adapted class probabilities, [N, C].
        probs_before: the base method's prediction at the source γ, [N, C].
        model: an adapted copy of the model; the caller's is untouched.
        gamma: adapted hop-aggregation parameters.
        gamma_before: the source's.
        pic_before: the PIC loss at the source γ, whatever the loss was.
        pic_after: the PIC loss at the adapted γ.
        trace: loss or expected accuracy, γ and class shares per round.
        status: how it ended.
        seconds: wall-clock time by stage: inference and setup once; forward, loss, backward
            and update over all rounds.
        method: the base method.
        strategy: what sought a better model.
        seed: for base methods that draw at random.
        graph: the target graph without labels; the caller's tensors, not copies.
        decision: what was tried and taken; None where the strategy makes no choice.
    """

    probs: Probs
    probs_before: Probs
    model: Backbone
    gamma: Tensor
    gamma_before: Tensor
    pic_before: float
    pic_after: float
    trace: Trace
    status: Status
    seconds: dict[str, float]
    method: BaseMethod
    strategy: "Strategy"
    seed: int
    graph: BaseGraph
    decision: Decision | None = None

    @property
    def labels(self) -> Tensor:
        """The most probable class of each node, [N]."""
        return self.probs.argmax(1)

    @property
    def labels_before(self) -> Tensor:
        """The same before adaptation, [N]."""
        return self.probs_before.argmax(1)

    @property
    def rounds(self) -> int:
        """Steps that γ took down a loss."""
        return max(0, len(self.trace.loss) - 1)

    @property
    def moves(self) -> str:
        """Which parameters took the steps: "gamma", "theta", the encoder, or "both"."""
        return str(self.strategy.parameters().get("moves", "gamma"))

    @property
    def loss_name(self) -> str | None:
        """Of the loss that γ minimised, where there was one."""
        loss = self.strategy.parameters().get("loss")
        return str(loss["name"]) if isinstance(loss, dict) else None

    def configuration(self) -> Parameters:
        """What decided the outcome beside model and graph, as JSON values."""
        return {
            "method": self.method.name,
            "method_parameters": self.method.settings(),
            "strategy": self.strategy.name,
            "strategy_version": self.strategy.version,
            "strategy_parameters": self.strategy.parameters(),
            "seed": self.seed,
        }

    @property
    def changed(self) -> float:
        """Share of nodes whose label changed: accuracy cannot have moved by more than this."""
        return float((self.labels != self.labels_before).double().mean())

    @property
    def class_counts(self) -> tuple[FloatArray, FloatArray]:
        """Nodes that are given each class before and after adaptation, [C] each."""
        return class_counts_of(self.probs_before), class_counts_of(self.probs)

    @cached_property
    def alarms(self) -> tuple[str, ...]:
        """What calls for a look before the predictions are used: short sentences with figures."""
        return class_alarms(*self.class_counts)

    @property
    def severity(self) -> Severity:
        """How the outcome is to be read.

        What is an alarm in an unguarded run is a warning in a guarded one: there the estimated
        accuracy has been compared, and class shares may have changed in truth.
        """
        if self.alarms:
            return Severity.WARNING if self.decision else Severity.ALARM
        if self.status in DOUBTFUL:
            return Severity.WARNING
        return Severity.GOOD if self.status is Status.ADAPTED else Severity.NEUTRAL

    def summary(self) -> str:
        """What was done and why, or how it ended, for a reader; alarms among it."""
        if self.decision:
            return " ".join([self.decision.summary(), *self.alarms])
        unchecked = [] if self.status is Status.UNADAPTED else [NOT_CHECKED]
        return " ".join([*self.alarms, self.status.meaning, *unchecked])

    def __repr__(self) -> str:
        """One line instead of every tensor."""
        how = f"{self.decision.chosen} taken" if self.decision else f"{self.rounds} rounds"
        alarms = f"; {self.severity}: {' '.join(self.alarms)}" if self.alarms else ""
        return (
            f"Adaptation({self.method.name}, {self.strategy.name}: {self.status}, {how}, PIC "
            f"{self.pic_before:.4f} → {self.pic_after:.4f}, {self.changed:.1%} of labels "
            f"changed{alarms})"
        )

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None, and so its text, without the extra `report`."""
        try:
            with optional_imports("cell"):
                from matcha_gnn.report.notebook import render_cell
        except MatchaError:
            return None
        return render_cell(self)

    def plot(self) -> "Figure":
        """Hop weights, candidates or loss, and confidence as one matplotlib figure.

        Raises:
            MatchaError: the extra `report` is not installed.
        """
        with optional_imports("plot"):
            from matcha_gnn.report.notebook import plot
        return plot(self)

    def report(
        self,
        path: str | Path,
        labels: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        projection: str = "pca",
        command: str | None = None,
    ) -> None:
        """Write a self-contained HTML page.

        Args:
            path: the file to write.
            labels: true classes [N], to show accuracy; never used to adapt.
            mask: the nodes that accuracy counts, bool [N]; all by default.
            projection: how the map of the nodes is drawn: "pca" or "tsne".
            command: the command line to show; the call of `adapt` by default.

        Raises:
            MatchaError: the extra `report` is not installed.
        """
        with optional_imports("report"):
            from matcha_gnn.report import write_page
        write_page(self, path, labels, mask, projection=projection, command=command)


def outcome(trace: Trace, first: Prediction, last: Prediction, finite: bool) -> Status:
    """Name how a run ended, the most serious finding first."""
    if not finite:
        return Status.NON_FINITE
    num_nodes, num_classes = first.probs.shape
    entropies = float(entropy(first.probs).sum(dtype=torch.float64))
    counts = class_counts_of(first.probs), class_counts_of(last.probs)
    doubt, had, has = first.shard.total(entropies, *counts)
    if doubt / first.shard.count(num_nodes) > UNINFORMATIVE_FROM * math.log(num_classes):
        return Status.UNINFORMATIVE
    if emptied(had, has):
        return Status.COLLAPSED_CLASS
    if jumped(had, has):
        return Status.SHARES_JUMPED
    if not trace.loss:
        return Status.FITTED
    if trace.loss[-1] > trace.loss[0]:
        return Status.LOSS_ROSE
    moved = abs(trace.loss[-1] - trace.loss[-2])
    return Status.CONVERGED if moved < CONVERGED_WITHIN else Status.STOPPED


def class_counts_of(probs: Probs) -> FloatArray:
    """How many nodes are given each class, [C]."""
    counts = torch.bincount(probs.argmax(1), minlength=probs.shape[1])
    return np.asarray(counts.double().cpu())
