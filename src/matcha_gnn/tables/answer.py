"""What a run on tables returns: estimates, questions, a page; its rows are in a file."""

import csv
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from matcha_gnn.candidates import NO_ESTIMATE
from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    InvalidFileError,
    require_seed,
    require_whole,
)
from matcha_gnn.evidence.posterior import Interval, network_logs
from matcha_gnn.io.files import existing_file, replacing
from matcha_gnn.questions.answers import class_number
from matcha_gnn.questions.decision import Design, decide
from matcha_gnn.questions.sampling import IntArray
from matcha_gnn.questions.surest import margins
from matcha_gnn.tables.decision import Candidate, Decision
from matcha_gnn.tables.program import Evidence
from matcha_gnn.tables.rows import CANDIDATES, Choice
from matcha_gnn.typing import Parameters

POPULATION = 200_000
"""Nodes among which questions are drawn. A gain at these is that at all nodes up to a standard
deviation of 0.22 points at most."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions, in the order in which they count.

    Attributes:
        design: of the questions, over a population of nodes.
        places: in the population, [T].
        ids: of the population, [n].
        choices: what is compared, in the order of the design.
        rows: of the population, id, p, n and e.
    """

    design: Design
    places: IntArray
    ids: list[Any]
    choices: tuple[Choice, ...]
    rows: pa.Table

    def questions(self) -> list[dict[str, Any]]:
        """One flat row per question, with an empty label to fill in."""
        some = self.rows.take(pa.array(self.places))
        probs = {each.name: each.of(some) for each in self.choices if not each.margin}
        found = []
        for number, place in enumerate(self.places.tolist()):
            row: dict[str, Any] = {"number": number + 1, "id": self.ids[place], "label": ""}
            for name, values in probs.items():
                row[f"by {name}"] = int(values[number].argmax())
                row[f"confidence of {name}"] = round(float(values[number].max()), 3)
            found.append(row)
        return found


class Answer:
    """Estimates and the choice among candidates. The engine keeps the evidence until `close`.

    Attributes:
        out: where the rows are: id, label, probs, changed.
        decision: candidates with their estimates, and the one that was chosen.
        seconds: by stage.
    """

    def __init__(self, evidence: Evidence, out: str | None, seconds: Mapping[str, float]) -> None:
        self.out, self.decision, self.seconds = out, evidence.decision, dict(seconds)
        self._evidence, self._asked = evidence, None
        self._choice = Choice(evidence.proposals, evidence.decision.chosen)

    _asked: Asked | None

    @property
    def num_nodes(self) -> int:
        """N."""
        return self._evidence.graph.number

    @property
    def estimate(self) -> Interval:
        """Expected accuracy of the answer, with bounds that hold nine times in ten."""
        return self.decision.taken.accuracy

    def summary(self) -> str:
        """What was done and why, in a few sentences."""
        return self.decision.summary()

    def __repr__(self) -> str:
        """One line."""
        why = self.decision.obstacle or f"{self.decision.chosen} taken"
        return f"Answer({self.num_nodes:,} nodes, {why})"

    def figures(self) -> Parameters:
        """All numbers as JSON values."""
        return {
            "nodes": self.num_nodes,
            "chosen": self.decision.chosen,
            "obstacle": self.decision.obstacle,
            "broken": self.decision.broken,
            "candidates": [each.figures() for each in self.decision.candidates],
            "seconds": self.seconds,
        }

    def report(self, path: str | Path) -> None:
        """Write a page of numbers: what was decided, and each candidate with its intervals."""
        with replacing(path) as beside:
            beside.write_text(_page(self), encoding="utf-8")

    def to_json(self, path: str | Path) -> None:
        """Write `figures` to a file; what is not known is null."""
        text = json.dumps(_without_nan(self.figures()), indent=1)
        with replacing(path) as beside:
            beside.write_text(text + "\n", encoding="utf-8")

    def write(self) -> None:
        """Write the rows by the candidate that is chosen."""
        assert self.out is not None, "only a run that writes is asked to"
        graph, proposals = self._evidence.graph, self._evidence.proposals
        rows = graph.engine.mapped(
            "answers",
            f"select * from {self._evidence.table}",
            self._choice,
            Choice.schema(graph.id_type),
            3 * proposals.classes,
        )
        graph.engine.write(f"select * from {rows}", self.out)

    def ask(self, count: int, *, seed: int = 0) -> list[dict[str, Any]]:
        """Nodes whose true classes decide among the candidates, in the order to answer them.

        They are drawn as `Adaptation.ask` draws them, from `POPULATION` nodes that the engine
        draws, or from all of a smaller graph.

        Args:
            count: of the questions.
            seed: of their order.

        Returns:
            For each its id, an empty label, and what the candidates say.
        """
        require_whole("count", count, least=1)
        require_seed(seed)
        evidence = self._evidence
        rows = evidence.graph.engine.fetch(
            f"select * from {evidence.table} order by {evidence.graph.node_key}, id "
            f"limit {POPULATION}"
        ).sort_by("id")
        choices = [Choice(evidence.proposals, name) for name in CANDIDATES]
        probs = [each.of(rows).float() for each in choices]
        prior = None
        if not evidence.decision.obstacle:
            pool = probs[CANDIDATES.index("pool")]
            prior = pool.numpy()
            parts = margins(network_logs(pool), network_logs(probs[0]))
            choices += [
                Choice(evidence.proposals, "pool", margin, part) for part, margin in parts.items()
            ]
            probs += [each.of(rows) for each in choices[len(CANDIDATES) :]]
        design = Design(np.stack([each.argmax(1).numpy() for each in probs]), prior, seed)
        ids = rows.column("id").to_pylist()
        self._asked = Asked(design, design.order(count), ids, tuple(choices), rows)
        return self._asked.questions()

    def answer(self, answers: Mapping[Any, Any] | str | Path) -> "Answer":
        """Choose by true classes of nodes that were asked, and write the rows by that choice.

        Args:
            answers: classes by id, or a CSV file with the columns id and label.

        Raises:
            IncompatibleError: nothing was asked.
            InvalidArgumentError, InvalidFileError: an id that was not asked, or no class.
        """
        asked = self._asked
        if asked is None:
            raise IncompatibleError("answer: nothing has been asked; ask(20) asks 20 questions")
        places = {asked.ids[place]: place for place in asked.places.tolist()}
        if isinstance(answers, str | Path):
            answers = read_answers(answers)
            places = {str(node): place for node, place in places.items()}
        names = [str(each) for each in range(self._evidence.proposals.classes)]
        known = {}
        for node, label in answers.items():
            if node not in places:
                raise InvalidArgumentError("answers", f"id {node!r}", "ids that were asked")
            known[places[node]] = class_number(f"answers of id {node!r}", label, names)
        if not known:
            raise InvalidArgumentError("answers", "none", "at least one")
        tried = _compared(self, asked)
        verdict = decide(asked.design, asked.places, known, believed=tried[0].accuracy)
        by_answers = zip(tried, verdict.accuracies, verdict.gains, strict=True)
        candidates = tuple(
            replace(one, accuracy=accuracy, gain=gain) for one, accuracy, gain in by_answers
        )
        chosen = candidates[verdict.taken].name
        self.decision = Decision(candidates, chosen, verdict=verdict)
        self._choice = asked.choices[verdict.taken]
        if self.out is not None:
            self.write()
        return self

    def close(self) -> None:
        """Drop what the engine keeps."""
        self._evidence.graph.engine.close()

    def __enter__(self) -> "Answer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _compared(answer: Answer, asked: Asked) -> tuple[Candidate, ...]:
    """Candidates in the order of the design: those of the run, and the surest changes."""
    labels = asked.design.labels
    changed = (labels != labels[0]).mean(1)
    surest = [
        Candidate(f"surest {choice.part} of pool", NO_ESTIMATE, NO_ESTIMATE, float(share))
        for choice, share in zip(asked.choices, changed, strict=True)
        if choice.margin
    ]
    return (*answer._evidence.decision.candidates, *surest)


def write_questions(questions: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """A CSV file; with the column label filled in it is a file of answers."""
    with replacing(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(questions[0]))
        writer.writeheader()
        writer.writerows(questions)


def question_rows(path: str | Path) -> list[dict[str, str]]:
    """Lines of a CSV file with the columns id and label."""
    file = existing_file(path, "answers")
    try:
        with open(file, newline="", encoding="utf-8-sig") as opened:
            rows = list(csv.DictReader(opened, restval=""))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidFileError("answers", f"{file} (not CSV in UTF-8)", "a CSV file") from error
    if not rows or not {"id", "label"} <= set(rows[0]):
        allowed = "a CSV file with the columns id and label"
        raise InvalidFileError("answers", str(file), allowed)
    return rows


def read_answers(path: str | Path) -> dict[str, int | str]:
    """Classes by id, as texts, from a CSV file; an empty label is no answer."""
    labels = {row["id"]: row["label"].strip() for row in question_rows(path)}
    return {
        node: int(label) if label.isdecimal() else label for node, label in labels.items() if label
    }


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _page(answer: Answer) -> str:
    """An HTML page without scripts."""

    def shown(interval: Interval, sign: str = "") -> str:
        if not np.isfinite(interval.value):
            return "cannot be estimated"
        value, low, high = (f"{100 * each:{sign}.1f}" for each in interval)
        return f"{value} ({low} to {high})"

    lines = [
        f"<tr><td>{html.escape(one.name)}</td><td>{shown(one.accuracy)}</td>"
        f"<td>{shown(one.gain, '+')}</td><td>{one.changed:.1%}</td></tr>"
        for one in answer.decision.candidates
    ]
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in answer.seconds.items())
    return "\n".join(
        [
            "<!doctype html><html lang='en'><meta charset='utf-8'><title>matcha</title>",
            "<style>body{font-family:sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
            "td,th{padding:.3em 1em .3em 0;text-align:left}</style>",
            f"<h1>{answer.num_nodes:,} nodes</h1><p>{html.escape(answer.summary())}</p>",
            "<table><tr><th>Candidate</th><th>Expected accuracy, % (90% interval)</th>"
            "<th>Gain, points (90% interval)</th><th>Labels changed</th></tr>",
            *lines,
            f"</table><p>{html.escape(seconds)}.</p></html>",
        ]
    )
