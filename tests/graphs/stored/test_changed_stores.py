"""Stores whose content is not what was written: old hops are not used, bad arrays refused."""

import json
import os
import shutil

import numpy as np
import pytest
from small_stores import largest, source_model, target_graph

import matcha_gnn as mg
from matcha_gnn.graphs.stored.arrays import array_hash
from matcha_gnn.graphs.stored.writing import Edges
from matcha_gnn.io.jsontext import write_checked_json

ROUNDS = {"strategy": mg.Matcha(rounds=3)}


@pytest.fixture
def store(tmp_path):
    return mg.GraphStore.create(tmp_path / "store", target_graph())


def changed(store, name, number, value):
    """Overwrite one number of an array, as a fault of the disk would."""
    array = np.load(store.folder / f"{name}.npy", mmap_mode="r+")
    array.reshape(-1)[number] = value
    array.flush()


def other_graph():
    return target_graph(seed=12)


@pytest.mark.parametrize("replaced", ["files", "meta file", "folder"])
def test_another_graph_in_the_folder_gets_hops_of_its_own(replaced, store):
    first = mg.adapt(source_model(), store, **ROUNDS)
    if replaced == "folder":
        shutil.move(store.folder / "hops", store.folder.parent / "hops")
        shutil.rmtree(store.folder)
    elif replaced == "files":
        for path in store.folder.glob("*.*"):
            path.unlink()
    else:
        (store.folder / "meta.json").unlink()
    again = mg.GraphStore.create(store.folder, other_graph())
    if replaced == "folder":
        shutil.move(store.folder.parent / "hops", store.folder / "hops")
    found = mg.adapt(source_model(), again, **ROUNDS)
    expected = mg.adapt(source_model(), other_graph(), **ROUNDS)
    assert largest(found.probs, expected.probs) < 1e-5
    assert largest(first.probs, expected.probs) > 0.1


def test_the_same_graph_written_anew_uses_its_hops_again(store, monkeypatch):
    first = mg.adapt(source_model(), store, **ROUNDS)
    (store.folder / "meta.json").unlink()
    monkeypatch.setattr("matcha_gnn.graphs.stored.target.make_hops", None)
    again = mg.GraphStore.create(store.folder, target_graph())
    assert largest(first.probs, mg.adapt(source_model(), again, **ROUNDS).probs) == 0


@pytest.mark.parametrize("name", ["x", "values"])
def test_arrays_that_were_changed_after_writing_are_refused(name, store):
    mg.adapt(source_model(), store, **ROUNDS)
    changed(store, name, 7, 0.123)
    with pytest.raises(mg.InvalidFileError, match=f"{name}.*changed since meta.json was written"):
        mg.adapt(source_model(), mg.GraphStore(store.folder), **ROUNDS)


@pytest.mark.parametrize(
    ("name", "number", "value", "words"),
    [
        ("indptr", 5, -(10**9), "row starts that descend"),
        ("indptr", 5, -(2**40), "row starts that descend"),
        ("indptr", 5, 2**40, "row starts that descend"),
        ("indptr", 0, 1, "starts at 1"),
        ("indptr", 0, -1, "starts at -1"),
        ("indptr", -1, 2**40, "ends at 1099511627776"),
        ("indices", 3, -1, "node number -1"),
        ("indices", 3, 700, "node number 700"),
        ("indices", -1, 2**31 - 1, "node number 2147483647"),
        ("values", 3, np.nan, "NaN or infinite"),
        ("values", -1, -np.inf, "NaN or infinite"),
        ("x", 3, np.inf, "NaN or infinite"),
        ("links", 3, 700, "changed since meta.json"),
        ("links", 3, -1, "changed since meta.json"),
    ],
)
@pytest.mark.parametrize("rows", [64, 1 << 20])
def test_entries_out_of_range_are_refused(name, number, value, words, rows, store, monkeypatch):
    monkeypatch.setattr("matcha_gnn.graphs.stored.arrays.CHECKED_BYTES", 8 * rows)
    changed(store, name, number, value)
    with pytest.raises(mg.InvalidFileError, match=rf"{name}\.npy \({words}") as error:
        mg.adapt(source_model(), mg.GraphStore(store.folder), mg.ERM())
    assert "\n" not in str(error.value)
    assert not (store.folder / "hops").exists()


def test_row_starts_that_descend_between_two_blocks_are_found(store, monkeypatch):
    monkeypatch.setattr("matcha_gnn.graphs.stored.arrays.CHECKED_BYTES", 8 * 5)
    changed(store, "indptr", slice(5, 10), 1)
    with pytest.raises(mg.InvalidFileError, match="descend"):
        mg.GraphStore(store.folder)


@pytest.mark.parametrize("name", ["x", "indptr", "indices", "values", "links"])
@pytest.mark.parametrize("header", [b"(1, 2, ", b"", b"{'descr': [}"])
def test_headers_that_numpy_cannot_read(name, header, store):
    path = store.folder / f"{name}.npy"
    head = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    path.write_bytes(head + header if header else b"")
    with pytest.raises(mg.InvalidFileError, match=rf"{name}\.npy \(not a.* array file\)"):
        mg.adapt(source_model(), mg.GraphStore(store.folder), **ROUNDS)


def test_a_pipe_is_no_array_file(store):
    (store.folder / "x.npy").unlink()
    os.mkfifo(store.folder / "x.npy")
    with pytest.raises(mg.InvalidFileError, match="x.npy"):
        mg.GraphStore(store.folder)


@pytest.mark.parametrize("links", [np.zeros((3, 4), np.int64), np.zeros((2, 4)), np.zeros(2, int)])
def test_links_of_another_form_are_refused(links, store):
    np.save(store.folder / "links.npy", links)
    meta = {name: value for name, value in store.meta.items() if name != "checksum"}
    hashes = meta["hashes"] | {"links": array_hash(links)}
    write_checked_json(store.folder / "meta.json", meta | {"hashes": hashes})
    with pytest.raises(mg.InvalidFileError, match=r"links.npy .*int64 \[2, edges\]"):
        _ = mg.GraphStore(store.folder).links


@pytest.mark.parametrize(
    "said",
    [
        {"num_nodes": -700},
        {"num_nodes": 0},
        {"num_nodes": "700"},
        {"num_features": 16.0},
        {"x_dtype": "float99"},
        {"x_dtype": ["float32"]},
        {"symmetric": "no"},
        {"fingerprint": None},
        {"hashes": None},
    ],
)
def test_meta_values_that_no_store_has(said, store):
    path = store.folder / "meta.json"
    meta = json.loads(path.read_text())
    path.write_text(json.dumps(meta | said))
    with pytest.raises(mg.InvalidFileError, match="checksum is not that of its content"):
        mg.GraphStore(store.folder)
    del meta["checksum"]
    write_checked_json(path, meta | said)
    with pytest.raises(mg.InvalidFileError, match=r"meta.json.*invalid values"):
        mg.GraphStore(store.folder)


def test_a_store_is_verified_once_when_it_is_opened(store, monkeypatch):
    opened, reads = mg.GraphStore(store.folder), []
    fingerprint = type(opened.arrays).fingerprint
    monkeypatch.setattr(
        type(opened.arrays), "fingerprint", lambda self: (reads.append(1), fingerprint(self))[1]
    )
    for _ in range(2):
        mg.adapt(source_model(), opened, **ROUNDS)
    assert reads == [1]


def written(folder, edges=None, x=None, **node_values):
    """A path of three nodes, unless something else is given."""
    features = np.eye(3, dtype=np.float32) if x is None else x
    given = [Edges(np.array([0, 1]), np.array([1, 2]))] if edges is None else edges
    return mg.GraphStore.write(folder, iter([features]), given, **node_values)


def weighted(*weights):
    return Edges(np.array([0, 1]), np.array([1, 2]), np.array(weights))


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([weighted(1.0, -0.5)], "edges.weight: got negative"),
        ([weighted(1.0, np.nan)], "edges.weight: got negative or non-finite"),
        ([weighted(1.0, np.inf)], "edges.weight: got negative or non-finite"),
        ([weighted(1.0)], r"edges.weight: got float64 \[1\]"),
        ([weighted("a", "b")], "edges.weight: got <U1"),
        ([weighted(1.0, 1.0), Edges(np.array([0]), np.array([1]))], "in some blocks"),
        ([Edges(np.array([0]), np.array([1])), weighted(1.0, 1.0)], "in some blocks"),
        ([Edges(np.array([0]), np.array([1, 2]))], r"edges.receiver: got int64 \[2\]"),
        ([Edges(np.array([0.5]), np.array([1]))], "edges.sender: got float64"),
        ([Edges(np.array([0]), np.array([3]))], "edges.receiver: got node number 3"),
    ],
)
def test_edges_that_are_no_edges(edges, words, tmp_path):
    with pytest.raises(mg.InvalidGraphError, match=words) as error:
        written(tmp_path / "s", edges)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "s" / "meta.json").exists()


def test_a_chunk_without_edges_has_no_say_about_weights(tmp_path):
    none = Edges(np.zeros(0, int), np.zeros(0, int))
    store = written(tmp_path / "s", [none, weighted(1.0, 3.0), none])
    assert store.num_entries == 5
    plain = written(tmp_path / "t")
    assert not np.array_equal(store.values.array, plain.values.array)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("../evil", np.zeros(3), "node_values: got the name '../evil'"),
        ("masks/evil", np.zeros(3), "node_values: got the name"),
        ("links", np.zeros((2, 3), int), "node_values: got the name 'links'"),
        ("y", np.array([{}, {}, {}]), r"y: got object \[3\]"),
        ("y", None, "y: got object"),
        ("y", np.array(["a", "b", "c"]), "y: got <U1"),
        ("y", np.zeros(2, int), r"y: got shape \[2\]; allowed: one row for each of 3 nodes"),
        ("test_mask", np.ones(4, bool), r"test_mask: got shape \[4\]"),
    ],
)
def test_node_values_that_are_refused(name, values, words, tmp_path):
    with pytest.raises(mg.InvalidGraphError, match=words) as error:
        written(tmp_path / "in" / "s", **{name: values})
    assert "\n" not in str(error.value)
    assert not (tmp_path / "in" / "s" / "meta.json").exists()
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.zeros(3, np.float32), r"features: got shape \[3\]"),
        (np.zeros((3, 0), np.float32), r"features: got shape \[3, 0\]"),
        (np.zeros((0, 2), np.float32), "features: got no rows"),
    ],
)
def test_features_of_no_nodes(x, words, tmp_path):
    with pytest.raises(mg.InvalidGraphError, match=words):
        written(tmp_path / "s", [], x)
    with pytest.raises(mg.InvalidGraphError, match="no block"):
        mg.GraphStore.write(tmp_path / "t", iter([]), [])
