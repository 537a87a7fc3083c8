"""Names of files on a terminal, full disks, and outputs that nobody reads."""

import os
import resource
import signal
import subprocess
import sys

import pytest
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg
from matcha_gnn import cli


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    mg.save_model(trained_model(), folder / "m.safetensors")
    mg.write_graph(tiny_graph(), folder / "g.npz")
    mg.GraphStore.create(folder / "store", tiny_graph())
    return folder


def said(capsys, *words):
    with pytest.raises(SystemExit) as end:
        cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    return end.value.code, out, err


@pytest.mark.parametrize("name", ["run[lr=1]", "runs[bold]x[/bold]", ":smile:", "[/v1]"])
def test_brackets_in_names_are_printed_as_they_are(files, capsys, tmp_path, name):
    path = tmp_path / name.replace("/", "-")
    code, out, _ = said(capsys, "make-graph", "csbm", "--nodes", 30, "-o", f"{path}.npz")
    assert code == 0
    assert path.name in out.replace("\n", "")
    code, out, _ = said(capsys, "adapt", files / "m.safetensors", files / "g.npz", "-o", path)
    assert code == 0
    assert path.name in out.replace("\n", "")


def test_escapes_in_names_are_shown_and_not_sent(files, capsys, tmp_path):
    graph, out = tmp_path / "a\x1b[31m\x07b.npz", tmp_path / "o\x1b[2J"
    mg.write_graph(tiny_graph(), graph)
    for words in (
        ("adapt", files / "m.safetensors", graph, "-o", out),
        ("adapt", files / "m.safetensors", graph, "-o", out, "--force", "--ask", 5),
        ("inspect", graph),
        ("inspect", tmp_path / "no\x1b[31m\nwhere.npz"),
        ("adapt", tmp_path / "no\x1b]0;title\x07.safetensors", graph, "-o", out),
    ):
        _, printed, complaint = said(capsys, *words)
        assert not set(printed + complaint) & {"\x1b", "\x07"}
        assert len(complaint.splitlines()) <= 1


def run(*words, limit=None, stdout=subprocess.PIPE):
    def limited():
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-m", "matcha_gnn", *map(str, words)]
    # The record of covered lines would not fit on a full disk either.
    measured = set() if limit is None else {"COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"}
    given = {name: value for name, value in os.environ.items() if name not in measured}
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, preexec_fn=limited, env=given
    )


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 2000, 6000])
def test_a_full_disk_is_one_line_and_exit_2(files, tmp_path, limit):
    for words in (
        ("adapt", files / "m.safetensors", files / "g.npz", "-o", tmp_path / "out"),
        ("adapt", files / "m.safetensors", files / "store", "-o", tmp_path / "out", "--force"),
        ("make-graph", "csbm", "--nodes", "500", "--store", tmp_path / "store"),
    ):
        done = run(*words, limit=limit)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()[-1:]) == 1
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "out" / "summary.json").exists()
        left = [path.name for path in tmp_path.rglob(".*") if path.name != ".lock"]
        assert left == []


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a device that is full")
def test_output_that_cannot_be_printed_is_one_line(files):
    with open("/dev/full", "w") as full:
        done = run("inspect", files / "g.npz", "--json", stdout=full)
    assert (done.returncode, done.stderr) == (2, "matcha: No space left on device\n")


@pytest.mark.parametrize(
    "words",
    [("train", "g.npz", "-o"), ("make-graph", "g.npz", "-o"), ("make-graph", "csbm", "-o")],
)
def test_outputs_are_tried_before_work(files, capsys, monkeypatch, words):
    monkeypatch.chdir(files)
    target = "nowhere/x.safetensors" if words[0] == "train" else "nowhere/x.npz"
    monkeypatch.setattr("matcha_gnn.cli.commands.read_graph", pytest.fail)
    monkeypatch.setattr("matcha_gnn.cli.commands.draw_graph", pytest.fail)
    code, _, complaint = said(capsys, *words, target)
    assert code == 2
    assert "No such file or directory" in complaint


def test_an_early_end_of_input_is_not_called_an_interrupt(files, capsys, monkeypatch):
    def ended(*args, **options):
        raise EOFError

    monkeypatch.setattr("matcha_gnn.cli.inspection.read_graph", ended)
    code, _, complaint = said(capsys, "inspect", files / "g.npz")
    assert (code, complaint.strip()) == (2, "matcha: a file or standard input ended too early")
