"""On what, and from which commit, a record was made."""

import os
import platform
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import matcha_gnn

if TYPE_CHECKING:
    import torch

_PACKAGE = Path(matcha_gnn.__file__).parent
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_CODE = ("src", "paper/src", ":(exclude)paper/src/matcha_paper/experiments/paper")
"""Where the code lies. The tables' settings are left out: a record holds its own."""
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")
"""Variables that name another repository, as they do where one of its hooks runs us."""


def hardware(device: "torch.device") -> str:
    """What a run used, in a few words."""
    import torch

    from matcha_gnn.kernels.devices import device_of

    describe = device_of(device).describe
    if describe is not None:
        return describe(device)
    instructions = torch.backends.cpu.get_cpu_capability()
    return f"{platform.machine()} CPU, {instructions}, {torch.get_num_threads()} threads"


def source_tree(package: Path = _PACKAGE) -> Path | None:
    """The project's folder if a package runs from its source tree, None if it is installed."""
    project = package.parents[1]
    if package.parent.name != "src":
        return None
    try:
        described = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    own = described.get("project")
    return project if isinstance(own, dict) and own.get("name") == "matcha-gnn" else None


def commit() -> str | None:
    """The last commit that changed the code, marked `-dirty` if files of it were changed since.

    The code is what lies under src and paper/src, without the settings of tables and the published
    numbers. None outside the project's own checkout. A copy of it without its history can be told
    by the variable MATCHA_COMMIT.
    """
    if "MATCHA_COMMIT" in os.environ:
        return os.environ["MATCHA_COMMIT"]
    return commit_of(_PACKAGE)


@cache
def commit_of(package: Path) -> str | None:
    """That of a package's source tree, asked once; None outside the project's checkout."""
    project = source_tree(package)
    if project is None or not (project / ".git").exists():
        return None
    named = _git(project, "log", "-1", "--format=%h", "--abbrev=12", "--", *_CODE)
    changed = _git(project, "status", "--porcelain", "--untracked-files=no", "--", *_CODE)
    return f"{named}-dirty" if named and changed else named or None


def _git(project: Path, *arguments: str) -> str | None:
    """What git says of the repository in this very folder; hooks and monitors are not run."""
    environment = {key: value for key, value in os.environ.items() if key not in _ELSEWHERE}
    # A broken .git must not make git look in the folders above.
    environment["GIT_CEILING_DIRECTORIES"] = str(project.resolve().parent)
    try:
        done = subprocess.run(
            ["git", *_QUIET, *arguments],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
