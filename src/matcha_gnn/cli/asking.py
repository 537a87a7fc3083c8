"""What `matcha adapt --ask` and `matcha answer` do beside adapting."""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from matcha_gnn.cli import console
from matcha_gnn.cli.networks import given_model
from matcha_gnn.cli.output import say_kept
from matcha_gnn.errors import InvalidArgumentError, MatchaError, require_whole
from matcha_gnn.graphs.memory import GraphLike, unlabelled
from matcha_gnn.io.asked import QUESTIONS, QUESTIONS_PAGE, asked_again, read_asked, read_call
from matcha_gnn.io.graphfiles import read_graph
from matcha_gnn.io.outputs import Made, can_report, write_outputs
from matcha_gnn.questions.tables import read_table
from matcha_gnn.result import Adaptation

if TYPE_CHECKING:
    from matcha_gnn.cli.commands import Job

PATHS = ("model", "graph", "output", "table", "weights", "source")
"""Fields of a job that are paths."""


def check(job: "Job", data: GraphLike) -> None:
    """Refuse before any work what --ask and --table cannot do."""
    if job.ask is None:
        if job.table is not None:
            raise InvalidArgumentError("--table", job.table, "none without --ask")
        return
    require_whole("--ask", job.ask, least=1)
    if job.table is not None:
        read_table(job.table, unlabelled(data).num_nodes)


def ask(result: Adaptation, job: "Job") -> MatchaError | None:
    """Ask as the options say; returns why nothing could be asked, so that the rest is written."""
    if job.ask is None:
        return None
    names, columns = None, None
    if job.table is not None:
        names, columns = read_table(job.table, len(result.labels))
    try:
        result.ask(job.ask, names=names, table=columns)
    except MatchaError as error:
        return error
    return None


def call_of(job: "Job") -> dict[str, Any]:
    """A job as JSON values; paths are made absolute."""
    values = {each.name: getattr(job, each.name) for each in fields(job)}
    given = {name: str(values[name].resolve()) for name in PATHS if values[name] is not None}
    return values | given


def answer(
    folder: Path, answers: Path, more: int | None, graph: Path | None, json: bool, command: str
) -> None:
    """Decide by a file of answers and write the folder anew."""
    from matcha_gnn.cli.commands import Job, adapted, for_scores, print_summary

    call = read_call(folder) | {"ask": more, "json": json, "command": command}
    call |= {"graph": str(graph)} if graph else {}
    job = Job(**call | {name: Path(call[name]) for name in PATHS if call[name] is not None})
    data = read_graph(job.graph, check_labels=False, further=job.network is not None)
    if more is not None:
        check(job, data)
    if job.network is None:
        method, strategy = job.base_method(), job.chosen_strategy()
        before = read_asked(folder, unlabelled(data), method, strategy)
    else:
        model = given_model(job.model, job.network, job.weights)
        before = asked_again(folder, adapted(job, model, data))
    result = before.answer(answers)
    trouble = ask(result, job)
    if trouble is not None:
        raise trouble
    page = can_report(console.say)
    if more is not None and result.questions is not None:
        say_kept(folder, result.questions.answers)
    made = Made(command, job.graph.name, page, call_of(job))
    summary = write_outputs(result, folder, *for_scores(data), made)
    if json:
        console.print_json(summary)
        return
    print_summary(summary)
    console.out.print(Text(f"Written to {folder} anew."))
    if more:
        print_questions(result, folder, page)


def print_questions(result: Adaptation, folder: Path, page: bool) -> None:
    """Say where the questions are and what to do with them."""
    if result.questions is None:
        return
    where = f"Answer the {len(result.questions)} questions on {folder / QUESTIONS_PAGE}, or in"
    where = where if page else f"Answer the {len(result.questions)} questions: fill in"
    console.out.print(Text(f"{where} the column label of {folder / QUESTIONS}. Then:"))
    console.out.print(Text(f"matcha answer {folder} answers.csv"))
