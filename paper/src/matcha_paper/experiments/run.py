"""Run the cells of an experiment; cells that share a source model share its training."""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.typing import Progress
from matcha_paper.experiments import store
from matcha_paper.experiments.algorithms import algorithm_of
from matcha_paper.experiments.rounds import share_right, watched
from matcha_paper.experiments.source_models import SourceModel, cached_source, make_graph
from matcha_paper.experiments.spec import (
    BELIEF,
    OURS,
    Cell,
    Experiment,
    RowSpec,
    cells,
    source_model,
)

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

    from matcha_gnn.gamma.methods import BaseMethod
    from matcha_gnn.gamma.models import Backbone
    from matcha_gnn.gamma.strategies import Strategy
    from matcha_gnn.network.network import Network
    from matcha_gnn.result import Result


EXACT = "exact"
"""The optimizer of rows in closed form."""
ROUNDS = "matcha"
"""The algorithm whose rounds are recorded one by one."""
LARGEST = ("twitch", "syn_coauthor_cs")
"""Data sets whose cells take longest; they are run first."""


def run(
    experiment: Experiment,
    folder: Path,
    *,
    seeds: tuple[int, ...] | None = None,
    jobs: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> int:
    """Run what is not recorded yet of one experiment, as `run_all` does."""
    return run_all([experiment], folder, seeds=seeds, jobs=jobs, device=device, progress=progress)


def run_all(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    seeds: tuple[int, ...] | None = None,
    jobs: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> int:
    """Run what is not recorded yet, all experiments by the same processes.

    Args:
        experiments: what to run.
        folder: where records are kept; a cell that has one with the same settings is skipped. At
            the end the tables' files are left with one line per cell.
        seeds: instead of the experiments' own.
        jobs: processes; by default one per core, each with its share of the threads, and one
            on a GPU.
        device: where training and adaptation run, as torch names it.
        progress: called with the cells done and their number.

    Returns:
        The number of cells that were run.

    Raises:
        InvalidFileError: a data set is missing. Cells of the others have been run and recorded.
    """
    todo = store.missing([cell for each in experiments for cell in cells(each, seeds)], folder)
    groups = grouped(todo)
    most = (os.cpu_count() or 1) if device == "cpu" else 1
    jobs = min(jobs or most, max(1, len(todo)))
    done, missing = 0, {}
    for finished in _work(groups, folder, jobs, device):
        if isinstance(finished, InvalidFileError):
            missing[str(finished)] = finished
            continue
        done += finished
        if progress:
            progress(done, len(todo))
    for experiment in experiments:
        store.compact(experiment.name, folder)
    if missing:
        raise all_of(list(missing.values()))
    return done


def grouped(todo: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that share a source model, whatever their table, together; the largest data first."""
    shared = [list(group) for _, group in groupby(sorted(todo, key=source_model), key=source_model)]
    return sorted(shared, key=lambda group: group[0].source["generator"] not in LARGEST)


def parts(group: Iterable[Cell]) -> list[list[Cell]]:
    """Cells of one source model by target graph and base method: they can be run apart."""

    def part(cell: Cell) -> str:
        return repr((sorted(cell.target.items()), sorted(cell.attack.items()), cell.run.method))

    return [list(cells_) for _, cells_ in groupby(sorted(group, key=part), key=part)]


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
    waiting, ready = deque(groups), deque[list[Cell]]()
    running: dict[Future[int | InvalidFileError], list[Cell]] = {}
    with worker_pool(jobs) as pool:
        while waiting or ready or running:
            while len(running) < jobs and (ready or waiting):
                if ready:
                    running[pool.submit(run_group, ready.popleft(), folder, device)] = []
                else:
                    group = waiting.popleft()
                    running[pool.submit(make_source, group, folder)] = group
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                ready.extend(parts(running.pop(future)))
                yield future.result()


def worker_pool(jobs: int) -> ProcessPoolExecutor:
    """Processes that share the cores of this machine."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    # A spawned process imports the main module, and NumPy with it, before `start_worker` runs.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    # Spawned, not forked: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, context, start_worker, (threads,))


def start_worker(threads: int) -> None:
    """Prepare a spawned process: its share of the cores, and an end when its parent ends."""
    # Before torch is imported: a pool of idle threads per process would spin.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """A worker whose parent was killed would otherwise run its queue to the end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def make_source(group: Sequence[Cell], folder: Path) -> int | InvalidFileError:
    """Train the source model of a group into its file, with what all methods of the group need.

    Returns:
        0, the number of cells that were run, or which file of a data set is not there.
    """
    try:
        _source(group, folder, "cpu")
    except InvalidFileError as error:
        return error
    return 0


def _source(group: Sequence[Cell], folder: Path, device: str) -> SourceModel:
    """The source model of a group; tables that share it give arrays to different methods."""
    first, methods = group[0], {cell.run.method for cell in group}
    ship = tuple(dict.fromkeys(name for cell in group for name in cell.train.ship))
    asking = replace(first, train=replace(first.train, ship=ship))
    return cached_source(asking, folder, device, methods)


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
                source = _source(group, folder, device)
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
    from matcha_paper.attack import attacked

    graph = make_graph(cell.target).to(device)
    if not cell.attack:
        return graph
    nodes = graph.y >= 0
    return attacked(model, graph, **cell.attack, nodes=nodes, seed=cell.seed)


def build_method(spec: RowSpec) -> "BaseMethod":
    """The base method of a row, with the row's options."""
    from matcha_gnn.gamma.methods import METHODS
    from matcha_gnn.registry import build, resolve

    return build("method_options", resolve("method", spec.method, METHODS), spec.method_options)


def adapt_cell(
    cell: Cell, model: "Network", graph: "Data", method: "BaseMethod", lr: float, epochs: int
) -> "Result":
    """Run a cell's row on a graph, with a given step size and number of rounds.

    Raises:
        IncompatibleError: the two do not go together, or a row of the default around a base method.
    """
    from matcha_gnn.api import adapt
    from matcha_gnn.errors import IncompatibleError
    from matcha_gnn.gamma.running import run as run_strategy

    spec = cell.run
    if spec.loss in (OURS, BELIEF) and epochs > 0:
        if spec.method != "erm":
            raise IncompatibleError(
                f"the default takes no base method, such as {spec.method}: commit b893fda7 is the "
                "last that makes this row"
            )
        result = adapt(model, graph)
        return result if spec.loss == OURS else result.take("pool")
    return run_strategy(model, graph, method, strategy_of(spec, lr, epochs), seed=cell.seed)


def strategy_of(spec: RowSpec, lr: float, epochs: int) -> "Strategy":
    """What a row runs around its base method, with a given step size and number of rounds."""
    from matcha_gnn.gamma.losses import LOSSES
    from matcha_gnn.gamma.strategies import ClosedForm, Matcha, Unadapted
    from matcha_gnn.registry import resolve

    if epochs == 0:
        return Unadapted()
    loss = resolve("loss", spec.loss, LOSSES)()
    if spec.optimizer == EXACT:
        return ClosedForm(loss=loss, rounds=epochs)
    return Matcha(loss=loss, lr=lr, rounds=epochs, features=spec.features)


def _record(cell: Cell, source: SourceModel, graph: "Data", folder: Path) -> None:
    from matcha_gnn.errors import IncompatibleError
    from matcha_gnn.gamma.result import MatchaResult
    from matcha_gnn.metrics import accuracy, edge_homophily, evaluate

    model: Network = source.model
    seconds, method = {"train": source.seconds}, build_method(cell.run)
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
        numbers = {**scores, "status": str(result.status)}
        if isinstance(result, MatchaResult):
            numbers["gamma"] = result.gamma.tolist()
        numbers["accuracy_all"] = accuracy(result.probs, graph.y)
        numbers["homophily"] = edge_homophily(graph.edge_index, graph.y)
        if labels:
            numbers["curve"] = [round(share_right(each, graph.y, scored), 5) for each in labels]
        seconds |= result.seconds
    store.write(cell, numbers, seconds, source.made, graph.x.device, folder)
