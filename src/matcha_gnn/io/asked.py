"""Questions in an output folder, and all that is needed to decide by their answers later."""

import csv
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.evidence import Interval, Wanted
from matcha_gnn.gamma.methods import BaseMethod
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.strategies import Strategy
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.io.archives import Arrays
from matcha_gnn.io.files import existing_file, replacing, unwritten
from matcha_gnn.io.jsontext import read_checked_json, write_checked_json
from matcha_gnn.io.models import can_save, load_model, save_model
from matcha_gnn.questions.answers import answer_rows
from matcha_gnn.questions.asking import compared_candidates
from matcha_gnn.questions.decision import Design
from matcha_gnn.questions.questions import Questions
from matcha_gnn.questions.sampling import IntArray
from matcha_gnn.result import Adaptation, Candidate, Decision, Status, Trace
from matcha_gnn.typing import FloatArray

ASKED, CANDIDATES = "asked.json", "candidates.npz"
QUESTIONS, QUESTIONS_PAGE = "questions.csv", "questions.html"
FORMAT = "matcha-gnn questions 4"
KEPT = "questions-answered{}.csv"
"""Where questions with answers are kept when others take their place."""
MODEL = re.compile(r"candidate-\d+\.safetensors")
"""Models of the candidates."""


def asked_names(result: Adaptation, page: bool) -> list[str]:
    """Files that `write_asked` writes; none where nothing was asked."""
    if result.questions is None or result.decision is None:
        return []
    models = [_model(number) for number, _ in _saved(result.questions.candidates)]
    return [ASKED, CANDIDATES, QUESTIONS, *models, *((QUESTIONS_PAGE,) if page else ())]


def is_asked(name: str) -> bool:
    """Whether a file has a name that `write_asked` gives."""
    return name in (ASKED, CANDIDATES, QUESTIONS, QUESTIONS_PAGE) or bool(MODEL.fullmatch(name))


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


def write_asked(
    result: Adaptation, folder: Path, call: Mapping[str, Any] | None, page: bool
) -> None:
    """Write the questions without an answer, the candidates, and what has been asked and answered.

    Args:
        result: whose `ask` was called.
        folder: of the outputs.
        call: how the command was called, as JSON values, to be read back with `read_call`.
        page: write the page, too.
    """
    questions, decision = result.questions, result.decision
    assert questions is not None
    assert decision is not None
    candidates = questions.candidates
    probs = [one.probs.cpu().numpy() for one in candidates]
    arrays: dict[str, Any] = {"probs": np.stack(probs)}
    if questions.design.prior is not None:
        arrays["prior"] = questions.design.prior
    with replacing(folder / CANDIDATES) as beside, open(beside, "wb") as file:
        np.savez(file, **arrays)
    for number, model in _saved(candidates):
        save_model(model, folder / _model(number))
    # Those of a result that was read from a folder are there already.
    if len(questions):
        keep_answers(folder, questions.answers)
        questions.to_csv(folder / QUESTIONS)
        if page:
            questions.to_html(folder / QUESTIONS_PAGE)
    record = _record(result, questions, decision) | {"call": dict(call or {})}
    write_checked_json(folder / ASKED, record)


def _saved(candidates: Sequence[Candidate]) -> list[tuple[int, Backbone]]:
    """Models of the candidates by number; none where the network has no file format."""
    models = [one.model for one in candidates]
    return list(enumerate(models)) if all(map(can_save, models)) else []


def _model(number: int) -> str:
    return f"candidate-{number}.safetensors"


def _record(result: Adaptation, questions: Questions, decision: Decision) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "graph": questions.fingerprint,
        "seed": questions.design.seed,
        "classes": list(questions.classes),
        "asked": questions.asked.tolist(),
        "answers": {str(node): label for node, label in questions.answers.items()},
        "chosen": decision.chosen,
        "obstacle": decision.obstacle,
        "goal": result.goal.figures(),
        "candidates": [one.figures() for one in questions.candidates],
        "pic_before": result.pic_before,
        "pic_after": result.pic_after,
        "seconds": result.seconds,
        "run_seed": result.seed,
    }


def read_call(folder: str | Path) -> dict[str, Any]:
    """How the command that asked was called.

    Raises:
        InvalidFileError: nothing was asked, or by another version.
    """
    call: dict[str, Any] = _read_record(Path(folder))["call"]
    return call


def read_asked(
    folder: str | Path, graph: Graph, method: BaseMethod, strategy: Strategy
) -> Adaptation:
    """The result whose questions were written, ready to be answered.

    Args:
        folder: of the outputs.
        graph: that was adapted to.
        method: the base method of the run.
        strategy: that of the run.

    Raises:
        InvalidFileError: nothing was asked, files are missing or changed, or another graph.
    """
    folder = Path(folder)
    record = _record_of(folder, graph)
    probs, prior = _read_candidates(existing_file(folder / CANDIDATES, "folder"))
    models = [load_model(folder / _model(number)) for number in range(len(probs))]
    candidates = tuple(
        _candidate(_numbers(figures), own, model)
        for figures, own, model in zip(record["candidates"], probs, models, strict=True)
    )
    questions = _questions(record, probs.argmax(2).numpy(), prior, candidates, folder)
    return _result(record, candidates, graph, method, strategy, questions)


def asked_again(folder: str | Path, result: Adaptation) -> Adaptation:
    """A run that was made again, with the questions and the answers in its folder.

    For networks of which there is no model file.

    Args:
        folder: of the outputs.
        result: of the same model and graph, as the call in the folder says.

    Raises:
        InvalidFileError: nothing was asked, another graph, or candidates that predict otherwise.
    """
    folder = Path(folder)
    record = _record_of(folder, result.graph)
    probs, prior = _read_candidates(existing_file(folder / CANDIDATES, "folder"))
    labels = probs.argmax(2)
    candidates = compared_candidates(result)
    found = [one.probs.cpu() for one in candidates]
    if len(found) != len(labels) or not torch.equal(torch.stack(found).argmax(2), labels):
        got = f"{folder} (its candidates predict otherwise)"
        raise InvalidFileError("folder", got, "the network and weights that it was written with")
    questions = _questions(record, labels.numpy(), prior, candidates, folder)
    asked = replace(result, questions=replace(questions, answers={}))
    return asked.answer(questions.answers) if questions.answers else asked


def _record_of(folder: Path, graph: Graph) -> dict[str, Any]:
    """What was asked about this graph."""
    record = _read_record(folder)
    if record["graph"] != graph.fingerprint:
        got = f"a graph with the fingerprint {graph.fingerprint}"
        raise InvalidFileError("graph", got, f"the one that was adapted to, {record['graph']}")
    return record


def _result(
    record: dict[str, Any],
    candidates: tuple[Candidate, ...],
    graph: Graph,
    method: BaseMethod,
    strategy: Strategy,
    questions: Questions,
) -> Adaptation:
    """What was decided when the questions were written."""
    source = candidates[0]
    taken = next(one for one in candidates if one.name == record["chosen"])
    names = () if _are_numbers(questions.classes) else questions.classes
    return Adaptation(
        probs=taken.probs,
        probs_before=source.probs,
        model=taken.model,
        gamma=taken.model.gamma.detach().clone(),
        gamma_before=source.model.gamma.detach().clone(),
        pic_before=record["pic_before"],
        pic_after=record["pic_after"],
        trace=Trace(),
        status=Status.KEPT_SOURCE if taken is source else Status.ADAPTED,
        seconds=record["seconds"],
        method=method,
        strategy=strategy,
        seed=record["run_seed"],
        graph=graph,
        decision=Decision(
            taken.name,
            candidates,
            None,
            record["obstacle"],
            goal=Wanted(**record["goal"], classes=names).goal(source.probs.shape[1], None),
        ),
        questions=questions,
        class_names=names,
    )


def _are_numbers(names: Sequence[str]) -> bool:
    return tuple(names) == tuple(map(str, range(len(names))))


def _read_record(folder: Path) -> dict[str, Any]:
    path = folder / ASKED
    if not path.is_file():
        allowed = "a folder that matcha adapt … --ask 20 wrote"
        raise InvalidFileError("folder", f"{folder} (no {ASKED})", allowed)
    allowed = "the file as written; or run matcha adapt … --ask again"
    return read_checked_json(path, "folder", allowed, FORMAT)


def _read_candidates(path: Path) -> tuple[Tensor, FloatArray | None]:
    """Class probabilities of the candidates [M, N, C], and those by evidence [N, C] or None."""
    try:
        arrays = Arrays(path)
        found = {name: arrays.read(name) for name in arrays.names}
        return torch.from_numpy(found["probs"]), found.get("prior")
    # Bytes that are no array file fail in any way.
    except Exception as error:
        raise InvalidFileError("folder", f"{path} (damaged)", "the file as written") from error


def _questions(
    record: dict[str, Any],
    labels: IntArray,
    prior: FloatArray | None,
    candidates: tuple[Candidate, ...],
    folder: Path,
) -> Questions:
    """Without the questions themselves: answers need only what was asked."""
    design = Design(labels, prior, record["seed"])
    asked = np.array(record["asked"], dtype=np.int64)
    if not np.array_equal(design.order(len(asked)), asked):
        got = f"{folder} (candidates that do not give the order of its questions)"
        raise InvalidFileError("folder", got, "the files as written, and the same version of numpy")
    answers = {int(node): label for node, label in record["answers"].items()}
    classes = tuple(record["classes"])
    return Questions((), design, asked, answers, classes, record["graph"], candidates)


def _candidate(figures: Any, probs: Tensor, model: Backbone) -> Candidate:
    gain = figures["expected_gain"], figures["gain_lower_bound"], figures["gain_upper_bound"]
    accuracy = (figures[n] for n in ("expected_accuracy", "accuracy_low", "accuracy_high"))
    goal = (figures[n] for n in ("expected_goal", "goal_low", "goal_high"))
    return Candidate(
        figures["name"],
        Interval(*accuracy),
        Interval(*goal),
        Interval(*gain),
        figures["changed"],
        probs,
        model.frozen(),
    )


def _numbers(figures: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {name: np.nan if value is None else value for name, value in figures.items()}
