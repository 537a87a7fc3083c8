"""From a result to questions, and from answers to another result."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.candidates import AnsweringNetwork, Candidate
from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    require_seed,
    require_whole,
)
from matcha_gnn.evidence.goals import ACCURACY, checked_names
from matcha_gnn.questions.answers import checked_answers, read_answers
from matcha_gnn.questions.decision import Design, decide
from matcha_gnn.questions.questions import Neighbour, Opinion, Question, Questions
from matcha_gnn.questions.sampling import IntArray
from matcha_gnn.questions.surest import surest_candidates
from matcha_gnn.questions.verdict import Verdict
from matcha_gnn.result import Result
from matcha_gnn.typing import FloatArray

NEIGHBOURS = 12
"""Neighbours that a question shows at most."""
Table = Mapping[str, Sequence[object]]
"""Columns by name, one entry for each node; a pandas DataFrame will do."""


def ask(
    result: Result,
    count: int,
    *,
    seed: int | None = None,
    names: Sequence[str] | None = None,
    table: Table | None = None,
    classes: Sequence[str] | None = None,
) -> Questions:
    """See `Result.ask`."""
    require_whole("count", count, least=1)
    before = result.questions
    design, candidates = _design(result, before, seed)
    answers, earlier = dict[int, int](), 0
    if before is not None and design is before.design:
        answers, earlier = dict(before.answers), len(before.asked)
    asked = design.order(max(earlier, len(answers) + count))
    places = [place for place, node in enumerate(asked.tolist()) if node not in answers][:count]
    known = before.classes if before else result.classes
    classes = checked_names(classes, result.probs.shape[1]) or known
    describe = _Descriptions(result, asked[places], _names(names, len(result.labels)), table)
    items = tuple(describe(place + 1, int(asked[place])) for place in places)
    return Questions(items, design, asked, answers, classes, result.graph.fingerprint, candidates)


def answer(result: Result, answers: Mapping[int, int | str] | str | Path) -> Result:
    """See `Result.answer`."""
    questions = result.questions
    if questions is None:
        raise IncompatibleError("answer: nothing has been asked; result.ask(20) asks 20 questions")
    read = read_answers if isinstance(answers, str | Path) else checked_answers
    known = dict(questions.answers) | read(answers, questions)
    items = tuple(each for each in questions.items if each.node not in known)
    tried = questions.candidates
    # Answers test accuracy. Another metric is known from the evidence alone.
    wanted = None if result.goal == ACCURACY else [one.goal.value for one in tried]
    verdict = decide(questions.design, questions.asked, known, wanted, tried[0].accuracy)
    return _with_verdict(result, tried, verdict, replace(questions, items=items, answers=known))


def _design(
    result: Result, before: Questions | None, seed: int | None
) -> tuple[Design, tuple[Candidate, ...]]:
    """That of the questions before, as long as answers depend on it; and what is compared."""
    if seed is not None:
        require_seed(seed)
    if before is not None and seed in (None, before.design.seed):
        return before.design, before.candidates
    if before is not None and before.answers:
        allowed = f"{before.design.seed}, with which the answered questions were drawn"
        raise InvalidArgumentError("seed", seed, allowed)
    candidates = compared_candidates(result)
    probs = [_array(one.probs) for one in candidates]
    believed = result.believed
    # Evidence that cannot tell accuracy cannot tell which questions are worth more either.
    prior = None if believed is None else _array(believed.probs)
    return Design(np.stack([each.argmax(1) for each in probs]), prior, seed or 0), candidates


def compared_candidates(result: Result) -> tuple[Candidate, ...]:
    """Among which answers decide: those of the result, and the surest changes of the pool.

    Raises:
        IncompatibleError: there is nothing to choose among.
    """
    candidates = result.candidates
    if len(candidates) < 2:
        why = f": {result.obstacle}" if result.obstacle else ""
        raise IncompatibleError(f"ask: there are no candidates to choose among{why}")
    return (*candidates, *surest_candidates(result))


def _array(probs: Tensor) -> FloatArray:
    """In the precision in which it is written to files: the order depends on every bit."""
    found: FloatArray = probs.float().cpu().numpy()
    return found


def _names(given: Sequence[str] | None, number: int) -> Sequence[str] | None:
    if given is None:
        return None
    try:
        count, got = len(given), f"{len(given)} names"
    except TypeError:
        count, got = -1, f"a {type(given).__name__}"
    if isinstance(given, str) or count != number:
        got = repr(given) if isinstance(given, str) else got
        raise InvalidArgumentError("names", got, f"one for each of {number} nodes")
    return given


class _Descriptions:
    """Makes questions of nodes."""

    def __init__(
        self,
        result: Result,
        nodes: IntArray,
        names: Sequence[str] | None,
        table: Table | None,
    ) -> None:
        self.names, self.labels = names, result.labels.cpu()
        self.table = _columns(table, len(self.labels))
        self.candidates = [one for one in result.candidates if not _is_part(one)]
        edges, ends = result.graph.edge_index.cpu(), torch.from_numpy(nodes)
        self.senders, self.receivers = edges[:, torch.isin(edges, ends).any(0)]

    def __call__(self, number: int, node: int) -> Question:
        near = self._neighbours(node)
        shown = [Neighbour(n, int(self.labels[n]), self._name(n)) for n in near[:NEIGHBOURS]]
        return Question(
            number=number,
            node=node,
            opinions=tuple(_opinion(one, node) for one in self.candidates),
            neighbours=tuple(shown),
            num_neighbours=len(near),
            name=self._name(node),
            facts={name: str(values[node]) for name, values in self.table.items()},
        )

    def _name(self, node: int) -> str:
        return "" if self.names is None else str(self.names[node])

    def _neighbours(self, node: int) -> list[int]:
        """Nodes at the other ends of its edges, whichever way they point."""
        ends = torch.cat(
            [self.senders[self.receivers == node], self.receivers[self.senders == node]]
        )
        return sorted({*ends.tolist()} - {node})


def _by_name(table: Table) -> list[tuple[str, list[object]]]:
    """Columns of a mapping, or of what is like one, such as a DataFrame."""
    try:
        return [(name, list(table[name])) for name in table]
    except (TypeError, LookupError) as error:
        got = f"a {type(table).__name__}"
        raise InvalidArgumentError("table", got, "a dictionary of columns") from error


def _columns(table: Table | None, number: int) -> dict[str, Sequence[Any]]:
    if table is None:
        return {}
    found = dict[str, Sequence[Any]]()
    for name, values in _by_name(table):
        if len(values) != number:
            got = f"{len(values)} entries in column {name!r}"
            raise InvalidArgumentError("table", got, f"one for each of {number} nodes")
        found[str(name)] = values
    return found


def _is_part(candidate: Candidate) -> bool:
    """Whether it says at every node what the pool or the source says."""
    model = candidate.model
    return isinstance(model, AnsweringNetwork) and model.answer.margin > 0


def _opinion(candidate: Candidate, node: int) -> Opinion:
    confidence, label = candidate.probs[node].max(0)
    return Opinion(candidate.name, int(label), float(confidence))


def _with_verdict(
    result: Result, tried: Sequence[Candidate], verdict: Verdict, questions: Questions
) -> Result:
    """The result with the candidate that answers chose; what they estimate replaces estimates."""
    by_answers = zip(tried, verdict.accuracies, verdict.gains, strict=True)
    if result.goal == ACCURACY:
        candidates = tuple(
            replace(one, accuracy=accuracy, goal=accuracy, gain=gain, confusion=None)
            for one, accuracy, gain in by_answers
        )
    else:
        candidates = tuple(replace(one, accuracy=accuracy) for one, accuracy, _ in by_answers)
    return replace(
        result,
        candidates=candidates,
        chosen=candidates[verdict.taken].name,
        posterior=result.believed,
        obstacle="",
        broken=False,
        verdict=verdict,
        by_hand="",
        questions=questions,
    )
