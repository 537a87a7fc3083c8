"""Questions as a person sees them: which node, what the candidates say, what is around it."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, overload

from matcha_gnn.candidates import Candidate
from matcha_gnn.errors import optional_imports
from matcha_gnn.io.files import replacing
from matcha_gnn.questions.decision import Design
from matcha_gnn.questions.sampling import IntArray

COLUMNS = ("number", "node", "label")
FINGERPRINT = "graph"
"""Column of a CSV file of questions or answers that says to which graph they belong."""
SHOWN = 5
"""Questions that `repr` shows."""


class Opinion(NamedTuple):
    """What a candidate says of a node: its class, and with which probability."""

    candidate: str
    label: int
    confidence: float


class Neighbour(NamedTuple):
    """A node beside the one in question, its class by the present prediction, and its name."""

    node: int
    label: int
    name: str


@dataclass(frozen=True)
class Question:
    """A node whose true class is asked for.

    Attributes:
        number: its place in the order, from 1.
        node: its number in the graph.
        opinions: of the candidates, the source's first.
        neighbours: at most `asking.NEIGHBOURS` of them.
        num_neighbours: how many there are.
        name: of the node, or empty.
        facts: further columns of the table that was given, by name.
    """

    number: int
    node: int
    opinions: tuple[Opinion, ...]
    neighbours: tuple[Neighbour, ...] = ()
    num_neighbours: int = 0
    name: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Questions(Sequence[Question]):
    """The questions without an answer, in the order in which to answer them.

    Attributes:
        items: the questions.
        design: the order, and what the test needs; fixed by the first questions.
        asked: all nodes that were asked so far, in order, [T].
        answers: true class by node, of those that have been answered.
        classes: names of the classes.
        fingerprint: of the graph.
        candidates: among which answers decide, in the order of the design, the source first.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> result = mg.adapt(model, target)
        >>> questions = result.ask(20)
        >>> answered = result.answer({q.node: int(target.y[q.node]) for q in questions})
        >>> answered.verdict.answered
        20
    """

    items: tuple[Question, ...]
    design: Design
    asked: IntArray
    answers: Mapping[int, int]
    classes: tuple[str, ...]
    fingerprint: str
    candidates: tuple[Candidate, ...]

    def __len__(self) -> int:
        """Questions without an answer."""
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Question: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Question, ...]: ...

    def __getitem__(self, index: int | slice) -> Question | tuple[Question, ...]:
        """By place among those without an answer."""
        return self.items[index]

    def __repr__(self) -> str:
        """A line for each of the first questions."""
        lines = [f"{len(self)} questions, {len(self.answers)} answered so far"]
        lines += [self._line(each) for each in self.items[:SHOWN]]
        if len(self) > SHOWN:
            lines.append(f"  … and {len(self) - SHOWN} more")
        return "\n".join(lines)

    def _line(self, question: Question) -> str:
        said = ", ".join(
            f"{one.candidate} {self.classes[one.label]} ({one.confidence:.0%})"
            for one in question.opinions
        )
        name = f" ({question.name})" if question.name else ""
        return f"  {question.number}. node {question.node}{name}: {said}"

    def rows(self) -> Iterator[dict[str, str]]:
        """One flat row per question, with an empty label to fill in."""
        for each in self.items:
            row = {"number": str(each.number), "node": str(each.node), "label": ""}
            row |= {"name": each.name} if each.name else {}
            row |= {k: v for k, v in each.facts.items() if k not in (*row, FINGERPRINT)}
            for one in each.opinions:
                row[f"by {one.candidate}"] = self.classes[one.label]
                row[f"confidence of {one.candidate}"] = f"{one.confidence:.3f}"
            row["neighbours"] = str(each.num_neighbours)
            row["classes of neighbours"] = " ".join(self.classes[n.label] for n in each.neighbours)
            yield row | {FINGERPRINT: self.fingerprint}

    def to_csv(self, path: str | Path) -> None:
        """Write a CSV file; with the column `label` filled in it is a file of answers."""
        rows = list(self.rows())
        names = list(rows[0]) if rows else [*COLUMNS, FINGERPRINT]
        with replacing(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=names)
            writer.writeheader()
            writer.writerows(rows)

    def to_html(self, path: str | Path) -> None:
        """Write a page on which a person clicks the answers and saves them as a CSV file.

        Raises:
            MatchaError: the extra `report` is not installed.
        """
        with optional_imports("to_html"):
            from matcha_gnn.report.questions import write_questions
        write_questions(self, path)
