import os
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    # Read when the kernels are imported: without a GPU they run in Triton's interpreter.
    os.environ["TRITON_INTERPRET"] = "1"

PROJECT = Path(__file__).parents[1]
NO_DATA = "no data root: set MATCHA_DATA, or put the files in ../shared/data"


def find_data_root() -> Path | None:
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
