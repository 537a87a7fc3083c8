"""The files of a run over ranks: all of them or none, and each rank writes its own part."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from matcha_gnn.distributed.ranks import Ranks
from matcha_gnn.distributed.result import PartAdaptation
from matcha_gnn.files import output_folder, replacing
from matcha_gnn.modelfile import save_model
from matcha_gnn.outputs import summarise_run, write_history

SUMMARY = "summary.json"


def write_shards(
    result: PartAdaptation, folder: str | Path, ranks: Ranks, labels: Tensor | None = None
) -> dict[str, Any]:
    """Write each rank's predictions, then, from rank 0, model, history and summary.

    A rank writes beside its place. Once all have done so, rank 0 alone puts everything into place,
    the summary last: a folder that has one is complete.

    Args:
        result: of this rank.
        folder: on a file system that all ranks share.
        ranks: of the run.
        labels: true classes of all nodes, [N], for accuracy; negative where they do not count.

    Returns:
        The summary.
    """
    folder = Path(folder)
    summary = summarise_run(result, None) | {"ranks": ranks.size, "bytes_sent": result.sent}
    summary |= _accuracies(result, ranks, labels)
    beside = folder / _shard(ranks.rank, ranks.size, hidden=True)
    try:
        with ranks.agreeing("writing predictions"):
            output_folder(folder)
            _write_own(result, beside)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    with ranks.agreeing("writing the result"):
        if ranks.rank == 0:
            _put_in_place(result, folder, ranks.size, summary)
    return summary


def _write_own(result: PartAdaptation, path: Path) -> None:
    probs, labels = result.probs.cpu().numpy(), result.labels.cpu().numpy()
    with open(path, "wb") as file:
        np.savez(file, nodes=result.nodes.numpy(), probs=probs, labels=labels)


def _shard(rank: int, size: int, hidden: bool = False) -> str:
    return f"{'.' if hidden else ''}predictions-{rank}-of-{size}.npz"


def _put_in_place(result: PartAdaptation, folder: Path, size: int, summary: dict[str, Any]) -> None:
    (folder / SUMMARY).unlink(missing_ok=True)
    for old in folder.glob("predictions*.npz"):
        old.unlink()
    for rank in range(size):
        os.replace(folder / _shard(rank, size, hidden=True), folder / _shard(rank, size))
    save_model(result.model, folder / "model.safetensors")
    write_history(result, folder / "history.csv")
    with replacing(folder / SUMMARY) as beside:
        beside.write_text(json.dumps(summary, indent=2) + "\n")


def _accuracies(result: PartAdaptation, ranks: Ranks, labels: Tensor | None) -> dict[str, Any]:
    if labels is None:
        return {}
    true = labels[result.nodes]
    found = [float((each.cpu() == true).sum()) for each in (result.labels_before, result.labels)]
    before, after, number = (float(sum_) for sum_ in ranks.total(*found, float((true >= 0).sum())))
    return {"accuracy_before": before / number, "accuracy_after": after / number}
