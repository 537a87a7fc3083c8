"""Step 7: the one object that adaptation returns."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from matcha_gnn.class_names import numbered
from matcha_gnn.errors import MatchaError, optional_imports
from matcha_gnn.evidence import ACCURACY, Goal
from matcha_gnn.gamma.methods import BaseMethod
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.trace import Trace
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.result.alarms import Severity, class_alarms
from matcha_gnn.result.decision import Decision
from matcha_gnn.result.status import DOUBTFUL, NOT_CHECKED, Status, class_counts_of
from matcha_gnn.typing import FloatArray, Parameters, Probs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from matcha_gnn.gamma.strategies.base import Strategy
    from matcha_gnn.questions.asking import Table
    from matcha_gnn.questions.questions import Questions


class Change(NamedTuple):
    """A node whose label changed.

    Attributes:
        node: its number.
        before: its class by the source model.
        after: its class by another.
        prob_before: probability of `before` by the source model.
        prob_after: probability of `after` by the other.
    """

    node: int
    before: int
    after: int
    prob_before: float
    prob_after: float


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


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
        seconds: wall-clock time by stage, which add up to that of the call: checks of what was
            given, inference and setup once; forward, loss, backward and update over all rounds;
            evidence and fit where the strategy has them; other for what is left.
        method: the base method.
        strategy: what sought a better model.
        seed: for base methods that draw at random.
        graph: the target graph without labels; the caller's tensors, not copies.
        decision: what was tried and taken; None where the strategy makes no choice.
        questions: what `ask` asked last, with the answers so far.
        class_names: as the caller gave them, [C], or empty.
        date: when the result was made.
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
    graph: Graph
    decision: Decision | None = None
    questions: "Questions | None" = None
    class_names: tuple[str, ...] = ()
    date: datetime = field(default_factory=_now)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, or their numbers, [C]."""
        return numbered(self.class_names, self.probs.shape[1])

    @property
    def goal(self) -> Goal:
        """The metric that candidates were compared by; accuracy where there were none."""
        return self.decision.goal if self.decision else ACCURACY

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
            **(self.goal.figures() if self.decision else {}),
        }

    def metrics(self) -> dict[str, float]:
        """The outcome as finite numbers by flat names, such as an experiment tracker logs.

        What cannot be told is left out: losses and estimates of the last entry of the trace, γ,
        class shares, the metric with its bounds where candidates were compared, seconds by stage.
        `trace.rows()` has the same for every round, `configuration()` the settings.

        Example:
            >>> import matcha_gnn as mg
            >>> graph = mg.datasets.csbm(num_nodes=50, num_features=4, seed=0)
            >>> result = mg.predict(mg.GPRGNN(4, 2, K=1), graph)
            >>> list(result.metrics())[:6]
            ['changed', 'rounds', 'pic_before', 'pic_after', 'loss', 'gamma_0']
        """
        values: dict[str, float] = {
            "changed": self.changed,
            "rounds": float(self.rounds),
            "pic_before": self.pic_before,
            "pic_after": self.pic_after,
        }
        if len(self.trace):
            values |= self.trace.row(-1)
        values |= self._estimates()
        values |= {f"seconds_{stage}": each for stage, each in self.seconds.items()}
        return {name: value for name, value in values.items() if math.isfinite(value)}

    def _estimates(self) -> dict[str, float]:
        """The metric of the source model and of what was taken, with bounds."""
        if self.decision is None or self.decision.taken is None:
            return {}
        source, taken = self.decision.candidates[0], self.decision.taken
        return {
            f"{name}{self.goal.name}{part}": value
            for name, each in (("source_", source), ("", taken))
            for part, value in zip(("", "_low", "_high"), each.goal, strict=True)
        }

    @property
    def changed(self) -> float:
        """Share of nodes whose label changed: accuracy cannot have moved by more than this."""
        return float((self.labels != self.labels_before).double().mean())

    def changes(self, to: Probs | None = None) -> Iterator[Change]:
        """Nodes whose label changed, in their order.

        Args:
            to: class probabilities of another candidate, [N, C], to see what would change.
        """
        before, after = self.probs_before, self.probs if to is None else to
        pairs = [probs.cpu().max(1) for probs in (before, after)]
        (prob_before, label_before), (prob_after, label_after) = pairs
        for node in (label_before != label_after).nonzero()[:, 0].tolist():
            yield Change(
                node,
                int(label_before[node]),
                int(label_after[node]),
                float(prob_before[node]),
                float(prob_after[node]),
            )

    @property
    def class_counts(self) -> tuple[FloatArray, FloatArray]:
        """Nodes that are given each class before and after adaptation, [C] each."""
        return class_counts_of(self.probs_before), class_counts_of(self.probs)

    @cached_property
    def alarms(self) -> tuple[str, ...]:
        """What calls for a look before the predictions are used: short sentences with figures."""
        return (*self._broken, *self._further_alarms)

    @property
    def _broken(self) -> tuple[str, ...]:
        """A sentence where the features cannot be what the source's are."""
        if not (self.decision and self.decision.broken):
            return ()
        obstacle = self.decision.obstacle
        return (f"{obstacle[0].upper()}{obstacle[1:]}",)

    @property
    def _further_alarms(self) -> tuple[str, ...]:
        return (*class_alarms(*self.class_counts, self.class_names), *self._fallen_estimate())

    def _fallen_estimate(self) -> Iterator[str]:
        """A sentence where less is expected of what was taken than of the source model."""
        decision, goal = self.decision, self.goal
        if decision is None:
            known = self.trace.expected_accuracy
            before, after = (known[0], known[-1]) if known else (0.0, 0.0)
        elif decision.adapted and decision.taken is not None:
            before, after = decision.candidates[0].goal.value, decision.taken.goal.value
        else:
            return
        if after < before:
            lost = f"{goal.difference(after - before)}{goal.unit}"
            yield (
                f"Estimated {goal.title} fell from {goal.text(before)} to {goal.text(after)} "
                f"({lost})."
            )

    @property
    def severity(self) -> Severity:
        """How the outcome is to be read.

        Good is only what is expected to be better, with a lower bound above the threshold.
        """
        if self.alarms:
            return Severity.ALARM
        if self.status in DOUBTFUL:
            return Severity.WARNING
        if self.decision is None or not self.decision.adapted:
            return Severity.NEUTRAL
        return Severity.GOOD if self.decision.assured else Severity.WARNING

    def summary(self) -> str:
        """What was done and why, or how it ended, for a reader; alarms among it."""
        if self.decision:
            # The decision says itself that features are broken.
            return " ".join([*self._further_alarms, self.decision.summary()])
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

    @plain_torch()
    def take(self, name: str) -> "Adaptation":
        """A new result with a candidate that you name, in place of the one that was taken.

        The record says that a person took it (`decision.by_hand`), and what is expected of it.

        Args:
            name: of one of `decision.candidates`.

        Raises:
            InvalidArgumentError: no candidate has this name.
            IncompatibleError: there are no candidates.

        Example:
            >>> import matcha_gnn as mg
            >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
            >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
            >>> model = mg.GPRGNN(64, 2)
            >>> _ = mg.fit(model, source, epochs=50)
            >>> mg.adapt(model, target).take("fitted").decision.chosen
            'fitted'
        """
        from matcha_gnn.gamma.strategies.taking import take

        return take(self, name)

    @plain_torch()
    def ask(
        self,
        count: int = 20,
        *,
        seed: int | None = None,
        names: Sequence[str] | None = None,
        table: "Table | None" = None,
        classes: Sequence[str] | None = None,
    ) -> "Questions":
        """Questions whose answers decide among the candidates, in the order to answer them.

        Args:
            count: how many; of questions before, those without an answer come first.
            seed: of the order; 0, or that of the questions before, by default.
            names: of the nodes, [N].
            table: columns by name, one entry for each node, to show beside each question.
            classes: names of the classes, [C]; by default those of the result.

        Raises:
            IncompatibleError: there are no candidates.
        """
        from matcha_gnn.questions.asking import ask

        found = ask(self, count, seed=seed, names=names, table=table, classes=classes)
        # All that is remembered of a call: `answer` must know what was asked.
        object.__setattr__(self, "questions", found)
        return found

    @plain_torch()
    def answer(self, answers: Mapping[int, int | str] | str | Path) -> "Adaptation":
        """A new result, decided by true classes of nodes that `ask` asked about.

        A candidate is taken only if it is not worse than the source model by more than a point,
        with an error rate of at most 5%, however many questions are answered and in whatever order
        (`docs/ask.md`). Answers add up: the new result can be asked and answered again.

        Args:
            answers: class, by number or name, by node; or a CSV file with the columns node and
                label, such as the page of the questions saves.

        Raises:
            InvalidArgumentError: nodes that were not asked, what is no class, or contradictions.
            InvalidFileError: a file that cannot be read, or that belongs to another graph.
        """
        from matcha_gnn.questions.asking import answer

        return answer(self, answers)

    def plot(self) -> "Figure":
        """Hop weights, candidates or loss, and confidence as one matplotlib figure.

        Raises:
            MatchaError: the extra `report` is not installed.
        """
        with optional_imports("plot"):
            from matcha_gnn.report.notebook import plot
        return plot(self)

    @plain_torch()
    def report(
        self,
        path: str | Path,
        labels: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        command: str | None = None,
        graph: str | None = None,
    ) -> None:
        """Write a self-contained HTML page.

        Args:
            path: the file to write.
            labels: true classes [N], to show accuracy; never used to adapt.
            mask: the nodes that accuracy counts, bool [N]; all by default.
            command: the command line to show; the call of `adapt` by default.
            graph: what the title calls the graph; its size by default.

        Raises:
            MatchaError: the extra `report` is not installed.
        """
        with optional_imports("report"):
            from matcha_gnn.report import write_page
        write_page(self, path, labels, mask, command=command, graph=graph)
