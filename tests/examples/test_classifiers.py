"""Every kind of classifier, from summary to page to answers to reload, in under 40 lines."""

import importlib.util
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "examples" / "classifiers"


@pytest.mark.filterwarnings("ignore:source. taken as it is")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_an_example(path, tmp_path):
    assert len([line for line in path.read_text().splitlines() if line.strip()]) <= 40
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Compiling takes longer than all examples together.
    with torch.compiler.set_stance("force_eager"):
        before, after = module.main(tmp_path)
    assert after > before + 0.02
    assert (tmp_path / "report.html").is_file()
