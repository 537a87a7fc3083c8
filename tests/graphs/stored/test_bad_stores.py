"""What cannot be streamed, read or written is refused in one line, before any work."""

import json
import shutil

import numpy as np
import pytest
import torch
from small_stores import FEATURES, source_model, target_graph
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.graphs.stored import plan, propagation
from matcha_gnn.graphs.stored.writing import Edges


@pytest.fixture
def store(tmp_path):
    return mg.GraphStore.create(tmp_path / "store", target_graph())


@pytest.mark.parametrize("name", ["x", "indptr", "indices", "values", "links"])
def test_a_missing_file_is_named(name, store):
    (store.folder / f"{name}.npy").unlink()
    with pytest.raises(mg.InvalidFileError, match=f"{name}.npy.*no such file"):
        _ = mg.GraphStore(store.folder).links


@pytest.mark.parametrize("name", ["x", "indptr", "indices", "values"])
def test_a_file_cut_short_is_found_before_it_is_read(name, store):
    path = store.folder / f"{name}.npy"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(mg.InvalidFileError, match="cut short"):
        mg.GraphStore(store.folder)


def test_arrays_of_another_shape_or_kind(store):
    np.save(store.folder / "values.npy", np.zeros(3, np.float32))
    with pytest.raises(mg.InvalidFileError, match="values.npy"):
        mg.GraphStore(store.folder)
    (store.folder / "values.npy").write_text("not an array")
    with pytest.raises(mg.InvalidFileError, match="not an array file"):
        mg.GraphStore(store.folder)


def test_folders_that_are_no_store(tmp_path, store):
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(mg.InvalidFileError, match="no meta.json"):
            mg.GraphStore(folder)
    meta = store.folder / "meta.json"
    said = json.loads(meta.read_text())
    meta.write_text(json.dumps(said | {"format": "matcha-gnn graph store 99"}))
    with pytest.raises(mg.InvalidFileError, match="store 99"):
        mg.GraphStore(store.folder)
    for text, why in (("{", "not JSON"), ("[]", "not JSON"), ("{}", "format None")):
        meta.write_text(text)
        with pytest.raises(mg.InvalidFileError, match=why):
            mg.GraphStore(store.folder)


def test_a_store_is_not_written_over(store):
    with pytest.raises(mg.InvalidFileError, match="already has a store"):
        mg.GraphStore.create(store.folder, target_graph())


def test_a_store_that_was_not_finished_is_none(tmp_path):
    def broken():
        yield np.zeros((4, 2), np.float32)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        mg.GraphStore.write(tmp_path / "half", broken(), [])
    with pytest.raises(mg.InvalidFileError, match="no meta.json"):
        mg.GraphStore(tmp_path / "half")


def test_what_a_killed_writer_left_is_cleared_away_by_the_next(tmp_path):
    left = tmp_path / "half" / ".spool-of-a-killed-run"
    left.mkdir(parents=True)
    (left / "pairs").write_bytes(b"some edges")
    (tmp_path / "half" / "x.npy").write_bytes(b"half a file")
    with pytest.raises(mg.InvalidFileError, match="it is written last"):
        mg.GraphStore(tmp_path / "half")
    store = mg.GraphStore.create(tmp_path / "half", target_graph())
    assert store.num_nodes == target_graph().num_nodes
    assert not list(store.folder.glob(".spool-*"))


@pytest.mark.parametrize(
    ("block", "edges"),
    [
        (np.array([[np.nan, 1]], np.float32), [[0], [0]]),
        (np.zeros((1, 2), np.int32), [[0], [0]]),
        (np.zeros((1, 2), np.float32), [[0], [5]]),
        (np.zeros((1, 2), np.float32), [[-1], [0]]),
    ],
)
def test_bad_streams(block, edges, tmp_path):
    with pytest.raises(mg.InvalidGraphError):
        mg.GraphStore.write(tmp_path / "s", iter([block]), [Edges(*np.array(edges))])


def test_sparse_features_are_refused(tmp_path):
    graph = Data(x=torch.eye(3).to_sparse_csr(), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(mg.InvalidGraphError, match="sparse"):
        mg.GraphStore.create(tmp_path / "s", graph)


def test_too_little_memory_says_what_would_do(store):
    with pytest.raises(InvalidArgumentError, match="at least") as error:
        mg.adapt(source_model(), mg.GraphStore(store.folder, "1MB"))
    wanted = error.value.allowed.split("at least ")[1].split(" for")[0]
    assert plan.bytes_of(wanted) > plan.resident()
    with pytest.raises(InvalidArgumentError, match="a string such as 4GB"):
        mg.adapt(source_model(), mg.GraphStore(store.folder, "lots"))
    assert not (store.folder / "hops").exists()
    result = mg.adapt(source_model(), mg.GraphStore(store.folder, wanted))
    assert result.probs.isfinite().all()


def test_too_little_free_memory_has_its_own_message(store, monkeypatch):
    monkeypatch.setattr(plan, "available_memory", lambda: 2 * 10**8)
    with pytest.raises(InvalidArgumentError, match="got 100.0 MB, half of what is free; allowed"):
        mg.adapt(source_model(), store)


@pytest.mark.parametrize("memory", [-1, 0, 1.5, True, "", "4 apples"])
def test_a_limit_that_is_none_is_refused_before_work(memory, store):
    with pytest.raises(InvalidArgumentError, match="^memory: got .*; allowed: ") as error:
        mg.adapt(source_model(), mg.GraphStore(store.folder, memory))
    assert "\n" not in str(error.value)
    assert not (store.folder / "hops").exists()


@pytest.mark.parametrize("method", [mg.LAME(), mg.SOGA(), mg.GTrans()])
def test_methods_that_cannot_stream_say_who_can(method, store):
    with pytest.raises(mg.IncompatibleError, match="erm, t3a, tent"):
        mg.adapt(source_model(), store, method)
    assert not (store.folder / "hops").exists()


def test_models_and_strategies_that_cannot_stream(store):
    for model in (mg.JKNet(FEATURES, 2), mg.GCNII(FEATURES, 2)):
        with pytest.raises(mg.IncompatibleError, match="GPRGNN"):
            mg.adapt(model, store, strategy=mg.Matcha())
    for given in ({"moves": "both"}, {"features": "base"}):
        with pytest.raises(mg.IncompatibleError, match="matcha .* needs all nodes in memory"):
            mg.adapt(source_model(), store, mg.Tent(), mg.Matcha(**given))
        guarded = mg.Guarded(strategies=(mg.Belief(), mg.Matcha(**given)))
        with pytest.raises(mg.IncompatibleError, match="guarded .* needs all nodes in memory"):
            mg.adapt(source_model(), store, strategy=guarded)
    with pytest.raises(mg.IncompatibleError, match="use a graph in memory"):
        mg.adapt(source_model(), store, mg.Tent())
    with pytest.raises(mg.InvalidGraphError, match="features"):
        mg.adapt(mg.GPRGNN(3, 2), store, strategy=mg.Matcha())


def test_appnp_streams(store):
    model = mg.APPNP(FEATURES, 2, 8, K=3)
    inside, outside = (
        mg.adapt(model, graph, strategy=mg.Matcha(rounds=3)) for graph in (target_graph(), store)
    )
    torch.testing.assert_close(inside.probs, outside.probs, atol=1e-5, rtol=0)


def test_no_room_on_the_disk_is_said_before_work(store, monkeypatch):
    usage = shutil.disk_usage(store.folder)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(InvalidArgumentError, match="1.0 kB free"):
        mg.adapt(source_model(), store, strategy=mg.Matcha())


def test_a_disk_that_fills_up_on_the_way_leaves_no_half_file(store, monkeypatch):
    written = propagation.ArrayWriter.write

    def full(self, rows, calls=[]):  # noqa: B006
        calls.append(1)
        if len(calls) > 3:
            raise OSError(28, "No space left on device")
        written(self, rows)

    monkeypatch.setattr(propagation.ArrayWriter, "write", full)
    with pytest.raises(mg.InvalidFileError, match="No space left"):
        mg.adapt(source_model(), store, strategy=mg.Matcha(rounds=1))
    folder = next((store.folder / "hops").iterdir())
    assert not list(folder.glob(".hop-*"))
    monkeypatch.undo()
    result = mg.adapt(source_model(), store, strategy=mg.Matcha(rounds=1))
    expected = mg.adapt(source_model(), target_graph(), strategy=mg.Matcha(rounds=1))
    torch.testing.assert_close(result.probs, expected.probs, atol=1e-5, rtol=0)


def test_a_folder_where_hops_cannot_be_written(store):
    (store.folder / "hops").write_text("in the way")
    with pytest.raises(mg.InvalidFileError, match="a folder that can be written"):
        mg.adapt(source_model(), store, strategy=mg.Matcha(rounds=1))


def test_a_hop_of_another_shape_is_refused(store):
    mg.adapt(source_model(), store, strategy=mg.Matcha(rounds=1))
    hop = next((store.folder / "hops").rglob("hop-01*"))
    hop.write_bytes(hop.read_bytes()[:-4])
    with pytest.raises(mg.InvalidFileError, match="cut short"):
        mg.adapt(source_model(), store, strategy=mg.Matcha(rounds=1))


def test_two_processes_do_not_make_the_same_hops(store):
    with (
        propagation.alone(mg.GraphStore(store.folder).folder),
        pytest.raises(mg.InvalidFileError, match="one process at a time"),
        propagation.alone(store.folder),
    ):
        pass


@pytest.mark.parametrize(
    ("words", "size"),
    [("4GB", 4 * 10**9), ("4gb", 4 * 10**9), ("512MiB", 512 << 20), ("1e", None), (10, 10)],
)
def test_memory_in_words(words, size):
    if size is None:
        with pytest.raises(InvalidArgumentError):
            plan.bytes_of(words)
    else:
        assert plan.bytes_of(words) == size


def test_the_estimate_is_reported_before_work(store):
    said = []
    telling = mg.GraphStore(store.folder, "2GB", tell=said.append)
    mg.adapt(source_model(), telling, strategy=mg.Matcha(rounds=4))
    (line,) = said
    nodes = target_graph().num_nodes
    assert plan.in_words(4 * nodes * 4 * 8) in line
    assert "8 reads" in line
    assert "to compute" in line
    mg.adapt(source_model(), telling, strategy=mg.Matcha(rounds=4))
    assert "to compute" not in said[1]


def test_one_process_at_a_time_writes_a_store(tmp_path):
    def features():
        with pytest.raises(mg.InvalidFileError, match="another process is writing a store there"):
            mg.GraphStore.create(tmp_path / "store", target_graph())
        yield target_graph().x.numpy()

    sender, receiver = target_graph().edge_index.numpy()
    mg.GraphStore.write(tmp_path / "store", features(), [Edges(sender, receiver)])
    with pytest.raises(mg.InvalidFileError, match="already has a store"):
        mg.GraphStore.create(tmp_path / "store", target_graph())


def test_changed_labels_are_noticed(store):
    path = store.folder / "y.npy"
    labels = np.load(path)
    labels[0] = 1 - labels[0]
    np.save(path, labels)
    with pytest.raises(mg.InvalidFileError, match=r"y.npy \(changed since meta.json was written"):
        _ = mg.GraphStore(store.folder).labels
