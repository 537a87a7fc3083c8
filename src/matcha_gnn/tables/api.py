"""The entry points of `mg.tables`."""

from time import perf_counter
from typing import Any

from matcha_gnn.errors import NoEvidenceError, optional_imports
from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.progress import LateBar
from matcha_gnn.typing import Progress

with optional_imports("mg.tables"):
    from matcha_gnn.tables.answer import Answer
    from matcha_gnn.tables.engines import engine_of
    from matcha_gnn.tables.program import STAGES, Program, known_source
    from matcha_gnn.tables.reading import Columns, read_graph


def adapt(
    nodes: Any,
    edges: Any,
    *,
    source: SourceSummary | str,
    out: str,
    memory: str | None = None,
    engine: Any = None,
    id: str = "id",
    features: Columns = "x",
    probs: Columns = "probs",
    undirected: bool = False,
    progress: Progress | None = None,
) -> Answer:
    """Adapt a classifier's predictions to an unlabelled graph that lies in tables.

    Source, pool, belief and probe are estimated and compared as `mg.adapt` does; the source's
    predictions are kept unless another candidate is expected to be better. No label is read, and
    the network is not needed.

    Args:
        nodes: one row for each node: the path of Parquet files (a file, a folder, a pattern, or
            what the engine reads), the name of a table, or a data frame of the engine.
        edges: likewise, with the columns `src` and `dst` of ids; other columns are ignored.
        source: what `mg.summarise_source` made on the labelled graph, or its path.
        out: Parquet file to write, or with Spark a folder: id, label, probs, changed; in no order.
            It is written beside and renamed, so it is whole or as it was.
        memory: the most that this process may hold, 2GB by default; what does not fit is on the
            disk beside `out` while the run lasts. Not with an engine, which has its own limit.
        engine: None for DuckDB in this process; else a connection of DuckDB or a SparkSession.
        id: column of the nodes' ids, integers or texts.
        features: column of arrays [F], or F columns of numbers.
        probs: the network's class probabilities likewise, [C].
        undirected: every row of `edges` stands for both directions.
        progress: called with the stages done and their number, in place of the default bar.

    Returns:
        Estimates and the choice; `ask` and `answer` go on from there. It is a context manager: the
        engine keeps the evidence until it is closed.

    Raises:
        InvalidGraphError, InvalidFileError, InvalidArgumentError: bad input, with the first row
            that is wrong.
        MatchaError: too little memory or room on the disk.
    """
    return _run(
        nodes, edges, source, out, memory, engine, id, features, probs, undirected, progress
    )


def estimate(
    nodes: Any,
    edges: Any,
    *,
    source: SourceSummary | str,
    memory: str | None = None,
    engine: Any = None,
    id: str = "id",
    features: Columns = "x",
    probs: Columns = "probs",
    undirected: bool = False,
    progress: Progress | None = None,
) -> Interval:
    """Accuracy that predictions in tables are expected to have, with bounds; see `adapt`.

    Raises:
        NoEvidenceError: it cannot be told; the message says why.
    """
    with _run(
        nodes, edges, source, None, memory, engine, id, features, probs, undirected, progress
    ) as answer:
        if answer.decision.obstacle:
            raise NoEvidenceError(answer.decision.obstacle)
        return answer.decision.candidates[0].accuracy


@plain_torch()
def _run(
    nodes: Any,
    edges: Any,
    source: SourceSummary | str,
    out: str | None,
    memory: str | None,
    engine: Any,
    id: str,
    features: Columns,
    probs: Columns,
    undirected: bool,
    progress: Progress | None,
) -> Answer:
    start, done = perf_counter(), 0
    shown = progress or LateBar("adapting")
    seconds = dict[str, float]()

    def tell(stage: str) -> None:
        nonlocal start, done
        now, done = perf_counter(), done + 1
        seconds[stage], start = now - start, now
        shown(done, STAGES)

    summary = known_source(source)
    assert summary.evidence is not None, "checked"
    features_of_source, classes = summary.evidence.probe_weight.shape
    on = engine_of(engine, memory, None if out is None else str(out))
    try:
        graph = read_graph(
            on,
            nodes,
            edges,
            id=id,
            features=features,
            probs=probs,
            sizes=(features_of_source, classes),
            undirected=undirected,
        )
        tell("checks")
        evidence = Program(graph, summary, tell).run()
        answer = Answer(evidence, None if out is None else str(out), seconds)
        if out is not None:
            answer.write()
            tell("output")
        answer.seconds = seconds
    except BaseException:
        on.close()
        raise
    return answer
