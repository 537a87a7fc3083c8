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
    gather: bool,
    json: bool,
    command: str,
    **settings: Any,
) -> None:
    """Adapt together with the other ranks; each writes its part, and rank 0 says what was done."""
    base, objective = chosen(method, options, loss)
    if device not in DEVICES:
        allowed = f"{' or '.join(DEVICES)} with --distributed: a rank takes the GPU of its number"
        raise InvalidArgumentError("--device", repr(device), allowed)
    with joined(device=device) as ranks:
        with ranks.agreeing("input"):
            source, data = load_model(model).to(ranks.device), read_graph(graph)
            output_folder(output)
        result = adapt_over_ranks(source, data, base, objective, gather=gather, **settings)
        if gather:
            summary = _from_one_rank(result, data, output, ranks, command)
        else:
            summary = write_shards(cast(PartAdaptation, result), output, ranks, _labels(data))
        if ranks.rank != 0:
            return
    if json:
        console.print_json(summary)
        return
    print_summary(summary)
    console.out.print(f"Written to {output} by {ranks.size} ranks.")


def _from_one_rank(
    result: Adaptation, data: GraphLike, output: Path, ranks: Ranks, command: str
) -> dict[str, Any]:
    """The files of `matcha adapt`, from rank 0."""
    with ranks.agreeing("writing the result"):
        if ranks.rank == 0:
            mask = getattr(data, "test_mask", None)
            return write_outputs(result, output, getattr(data, "y", None), mask, command)
    return {}


def _labels(data: GraphLike) -> Tensor | None:
    """Labels of all nodes, -1 where accuracy does not count them."""
    labels, mask = getattr(data, "y", None), getattr(data, "test_mask", None)
    return labels if labels is None or mask is None else labels.masked_fill(~mask, -1)
