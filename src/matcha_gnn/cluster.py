"""What `matcha adapt --distributed` does on one rank of a cluster."""

from pathlib import Path
from typing import Any, cast

from torch import Tensor

from matcha_gnn import console
from matcha_gnn.commands import chosen, print_summary
from matcha_gnn.distributed import PartAdaptation, Ranks, joined, write_shards
from matcha_gnn.distributed import adapt as adapt_over_ranks
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.files import output_folder
from matcha_gnn.graph import GraphLike, read_graph
from matcha_gnn.modelfile import load_model
from matcha_gnn.outputs import write_outputs
from matcha_gnn.result import Adaptation
from matcha_gnn.stored import GraphStore

DEVICES = ("cpu", "cuda")


def adapt(
    model: Path,
    graph: Path,
    output: Path,
    *,
    method: str,
    options: list[str],
    loss: str | None,
    device: str,
    hops_dtype: str,
    gather: bool,
    timeout: float,
    json: bool,
    command: str,
    **settings: Any,
) -> None:
    """Adapt together with the other ranks; each writes its part, and rank 0 says what was done."""
    base, objective = chosen(method, options, loss)
    if device not in DEVICES:
        allowed = f"{' or '.join(DEVICES)} with --distributed: a rank takes the GPU of its number"
        raise InvalidArgumentError("--device", repr(device), allowed)
    if not timeout > 0:
        raise InvalidArgumentError("--timeout", timeout, "seconds > 0")
    with joined(timeout, device) as ranks:
        with ranks.agreeing("input"):
            source = load_model(model).to(ranks.device)
            tell = {} if ranks.rank else {"tell": console.say}
            data = GraphStore(graph, hops_dtype, **tell) if graph.is_dir() else read_graph(graph)
            output_folder(output)
        result = adapt_over_ranks(source, data, base, objective, gather=gather, **settings)
        write = _gathered if gather else _in_shards
        summary = write(result, data, output, ranks, command)
        if ranks.rank != 0:
            return
    if json:
        console.print_json(summary)
        return
    print_summary(summary)
    console.out.print(f"Written to {output} by {ranks.size} ranks.")


def _gathered(
    result: Adaptation, data: GraphLike | GraphStore, output: Path, ranks: Ranks, command: str
) -> dict[str, Any]:
    """The files of `matcha adapt`, from rank 0."""
    page, summary = not isinstance(data, GraphStore), dict[str, Any]()
    with ranks.agreeing("writing the result"):
        if ranks.rank == 0:
            summary = write_outputs(result, output, *_labels(data), command, page=page)
    return summary


def _in_shards(
    result: Adaptation, data: GraphLike | GraphStore, output: Path, ranks: Ranks, command: str
) -> dict[str, Any]:
    """Each rank's part of the predictions, and the rest from rank 0."""
    return write_shards(cast(PartAdaptation, result), output, ranks, *_labels(data))


def _labels(data: GraphLike | GraphStore) -> tuple[Tensor | None, Tensor | None]:
    """True classes, and the nodes that accuracy counts; either may be missing."""
    if isinstance(data, GraphStore):
        return data.labels, data.mask("test_mask")
    return getattr(data, "y", None), getattr(data, "test_mask", None)
