"""The one object that `adapt` returns: predictions, candidates, the choice and why."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from matcha_gnn import sentences
from matcha_gnn.alarms import Severity, class_alarms
from matcha_gnn.candidates import SOURCE, Candidate
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, optional_imports
from matcha_gnn.evidence.goals import ACCURACY, Goal, numbered
from matcha_gnn.evidence.posterior import Posterior
from matcha_gnn.evidence.summary import AS_GIVEN, SourceSummary
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.network.network import Network
from matcha_gnn.typing import FloatArray, Parameters, Probs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from matcha_gnn.questions.asking import Table
    from matcha_gnn.questions.questions import Questions
    from matcha_gnn.questions.verdict import Verdict


class Change(NamedTuple):
    """A node whose label changed.

    Attributes:
        node: its number.
        before: its class by the network.
        after: its class by another candidate.
        prob_before: probability of `before` by the network.
        prob_after: probability of `after` by the other.
    """

    node: int
    before: int
    after: int
    prob_before: float
    prob_after: float


def now() -> datetime:
    """In UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Predictions on the target graph, and how they came about.

    Attributes:
        graph: the target without labels; the caller's tensors, not copies.
        candidates: all that were tried, the network's own answer first.
        chosen: the name of the one that was taken.
        goal: the metric that candidates were compared by.
        source: what the labelled graph taught; None where nothing is known of it.
        posterior: class probabilities by features, edges and network; None where there are none.
        obstacle: why accuracy could not be estimated, or empty.
        broken: the obstacle is that the features cannot be what the source's are.
        verdict: what answers to questions say; None where nobody was asked.
        by_hand: what was taken before, where a person took the candidate (`take`).
        questions: what `ask` asked last, with the answers so far.
        class_names: as the caller gave them, [C], or empty.
        seconds: wall-clock time by stage.
        date: when the result was made.
    """

    graph: Graph
    candidates: tuple[Candidate, ...]
    chosen: str
    goal: Goal = ACCURACY
    source: SourceSummary | None = None
    posterior: Posterior | None = None
    obstacle: str = ""
    broken: bool = False
    verdict: "Verdict | None" = None
    by_hand: str = ""
    questions: "Questions | None" = None
    class_names: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    date: datetime = field(default_factory=now)

    @property
    def taken(self) -> Candidate:
        """The candidate that was taken."""
        return next(one for one in self.candidates if one.name == self.chosen)

    @property
    def adapted(self) -> bool:
        """Whether another answer than the network's own was taken."""
        return self.chosen != SOURCE

    @property
    def status(self) -> str:
        """How it ended: "adapted" or "kept source"."""
        return "adapted" if self.adapted else "kept source"

    @property
    def model(self) -> Network:
        """What gives the answer that was taken on other graphs; the caller's model is untouched."""
        return self.taken.model

    @property
    def probs(self) -> Probs:
        """Class probabilities, [N, C]."""
        return self.taken.probs

    @property
    def probs_before(self) -> Probs:
        """Class probabilities by the network, [N, C]."""
        return self.candidates[0].probs

    @property
    def labels(self) -> Tensor:
        """The most probable class of each node, [N]."""
        return self.probs.argmax(1)

    @property
    def labels_before(self) -> Tensor:
        """The same by the network, [N]."""
        return self.probs_before.argmax(1)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, or their numbers, [C]."""
        return numbered(self.class_names, self.probs.shape[1])

    @property
    def changed(self) -> float:
        """Share of nodes whose label changed: accuracy cannot have moved by more than this."""
        return float((self.labels != self.labels_before).double().mean())

    @property
    def class_counts(self) -> tuple[FloatArray, FloatArray]:
        """Nodes that are given each class by the network and by what was taken, [C] each."""
        return class_counts_of(self.probs_before), class_counts_of(self.probs)

    @property
    def compared(self) -> Candidate | None:
        """What to set beside the network: the candidate that was taken, or else the best other.

        The best is that with the largest lower bound of its gain, or by answers the largest gain:
        few answers leave bounds that say how many labels change. None where nothing else was
        tried, or nothing could be estimated.
        """
        if self.adapted:
            return self.taken
        bound = "value" if self.verdict else "low"
        others = [one for one in self.candidates[1:] if math.isfinite(getattr(one.gain, bound))]
        return max(others, key=lambda one: getattr(one.gain, bound), default=None)

    @property
    def assured(self) -> bool:
        """Whether the lower bound of the gain of what was taken is above zero."""
        if self.verdict:
            return self.verdict.permitted[self.verdict.taken]
        return self.taken.gain.low > 0

    @property
    def stood_in(self) -> bool:
        """Whether the network's own labels stood in for a source summary."""
        return self.posterior is not None and bool(self.posterior.source.stand_in)

    @property
    def assumption(self) -> str:
        """What the estimates assume, in a sentence or two; empty where nothing is estimated."""
        if self.posterior is None or self.stood_in:
            return ""
        said = self.posterior.trust.assumption
        if self.source is not None and self.source.as_given:
            said += f" {AS_GIVEN[0].upper()}{AS_GIVEN[1:]}."
        return said

    @property
    def believed(self) -> Posterior | None:
        """The evidence, unless it cannot tell."""
        return None if self.obstacle else self.posterior

    def changes(self, to: Probs | None = None) -> Iterator[Change]:
        """Nodes whose label changed, in their order.

        Args:
            to: class probabilities of another candidate, [N, C], to see what would change.
        """
        pairs = [
            probs.cpu().max(1) for probs in (self.probs_before, self.probs if to is None else to)
        ]
        (prob_before, label_before), (prob_after, label_after) = pairs
        for node in (label_before != label_after).nonzero()[:, 0].tolist():
            yield Change(
                node,
                int(label_before[node]),
                int(label_after[node]),
                float(prob_before[node]),
                float(prob_after[node]),
            )

    @cached_property
    def alarms(self) -> tuple[str, ...]:
        """What calls for a look before the predictions are used: short sentences with figures."""
        broken = (f"{self.obstacle[0].upper()}{self.obstacle[1:]}",) if self.broken else ()
        return (*broken, *self._further_alarms)

    @property
    def _further_alarms(self) -> tuple[str, ...]:
        """Alarms that the summary does not say by itself."""
        fallen = sentences.fallen(self)
        shares = class_alarms(*self.class_counts, self.class_names)
        return (*shares, fallen) if fallen else shares

    @property
    def severity(self) -> Severity:
        """How the outcome is to be read.

        Good is only what is expected to be better, with a lower bound above zero.
        """
        if self.alarms:
            return Severity.ALARM
        if not self.adapted:
            return Severity.NEUTRAL
        return Severity.GOOD if self.assured else Severity.WARNING

    def summary(self) -> str:
        """What was done and why, for a reader; alarms among it."""
        return " ".join([*self._further_alarms, sentences.summary(self)])

    def __repr__(self) -> str:
        """One line instead of every tensor."""
        estimate = sentences.headline(self)
        alarms = f"; {self.severity}: {' '.join(self.alarms)}" if self.alarms else ""
        return f"Result({self.status}, {estimate}, {self.changed:.1%} of labels changed{alarms})"

    def to_dict(self) -> Parameters:
        """The outcome as JSON values: what files and pages say, from the same fields."""
        source, taken = self.candidates[0], self.taken
        values = source.goal.value, taken.goal.value
        told = not self.verdict and math.isfinite(sum(values))
        return {
            "date": self.date.isoformat(),
            "status": self.status,
            "severity": str(self.severity),
            "alarms": list(self.alarms),
            "meaning": self.summary(),
            "chosen": self.chosen,
            "taken_by_hand_in_place_of": self.by_hand or None,
            "obstacle": self.obstacle,
            "broken": self.broken,
            **self.goal.figures(),
            "metric_title": self.goal.title,
            "expected_before": values[0] if told else None,
            "expected_after": values[1] if told else None,
            "classes": list(self.classes),
            "class_estimates": self._class_estimates(),
            "candidates": [one.to_dict() for one in self.candidates],
            "answers": self.verdict and self.verdict.figures(),
            "labels_changed": self.changed,
            "seconds": dict(self.seconds),
        }

    def _class_estimates(self) -> Parameters | None:
        """Expected precision, recall and F1 of each class before and after."""
        before, after = self.candidates[0].class_estimates(), self.taken.class_estimates()
        if before is None or after is None:
            return None
        return {
            f"{name}_{when}": getattr(scores, name).tolist()
            for name in before._fields
            for when, scores in (("before", before), ("after", after))
        }

    def metrics(self) -> dict[str, float]:
        """The outcome as finite numbers by flat names, such as an experiment tracker logs.

        What cannot be told is left out.

        Example:
            >>> import matcha_gnn as mg
            >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
            >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
            >>> model = mg.GPRGNN(64, 2)
            >>> _ = mg.fit(model, source, epochs=50)
            >>> figures = mg.adapt(model, target).metrics()
            >>> [name for name in sorted(figures) if not name.startswith("seconds_")]
            ['accuracy', 'accuracy_high', 'accuracy_low', 'changed', 'source_accuracy', \
'source_accuracy_high', 'source_accuracy_low']
        """
        values = {"changed": self.changed}
        for name, one in (("source_", self.candidates[0]), ("", self.taken)):
            bounds = zip(("", "_low", "_high"), one.goal, strict=True)
            values |= {f"{name}{self.goal.name}{part}": value for part, value in bounds}
        values |= {f"seconds_{stage}": each for stage, each in self.seconds.items()}
        return {name: value for name, value in values.items() if math.isfinite(value)}

    def take(self, name: str) -> Self:
        """A new result with a candidate that you name, in place of the one that was taken.

        Args:
            name: of one of `candidates`.

        Raises:
            InvalidArgumentError: no candidate has this name.
            IncompatibleError: there is nothing to choose among.

        Example:
            >>> import matcha_gnn as mg
            >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
            >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
            >>> model = mg.GPRGNN(64, 2)
            >>> _ = mg.fit(model, source, epochs=50)
            >>> mg.adapt(model, target).take("belief").chosen
            'belief'
        """
        names = [one.name for one in self.candidates]
        if len(names) < 2:
            why = f": {self.obstacle}" if self.obstacle else ""
            raise IncompatibleError(f"take: there are no other candidates{why}")
        if name not in names:
            raise InvalidArgumentError("name", repr(name), ", ".join(names))
        if name == self.chosen:
            return self
        before = self.by_hand or self.chosen
        return replace(self, chosen=name, by_hand=before, verdict=None)

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
            IncompatibleError: there is nothing to choose among.
        """
        from matcha_gnn.questions.asking import ask

        questions = ask(self, count, seed=seed, names=names, table=table, classes=classes)
        # All that is remembered of a call: `answer` must know what was asked.
        object.__setattr__(self, "questions", questions)
        return questions

    @plain_torch()
    def answer(self, answers: Mapping[int, int | str] | str | Path) -> "Result":
        """A new result, decided by true classes of nodes that `ask` asked about.

        A candidate is taken only if it is not worse than the network by more than a point, with an
        error rate of at most 5%, however many questions are answered and in whatever order
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

    @plain_torch()
    def save(self, path: str | Path) -> None:
        """Write what gives the answer on other graphs to one file, to be read with `mg.load`.

        It holds the network's weights, the source summary and a few numbers; no code, no graph.

        Args:
            path: the file, such as "answer.safetensors".

        Raises:
            InvalidFileError: it cannot be written.
            IncompatibleError: the network's state has parts that are no dense tensors.
        """
        from matcha_gnn.io.answerfiles import write_answer

        write_answer(self.model, self.class_names, path)

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None, and so its text, without the extra `report`."""
        from matcha_gnn.errors import MatchaError

        try:
            with optional_imports("cell"):
                from matcha_gnn.report.notebook import render_cell
        except MatchaError:
            return None
        return render_cell(self)

    def plot(self) -> "Figure":
        """Candidates and confidence as one matplotlib figure.

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

    @property
    def call(self) -> str:
        """The call that gives this result again."""
        parts = ["model", "graph"]
        if self.source is not None:
            parts.append("source=summary")
        if self.goal != ACCURACY:
            chosen = self.goal.figures()
            parts += [f"{name}={value!r}" for name, value in chosen.items() if value is not None]
        return f"mg.adapt({', '.join(parts)})"


def class_counts_of(probs: Probs) -> FloatArray:
    """How many nodes are given each class, [C]."""
    counts = torch.bincount(probs.argmax(1), minlength=probs.shape[1])
    return np.asarray(counts.double().cpu())
