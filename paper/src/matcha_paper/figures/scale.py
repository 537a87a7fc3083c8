"""Graphs larger than memory: time, memory and accuracy as a graph grows, as in the paper's figure.

Every stage is a command in a process of its own, so that its peak memory is its own too.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from matcha_gnn.datasets import csbm
from matcha_gnn.graphs.stored.plan import bytes_of, read_speed
from matcha_gnn.io.files import output_folder
from matcha_gnn.io.graphfiles import write_graph
from matcha_gnn.report.palette import BLUE, GREEN, ORANGE
from matcha_paper.figures.numbers import Effort, Row, Rows, column
from matcha_paper.figures.style import label, panels, save

SIZES, QUICK_SIZES = (5000, 10_000, 100_000, 1_000_000, 10_000_000), (1000, 10_000)
FEATURES, DEGREE, ROUNDS = 32, 10, 20
SOURCE_SEED, TARGET_SEED = 10, 11
MODEL = "model.safetensors"


class Command(NamedTuple):
    """What a command said, and what it took.

    Attributes:
        said: its JSON document.
        peak: resident bytes at most.
    """

    said: dict[str, Any]
    peak: int


def run_command(*arguments: object, threads: int) -> Command:
    """Run `matcha ARGUMENTS --json` in a process of its own."""
    return run_process("-m", "matcha_gnn", *arguments, "--json", threads=threads)


def run_process(*arguments: object, threads: int) -> Command:
    """Run `python ARGUMENTS`, which prints a JSON document, in a process of its own."""
    # By way of a small process: a child's peak counts from that of the process it was forked from.
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    code = (
        "import json, resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)\n"
        "peak = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "print(json.dumps([json.loads(done.stdout or '{}'), peak, done.returncode]))\n"
    )
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        stdout=subprocess.PIPE,
        check=True,
        env=environment,
    )
    said, peak, code_of = json.loads(done.stdout)
    if code_of:
        raise subprocess.CalledProcessError(code_of, command)
    return Command(said, peak)


def source_model(folder: Path, threads: int) -> Path:
    """A model file, trained once: CSBM with 5,000 nodes and homophily 0.8."""
    path = output_folder(folder) / MODEL
    if not path.is_file():
        graph = folder / "source.npz"
        write_graph(csbm(5000, FEATURES, DEGREE, 0.8, seed=SOURCE_SEED), graph)
        run_command("train", graph, "-o", path, "--epochs", 200, "--seed", 10, threads=threads)
    return path


def measured(nodes: int, folder: Path, memory: str, threads: int, keep: bool = False) -> Row:
    """Make a graph, its hops, and adapt to it; a row of numbers.

    Args:
        nodes: N.
        folder: on the disk to be used; the store in it is removed at the end.
        memory: the limit for every command that adapts.
        threads: of every command.
        keep: leave the store there.
    """
    start = perf_counter()
    store, made = made_store(nodes, folder, threads)
    make_seconds = perf_counter() - start
    hops = _adapted(nodes, folder, memory, threads, rounds=0)
    row = {
        "nodes": nodes,
        "edges": made.said["edges"] // 2,
        "make_seconds": make_seconds,
        "make_peak_gb": made.peak / 1e9,
        "propagate_seconds": hops.said["seconds"]["inference"],
        "propagate_peak_gb": hops.peak / 1e9,
    }
    row |= rounds_measured(nodes, folder, memory, threads)
    if not keep:
        shutil.rmtree(store)
    return row


def made_store(nodes: int, folder: Path, threads: int) -> tuple[Path, Command]:
    """A new store with a target of so many nodes, and what the command said."""
    store = store_in(folder, nodes)
    shutil.rmtree(store, ignore_errors=True)
    law = "--nodes", nodes, "--features", FEATURES, "--degree", DEGREE, "--homophily", 0.2
    given = "make-graph", "csbm", *law, "--seed", TARGET_SEED, "--store", store
    return store, run_command(*given, threads=threads)


def store_in(folder: Path, nodes: int) -> Path:
    """Where the store of a size is."""
    return folder / f"csbm-{nodes}"


def rounds_measured(nodes: int, folder: Path, memory: str, threads: int) -> Row:
    """The part of a row that is about adaptation, for a store whose hops are there."""
    command = run_process(
        *("-m", "matcha_paper.figures.rounds", source_model(folder, threads)),
        *(store_in(folder, nodes), memory, ROUNDS),
        threads=threads,
    )
    files = sorted((store_in(folder, nodes) / "hops").rglob("hop-*.npy"))
    stack = sum(path.stat().st_size for path in files)
    speed = float(np.median([read_speed(path) for path in files]))
    said, seconds = command.said, command.said["round_seconds"]
    return {
        "setup_seconds": said["setup_seconds"],
        "round_seconds": min(seconds),
        "round_seconds_median": float(np.median(seconds)),
        "round_ns_per_node": 1e9 * min(seconds) / nodes,
        "rounds": ROUNDS,
        "adapt_peak_gb": command.peak / 1e9,
        "memory_gb": bytes_of(memory) / 1e9,
        "threads": threads,
        "stack_gb": stack / 1e9,
        "disk_read_gb_per_second": speed / 1e9,
        "round_seconds_from_disk": stack / speed,
        "accuracy_before": said["accuracy_before"],
        "accuracy_after": said["accuracy_after"],
    }


def _adapted(nodes: int, folder: Path, memory: str, threads: int, rounds: int) -> Command:
    given = "adapt", source_model(folder, threads), store_in(folder, nodes)
    options = "-o", folder / "out", "--force", "--memory", memory
    strategy = "--strategy", "matcha", "--set", f"rounds={rounds}"
    return run_command(*given, *options, *strategy, threads=threads)


def measure(effort: Effort) -> Rows:
    """A row for each size."""
    sizes = QUICK_SIZES if effort.quick else SIZES
    rows: Rows = []
    with tempfile.TemporaryDirectory(prefix="matcha-scale-") as folder:
        for nodes in sizes:
            rows.append(measured(nodes, Path(folder), "4GB", os.cpu_count() or 1))
            if effort.progress:
                effort.progress(len(rows), len(sizes))
    return rows


def draw(rows: Rows, folder: Path) -> list[Path]:
    """Seconds, peak memory and accuracy against the number of nodes."""
    nodes = np.array(column(rows, "nodes"), float)
    with panels(1, 3, width=11, height=3.4) as (figure, axes):
        seconds, memory, scores = axes[0]
        lines = {
            "drawing the graph": ("make_seconds", GREEN, "^"),
            "9 hops, once": ("propagate_seconds", ORANGE, "s"),
            "one round": ("round_seconds", BLUE, "o"),
        }
        for text, (key, colour, marker) in lines.items():
            seconds.loglog(nodes, column(rows, key), color=colour, marker=marker, label=text)
        label(seconds, "nodes", "seconds")
        seconds.legend(fontsize=9)
        memory.loglog(nodes, column(rows, "stack_gb"), "--", color=ORANGE, label="hops on disk")
        peaks = np.maximum(column(rows, "propagate_peak_gb"), column(rows, "adapt_peak_gb"))
        memory.loglog(nodes, peaks, color=BLUE, marker="o", label="peak memory")
        memory.axhline(rows[-1]["memory_gb"], color=GREEN, linestyle=":", label="promised")
        label(memory, "nodes", "GB")
        memory.legend(fontsize=9)
        for text, (key, colour, marker) in {
            "before": ("accuracy_before", ORANGE, "s"),
            "after": ("accuracy_after", BLUE, "o"),
        }.items():
            values = 100 * np.array(column(rows, key), float)
            scores.semilogx(nodes, values, color=colour, marker=marker, label=text)
        scores.set_ylim(40, 101)
        label(scores, "nodes", "accuracy in %")
        scores.legend(fontsize=9)
        return save(figure, folder, "scale")
