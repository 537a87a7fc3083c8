"""The command `matcha adapt`."""

from pathlib import Path
from typing import Annotated

import typer

from matcha_gnn.cli import options
from matcha_gnn.errors import InvalidArgumentError, MatchaError, require_whole


def adapt(
    context: typer.Context,
    output: options.Output,
    files: options.OnGraph = None,
    network: options.Network = None,
    weights: options.Weights = None,
    probs: options.Probs = None,
    logits: options.Logits = False,
    source: options.SourceFile = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="An algorithm to run instead of comparing candidates, as in Python: "
            '"Matcha(T3A(k=100), rounds=50)", or a name. Strategies: '
            f"{options.names_of('strategies')}; methods: {options.names_of('methods')}; losses: "
            f"{options.names_of('losses')}."
        ),
    ] = None,
    metric: options.MetricName = "accuracy",
    positive: options.Positive = None,
    classes: options.Classes = None,
    ask: Annotated[
        int | None,
        typer.Option(help="Write so many questions whose answers decide among the candidates."),
    ] = None,
    table: options.Table = None,
    device: options.Device = "cpu",
    nodes: options.Nodes = None,
    edges: options.Edges = None,
    memory: options.Memory = None,
    undirected: options.Undirected = False,
    id: options.IdColumn = None,
    features: options.FeatureColumns = None,
    answers: Annotated[
        Path | None,
        typer.Option(help="With --nodes: questions.csv with labels filled in, which decide."),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Adapt a model to an unlabelled graph.

    Writes predictions.npz, changed.csv, answer.safetensors, report.html and summary.json; with
    --ask also questions.csv, questions.html and questions.safetensors. Exits with 3 where the
    features cannot be what the source's are.
    """
    from rich.text import Text

    from matcha_gnn.cli import console
    from matcha_gnn.cli.output import BROKEN

    if options.in_tables(
        files, nodes, edges, network=network, weights=weights, logits=logits, strategy=strategy,
        table=table, positive=positive, classes=classes, metric=options.unless(metric, "accuracy"),
        device=options.unless(device, "cpu"),
    ):  # fmt: skip
        from matcha_gnn.tables.command import adapt_command

        tables = str(nodes), str(edges), options.needed("--source", source)
        said, broken = adapt_command(
            *tables, output, memory=memory or "2GB", id=id or "id", features=features or "x",
            probs=str(probs or "probs"), undirected=undirected, ask=ask, answers=answers,
            force=force, as_json=json,
        )  # fmt: skip
        console.out.print(Text(said), soft_wrap=json)
        if broken:
            raise typer.Exit(BROKEN)
        return
    options.need_tables(
        memory=memory, undirected=undirected, id=id, features=features, answers=answers
    )
    import matcha_gnn as mg
    from matcha_gnn.cli.networks import given_model, usable_device
    from matcha_gnn.cli.output import print_questions, print_run, require_free
    from matcha_gnn.cli.outputs import can_report, write_outputs
    from matcha_gnn.cli.strategies import strategy_of
    from matcha_gnn.io.files import output_folder
    from matcha_gnn.io.questionfiles import Place
    from matcha_gnn.questions.tables import read_table

    model_file, graph_file = options.model_and_graph(files)
    seeking = None if strategy is None else strategy_of(strategy)
    if ask is not None:
        require_whole("--ask", ask, least=1)
        if strategy is not None:
            raise InvalidArgumentError("--ask", ask, "none with --strategy: it compares nothing")
    elif table is not None:
        raise InvalidArgumentError("--table", table, "none without --ask")
    on = usable_device(device)
    require_free(output, force)
    model = given_model(model_file, network, weights, probs, logits)
    data = mg.read_graph(graph_file, check_labels=False, further=network is not None)
    names, columns = (None, None) if table is None else read_table(table, data.num_nodes)
    output_folder(output)
    with console.warnings_as_lines():
        result = mg.adapt(
            model.to(on),
            data.to(on),
            source=source,
            strategy=seeking,
            metric=metric,
            positive=positive,
            classes=options.names_in(classes),
        )
    no_questions = None
    if ask is not None:
        try:
            result.ask(ask, names=names, table=columns)
        # Said at the end: all else is written.
        except MatchaError as error:
            no_questions = error
    page = can_report(console.say)
    place = Place(str(graph_file.resolve()), network is not None)
    summary = write_outputs(result, output, data, command=context.obj, place=place, page=page)
    if no_questions is not None:
        raise no_questions
    if json:
        console.print_json(summary)
    else:
        print_run(summary, output, page)
        if result.questions is not None:
            print_questions(output, len(result.questions), page)
    if result.broken:
        raise typer.Exit(BROKEN)
