"""Runs that are killed, stopped, or run out of room leave the old output, and can start again."""

import os
import signal
import subprocess
import sys
import time

import pytest

import matcha_gnn as mg
from table_worlds import files, world

PROGRAM = """
import resource, signal, sys
import matcha_gnn as mg
from matcha_gnn.tables.program import Program
# A shell that starts tests in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
nodes, edges, source, out, how = sys.argv[1:]
whole = Program._propagated

def stopped(self, *arguments):
    if how == "wait":
        print("ready", flush=True)
        self.graph.engine.fetch("select sum(ln(range + 1)) as s from range(100000000000)")
    return whole(self, *arguments)

Program._propagated = stopped
if how == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    mg.tables.adapt(nodes, edges, source=source, out=out)
except mg.MatchaError as error:
    print(error)
    sys.exit(2)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def arguments(tmp_path):
    made = world(2, 1500)
    made.summary.save(tmp_path / "source.safetensors")
    (tmp_path / "out.parquet").write_text("old")
    names = [str(tmp_path / "source.safetensors"), str(tmp_path / "out.parquet")]
    return [*files(made, tmp_path), *names]


def started(arguments, how):
    command = [sys.executable, "-c", PROGRAM, *arguments, how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def left_in(folder):
    return {p.name for p in folder.iterdir()} - {
        *("nodes.parquet", "edges.parquet", "source.safetensors", "out.parquet")
    }


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_stopped_run_leaves_the_old_output(sent, code, arguments, tmp_path):
    running = started(arguments, "wait")
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.2)
    os.kill(running.pid, sent)
    try:
        assert running.wait(20) == code, running.stderr.read()
    finally:
        running.kill()
    assert (tmp_path / "out.parquet").read_text() == "old"
    # A run that is killed cannot clean up; the next one does.
    assert bool(left_in(tmp_path)) == (sent == signal.SIGKILL)
    nodes, edges, source, out = arguments
    mg.tables.adapt(nodes, edges, source=source, out=out).close()
    assert not left_in(tmp_path)
    assert os.path.getsize(out) > 1000


def test_a_full_disk_is_one_line(arguments, tmp_path):
    running = started(arguments, "full")
    said, errors = running.communicate(timeout=60)
    assert running.returncode == 2, errors
    assert said.startswith("output: got ")
    assert said.count("\n") == 1
    assert (tmp_path / "out.parquet").read_text() == "old"
    assert not left_in(tmp_path)
