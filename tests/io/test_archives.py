"""Graph files take the memory that they declare, and only for what is needed."""

import random
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

import matcha_gnn as mg

BIG = 40_000_000
"""Numbers of an array nobody asks for: 320 MB, and some 300 kB in the file."""


@pytest.fixture
def peak():
    """Bytes that NumPy has asked for at most, since the fixture was made."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.fixture
def graph():
    return mg.datasets.csbm(120, 6, seed=1)


def parts(graph):
    return {"x": graph.x.numpy(), "edge_index": graph.edge_index.numpy()}


def test_an_array_is_read_only_where_it_is_needed(graph, tmp_path, peak):
    path, further = tmp_path / "g.npz", {"edge_attr": np.ones((graph.num_edges, 2))}
    junk = np.broadcast_to(np.int64(0), (BIG,))
    np.savez_compressed(path, **parts(graph), **further, junk=junk)
    before = peak()
    assert "junk" not in mg.read_graph(path, further=False)
    assert peak() < before + 10_000_000
    np.savez(path, **parts(graph), **further)
    assert mg.read_graph(path).edge_attr.shape[1] == 2


def test_a_header_that_promises_more_than_the_file_has_is_refused_before_memory(tmp_path, peak):
    path, small = tmp_path / "g.npz", tmp_path / "x.npy"
    np.save(small, np.zeros((4, 100_000_000 // 4 // 8)))
    head = small.read_bytes()[:128].replace(b"(4, ", b"(9, ")
    np.savez(path, edge_index=np.zeros((2, 0), np.int64))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", head + bytes(64))
    before = peak()
    with pytest.raises(mg.InvalidFileError, match="not a plain array file"):
        mg.read_graph(path)
    assert peak() < before + 10_000_000


def test_pickles_and_compressed_pt_files_are_refused(graph, tmp_path):
    np.savez(tmp_path / "g.npz", **parts(graph), y=np.array([{}, []], dtype=object))
    with pytest.raises(mg.InvalidFileError, match="without pickles"):
        mg.read_graph(tmp_path / "g.npz")
    mg.write_graph(graph, tmp_path / "a.pt")
    with (
        zipfile.ZipFile(tmp_path / "a.pt") as old,
        zipfile.ZipFile(tmp_path / "b.pt", "w") as new,
    ):
        for member in old.infolist():
            new.writestr(member.filename, old.read(member), zipfile.ZIP_DEFLATED)
    with pytest.raises(mg.InvalidFileError, match="cannot be read safely"):
        mg.read_graph(tmp_path / "b.pt")
    # PyG puts `Data` on torch's list of safe classes, and users rely on that.
    assert torch.load(tmp_path / "a.pt", weights_only=True).num_nodes == 120


@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_damage_is_refused_in_one_line_or_changes_nothing(suffix, graph, tmp_path):
    path, draw, refused = tmp_path / f"g{suffix}", random.Random(0), []
    mg.write_graph(graph, path)
    whole = path.read_bytes()
    for _ in range(100):
        data = bytearray(whole)
        for _ in range(draw.choice([1, 2, 8])):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data)
        try:
            read = mg.read_graph(path)
        except mg.MatchaError as error:
            refused.append(str(error))
        else:
            assert all(torch.equal(read[n], graph[n]) for n in ("x", "edge_index", "y"))
    assert len(refused) > 50
    assert not any("\n" in said for said in refused)
