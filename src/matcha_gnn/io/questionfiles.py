"""Questions in an output folder: one file that decides by answers, a table and a page for people.

The file has the candidates' probabilities, so that no network runs where answers come in.
"""

import csv
import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.candidates import AnsweringNetwork, Candidate
from matcha_gnn.errors import InvalidFileError
from matcha_gnn.evidence.goals import Wanted, checked_names
from matcha_gnn.evidence.posterior import Interval, infer
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.io.answerfiles import (
    CONTENT,
    SavedNetwork,
    StoredNetwork,
    answer_facts,
    answer_of,
    parts_of,
)
from matcha_gnn.io.files import unwritten
from matcha_gnn.io.jsontext import json_object, json_text
from matcha_gnn.io.tensorfiles import TensorFormat
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.questions.answers import answer_rows
from matcha_gnn.questions.decision import Design
from matcha_gnn.questions.questions import Questions
from matcha_gnn.result import Result
from matcha_gnn.typing import Parameters

FORMAT = TensorFormat(
    "questions",
    "matcha-gnn questions 5",
    allowed="the file as matcha adapt … --ask wrote it",
)
ASKED, QUESTIONS, PAGE = "questions.safetensors", "questions.csv", "questions.html"
KEPT = "questions-answered{}.csv"
"""Where questions with answers are kept when others take their place."""


class Place(NamedTuple):
    """Where the graph of some questions is.

    Attributes:
        path: of its file, absolute; empty if unknown.
        further: further fields were read from the file.
    """

    path: str = ""
    further: bool = True


class Asked(NamedTuple):
    """What a file of questions has: a result that can be answered, without its graph."""

    result: Result
    place: Place


def kept_answers(folder: Path, used: Collection[int] = ()) -> Path | None:
    """The file in which typed answers are kept once others take the place of the questions.

    Args:
        folder: of the outputs.
        used: nodes whose answers a decision has used already.

    Returns:
        A path that is free; None where nobody has typed an answer that is not used.
    """
    questions = folder / QUESTIONS
    if not questions.is_file() or not _has_answers(questions, used):
        return None
    names = (KEPT.format(f"-{number}" if number > 1 else "") for number in itertools.count(1))
    return next(folder / name for name in names if not (folder / name).exists())


def _has_answers(questions: Path, used: Collection[int]) -> bool:
    nodes = set(map(str, used))
    try:
        return any(row["label"] and row["node"] not in nodes for _, row in answer_rows(questions))
    # A spreadsheet may have left anything there: what cannot be read may be an answer.
    except (InvalidFileError, csv.Error):
        return True


def keep_answers(folder: Path, used: Collection[int] = ()) -> None:
    """Give questions with answers another name, see `kept_answers`.

    Raises:
        InvalidFileError: the file cannot be renamed.
    """
    kept = kept_answers(folder, used)
    if kept is None:
        return
    try:
        (folder / QUESTIONS).rename(kept)
    except OSError as error:
        raise unwritten(kept, error) from error


def write_asked(result: Result, folder: Path, place: Place, *, page: bool) -> None:
    """Write the questions without an answer, and all that is needed to decide by their answers.

    Args:
        result: whose `ask` was called.
        folder: of the outputs.
        place: where the graph is.
        page: write the page, too.
    """
    questions = result.questions
    assert questions is not None, "asked before"
    write_questions(result, questions, folder / ASKED, place)
    # Those of a result that was read from a folder are there already.
    if len(questions):
        keep_answers(folder, questions.answers)
        questions.to_csv(folder / QUESTIONS)
        if page:
            questions.to_html(folder / PAGE)


def write_questions(result: Result, questions: Questions, path: Path, place: Place) -> None:
    """Write candidates, questions and answers so far to one file."""
    candidates, prior = questions.candidates, questions.design.prior
    answering = next(one.model for one in candidates if isinstance(one.model, AnsweringNetwork))
    stored = StoredNetwork.of(answering.network)
    tensors = stored.tensors(answering.source)
    tensors["asked"] = torch.from_numpy(questions.asked)
    tensors["probs"] = torch.stack([one.probs.cpu() for one in candidates])
    if prior is not None:
        tensors["prior"] = torch.from_numpy(prior)
    confusions = [one.confusion for one in candidates if one.confusion is not None]
    if len(confusions) == len(candidates):
        tensors["confusion"] = torch.stack(confusions)
    content = {
        "network": stored.facts(),
        "graph": questions.fingerprint,
        "place": list(place),
        "seed": questions.design.seed,
        "answers": {str(node): label for node, label in questions.answers.items()},
        "classes": list(questions.classes),
        "class_names": list(result.class_names),
        "goal": result.goal.figures(),
        "chosen": result.chosen,
        "obstacle": result.obstacle,
        "candidates": [_candidate_facts(one) for one in candidates],
        "seconds": dict(result.seconds),
    }
    FORMAT.write(path, tensors, {CONTENT: json_text(content, indent=None)})


def _candidate_facts(one: Candidate) -> Parameters:
    numbers = {name: list(getattr(one, name)) for name in ("accuracy", "goal", "gain")}
    answer = answer_facts(parts_of(one.model)[1])
    return {"name": one.name, "changed": one.changed, "answer": answer, **numbers}


@plain_torch()
def read_asked(folder: Path) -> Asked:
    """The result whose questions were written, ready to be answered.

    It has no graph: `with_graph` adds the one that further questions and the page need.

    Raises:
        InvalidFileError: nothing was asked, or the file is damaged.
    """
    path = folder / ASKED
    if not path.is_file():
        allowed = "a folder that matcha adapt … --ask 20 wrote"
        raise InvalidFileError("folder", f"{folder} (no {ASKED})", allowed)
    metadata, tensors = FORMAT.read(path)
    try:
        content = json_object(metadata[CONTENT])
        candidates = _candidates(content, tensors)
        names = checked_names(content["class_names"] or None)
        number = candidates[0].probs.shape[1]
        result = Result(
            graph=_absent_graph(len(candidates[0].probs)),
            candidates=candidates,
            chosen=content["chosen"],
            goal=Wanted(**content["goal"], classes=names).goal(number, None),
            source=parts_of(candidates[0].model)[0].source,
            obstacle=content["obstacle"],
            questions=_questions(content, tensors, candidates),
            class_names=names,
            seconds=content["seconds"],
        )
        if result.chosen not in {one.name for one in candidates}:
            raise ValueError(f"no candidate {result.chosen!r}")
        return Asked(result, Place(*content["place"]))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FORMAT.refused(path, f"damaged: {error}") from error


def _candidates(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> tuple[Candidate, ...]:
    network, source = SavedNetwork.read(content["network"], tensors)
    if source is None:
        raise ValueError("no source summary")
    confusion = tensors.get("confusion")
    candidates = []
    for number, facts in enumerate(content["candidates"]):
        answer = answer_of(facts["answer"])
        accuracy, goal, gain = (_interval(facts[name]) for name in ("accuracy", "goal", "gain"))
        candidates.append(
            Candidate(
                name=facts["name"],
                accuracy=accuracy,
                goal=goal,
                gain=gain,
                changed=facts["changed"],
                probs=tensors["probs"][number],
                model=network if answer is None else AnsweringNetwork(network, source, answer),
                confusion=None if confusion is None else confusion[number],
            )
        )
    return tuple(candidates)


def _interval(numbers: list[float | None]) -> Interval:
    """From JSON, which has null for a number that does not exist."""
    value, low, high = (float("nan") if each is None else each for each in numbers)
    return Interval(value, low, high)


def _questions(
    content: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    candidates: tuple[Candidate, ...],
) -> Questions:
    """Without the questions themselves: answers need only what was asked."""
    labels = np.stack([one.probs.float().numpy().argmax(1) for one in candidates])
    prior = tensors.get("prior")
    design = Design(labels, None if prior is None else prior.numpy(), content["seed"])
    asked = tensors["asked"].numpy()
    if not np.array_equal(design.order(len(asked)), asked):
        raise ValueError("its candidates do not give the order of its questions")
    answers = {int(node): label for node, label in content["answers"].items()}
    classes = tuple(content["classes"])
    return Questions((), design, asked, answers, classes, content["graph"], candidates)


def _absent_graph(nodes: int) -> Graph:
    """Nodes alone, where features and edges are not at hand."""
    return Graph(torch.empty(nodes, 0), torch.empty(2, 0, dtype=torch.long))


@plain_torch()
@torch.no_grad()
def with_graph(result: Result, graph: Graph) -> Result:
    """A result that was read from a folder with its graph, and the evidence on it.

    Args:
        result: of `read_asked`.
        graph: that was adapted to.

    Raises:
        InvalidFileError: another graph.
    """
    questions, source = result.questions, result.candidates[0]
    assert questions is not None, "read from a file of questions"
    if graph.fingerprint != questions.fingerprint:
        got = f"a graph with the fingerprint {graph.fingerprint}"
        allowed = f"the one that was adapted to, {questions.fingerprint}"
        raise InvalidFileError("graph", got, allowed)
    posterior = None
    # An answer that rests on evidence itself has not kept the network's own, which evidence needs.
    if result.source is not None and not isinstance(source.model, AnsweringNetwork):
        posterior = infer(result.source, graph, source.probs)
    return replace(result, graph=graph, posterior=posterior)
