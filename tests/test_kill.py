"""A run that is killed leaves whole files or none, and the next run succeeds."""

import json
import os
import random
import re
import signal
import time

import pytest

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.io.jsontext import write_json

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
MOST_FILES, AT_RANDOM = 6, 6
OURS = re.compile(r"\..+\.[0-9a-f]{8}(\.\w+)?")
"""Temporary files, but those that the writer of safetensors makes, which it names .tmp……."""


def write(folder, model, result):
    """Each kind of file."""
    mg.save_model(model, folder / "model.safetensors")
    model.source.save(folder / "source.safetensors")
    mg.write_graph(tiny_graph(), folder / "graph.npz")
    write_json(folder / "result.json", result.to_dict())


def read(folder):
    """What the files say; an error where one is not whole."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name == "model.safetensors":
            found[path.name] = mg.load_model(path).gamma.tolist()
        elif path.name == "source.safetensors":
            found[path.name] = mg.SourceSummary.load(path).accuracy.item()
        elif path.name == "graph.npz":
            found[path.name] = mg.read_graph(path).edge_index.sum().item()
        elif path.name == "result.json":
            found[path.name] = json.loads(path.read_text())["chosen"]
        else:
            assert path.name.startswith("."), "nothing but a temporary file"
    return found


def killed(work, at_file=None, after=None):
    """Do the work in a process that is killed; whether it was."""
    child = os.fork()
    if child == 0:
        rename, seen = os.replace, 0

        def counted(*paths):
            nonlocal seen
            seen += 1
            if seen == at_file:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(*paths)

        os.replace = counted
        work()
        os._exit(0)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_killed_run_leaves_whole_files_and_the_next_one_succeeds(tmp_path):
    model, graph = trained_model(), tiny_graph()
    result = mg.adapt(model, graph)
    start = time.monotonic()
    write(tmp_path, model, result)
    length, wanted = time.monotonic() - start, read(tmp_path)
    assert len(wanted) == 4
    draw, deaths = random.Random(0), 0
    ways = [{"at_file": number} for number in range(1, MOST_FILES)]
    ways += [{"after": draw.uniform(0, length)} for _ in range(AT_RANDOM)]
    for way in ways:
        for path in tmp_path.iterdir():
            path.unlink()
        deaths += killed(lambda: write(tmp_path, model, result), **way)
        # Whole: what is there can be read.
        assert read(tmp_path).items() <= wanted.items()
        write(tmp_path, model, result)
        assert read(tmp_path) == wanted
        assert [path.name for path in tmp_path.iterdir() if OURS.fullmatch(path.name)] == []
    assert deaths >= 4
