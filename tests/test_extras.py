"""The core works without the optional packages; what needs one names the extra that brings it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import matcha_gnn as mg
from matcha_gnn.errors import EXTRAS, MatchaError, optional_imports
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.testing import tiny_graph, trained_model

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
OPTIONAL = sorted({*EXTRAS, "triton", "ogb", "IPython"})
# PyG itself needs jinja2 and is loaded before the packages are taken away.
WITHOUT = """
import sys
if "jinja2" in {blocked!r}:
    import torch_geometric.nn
for name in {blocked!r}:
    for loaded in [m for m in sys.modules if m.partition(".")[0] == name]:
        del sys.modules[loaded]
    sys.modules[name] = None
"""
SMALL = """
import matcha_gnn as mg
from matcha_gnn.errors import MatchaError
source = mg.datasets.csbm(num_nodes=120, num_features=8, homophily=0.8, seed=0)
target = mg.datasets.csbm(num_nodes=120, num_features=8, homophily=0.2, seed=1)
model = mg.GPRGNN(8, 2, K=3)
"""


def run_without(blocked, code, *arguments, folder=None):
    program = WITHOUT.format(blocked=list(blocked)) + code
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


METHODS_RUN = """
import torch
from matcha_gnn.gamma.methods import METHODS
mg.fit(model, source, epochs=5, methods=[mg.AdaNPC(), mg.GraphPatcher()])
for kind in METHODS.values():
    result = mg.adapt(model, target, strategy=kind())
    fine = torch.isfinite(result.probs).all() and result.probs.shape == (120, 2)
    print(kind.__name__, bool(fine), result._repr_html_())
"""
MISSING = {"frame": "pandas", "report": "matplotlib", "plot": "matplotlib"}
SPEAK = """
result = mg.adapt(model, target)
for call in (
    lambda: mg.predict(model, target).trace.frame(),
    lambda: result.report("page.html"),
    result.plot,
):
    try:
        call()
    except MatchaError as error:
        print(error)
"""


def test_the_core_needs_no_optional_package_and_what_does_names_its_extra(tmp_path):
    done = run_without(OPTIONAL, SMALL + METHODS_RUN + SPEAK, folder=tmp_path)
    fine = [f"{kind.__name__} True None\n" for kind in METHODS.values()]
    assert len(fine) >= 8
    assert done.stdout == "".join(fine + [one_line(*pair) for pair in MISSING.items()]), done.stderr
    assert not list(tmp_path.iterdir())


def one_line(feature, package):
    return (
        f"{feature}: needs {package}, which is not installed; "
        f"pip install 'matcha-gnn[{EXTRAS[package]}]'\n"
    )


COMMAND = "from matcha_gnn.__main__ import main; main()"


@pytest.mark.parametrize(
    ("package", "arguments", "said"),
    [
        ("typer", ["--version"], one_line("matcha", "typer")),
        ("rich", ["estimate", "graph.npz"], "matcha: " + one_line("estimate", "rich")),
        (
            "matplotlib",
            ["reproduce", "--list"],
            "matcha: " + one_line("reproduce", "matplotlib"),
        ),
    ],
)
def test_the_command_says_what_it_needs(package, arguments, said):
    done = run_without([package], COMMAND, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_the_command_adapts_without_the_report_and_says_so(tmp_path):
    mg.save_model(trained_model(), tmp_path / "m.safetensors")
    mg.write_graph(tiny_graph(), tmp_path / "g.npz")
    arguments = ["adapt", "m.safetensors", "g.npz", "-o", "out"]
    done = run_without(["jinja2", "matplotlib"], COMMAND, *arguments, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, one_line("report.html", "matplotlib"))
    assert "report.html" not in done.stdout
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {*("predictions.npz", "changed.csv", "answer.safetensors", "summary.json")}


def test_the_extras_are_those_of_the_project_file():
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    names = {"sklearn": "scikit-learn"}
    for package, extra in EXTRAS.items():
        found = [line.partition(">")[0] for line in project["optional-dependencies"][extra]]
        assert names.get(package, package) in found


def test_an_error_of_another_package_stays_as_it_is():
    with pytest.raises(ModuleNotFoundError, match="numpy") as raised, optional_imports("frame"):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
    assert not isinstance(raised.value, MatchaError)
