"""Ranks that read their parts of a store, keep their hops there, and go on from them."""

import os
import signal

import numpy as np
import pytest
from spawning import adapt_on_ranks, results_of, run_ranks
from test_equality import (
    assert_equal_to_one_process,
    moved_graph,
    small_graph,
    small_model,
    told,
    trained_model,
)

import matcha_gnn as mg
from matcha_gnn.errors import DistributedError
from matcha_gnn.graphs.stored.propagation import HopFiles

ROUNDS = mg.Matcha(lr=0.5, rounds=3)
METHODS = {"erm": mg.ERM, "t3a": lambda: mg.T3A(k=5), "tent": mg.Tent}


@pytest.fixture
def folder(tmp_path):
    """A graph with parallel edges and self loops, as a store."""
    mg.GraphStore.create(tmp_path / "store", small_graph())
    return tmp_path / "store"


def from_store(rank, folder):
    store = mg.GraphStore(folder)
    return {
        name: told(adapt_on_ranks(small_model(), store, make(), ROUNDS))
        for name, make in METHODS.items()
    }


def alone(name):
    return mg.adapt(small_model(), small_graph(), METHODS[name](), ROUNDS)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_on_a_store_give_what_one_process_gives_in_memory(ranks, folder):
    answers = results_of(ranks, from_store, folder)
    for name in METHODS:
        assert_equal_to_one_process([answer[name] for answer in answers], alone(name))
    (key,) = os.listdir(folder / "hops")
    files = [len(files) for _, _, files in os.walk(folder / "hops" / key) if files]
    assert files == [small_model().num_hops + 1] * ranks


def by_default(rank, folder, model):
    result = adapt_on_ranks(model, mg.GraphStore(folder))
    return result.nodes, result.probs, result.decision.chosen


def test_the_default_on_a_store(tmp_path):
    model, graph = trained_model().float(), moved_graph(0.5)
    graph.x = graph.x.float()
    mg.GraphStore.create(tmp_path / "store", graph)
    whole = mg.adapt(model, graph)
    assert whole.decision.adapted
    for nodes, probs, chosen in results_of(2, by_default, tmp_path / "store", model):
        assert chosen == whole.decision.chosen
        np.testing.assert_allclose(probs, whole.probs[nodes], atol=1e-5)


def struck_while_writing(rank, folder, at_hop):
    """Rank 1 is killed as it begins to write a hop; tells which hops it has made."""
    begun, write = [], HopFiles.writing

    def writing(self, hop, column_block):
        begun.append(hop)
        if rank == 1 and hop == at_hop:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(self, hop, column_block)

    HopFiles.writing = writing
    return begun, told(adapt_on_ranks(small_model(), mg.GraphStore(folder), mg.ERM(), ROUNDS))


def test_a_run_that_lost_a_rank_goes_on_from_the_hops_that_are_stored(folder):
    first, _, third = run_ranks(3, struck_while_writing, folder, 2, silent=[1])
    assert isinstance(first, DistributedError)
    assert isinstance(third, DistributedError)
    again = results_of(3, struck_while_writing, folder, None)
    assert again[1][0] == [2, 3, 4]
    assert all(0 not in begun and 1 not in begun for begun, _ in again)
    assert_equal_to_one_process([told for _, told in again], alone("erm"))
    assert [begun for begun, _ in results_of(3, struck_while_writing, folder, None)] == [[]] * 3


def from_store_by_erm(rank, folder):
    return told(adapt_on_ranks(small_model(), mg.GraphStore(folder), mg.ERM(), ROUNDS))


def mirrored_graph():
    """Another graph of the same shape."""
    graph = small_graph()
    graph.x = graph.x.flip(0)
    return graph


def test_another_graph_in_the_folder_gets_hops_of_its_own(folder):
    results_of(2, from_store_by_erm, folder)
    (folder / "meta.json").unlink()
    mg.GraphStore.create(folder, mirrored_graph())
    expected = mg.adapt(small_model(), mirrored_graph(), mg.ERM(), ROUNDS)
    assert_equal_to_one_process(results_of(2, from_store_by_erm, folder), expected)


def test_features_that_were_changed_after_writing_make_new_hops(folder):
    results_of(2, from_store_by_erm, folder)
    np.save(folder / "x.npy", mirrored_graph().x.numpy())
    expected = mg.adapt(small_model(), mirrored_graph(), mg.ERM(), ROUNDS)
    assert_equal_to_one_process(results_of(2, from_store_by_erm, folder), expected)


def with_a_limit(rank, folder):
    return adapt_on_ranks(small_model(), mg.GraphStore(folder, "4GB"), mg.ERM(), ROUNDS)


def test_a_limit_on_memory_is_refused_where_ranks_hold_their_hops(folder):
    for answer in run_ranks(2, with_a_limit, folder):
        assert isinstance(answer, mg.InvalidArgumentError)
        assert str(answer).startswith("memory: got '4GB'; allowed: None where ranks")
    assert not (folder / "hops").exists()


@pytest.mark.parametrize(
    ("name", "value"), [("x", np.nan), ("indices", 151), ("values", np.inf), ("links", -1)]
)
def test_entries_out_of_range_are_refused_on_all_ranks(name, value, folder):
    array = np.load(folder / f"{name}.npy", mmap_mode="r+")
    array.reshape(-1)[-1] = value
    array.flush()
    first, second = run_ranks(2, from_store_by_erm, folder)
    assert isinstance(second, mg.InvalidFileError)
    assert f"{name}.npy" in str(second)
    assert isinstance(first, DistributedError | mg.InvalidFileError)
    assert "\n" not in f"{first}{second}"
