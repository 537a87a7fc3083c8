"""The command `matcha estimate`."""

import typer

from matcha_gnn.cli import options


def estimate(
    files: options.OnGraph = None,
    network: options.Network = None,
    weights: options.Weights = None,
    probs: options.Probs = None,
    logits: options.Logits = False,
    source: options.SourceFile = None,
    metric: options.MetricName = "accuracy",
    positive: options.Positive = None,
    classes: options.Classes = None,
    device: options.Device = "cpu",
    nodes: options.Nodes = None,
    edges: options.Edges = None,
    memory: options.Memory = None,
    undirected: options.Undirected = False,
    id: options.IdColumn = None,
    features: options.FeatureColumns = None,
    json: options.Json = False,
) -> None:
    """Estimate how right a model is on an unlabelled graph, and say how the graph differs.

    Writes nothing. Exits with 3 where the features cannot be what the source's are.
    """
    from rich.text import Text

    from matcha_gnn.cli import console

    if options.in_tables(
        files, nodes, edges, network=network, weights=weights, logits=logits, positive=positive,
        classes=classes, metric=options.unless(metric, "accuracy"),
        device=options.unless(device, "cpu"),
    ):  # fmt: skip
        from matcha_gnn.tables.command import estimate_command

        tables = str(nodes), str(edges), options.needed("--source", source)
        said = estimate_command(
            *tables, memory=memory or "2GB", id=id or "id", features=features or "x",
            probs=str(probs or "probs"), undirected=undirected, as_json=json,
        )  # fmt: skip
        console.out.print(Text(said), soft_wrap=json)
        return
    options.need_tables(memory=memory, undirected=undirected, id=id, features=features)
    import matcha_gnn as mg
    from matcha_gnn.api import compare, estimated, wanted_by
    from matcha_gnn.cli.networks import given_model, usable_device
    from matcha_gnn.cli.output import BROKEN
    from matcha_gnn.sentences import headline, spread
    from matcha_gnn.shift import shift_card

    model_file, graph_file = options.model_and_graph(files)
    on = usable_device(device)
    model = given_model(model_file, network, weights, probs, logits).to(on)
    data = mg.read_graph(graph_file, check_labels=False, further=network is not None).to(on)
    wanted = wanted_by(metric, positive, options.names_in(classes), data, model)
    with console.warnings_as_lines():
        result = compare(model, data, source, wanted)
    value = estimated(result)
    card = shift_card(result, result.source) if result.source else None
    remarks = result.graph.facts.remarks()
    if json:
        shift = card.to_dict() if card else None
        console.print_json({"estimate": value.to_dict(), "shift": shift, "remarks": remarks})
    else:
        title = f"Estimated {value.metric}"
        said = f"{title}: {spread(result, result.candidates[0].goal)}."
        console.out.print(Text(f"{title}: none. {value.reason}" if value.reason else said))
        if card:
            console.print_rows("Shift", ["", "source", graph_file.name], card.rows)
            console.out.print(
                Text(f"Advice: {card.advice}; {result.obstacle or headline(result)}.")
            )
        for remark in remarks:
            console.out.print(Text(f"The graph: {remark}"))
    if result.broken:
        raise typer.Exit(BROKEN)
