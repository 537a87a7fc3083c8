"""Runs that are killed: files are whole or absent, and the next run succeeds.

They are killed at random moments, and just before a file gets its name.

As a script it makes the files, runs every job once, and forks itself for each run that is killed:
so a run starts at once. It writes a record as JSON.

Run: python tests/trust/kills.py KILLS EVERY SEED RECORD

KILLS at random moments, and one at every EVERYth file.
"""

import contextlib
import csv
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matcha_gnn.io.asked import read_call
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg
from matcha_gnn.cli import asking, commands
from matcha_gnn.cli.app import main as matcha
from matcha_gnn.io import outputs

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}(\.\w+)?|\.spool-.*")
PATIENCE = 60.0
"""Seconds after which a run counts as one that hangs."""
MOST_FILES = 100
"""No job writes more."""
QUESTIONS = 24
OUTPUTS = "out"


class Job(NamedTuple):
    """What is run, and killed.

    Attributes:
        name: of the job.
        run: the work, in a folder with the files of `prepare`.
        share: of all kills.
        page: write pages, too: a run with them takes ten times as long.
    """

    name: str
    run: Callable[[], None]
    share: float
    page: bool = False


ARRAYS = tuple(f"{name}.npy" for name in ("x", "y", "indptr", "indices", "values", "links"))
"""Of a store."""


def command(*words: str) -> Callable[[], None]:
    """The command `matcha` with these words."""
    return lambda: matcha(list(words))


WRITES = ("-o", OUTPUTS, "--force", "--json")
ADAPT = ("adapt", "m.safetensors", "t.npz", *WRITES)
TRAINING = ("--epochs", "20", "--hidden", "8", "--hops", "2")
JOBS = (
    Job("train", command("train", "g.npz", "-o", "n.safetensors", *TRAINING), 0.12),
    Job("adapt", command(*ADAPT), 0.2),
    Job("adapt with pages", command(*ADAPT, "--ask", str(QUESTIONS)), 0.08, page=True),
    Job("ask", command(*ADAPT, "--ask", str(QUESTIONS)), 0.15),
    Job("answer", command("answer", "asked", "answers.csv", "--json"), 0.15),
    Job("watch", command("watch", "m.safetensors", "graphs", "-o", "watched", "--once"), 0.1),
    Job("stored graph", command("adapt", "m.safetensors", "store", *WRITES), 0.1),
    Job("write a store", lambda: _write_store(), 0.1),
)


def _write_store() -> None:
    mg.GraphStore.create("new", mg.read_graph("t.npz"))


def prepare(folder: Path) -> None:
    """Files that the jobs read, and the outputs of an earlier run."""
    graph = tiny_graph()
    mg.save_model(trained_model(), folder / "m.safetensors")
    mg.write_graph(tiny_graph(0.8, seed=0), folder / "g.npz")
    mg.write_graph(graph, folder / "t.npz")
    mg.GraphStore.create(folder / "store", graph)
    (folder / "graphs").mkdir()
    for seed in range(3):
        path = folder / "graphs" / f"{seed}.npz"
        mg.write_graph(tiny_graph(0.3, seed=seed), path)
        # Of old files nobody waits to see whether they still grow.
        os.utime(path, (1e9, 1e9))
    earlier = command(*ADAPT, "--strategy", "matcha", "--set", "rounds=1")
    ask = command("adapt", "m.safetensors", "t.npz", "-o", "asked", "--ask", str(QUESTIONS))
    for run in (earlier, ask):
        assert _ended(_started(Job("prepare", run, 0), folder)) == 0
    with (folder / "asked" / "questions.csv").open() as file:
        nodes = [int(row["node"]) for row in csv.DictReader(file)]
    lines = "".join(f"{node},{int(graph.y[node])}\n" for node in nodes)
    (folder / "answers.csv").write_text("node,label\n" + lines)


def _started(job: Job, folder: Path) -> int:
    """Do a job in a process of its own; its number."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        os.chdir(folder)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        if not job.page:
            for module in (commands, asking, outputs):
                module.can_report = lambda tell: False
        job.run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 71
    finally:
        os._exit(code)


def _ended(child: int, within: float = PATIENCE) -> int | None:
    """How a process ended; None for one that did not, which is killed."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        number, status = os.waitpid(child, os.WNOHANG)
        if number:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def files(folder: Path) -> list[Path]:
    """Every file but those that are being written, and locks."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [
        p for p in found if not any(part.startswith(".") for part in p.relative_to(folder).parts)
    ]


def left_over(folder: Path) -> list[str]:
    """Temporary files."""
    return [path.name for path in folder.rglob(".*") if TEMPORARY.fullmatch(path.name)]


def faults(folder: Path) -> Iterator[str]:
    """Files that cannot be read to their end, and folders whose summary is not theirs."""
    for path in files(folder):
        try:
            _read(path)
        except Exception as error:
            yield f"{path.relative_to(folder)}: {type(error).__name__}: {error}"
    for summary in folder.rglob("summary.json"):
        with contextlib.suppress(FileNotFoundError):
            yield from _strangers(summary)


def _read(path: Path) -> None:
    if path.suffix == ".safetensors":
        mg.load_model(path)
    elif path.suffix == ".npz":
        with np.load(path) as arrays:
            _ = [arrays[name] for name in arrays.files]
    elif path.name in ARRAYS and not path.with_name("meta.json").exists():
        _require_refused(path.parent)
    elif path.suffix == ".npy":
        np.load(path)
    elif path.name == "asked.json":
        read_call(path.parent)
    elif path.name == "meta.json":
        mg.GraphStore(path.parent).verify()
    elif path.suffix == ".json":
        json.loads(path.read_text())
    elif path.suffix in (".csv", ".html"):
        text = path.read_text()
        assert text.endswith("\n") or text.rstrip().endswith("</html>"), "not whole"


def _require_refused(store: Path) -> None:
    """A store is one by its meta.json, which is written last: arrays may be cut off before."""
    with contextlib.suppress(mg.InvalidFileError):
        mg.GraphStore(store)
        raise AssertionError("a store that is not finished is taken for one")


def _strangers(summary: Path) -> Iterator[str]:
    """What in a folder with a summary belongs to another run."""
    said = json.loads(summary.read_text())
    if said["model_file"]:
        gamma = mg.load_model(summary.with_name(said["model_file"])).gamma
        if not torch.allclose(gamma, torch.tensor(said["gamma_after"]).to(gamma)):
            yield f"{summary.parent.name}: the model is not that of the summary"
    with np.load(summary.with_name("predictions.npz")) as arrays:
        changed = float((arrays["labels"] != arrays["labels_before"]).mean())
    if abs(changed - said["labels_changed"]) > 1e-6:
        yield f"{summary.parent.name}: the predictions are not those of the summary"


def content(folder: Path) -> dict[str, Any]:
    """What a finished run leaves, to compare: names, predictions, weights and rows of a watch."""
    found: dict[str, Any] = {}
    for path in files(folder):
        name = str(path.relative_to(folder))
        found[name] = None
        if path.name == "predictions.npz":
            with np.load(path) as arrays:
                found[name] = {key: arrays[key].tolist() for key in arrays.files}
        elif path.name in ("model.safetensors", "n.safetensors"):
            found[name] = mg.load_model(path).gamma.tolist()
        elif path.name == "watch.csv":
            found[name] = path.read_text().count("\n")
    return found


def before_file(job: Job, number: int) -> Job:
    """The same job, which kills itself when so many files have got their names but one."""

    def run() -> None:
        rename, seen = os.replace, 0

        def counted(*paths: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(*paths)

        os.replace = counted  # type: ignore[assignment]
        job.run()

    return job._replace(run=run)


class Tally:
    """What became of runs of one job that were killed."""

    def __init__(self, job: Job, made: Path) -> None:
        self.job, self.made = job, made
        self.tried = self.ended_before = self.files = 0
        self.wrong: list[str] = []
        with _copy(made) as place:
            start = time.monotonic()
            code = _ended(_started(job, place))
            self.length = time.monotonic() - start
            self.expected = content(place)
            found = [*faults(place), *left_over(place)]
        if code != 0 or found:
            self.wrong.append(f"{job.name}, not killed: {code} {found}")

    def add(self, job: Job, after: float | None = None) -> bool:
        """Kill a run after some seconds, or let it kill itself; whether it was killed."""
        with _copy(self.made) as place:
            child = _started(job, place)
            if after is not None:
                time.sleep(after)
                os.kill(child, signal.SIGKILL)
            if _ended(child) != -signal.SIGKILL:
                self.ended_before += 1
                return False
            self.tried += 1
            self.files += len(files(place))
            wrong = [*faults(place)]
            code = _ended(_started(self.job, place))
            wrong += [] if code == 0 else [f"the next run ended with {code}"]
            wrong += [*faults(place)] + [f"{name} is left over" for name in left_over(place)]
            same = content(place) == self.expected
            wrong += [] if same else ["the next run gives something else"]
            self.wrong += [f"{self.job.name}, kill {self.tried}: {each}" for each in wrong]
            return True


def attack(job: Job, made: Path, kills: int, every: int, draw: random.Random) -> Tally:
    """Kill a job, each time in a fresh copy of the files, and run it again."""
    tally = Tally(job, made)
    if tally.wrong:
        return tally
    for number in range(1, MOST_FILES, every):
        if not tally.add(before_file(job, number)):
            break
    # A run that is over before it is killed is another attempt, but not for ever.
    for _ in range(3 * kills):
        kills -= tally.add(job, draw.uniform(0, tally.length))
        if kills <= 0:
            return tally
    tally.wrong.append(f"{job.name}: {kills} runs too few could be killed")
    return tally


@contextlib.contextmanager
def _copy(made: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(shutil.copytree(made, Path(place) / "inner"))


def main(kills: int, every: int, seed: int, record: Path) -> None:
    """Run all jobs."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {"tried": 0, "ended before": 0, "files": 0, "wrong": [], "jobs": {}}
    with tempfile.TemporaryDirectory() as place:
        made = Path(place)
        prepare(made)
        for job in JOBS:
            number = max(1, round(kills * job.share))
            tally = attack(job, made, number, every, random.Random(f"{job.name} {seed}"))
            found["tried"] += tally.tried
            found["ended before"] += tally.ended_before
            found["files"] += tally.files
            found["wrong"] += tally.wrong
            found["jobs"][job.name] = tally.tried
    record.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), Path(sys.argv[4]))
