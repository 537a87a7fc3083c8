"""The other examples run at small size, the notebook in a kernel."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import matcha_gnn as mg
from matcha_gnn.gamma.testing import check_method, tiny_graph, trained_model
from running import run

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGE = EXAMPLES / "third_party_method"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def example(name):
    return load(EXAMPLES / name)


def test_methods_are_compared_with_and_without_files(tmp_path, capsys):
    compare = example("04_compare_methods.py")
    rows = compare.main(["--nodes", "300", "--epochs", "20"])
    assert [row.method for row in rows] == [method.name for method in compare.METHODS]
    assert all("→" in row.accuracy for row in rows)
    graph = tiny_graph()
    del graph.y
    mg.write_graph(graph, tmp_path / "g.npz")
    mg.save_model(trained_model(), tmp_path / "m.safetensors")
    files = ["--model", str(tmp_path / "m.safetensors"), "--graph", str(tmp_path / "g.npz")]
    rows = compare.main(files)
    assert {row.accuracy for row in rows} == {""}
    assert "adanpc" in next(row for row in rows if row.method == "adanpc").status


def test_the_notebook_runs_and_shows_results(tmp_path):
    notebook = nbformat.read(EXAMPLES / "05_in_a_notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    shown = [[list(each.get("data", {})) for each in cell] for cell in outputs]
    assert "text/html" in shown[1][0]
    assert sum("image/png" in kinds for kinds in shown[2]) == 1
    assert "text/html" in shown[3][0]
    assert (tmp_path / "report.html").is_file()


def test_the_third_party_method_passes_the_checks():
    label_shift = load(PACKAGE / "src" / "matcha_label_shift" / "__init__.py").LabelShift
    check_method(label_shift())
    bare = mg.GPRGNN(6, 3)
    with pytest.raises(mg.IncompatibleError, match="source summary"):
        mg.adapt(bare, tiny_graph(), strategy=label_shift())


def test_a_stream_is_watched(tmp_path, capsys):
    steps = example("06_watch_a_stream.py").main(["-o", str(tmp_path), "--epochs", "60"])
    assert len(steps) == 7
    assert all(step.low <= step.estimate <= step.high for step in steps)
    assert "true " in capsys.readouterr().out
    assert (tmp_path / "watch.html").is_file()


def job_lines():
    """The two lines of the job that watches."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    steps = yaml.safe_load((EXAMPLES / "watch_job" / "watch.yml").read_text())["jobs"]["watch"]
    return [step["run"] for step in steps["steps"] if "run" in step][1:]


@pytest.mark.parametrize(("level", "code"), [("0.999", 1), ("0.01", 0)])
def test_the_job_fails_while_an_alarm_lasts(tmp_path, level, code, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = mg.GPRGNN(24, 2, hidden_channels=8, K=3)
    graphs = [mg.datasets.csbm(1000, 24, degree=6, signal=2, seed=seed) for seed in (0, 1, 2)]
    mg.fit(model, graphs[0], epochs=80)
    mg.save_model(model, tmp_path / "model.safetensors")
    (tmp_path / "graphs").mkdir()
    for day, graph in enumerate(graphs[1:], 1):
        mg.write_graph(graph, tmp_path / "graphs" / f"2026-05-0{day}.npz")
    watch, fails = job_lines()
    assert "--level 0.8" in watch
    words = watch.replace("--level 0.8", f"--level {level}").split()[1:]
    assert run(capsys, *words)[0] == 0
    script = fails.partition("\n")[2].rpartition("END")[0]
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True)
    assert done.returncode == code
    assert (b"2026-05-02.npz: level_since" in done.stderr) == bool(code)
