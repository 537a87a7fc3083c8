"""The files of a run over ranks: all of them or none, and each rank writes its shard."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from matcha_gnn.graphs.sharded.ranks import Ranks
from matcha_gnn.graphs.sharded.result import ShardAdaptation
from matcha_gnn.io.files import output_folder
from matcha_gnn.io.jsontext import write_json
from matcha_gnn.io.models import save_model
from matcha_gnn.io.outputs import (
    HISTORY,
    MODEL,
    SUMMARY,
    begin_outputs,
    score_entries,
    summarise_run,
    write_history,
)
from matcha_gnn.metrics import Scorable, scorable


def write_shards(
    result: ShardAdaptation,
    folder: str | Path,
    ranks: Ranks,
    labels: object = None,
    mask: object = None,
) -> dict[str, Any]:
    """Write each rank's predictions, then, from rank 0, model, history and summary.

    Each rank writes a hidden file. Once all are written, rank 0 renames them and writes the rest,
    the summary last: a folder with a summary is complete.

    Args:
        result: of this rank.
        folder: on a file system that all ranks share.
        ranks: of the run.
        labels: true classes of all nodes, [N], for accuracy; other values are not scored.
        mask: the nodes that accuracy counts, bool [N]; all by default.

    Returns:
        The summary.
    """
    folder = Path(folder)
    scored = scorable(labels, mask, result.num_nodes, result.probs.shape[1])
    summary = summarise_run(result, _scores(result, ranks, scored))
    summary |= {"ranks": ranks.size, "bytes_sent": result.sent}
    beside = folder / _shard(ranks.rank, ranks.size, hidden=True)
    try:
        with ranks.agreeing("writing predictions"):
            output_folder(folder)
            _write_own(result, beside)
    except BaseException:
        # Including the file of a rank that died.
        for left in folder.glob(_shard("*", ranks.size, hidden=True)):
            left.unlink(missing_ok=True)
        raise
    with ranks.agreeing("writing the result"):
        if ranks.rank == 0:
            _put_in_place(result, folder, ranks.size, summary)
    return summary


def _write_own(result: ShardAdaptation, path: Path) -> None:
    probs, labels = result.probs.cpu().numpy(), result.labels.cpu().numpy()
    with open(path, "wb") as file:
        np.savez(file, nodes=result.nodes.numpy(), probs=probs, labels=labels)


def _shard(rank: int | str, size: int, hidden: bool = False) -> str:
    return f"{'.' if hidden else ''}predictions-{rank}-of-{size}.npz"


def _put_in_place(
    result: ShardAdaptation, folder: Path, size: int, summary: dict[str, Any]
) -> None:
    shards = [(_shard(rank, size, hidden=True), _shard(rank, size)) for rank in range(size)]
    begin_outputs(folder, {MODEL, HISTORY, *(name for pair in shards for name in pair)})
    for hidden, shown in shards:
        os.replace(folder / hidden, folder / shown)
    save_model(result.model, folder / MODEL)
    write_history(result, folder / HISTORY)
    write_json(folder / SUMMARY, summary)


def _scores(result: ShardAdaptation, ranks: Ranks, scored: Scorable) -> dict[str, Any]:
    """Over the nodes of all ranks."""
    if not scored.number:
        return score_entries(scored, None, None)
    true, counted = scored.labels[result.nodes], scored.mask[result.nodes]
    found = (each.cpu() == true for each in (result.labels_before, result.labels))
    hits = ranks.total(*(float((each & counted).sum()) for each in found))
    return score_entries(scored, *(float(each) / scored.number for each in hits))
