"""What tests of both distributions share; doctests import every module, of programs too."""

import json
import os
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    # Read when the kernels are imported: without a GPU they run in Triton's interpreter.
    os.environ["TRITON_INTERPRET"] = "1"

GPU = ["src/matcha_gnn/kernels/gpu.py", "src/matcha_gnn/kernels/gpu_programs.py"]
collect_ignore = [] if find_spec("triton") else [*GPU]
if not find_spec("cosmic_ray"):
    collect_ignore.append("tests/mutants.py")
PROJECT = Path(__file__).parent
NO_DATA = "no data root: set MATCHA_DATA, or put the files in ../shared/data"

MARKED = {
    "gpu": ("kernels/test_fast.py",),
    "browser": ("report/test_browser.py", "report/test_questions_browser.py"),
    "kills": (
        "test_kill.py",
        "tables/test_interrupted.py",
        "paper/tests/test_paper_kill.py",
        "paper/tests/test_record_files.py::test_processes_that_write_and_compact_at_once",
    ),
    "paper": (
        "paper/tests/datasets/",
        "paper/tests/test_ask_study.py::test_the_benchmark",
        "paper/tests/test_command.py::test_a_trained_model",
        "paper/tests/test_experiments.py::test_tables_run_by_the_same_processes",
        "paper/tests/test_paper_documents.py::test_tables_are_those_of_the_records",
        "paper/tests/test_paper_documents.py::test_the_picture_of_all_cells",
        "paper/tests/test_paper_documents.py::test_the_site_builds",
        "paper/tests/test_paper_figures.py::test_a_committed_figure",
        "paper/tests/test_paper_figures.py::test_the_path_of_gamma",
        "paper/tests/test_provenance.py::test_a_record_does_not_ask",
        "paper/tests/test_reproduction.py::test_a_quick",
        "paper/tests/test_studies.py::test_missing_data",
        "paper/tests/test_source_models.py::test_the_number_of_threads",
    ),
}
"""Markers, and how the ids of their tests begin, from the folder tests or the project on."""
STARTED = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make paper`, `make kills` and `make browser` leave behind."""
    parser.addoption("--record", type=Path, help="a JSON file that says what passed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by where they are; CONTRIBUTING.md says what for."""
    for item in items:
        place = item.nodeid.removeprefix("tests/")
        for marker, beginnings in MARKED.items():
            if place.startswith(beginnings):
                item.add_marker(marker)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the record, where one is asked for."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    path = session.config.getoption("record")
    if path is None or reporter is None:
        return
    from matcha_gnn.io.provenance import versions
    from matcha_paper.provenance import commit

    kinds = ("passed", "failed", "error", "skipped")
    found = {kind: len(reporter.stats.get(kind, ())) for kind in kinds}
    seconds = round(time.monotonic() - STARTED)
    about = {"commit": commit(), "versions": versions(), "seconds": seconds}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(about | found, indent=1) + "\n")


def find_data_root() -> Path | None:
    """MATCHA_DATA, or the folder beside the project."""
    given = os.environ.get("MATCHA_DATA")
    root = Path(given) if given else PROJECT.parent / "shared" / "data"
    return root if root.is_dir() else None


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets; without one, the test is skipped."""
    root = find_data_root()
    if root is None:
        pytest.skip(NO_DATA)
    return root
