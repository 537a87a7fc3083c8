"""The first example runs at small size, with and without a folder of Syn-Cora."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch

import matcha_gnn as mg

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["--nodes", "800", "--features", "40", "--epochs", "60"]


@pytest.fixture
def example():
    path = EXAMPLES / "01_adapt_your_model.py"
    spec = importlib.util.spec_from_file_location("adapt_your_model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_accuracy_rises_on_csbm(example, monkeypatch, capsys):
    monkeypatch.delenv("MATCHA_DATA", raising=False)
    said = example.main(SMALL)
    before, after = said["csbm"]
    assert after > before + 0.05
    printed = capsys.readouterr().out
    assert "prop.alpha" in printed
    assert f"{before:.1%} → {after:.1%}" in printed
    assert "set MATCHA_DATA" in printed


def write_syn_cora(folder, name, homophily, seed):
    """A graph in the layout of Syn-Cora's files, with the same rows dealt out anew."""
    graph = mg.datasets.csbm(400, 30, 4.0, homophily, signal=2.5, seed=seed)
    x = scipy.sparse.csr_matrix(graph.x.numpy())
    shape = (400, 400)
    ones = np.ones(graph.num_edges, dtype=np.float32)
    adj = scipy.sparse.coo_matrix((ones, tuple(graph.edge_index.numpy())), shape).tocsr()
    parts = {
        f"{part}_{name}": np.asarray(getattr(matrix, name))
        for part, matrix in (("attr", x), ("adj", adj))
        for name in ("data", "indices", "indptr", "shape")
    }
    np.savez(folder / f"h{name}-r1.npz", labels=graph.y.numpy().astype(np.int32), **parts)


def test_syn_cora_is_read_from_the_folder_and_split_by_feature_row(example, tmp_path, monkeypatch):
    folder = tmp_path / "syn-cora"
    folder.mkdir()
    write_syn_cora(folder, "0.80", 0.8, seed=0)
    write_syn_cora(folder, "0.20", 0.2, seed=1)
    monkeypatch.setenv("MATCHA_DATA", str(tmp_path))
    said = example.main(SMALL)
    assert said["syn-cora"][1] >= said["syn-cora"][0]
    graph = example.read_syn_cora(folder, "0.80")
    order = torch.randperm(400)
    shuffled = scipy.sparse.csr_matrix(graph.x[order].numpy())
    with np.load(folder / "h0.80-r1.npz") as file:
        parts = {name: file[name] for name in file.files}
    parts |= {f"attr_{n}": getattr(shuffled, n) for n in ("data", "indices", "indptr")}
    np.savez(folder / "h0.50-r1.npz", **parts)
    again = example.read_syn_cora(folder, "0.50")
    assert torch.equal(again.train_mask, graph.train_mask[order])
    assert 0.15 < graph.train_mask.float().mean() < 0.35
    assert not (graph.train_mask & graph.test_mask).any()
