"""The core works without the optional packages; what needs one names the extra that brings it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import matcha_gnn as mg
from matcha_gnn.errors import EXTRAS
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.testing import tiny_graph, trained_model

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
OPTIONAL = sorted({*EXTRAS, "triton", "ogb", "IPython"})
# PyG itself needs jinja2 and is loaded before the packages are taken away.
WITHOUT = """
import sys
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


def printed_without(blocked, code):
    done = run_without(blocked, code)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_base_method_runs_on_the_core_alone():
    code = """
import torch
from matcha_gnn.gamma.methods import METHODS
methods = [METHODS[name]() for name in METHODS]
mg.fit(model, source, epochs=5, methods=[mg.AdaNPC(), mg.GraphPatcher()])
for method in methods:
    result = mg.adapt(model, target, strategy=method)
    fine = torch.isfinite(result.probs).all() and result.probs.shape == (120, 2)
    print(type(method).__name__, bool(fine), result._repr_html_())
"""
    assert len(METHODS) >= 8
    lines = printed_without(OPTIONAL, SMALL + code)
    assert lines == [f"{kind.__name__} True None" for kind in METHODS.values()]


CALLS = {
    "frame": "mg.predict(model, target).trace.frame()",
    "report": "result.report('page.html')",
    "plot": "result.plot()",
}
SPEAK = """
result = mg.adapt(model, target)
for call in {calls!r}:
    try:
        eval(call)
    except MatchaError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("blocked", "missing"),
    [
        (
            OPTIONAL,
            {
                "frame": "pandas",
                "report": "matplotlib",
                "plot": "matplotlib",
            },
        ),
        (["jinja2"], {"report": "jinja2"}),
    ],
    ids=["all", "jinja2"],
)
def test_a_missing_package_is_one_line_that_names_the_extra(blocked, missing, tmp_path):
    code = SMALL + SPEAK.format(calls=[CALLS[feature] for feature in missing])
    done = run_without(blocked, code, folder=tmp_path)
    assert done.stdout == "".join(one_line(*pair) for pair in missing.items()), done.stderr
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
    assert [requirement.partition(">")[0] for requirement in project["dependencies"]] == [
        "torch",
        "torch_geometric",
        "numpy",
        "scipy",
        "safetensors",
        "xxhash",
        "lazy_loader",
        "tqdm",
        "typing_extensions",
    ]
    names = {"sklearn": "scikit-learn"}
    for package, extra in EXTRAS.items():
        found = [line.partition(">")[0] for line in project["optional-dependencies"][extra]]
        assert names.get(package, package) in found
