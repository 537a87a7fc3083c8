"""Checking, hiding labels, fingerprints, and graph files good and bad."""

import os
import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.errors import InvalidFileError, InvalidGraphError
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.graphs.memory import Graph, unlabelled
from matcha_gnn.io.graphfiles import read_graph, write_graph

SUFFIXES = [".npz", ".pt"]
MASKS = ("train_mask", "val_mask", "test_mask")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:Detected pickle protocol")
TRIANGLE = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
NAN, INF = float("nan"), float("inf")


def graph(**changes):
    """Three nodes in a triangle, two features; `changes` replace or add parts."""
    parts = {"x": torch.arange(6.0).view(3, 2), "edge_index": TRIANGLE.clone()}
    return Data(**(parts | changes))


def labelled_graph(*, sparse=False, dtype=torch.float32, num_nodes=12):
    """A random graph with everything a file may hold."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, 5, generator=draw, dtype=dtype)
    x = torch.where(x > 0.3, x, 0)
    edges = torch.randint(num_nodes, (2, 30), generator=draw)
    masks = {name: torch.rand(num_nodes, generator=draw) < 0.5 for name in MASKS}
    return Data(
        x=x.to_sparse_csr() if sparse else x,
        edge_index=edges,
        edge_weight=torch.rand(30, generator=draw),
        y=torch.randint(3, (num_nodes,), generator=draw),
        **masks,
    )


def sparse_with(value):
    """CSR features with one non-finite entry."""
    return torch.tensor([[0, value], [0, 0], [0, 0]]).to_sparse_csr()


def dense(x):
    return x.to_dense() if x.layout != torch.strided else x


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_one_line(error):
    assert len(str(error.value).splitlines()) == 1


# Checks


@pytest.mark.parametrize(
    ("part", "value", "got", "allowed"),
    [
        ("edge_index", torch.tensor([[0, 3], [1, 0]]), "node number 3", "node numbers 0 to 2"),
        ("edge_index", torch.tensor([[0, -1], [1, 0]]), "node number -1", "node numbers 0 to 2"),
        ("edge_index", torch.tensor([[0.0], [1.0]]), "torch.float32", "an int64 tensor"),
        ("edge_index", torch.tensor([[True], [False]]), "torch.bool", "an int64 tensor"),
        ("edge_index", TRIANGLE.T, r"shape \[6, 2\]", r"\[2, edges\]"),
        ("edge_index", torch.tensor([0, 1]), r"shape \[2\]", r"\[2, edges\]"),
        ("edge_index", torch.zeros(2, 1, 1, dtype=torch.int64), "shape", r"\[2, edges\]"),
        ("edge_index", TRIANGLE.to_sparse(), "sparse_coo", "an int64 tensor"),
        ("edge_index", [[0], [1]], "list", "an int64 tensor"),
        ("edge_index", None, "NoneType", "an int64 tensor"),
        ("x", torch.tensor([[NAN, 0], [0, 0], [0, 0]]), "1 NaN or infinite", "finite numbers"),
        ("x", torch.tensor([[INF, -INF], [0, 0], [0, 0]]), "2 NaN or infinite", "finite numbers"),
        ("x", sparse_with(NAN), "1 NaN or infinite", "finite numbers"),
        ("x", sparse_with(-INF), "1 NaN or infinite", "finite numbers"),
        ("x", torch.ones(3, 2, dtype=torch.complex64), "torch.complex64", "a tensor of numbers"),
        ("x", torch.ones(0, 2), r"shape \[0, 2\]", "at least one of each"),
        ("x", torch.ones(3, 0), r"shape \[3, 0\]", "at least one of each"),
        ("x", torch.ones(3), r"shape \[3\]", r"\[nodes, features\]"),
        ("x", torch.ones(3).to_sparse(), r"shape \[3\]", r"\[nodes, features\]"),
        ("x", torch.ones(3, 2, 2).to_sparse(), r"shape \[3, 2, 2\]", r"\[nodes, features\]"),
        ("x", torch.ones(3, 2).to_sparse(1), "sparse_coo", "dense or COO, CSR, CSC"),
        ("x", torch.ones(4, 2).to_sparse_bsr((2, 2)), "sparse_bsr", "dense or COO, CSR, CSC"),
        ("x", np.ones((3, 2)), "ndarray", "a tensor of numbers"),
        ("x", None, "NoneType", "a tensor of numbers"),
        ("edge_weight", torch.ones(5), r"shape \[5\]", r"tensor \[6\]"),
        ("edge_weight", torch.ones(6, 1), r"shape \[6, 1\]", r"tensor \[6\]"),
        ("edge_weight", -torch.ones(6), "negative or non-finite", ">= 0"),
        ("edge_weight", torch.full((6,), NAN), "negative or non-finite", ">= 0"),
        ("edge_weight", torch.full((6,), INF), "negative or non-finite", ">= 0"),
        ("edge_weight", torch.ones(6, dtype=torch.int64), "torch.int64", "float32 or float64"),
        ("edge_weight", torch.ones(6, dtype=torch.bfloat16), "bfloat16", "float32 or float64"),
        ("edge_weight", [1.0] * 6, "list", "float32 or float64"),
    ],
)
def test_a_bad_part_is_refused_in_one_line_with_part_value_and_allowed(part, value, got, allowed):
    with pytest.raises(InvalidGraphError) as error:
        unlabelled(graph(**{part: value}))
    assert_one_line(error)
    assert error.match(rf"^graph\.{part}: got .*{got}.*; allowed: .*{allowed}")


KINDS = [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_csr])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_features_of_other_kinds_become_float32_and_the_callers_stay(kind, layout):
    x = torch.tensor([[1, 0], [0, 1], [1, 1]])
    given = x.to(kind).to_sparse_csr() if layout == torch.sparse_csr else x.to(kind)
    data = graph(x=given)
    view = unlabelled(data)
    assert view.x.dtype == torch.float32
    assert view.x.layout == layout
    assert torch.equal(view.x.to_dense(), x.float())
    assert data.x is given
    assert data.x.dtype == kind


@pytest.mark.parametrize(("kind", "after"), [(torch.float16, torch.float32), (torch.int64, None)])
def test_fields_in_half_precision_follow_the_features_and_numbers_do_not(kind, after):
    data = graph(x=torch.ones(3, 2, dtype=kind))
    data.own = torch.ones(3, dtype=kind)
    fields = unlabelled(data).extras.values(torch.float32)
    assert fields["own"].dtype == (after or kind)


def test_finite_features_whose_sum_overflows_are_accepted():
    largest = torch.finfo(torch.float32).max
    assert unlabelled(graph(x=torch.full((3, 2), largest))).num_features == 2


def test_short_edge_numbers_are_widened():
    view = unlabelled(graph(edge_index=TRIANGLE.int()))
    assert view.edge_index.dtype == torch.int64
    assert torch.equal(view.edge_index, TRIANGLE)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_sparse_features_of_any_kind_become_csr_with_the_same_numbers(layout):
    x = labelled_graph().x
    view = unlabelled(graph(x=x.to_sparse(layout=layout), edge_index=TRIANGLE))
    assert view.x.layout == torch.sparse_csr
    assert torch.equal(view.x.to_dense(), x)


# The view


def test_memory_mapped_features_are_read_from_the_file(tmp_path):
    data = tiny_graph()
    expected = mg.adapt(trained_model(), data)
    np.save(tmp_path / "x.npy", data.x.numpy())
    written = (tmp_path / "x.npy").read_bytes()
    data.x = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c"))
    assert mg.unlabelled(data).x.data_ptr() == data.x.data_ptr()
    assert torch.equal(mg.adapt(trained_model(), data).probs, expected.probs)
    assert (tmp_path / "x.npy").read_bytes() == written


# Facts


def facts_of(edges, num_nodes):
    edge_index = torch.tensor(edges, dtype=torch.int64).view(-1, 2).T
    return unlabelled(Data(x=torch.ones(num_nodes, 2), edge_index=edge_index)).facts


@pytest.mark.parametrize(
    ("edges", "num_nodes", "expected"),
    [
        ([(0, 1), (1, 0)], 2, (0, 0, 0, False)),
        ([(0, 1)], 2, (0, 0, 0, True)),
        ([(0, 1), (1, 0)], 4, (0, 0, 2, False)),
        ([(0, 0), (1, 1)], 3, (2, 0, 3, False)),
        ([(0, 1), (0, 1), (1, 0)], 2, (0, 1, 0, False)),
        ([(0, 0), (0, 0), (0, 0)], 1, (3, 2, 1, False)),
        ([(0, 1), (1, 2), (2, 0)], 3, (0, 0, 0, True)),
        ([], 5, (0, 0, 5, False)),
    ],
)
def test_facts_of_graphs_counted_by_hand(edges, num_nodes, expected):
    facts = facts_of(edges, num_nodes)
    counted = (facts.self_loops, facts.duplicate_edges, facts.isolated_nodes, facts.directed)
    assert counted == expected
    assert (facts.num_nodes, facts.num_edges) == (num_nodes, len(edges))


def test_remarks_tell_each_surprise_with_its_count():
    remarks = facts_of([(0, 0), (0, 1), (0, 1), (0, 2)], 5).remarks()
    assert len(remarks) == 4
    for number, word in zip("112", ("self loop", "repeated", "isolated"), strict=True):
        assert any(line.startswith(number) and word in line for line in remarks)
    assert any("directed" in line for line in remarks)


# Fingerprints


def test_the_fingerprint_depends_on_content_and_not_on_memory_layout():
    x = labelled_graph().x
    turned = x.T.contiguous().T
    assert not turned.is_contiguous()
    assert unlabelled(graph(x=turned)).fingerprint == unlabelled(graph(x=x)).fingerprint


CHANGES = {
    "one feature": lambda d: d.x[3, 2].add_(1e-3),
    "two features swapped": lambda d: d.x.copy_(d.x.flip(1)),
    "one edge": lambda d: d.edge_index[0, 3].copy_((d.edge_index[0, 3] + 1) % 12),
    "direction": lambda d: d.edge_index.copy_(d.edge_index.flip(0)),
    "one weight": lambda d: d.edge_weight[7].mul_(2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_an_in_place_change_of_the_same_graph_is_noticed(change):
    data = labelled_graph()
    view = unlabelled(data)
    before = view.fingerprint
    assert view.fingerprint == before
    change(data)
    assert view.fingerprint != before
    assert view.fingerprint == unlabelled(data).fingerprint


def test_an_in_place_change_of_sparse_features_is_noticed():
    data = labelled_graph(sparse=True)
    view = unlabelled(data)
    before = view.fingerprint
    data.x.values().mul_(2)
    assert view.fingerprint != before


@pytest.mark.parametrize("part", ["edge_index", "edge_weight"])
def test_an_in_place_change_of_edges_renews_what_was_built_from_them(part):
    data = labelled_graph()
    view = unlabelled(data)
    _ = view.adjacency, view.facts
    data[part].copy_(data[part].flip(-1) if part == "edge_weight" else data[part] // 2)
    fresh = unlabelled(data)
    renewed, expected = view.adjacency.matrix.to_dense(), fresh.adjacency.matrix.to_dense()
    assert torch.equal(renewed, expected)
    assert view.facts == fresh.facts


def test_structural_changes_change_the_fingerprint():
    data = labelled_graph()
    x, edges, weight = data.x, data.edge_index, data.edge_weight
    variants = [
        Graph(x, edges, weight),
        Graph(x, edges),
        Graph(x, edges, torch.ones_like(weight)),
        Graph(x.double(), edges, weight),
        Graph(x.to_sparse_csr(), edges, weight),
        Graph(x, edges[:, :-1], weight[:-1]),
        Graph(x[:, :-1], edges, weight),
        Graph(x.reshape(6, 10), edges // 2, weight),
    ]
    assert len({variant.fingerprint for variant in variants}) == len(variants)


# Files that are right


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_round_trip_keeps_every_part_bit_for_bit(tmp_path, suffix, sparse, dtype):
    data = labelled_graph(sparse=sparse, dtype=dtype)
    write_graph(data, tmp_path / f"g{suffix}")
    back = read_graph(tmp_path / f"g{suffix}")
    assert isinstance(back, Data)
    assert set(back.keys()) == set(data.keys())
    assert back.x.layout == data.x.layout
    for name, value in data.to_dict().items():
        assert back[name].dtype == value.dtype
        assert torch.equal(dense(back[name]), dense(value)), name
    assert unlabelled(back).fingerprint == unlabelled(data).fingerprint
    assert names(tmp_path) == [f"g{suffix}"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_view_can_be_written_too(tmp_path, suffix):
    view = unlabelled(labelled_graph())
    write_graph(view, tmp_path / f"g{suffix}")
    back = read_graph(tmp_path / f"g{suffix}")
    assert unlabelled(back).fingerprint == view.fingerprint
    assert "y" not in back


def test_npz_opens_without_pickles_and_holds_the_documented_names(tmp_path):
    write_graph(labelled_graph(), tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz", allow_pickle=False) as file:
        assert set(file.files) == {"x", "edge_index", "edge_weight", "y", *MASKS}
        assert file["edge_index"].shape == (2, 30)


def test_npz_of_sparse_features_is_a_scipy_matrix(tmp_path):
    data = labelled_graph(sparse=True)
    write_graph(data, tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz", allow_pickle=False) as file:
        parts = file["x_data"], file["x_indices"], file["x_indptr"]
        matrix = scipy.sparse.csr_array(parts, shape=tuple(file["x_shape"]))
        assert "x" not in file.files
    np.testing.assert_array_equal(matrix.toarray(), data.x.to_dense().numpy())


def npz(folder, **arrays):
    path = folder / "g.npz"
    np.savez(path, **arrays)
    return path


DENSE = {"x": np.ones((3, 2), np.float32), "edge_index": TRIANGLE.numpy()}


def csr_parts(matrix):
    return {
        "x_data": matrix.data,
        "x_indices": matrix.indices,
        "x_indptr": matrix.indptr,
        "x_shape": np.array(matrix.shape),
        "edge_index": TRIANGLE.numpy(),
    }


def test_npz_of_other_byte_or_memory_order_is_read(tmp_path):
    x = np.asfortranarray(np.arange(6.0).reshape(3, 2)).astype(">f4")
    back = read_graph(npz(tmp_path, **(DENSE | {"x": x})))
    assert back.x.tolist() == x.tolist()


def test_scipy_matrices_with_unsorted_or_repeated_columns_are_read(tmp_path):
    matrix = scipy.sparse.csr_array(
        (np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 0, 1, 1]), np.array([0, 2, 4, 4])),
        shape=(3, 2),
    )
    assert not matrix.has_canonical_format
    back = read_graph(npz(tmp_path, **csr_parts(matrix)))
    assert back.x.to_dense().tolist() == [[2, 1], [0, 7], [0, 0]]


# Files that are wrong


class Trap:
    """Unpickling this creates a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def object_array(value):
    array = np.empty(1, dtype=object)
    array[0] = value
    return array


WRITERS_OF_TRAPS = {
    "pickle posing as npz": (".npz", lambda trap, path: path.write_bytes(pickle.dumps(trap))),
    "npz with an object array": (".npz", lambda trap, path: np.savez(path, x=object_array(trap))),
    "pickle posing as pt": (".pt", lambda trap, path: path.write_bytes(pickle.dumps(trap))),
    "pt with a foreign class": (".pt", lambda trap, path: torch.save(trap, path)),
    "pt with a Data that holds it": (".pt", lambda trap, path: torch.save(graph(note=trap), path)),
    "old pt format": (
        ".pt",
        lambda trap, path: torch.save(trap, path, _use_new_zipfile_serialization=False),
    ),
}


@pytest.mark.parametrize(
    ("suffix", "write"), WRITERS_OF_TRAPS.values(), ids=WRITERS_OF_TRAPS.keys()
)
def test_code_in_a_file_is_refused_and_never_run(tmp_path, suffix, write):
    path, marker = tmp_path / f"trap{suffix}", tmp_path / "trap went off"
    write(Trap(marker), path)
    with pytest.raises(InvalidFileError) as error:
        read_graph(path)
    assert not marker.exists()
    assert_one_line(error)
    assert str(path) in str(error.value)


def test_the_traps_above_are_real(tmp_path):
    marker = tmp_path / "trap went off"
    pickle.loads(pickle.dumps(Trap(marker)))
    assert marker.exists()


def write_empty(path):
    path.write_bytes(b"")


def write_text(path):
    path.write_text("node,feature\n0,1\n")


def write_npy(path):
    with open(path, "wb") as file:
        np.save(file, np.ones(3))


def write_zip_of_text(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "hello")


def write_dict(path):
    torch.save({"x": torch.ones(3, 2), "edge_index": TRIANGLE}, path)


def write_tensor(path):
    torch.save(torch.ones(3, 2), path)


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        *((suffix, write) for suffix in SUFFIXES for write in (write_empty, write_text)),
        *((suffix, write_zip_of_text) for suffix in SUFFIXES),
        (".npz", write_npy),
        (".npz", write_tensor),
        (".pt", write_dict),
        (".pt", write_tensor),
        (".pt", write_npy),
    ],
)
def test_other_content_under_a_graph_name_is_refused(tmp_path, suffix, write):
    path = tmp_path / f"g{suffix}"
    write(path)
    with pytest.raises(InvalidFileError, match=r"^graph: got .*; allowed: ") as error:
        read_graph(path)
    assert_one_line(error)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.995])
def test_a_truncated_file_is_refused(tmp_path, suffix, sparse, share):
    path = tmp_path / f"g{suffix}"
    write_graph(labelled_graph(sparse=sparse), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InvalidFileError, match="^graph: got ") as error:
        read_graph(path)
    assert_one_line(error)


@pytest.mark.parametrize("name", ["g.csv", "g", "g.npz.bak", "npz"])
def test_a_wrong_suffix_is_refused_both_ways(tmp_path, name):
    (tmp_path / name).write_text("")
    with pytest.raises(InvalidFileError, match=r"^graph: got .*; allowed: .*\.npz or \.pt"):
        read_graph(tmp_path / name)
    (tmp_path / name).unlink()
    with pytest.raises(InvalidFileError, match=r"^output: got .*; allowed: .*\.npz or \.pt"):
        write_graph(graph(), tmp_path / name)
    assert names(tmp_path) == []


@pytest.mark.parametrize("missing", ["x", "edge_index"])
def test_an_npz_that_lacks_a_part_is_refused(tmp_path, missing):
    arrays = {name: array for name, array in DENSE.items() if name != missing}
    with pytest.raises(InvalidFileError, match=rf"\(no array {missing}\)"):
        read_graph(npz(tmp_path, **arrays))


@pytest.mark.parametrize("missing", ["x_data", "x_indices", "x_indptr", "x_shape"])
def test_an_npz_that_lacks_a_csr_part_is_refused(tmp_path, missing):
    arrays = csr_parts(scipy.sparse.eye_array(3, 2, dtype=np.float32, format="csr"))
    del arrays[missing]
    with pytest.raises(InvalidFileError, match=r"allowed: x, or all of x_data, "):
        read_graph(npz(tmp_path, **arrays))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("x_indptr", [0, 1, 2]),
        ("x_indptr", [0, 2, 1, 2]),
        ("x_indptr", [1, 1, 2, 2]),
        ("x_indptr", [0, 1, 1, 1]),
        ("x_indptr", [0, 1, 2, 3]),
        ("x_indptr", [[0, 1, 2, 2]]),
        ("x_indices", [0, 2]),
        ("x_indices", [0, -1]),
        ("x_indices", [0]),
        ("x_indices", [0.0, 0.5]),
        ("x_data", [1.0]),
        ("x_shape", [3]),
        ("x_shape", 3),
        ("x_shape", [3, -2]),
        ("x_shape", [4, 2]),
        ("x_shape", [3.0, 2.0]),
        ("x_shape", [3, 2, 1]),
    ],
)
def test_broken_csr_parts_are_refused(tmp_path, part, value):
    arrays = csr_parts(scipy.sparse.eye_array(3, 2, dtype=np.float32, format="csr"))
    path = npz(tmp_path, **(arrays | {part: np.array(value)}))
    with pytest.raises(InvalidGraphError, match=r"^graph\.x: got .*broken CSR parts") as error:
        read_graph(path)
    assert_one_line(error)


@pytest.mark.parametrize("name", ["x", "edge_index", "edge_weight", "y", "train_mask"])
def test_arrays_that_are_not_numbers_are_refused(tmp_path, name):
    path = npz(tmp_path, **(DENSE | {name: np.array(["a", "b", "c"])}))
    with pytest.raises(InvalidGraphError, match=rf"^graph\.{name}: got <U1; allowed: .*numbers"):
        read_graph(path)


@pytest.mark.parametrize("name", ["y", *MASKS])
@pytest.mark.parametrize("shape", [(2,), (4, 3), ()])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_labels_and_masks_of_another_length_are_refused(tmp_path, name, shape, suffix):
    path, values = tmp_path / f"g{suffix}", torch.zeros(shape, dtype=torch.bool)
    if suffix == ".npz":
        npz(tmp_path, **(DENSE | {name: values.numpy()}))
    else:
        torch.save(graph(**{name: values}), path)
    with pytest.raises(InvalidGraphError, match=rf"^graph\.{name}: got shape .* 3 nodes"):
        read_graph(path)


@pytest.mark.parametrize("values", [[0, 1, 0], 3, "abc"])
def test_labels_in_a_pt_that_are_no_tensor_are_refused(tmp_path, values):
    torch.save(graph(y=values), tmp_path / "g.pt")
    with pytest.raises(InvalidGraphError, match=rf"^graph\.y: got {type(values).__name__};"):
        read_graph(tmp_path / "g.pt")


# Writing


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "part",
    [{"edge_index": torch.tensor([[0], [7]])}, {"y": [0, 1, 2]}, {"val_mask": torch.zeros(2)}],
)
def test_a_broken_graph_is_never_written(tmp_path, suffix, part):
    with pytest.raises(InvalidGraphError, match=rf"^graph\.{next(iter(part))}: "):
        write_graph(graph(**part), tmp_path / f"g{suffix}")
    assert names(tmp_path) == []


def test_all_zero_sparse_features_are_read(tmp_path):
    back = read_graph(npz(tmp_path, **csr_parts(scipy.sparse.csr_array((3, 2), dtype=np.float32))))
    assert back.x.layout == torch.sparse_csr
    assert back.x.to_dense().abs().sum() == 0
