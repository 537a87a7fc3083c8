"""The command `matcha answer`."""

from pathlib import Path
from typing import Annotated

import typer

from matcha_gnn.cli import options
from matcha_gnn.errors import InvalidArgumentError, MatchaError, require_whole


def answer(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that matcha adapt --ask wrote.")
    ],
    answers: Annotated[
        Path, typer.Argument(metavar="ANSWERS", help="A CSV file with the columns node and label.")
    ],
    ask: Annotated[int | None, typer.Option(help="Write so many further questions.")] = None,
    table: options.Table = None,
    graph: Annotated[
        Path | None, typer.Option(help="The graph file, if it is no longer where it was.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Decide among the candidates by the true classes of a few nodes.

    A candidate is taken only if it is not worse than the source model by more than a point, with an
    error rate of at most 5%. Answers add up. The folder is written anew. No network runs; the graph
    is needed for further questions and the page.
    """
    import matcha_gnn as mg
    from matcha_gnn.cli import console
    from matcha_gnn.cli.output import print_questions, print_run, say_kept
    from matcha_gnn.cli.outputs import can_report, write_outputs
    from matcha_gnn.io.questionfiles import Place, read_asked, with_graph
    from matcha_gnn.questions.tables import read_table

    if ask is not None:
        require_whole("--ask", ask, least=1)
    elif table is not None:
        raise InvalidArgumentError("--table", table, "none without --ask")
    before, place = read_asked(folder)
    graph_file = Path(place.path) if graph is None else graph
    data = None
    try:
        data = mg.read_graph(graph_file, check_labels=False, further=place.further)
        before = with_graph(before, mg.unlabelled(data))
    except MatchaError as missing:
        if graph is not None or ask is not None:
            raise
        data = None
        console.say(f"no page and no scores: {missing}")
    result = before.answer(answers)
    if ask is not None:
        names, columns = (None, None) if table is None else read_table(table, len(result.labels))
        say_kept(folder, result.ask(ask, names=names, table=columns).answers)
    page = data is not None and can_report(console.say)
    place = Place(str(graph_file.resolve()), place.further)
    summary = write_outputs(result, folder, data, command=context.obj, place=place, page=page)
    if json:
        console.print_json(summary)
        return
    print_run(summary, folder, page)
    if ask is not None and result.questions is not None:
        print_questions(folder, len(result.questions), page)
