"""What `matcha adapt --distributed` does on one rank of a cluster."""

from typing import Any, cast

from rich.text import Text

from matcha_gnn.adaptation import run_adaptation
from matcha_gnn.cli import asking, console
from matcha_gnn.cli.commands import Job, for_scores, print_summary, read_target
from matcha_gnn.cli.networks import given_model
from matcha_gnn.cli.output import require_free
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.graphs.memory import GraphLike
from matcha_gnn.graphs.sharded import Ranks, ShardAdaptation, joined, shard, write_shards
from matcha_gnn.graphs.stored import GraphStore
from matcha_gnn.io.files import output_folder
from matcha_gnn.io.outputs import Made, can_report, write_outputs
from matcha_gnn.kernels.devices import DEVICES
from matcha_gnn.result import Adaptation

PLACES = ("cpu", *(name for name, row in DEVICES.items() if row.backend))


def adapt(job: Job, *, gather: bool, timeout: float) -> None:
    """Adapt together with the other ranks; each writes its shard, and rank 0 prints."""
    method, strategy = job.base_method(), job.chosen_strategy()
    asking.check(job, None)
    if job.device not in PLACES:
        allowed = f"{' or '.join(PLACES)} with --distributed: a rank takes the GPU of its number"
        raise InvalidArgumentError("--device", repr(job.device), allowed)
    if not timeout > 0:
        raise InvalidArgumentError("--timeout", timeout, "seconds > 0")
    with joined(timeout, job.device) as ranks:
        with ranks.agreeing("output folder"):
            # Before another rank can have written there.
            if ranks.rank == 0:
                require_free(job.output, job.force)
        with ranks.agreeing("input"):
            source = given_model(job.model, None, None).to(ranks.device)
            data = read_target(job, _unheard if ranks.rank else console.say)
            output_folder(job.output)
        shared = shard(data, gather=gather, timeout=timeout)
        wanted = job.wanted(data)
        result = run_adaptation(source, shared, method, strategy, wanted=wanted, seed=job.seed)
        write = _gathered if gather else _in_shards
        summary = write(result, data, job, ranks)
        if ranks.rank != 0:
            return
    if job.json:
        console.print_json(summary)
        return
    print_summary(summary)
    console.out.print(Text(f"Written to {job.output} by {ranks.size} ranks."))


def _gathered(
    result: Adaptation, data: GraphLike | GraphStore, job: Job, ranks: Ranks
) -> dict[str, Any]:
    """The files of `matcha adapt`, from rank 0."""
    summary = dict[str, Any]()
    with ranks.agreeing("writing the result"):
        if ranks.rank == 0:
            page = not isinstance(data, GraphStore) and can_report(console.say)
            made = Made(job.command, job.graph.name, page)
            summary = write_outputs(result, job.output, *for_scores(data), made)
    return summary


def _in_shards(
    result: Adaptation, data: GraphLike | GraphStore, job: Job, ranks: Ranks
) -> dict[str, Any]:
    """Each rank's part of the predictions, and the rest from rank 0."""
    return write_shards(cast(ShardAdaptation, result), job.output, ranks, *for_scores(data))


def _unheard(line: str) -> None:
    """What one rank says is enough."""
