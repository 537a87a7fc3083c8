"""What tests of both distributions share; doctests import every module, of programs too."""

import os
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
    "slow": (
        "examples/",
        "paper/tests/test_kill.py",
        "paper/tests/test_record_files.py::test_processes_that_write_and_compact_at_once",
        "kernels/test_fast.py::test_everything_works_without_the_compiler",
        "report/test_page.py::test_figures_do_not_start_pyplot",
        "cli/test_cli.py::test_methods_that_need_something_of_the_source_get_it",
        "cli/test_cli.py::test_the_installed_command_runs_and_is_quiet_without_a_terminal",
        "test_documents.py::test_the_site_builds_and_every_link_resolves",
        "paper/tests/test_paper_documents.py::test_tables_are_those_of_the_records",
        "paper/tests/test_paper_documents.py::test_the_site_builds_and_every_link_resolves",
        "test_exports.py::test_every_module",
        "test_extras.py",
        "test_package.py",
        "paper/tests/test_reproduction.py::test_a_quick",
        "paper/tests/test_ask_study.py::test_the_benchmark",
    ),
}
"""Markers, and how the ids of their tests begin, from the folder tests or the project on."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by where they are; CONTRIBUTING.md says what for."""
    for item in items:
        place = item.nodeid.removeprefix("tests/")
        for marker, beginnings in MARKED.items():
            if place.startswith(beginnings):
                item.add_marker(marker)


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
