"""A walk through the library with other versions of Python, torch and PyG.

Each Python and torch has a venv, in which the versions of PyG are tried by turns.

Where there is no build of torch for CPUs, pip takes one with CUDA, which is gigabytes: name the
versions that are to be tried. The record holds those alone.

Run: python tests/trust/compatibility.py [--python python3.11 ...] [--torch 2.6 ...] [--pyg 2.6 ...]
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matcha_gnn.io.jsontext import write_json

PROJECT = Path(__file__).parents[2]
NEEDED = ("numpy", "scipy", "safetensors", "xxhash", "typer", "rich")
WALK = """
import json, platform, sys, tempfile
from pathlib import Path
import torch, torch_geometric, torch_geometric.nn as pyg
import matcha_gnn as mg
from matcha_gnn.gamma.methods import METHODS
place = Path(tempfile.mkdtemp())
parts = {"num_features": 16, "signal": 2.0, "degree": 6}
source = mg.datasets.csbm(400, homophily=0.9, seed=0, **parts)
target = mg.datasets.csbm(400, homophily=0.1, seed=1, **parts)
model = mg.GPRGNN(16, 2, hidden_channels=8, K=3)
mg.fit(model, source, epochs=50, methods=[mg.AdaNPC(), mg.GraphPatcher(iterations=5)])
mg.save_model(model, place / "m.safetensors")
for name in ("g.npz", "g.pt"):
    mg.write_graph(target, place / name)
    assert torch.equal(mg.read_graph(place / name).x, target.x)
model = mg.load_model(place / "m.safetensors")
result = mg.adapt(model, target)
assert result.status is mg.Status.ADAPTED, result
before, right = (float((each == target.y).float().mean())
                 for each in (result.labels_before, result.labels))
assert right > before, (before, right)
for name, kind in METHODS.items():
    assert mg.adapt(model, target, kind(), mg.Matcha(rounds=2)).probs.isfinite().all(), name
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.prop = torch.nn.Linear(16, 2), pyg.APPNP(K=3, alpha=0.1)
    def forward(self, x, edge_index):
        return self.prop(self.lin(x), edge_index)
wrapped = mg.wrap(Net().eval(), gamma="prop.alpha")
assert mg.adapt(wrapped, target, strategy=mg.Matcha(rounds=2)).probs.isfinite().all()
for kind in (pyg.GCNConv, pyg.SAGEConv, pyg.GATConv):
    conv = kind(16, 2).eval()
    assert mg.predict(conv, target).probs.isfinite().all(), kind
print(json.dumps({"python": platform.python_version(), "torch": torch.__version__,
                  "pyg": torch_geometric.__version__,
                  "right": [round(before, 3), round(right, 3)]}))
"""


def outcomes(python: str, torch: str, pygs: list[str]) -> Iterator[dict[str, Any]]:
    """What came of one Python and torch with each PyG, by turns in one venv."""
    wanted = {pyg: {"wanted": f"{Path(python).name}, torch {torch}, PyG {pyg}"} for pyg in pygs}
    with tempfile.TemporaryDirectory() as place:
        try:
            subprocess.run([python, "-m", "venv", place], check=True, capture_output=True)
        except OSError as error:
            reason = f"no {python}: {error.strerror}"
            yield from (
                each | {"outcome": "not tried", "reason": reason} for each in wanted.values()
            )
            return
        run = Path(place) / "bin" / "python"
        for pyg in pygs:
            packages = [f"torch=={torch}.*", f"torch_geometric=={pyg}.*", *NEEDED]
            subprocess.run([run, "-m", "pip", "install", "--quiet", *packages], check=True)
            yield wanted[pyg] | _walked(run)


def _walked(run: Path) -> dict[str, Any]:
    quiet = os.environ | {"PYTHONPATH": str(PROJECT / "src"), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run([run, "-c", WALK], capture_output=True, text=True, env=quiet)
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or ["no word"]
        return {"outcome": "failed", "reason": lines[-1]}
    return {"outcome": "passed", **json.loads(ended.stdout.splitlines()[-1])}


def main() -> int:
    """Try all combinations, write the record, and say whether one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    pythons = [f"python3.{minor}" for minor in (11, 12, 13)]
    parser.add_argument("--python", nargs="+", default=pythons)
    parser.add_argument("--torch", nargs="+", default=["2.6", "2.13"])
    parser.add_argument("--pyg", nargs="+", default=["2.6", "2.8"])
    parser.add_argument("--out", type=Path, default=PROJECT / "results" / "compatibility.json")
    given = parser.parse_args()
    found = []
    for python, torch in itertools.product(given.python, given.torch):
        for each in outcomes(python, torch, given.pyg):
            print(each, flush=True)
            found.append(each)
    write_json(given.out, {"runs": found})
    return int(any(each["outcome"] == "failed" for each in found))


if __name__ == "__main__":
    sys.exit(main())
