"""Graph files take the memory that they declare, and only for what is needed."""

import random
import threading
import zipfile

import numpy as np
import pytest
import torch
from matcha_gnn.testing import tiny_graph

import matcha_gnn as mg

BIG = 40_000_000
"""Numbers of an array nobody asks for: 320 MB, and some 300 kB in the file."""


@pytest.fixture
def peak():
    """Bytes that NumPy has asked for at most, since the fixture was made."""
    import tracemalloc

    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def parts():
    graph = tiny_graph()
    return {"x": graph.x.numpy(), "edge_index": graph.edge_index.numpy()}


def test_an_array_that_nobody_needs_is_not_read(tmp_path, peak):
    path = tmp_path / "g.npz"
    np.savez_compressed(path, **parts(), junk=np.broadcast_to(np.int64(0), (BIG,)))
    before = peak()
    graph = mg.read_graph(path, further=False)
    assert "junk" not in graph
    assert graph.x.shape == tiny_graph().x.shape
    assert peak() < before + 10_000_000


def test_further_fields_are_read_where_they_are_needed(tmp_path):
    path = tmp_path / "g.npz"
    np.savez(path, **parts(), edge_attr=np.ones((tiny_graph().num_edges, 2)))
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


def test_pickled_objects_are_refused(tmp_path):
    np.savez(tmp_path / "g.npz", **parts(), y=np.array([{}, []], dtype=object))
    with pytest.raises(mg.InvalidFileError, match="without pickles"):
        mg.read_graph(tmp_path / "g.npz")


def test_damage_to_a_pt_file_is_refused_or_changes_nothing(tmp_path):
    path, graph, draw, refused = tmp_path / "g.pt", tiny_graph(), random.Random(0), 0
    mg.write_graph(graph, path)
    whole = path.read_bytes()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(draw.choice([1, 2, 8])):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data)
        try:
            read = mg.read_graph(path)
        except mg.MatchaError:
            refused += 1
        else:
            assert torch.equal(read.x, graph.x)
            assert torch.equal(read.edge_index, graph.edge_index)
            assert torch.equal(read.y, graph.y)
    assert refused > 75


def test_a_compressed_pt_file_is_refused(tmp_path):
    plain, packed = tmp_path / "a.pt", tmp_path / "b.pt"
    mg.write_graph(tiny_graph(), plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(packed, "w") as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member), zipfile.ZIP_DEFLATED)
    with pytest.raises(mg.InvalidFileError, match="cannot be read safely"):
        mg.read_graph(packed)


def test_pt_files_are_read_in_threads_and_leave_torch_as_it_was(tmp_path):
    path, read, failed = tmp_path / "g.pt", [], []
    mg.write_graph(tiny_graph(), path)
    mg.read_graph(path)
    known = set(torch.serialization.get_safe_globals())

    def work():
        for _ in range(25):
            try:
                read.append(mg.read_graph(path))
            # What is raised is counted: pytest does not see the errors of threads.
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(read), failed) == (100, [])
    assert set(torch.serialization.get_safe_globals()) == known
    assert not torch.sparse.check_sparse_tensor_invariants.is_enabled()


def test_reading_takes_no_class_off_torchs_list_of_safe_ones(tmp_path):
    """PyG puts `Data` on it, and users rely on that."""
    path = tmp_path / "g.pt"
    mg.write_graph(tiny_graph(), path)
    torch.load(path, weights_only=True)
    mg.read_graph(path)
    assert torch.load(path, weights_only=True).num_nodes == tiny_graph().num_nodes
