"""Run the cells of an experiment; cells that share a source model share its training."""

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.paper.experiments import store
from matcha_gnn.paper.experiments.algorithms import algorithm_of
from matcha_gnn.paper.experiments.rounds import share_right, watched
from matcha_gnn.paper.experiments.source_models import SourceModel, cached_source, make_graph
from matcha_gnn.paper.experiments.spec import (
    BELIEF,
    OURS,
    Cell,
    Experiment,
    RowSpec,
    cells,
    source_model,
)
from matcha_gnn.typing import Progress

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

    from matcha_gnn.backbones import Backbone
    from matcha_gnn.methods import BaseMethod
    from matcha_gnn.result import Adaptation
    from matcha_gnn.strategies import Strategy


EXACT = "exact"
"""The optimizer of rows in closed form."""
ROUNDS = "matcha"
"""The algorithm whose rounds are recorded one by one."""


def run(
    experiment: Experiment,
    folder: Path,
    *,
    seeds: tuple[int, ...] | None = None,
    jobs: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> int:
    """Run what is not recorded yet, several source models at a time.

    Args:
        experiment: what to run.
        folder: where records are kept; a cell that has one with the same settings is skipped. At
            the end the table's file is left with one line per cell.
        seeds: instead of the experiment's own.
        jobs: processes; by default one per core, each with its share of the threads, and one
            on a GPU.
        device: where training and adaptation run, as torch names it.
        progress: called with the cells done and their number.

    Returns:
        The number of cells that were run.

    Raises:
        InvalidFileError: a data set is missing. Cells of the others have been run and recorded.
    """
    todo = store.missing(cells(experiment, seeds), folder)
    groups = [list(group) for _, group in groupby(todo, key=source_model)]
    most = (os.cpu_count() or 1) if device == "cpu" else 1
    jobs = min(jobs or most, max(1, len(groups)))
    done, missing = 0, {}
    for finished in _work(groups, folder, jobs, device):
        if isinstance(finished, InvalidFileError):
            missing[str(finished)] = finished
            continue
        done += finished
        if progress:
            progress(done, len(todo))
    store.compact(experiment.name, folder)
    if missing:
        raise all_of(list(missing.values()))
    return done


def all_of(missing: list[InvalidFileError]) -> InvalidFileError:
    """One error that names every file once."""
    first, *others = missing
    allowed = "; ".join([first.allowed, *map(str, others)])
    return InvalidFileError(first.argument, first.got, allowed)


def _work(
    groups: list[list[Cell]], folder: Path, jobs: int, device: str
) -> Iterator[int | InvalidFileError]:
    if jobs == 1:
        yield from (run_group(group, folder, device) for group in groups)
        return
    with worker_pool(jobs) as pool:
        running = [pool.submit(run_group, group, folder, device) for group in groups]
        for future in as_completed(running):
            yield future.result()


def worker_pool(jobs: int) -> ProcessPoolExecutor:
    """Processes that share the cores of this machine."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    # A spawned process imports the main module, and NumPy with it, before `start_worker` runs.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    # Spawned, not forked: threads of compiled kernels do not survive a fork.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, context, start_worker, (threads,))


def start_worker(threads: int) -> None:
    """Prepare a spawned process: its share of the cores, and an end when its parent ends."""
    # Before torch and numba are imported: a pool of idle threads per process would spin.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), str(threads))
    import torch

    torch.set_num_threads(threads)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """A worker whose parent was killed would otherwise run its queue to the end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_group(group: Sequence[Cell], folder: Path, device: str) -> int | InvalidFileError:
    """Run and record every cell of one source model, which is trained if no file has it.

    Returns:
        How many cells were run, or which file of a data set is not there.
    """
    source, count = None, 0
    shown: tuple[Any, Data | None] = (None, None)
    for cell in group:
        try:
            if source is None:
                source = cached_source(cell, folder, device, {c.run.method for c in group})
            if shown[0] != (cell.target, cell.attack):
                shown = ((cell.target, cell.attack), target_graph(cell, source.model, device))
        except InvalidFileError as error:
            return error
        assert shown[1] is not None
        _record(cell, source, shown[1], folder)
        count += 1
    return count


def target_graph(cell: Cell, model: "Backbone", device: str) -> "Data":
    """What the cell adapts to, its edges changed where the cell has an adversary.

    He attacks all nodes, those that are not scored as well.
    """
    from matcha_gnn.transforms import attacked

    graph = make_graph(cell.target).to(device)
    if not cell.attack:
        return graph
    nodes = graph.y >= 0
    return attacked(model, graph, **cell.attack, nodes=nodes, seed=cell.seed)


def build_method(spec: RowSpec) -> "BaseMethod":
    """The base method of a row, with the row's options."""
    from matcha_gnn.methods import METHODS
    from matcha_gnn.registry import build, resolve

    return build("method_options", resolve("method", spec.method, METHODS), spec.method_options)


def adapt_cell(
    cell: Cell, model: "Backbone", graph: "Data", method: "BaseMethod", lr: float, epochs: int
) -> "Adaptation":
    """Run a cell's row on a graph, with a given step size and number of rounds."""
    from matcha_gnn.adaptation import adapt

    return adapt(model, graph, method, strategy_of(cell.run, lr, epochs), seed=cell.seed)


def strategy_of(spec: RowSpec, lr: float, epochs: int) -> "Strategy":
    """What a row runs around its base method, with a given step size and number of rounds."""
    from matcha_gnn.losses import LOSSES
    from matcha_gnn.registry import resolve
    from matcha_gnn.strategies import Belief, ClosedForm, Guarded, Matcha, Unadapted

    if epochs == 0:
        return Unadapted()
    if spec.loss == OURS:
        return Guarded()
    if spec.loss == BELIEF:
        return Belief()
    loss = resolve("loss", spec.loss, LOSSES)()
    if spec.optimizer == EXACT:
        return ClosedForm(loss, epochs)
    return Matcha(loss, lr, epochs, spec.optimizer, features=spec.features)


def _record(cell: Cell, source: SourceModel, graph: "Data", folder: Path) -> None:
    from matcha_gnn.errors import IncompatibleError
    from matcha_gnn.metrics import accuracy, edge_homophily, evaluate

    model, seconds, method = source.model, {"train": source.seconds}, build_method(cell.run)
    settings, scored = (cell.run.lr, cell.run.epochs), graph.get("test_mask")
    labels: list[Tensor] = []
    if algorithm_of(cell.run)["name"] == ROUNDS:
        method, labels = watched(method, lambda probs: probs.argmax(1))
    try:
        for options in cell.before:
            on_the_way = make_graph(options).to(graph.x.device)
            model = adapt_cell(cell, model, on_the_way, method, *settings).model
        labels.clear()
        result = adapt_cell(cell, model, graph, method, *settings)
    except IncompatibleError as error:
        numbers: dict[str, Any] = {"accuracy": None, "incompatible": str(error)}
    else:
        scores = evaluate(result.probs, graph.y, scored).as_dict()
        numbers = {**scores, "status": str(result.status), "gamma": result.gamma.tolist()}
        numbers["accuracy_all"] = accuracy(result.probs, graph.y)
        numbers["homophily"] = edge_homophily(graph.edge_index, graph.y)
        if labels:
            numbers["curve"] = [round(share_right(each, graph.y, scored), 5) for each in labels]
        seconds |= result.seconds
    store.write(cell, numbers, seconds, source.made, graph.x.device, folder)
