"""Processes on one machine that work as the ranks of a cluster."""

import datetime
import multiprocessing
import queue
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

import matcha_gnn as mg

CONTEXT = multiprocessing.get_context("forkserver")
# Imported once, in a process from which all ranks are forked.
PRELOADED = ("pytest", "torch_geometric.data", "matcha_gnn.cli.cluster", "matcha_gnn.kernels.cpu")
CONTEXT.set_forkserver_preload(list(PRELOADED))
PATIENCE = 100


def run_ranks(size, work, *arguments, timeout=20.0, silent=()):
    """Run work(rank, *arguments) on each rank; give their results, errors being results too.

    Ranks from which no answer is expected are ended when the others have spoken.
    """
    answers = CONTEXT.Queue()
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        started = [
            CONTEXT.Process(
                target=_rank, args=(rank, size, meeting, timeout, answers, work, arguments)
            )
            for rank in range(size)
        ]
        for process in started:
            process.start()
        found = _collected(started, answers, size - len(silent))
        for rank, process in enumerate(started):
            process.join(0 if rank in silent else PATIENCE)
            process.kill()
    return [found.get(rank) for rank in range(size)]


def results_of(size, work, *arguments):
    """The same where no rank may fail."""
    answers = run_ranks(size, work, *arguments)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    assert None not in answers
    return answers


def adapt_on_ranks(model, graph, *how, hops=None, seed=0, progress=None, **sharing):
    """`mg.adapt` by all ranks together; what it does not take goes to `shard`."""
    shared = mg.distributed.shard(graph, **sharing)
    return mg.adapt(model, shared, *how, hops=hops, seed=seed, progress=progress)


def _collected(started, answers, expected):
    """What came, until as many as are expected have spoken or all processes have ended."""
    found, until = {}, time.monotonic() + PATIENCE
    while len(found) < expected and time.monotonic() < until:
        over = not any(process.is_alive() for process in started)
        try:
            rank, answer = answers.get(timeout=0.05)
            found[rank] = answer
        except queue.Empty:
            if over:
                break
    return found


def _rank(rank, size, meeting, timeout, answers, work, arguments):
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=timeout)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=size, timeout=limit
    )
    try:
        answer = work(rank, *arguments)
    except Exception as error:
        answer = error
    answers.put((rank, _plain(answer)))
    answers.close()
    answers.join_thread()


def _plain(answer):
    """Tensors as arrays: a tensor in a message needs its process to be there still."""
    if isinstance(answer, torch.Tensor):
        return answer.numpy()
    if isinstance(answer, dict):
        return {key: _plain(each) for key, each in answer.items()}
    return type(answer)(map(_plain, answer)) if isinstance(answer, tuple | list) else answer
