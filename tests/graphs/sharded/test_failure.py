"""A rank that dies, falls silent or cannot do its part ends the run on all ranks."""

import os
import signal
import socket
import time

import pytest
import torch
import torch.distributed as dist
from spawning import adapt_on_ranks, run_ranks
from test_equality import CLASSES, FEATURES, adapted, small_graph, small_model

import matcha_gnn as mg
from matcha_gnn.errors import DistributedError, IncompatibleError, InvalidArgumentError
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.graphs.sharded import Ranks, joined, outputs, write_shards


def dies_in_a_round(rank, folder, how):
    """Rank 1 is struck in its second round, whatever the others do."""

    def progress(done, total):
        if rank == 1 and done == 2:
            os.kill(os.getpid(), how)

    started = time.monotonic()
    try:
        result = adapted(adapt_on_ranks, "erm", progress=progress)
        write_shards(result, folder, Ranks())
    except DistributedError as error:
        return str(error), time.monotonic() - started
    return "finished", 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_struck_ends_the_others_in_time_and_the_rerun_succeeds(how, tmp_path):
    limit = 30 if how == signal.SIGKILL else 2
    first, struck, third = run_ranks(3, dies_in_a_round, tmp_path, how, timeout=limit, silent=[1])
    assert struck is None
    for said, seconds in (first, third):
        assert "a rank has died" in said
        assert "\n" not in said
        assert seconds < limit + 8
    assert os.listdir(tmp_path) == []
    again = run_ranks(3, dies_in_a_round, tmp_path, 0)
    assert [said for said, _ in again] == ["finished"] * 3
    assert {"summary.json", "predictions-2-of-3.npz"} <= set(os.listdir(tmp_path))


def dies_while_writing(rank, folder):
    """Rank 1 is killed when half of its predictions are in the file."""

    def half(result, path):
        path.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)

    if rank == 1:
        outputs._write_own = half
    write_shards(adapted(adapt_on_ranks, "erm"), folder, Ranks())


def test_a_rank_that_dies_while_it_writes_leaves_nothing_half_written(tmp_path):
    first, _, third = run_ranks(3, dies_while_writing, tmp_path, silent=[1])
    assert isinstance(first, DistributedError)
    assert isinstance(third, DistributedError)
    assert os.listdir(tmp_path) == []


def stops_while_it_puts_files_in_place(rank, folder):
    """Rank 0 has no room for the model."""

    def full(model, path):
        raise OSError(28, "No space left on device")

    outputs.save_model = full
    write_shards(adapted(adapt_on_ranks, "erm"), folder, Ranks())


def test_a_run_that_stops_between_files_leaves_no_summary_of_an_earlier_run(tmp_path):
    earlier = {"summary.json", "report.html", "predictions.npz", "predictions-2-of-3.npz"}
    for name in earlier | {"notes.txt"}:
        (tmp_path / name).write_text("of an earlier run")
    first, second = run_ranks(2, stops_while_it_puts_files_in_place, tmp_path)
    assert isinstance(first, OSError)
    assert isinstance(second, DistributedError)
    shards = {"predictions-0-of-2.npz", "predictions-1-of-2.npz"}
    assert set(os.listdir(tmp_path)) == shards | {"notes.txt"}


def refused(rank, options):
    graph = small_graph()
    if options == "few nodes":
        graph = graph.subgraph(torch.tensor([0, 1]))
    if options == "other graphs":
        graph.x = graph.x + rank
    if options == "bad graph on rank 1" and rank == 1:
        graph.x = graph.x * torch.nan
    how = {"model": small_model(), "method": mg.ERM(), "strategy": mg.Matcha(rounds=1)}
    how |= UNUSUAL[options](rank) if options in UNUSUAL else {}
    model, method, strategy = (how.pop(name) for name in ("model", "method", "strategy"))
    adapt_on_ranks(model, graph, method, strategy, **how)


UNUSUAL = {
    "other seeds": lambda rank: {"seed": rank},
    "other methods": lambda rank: {"method": mg.T3A(k=5 + rank)},
    "other strategies": lambda rank: {"strategy": mg.Matcha(rounds=1 + rank)},
    "a base method that asks for all nodes": lambda rank: {"method": mg.LAME()},
    "an encoder that moves": lambda rank: {"strategy": mg.Matcha(moves="both")},
    "no seed": lambda rank: {"seed": -1},
    "no name of a strategy": lambda rank: {"strategy": "machta"},
    "hops of all nodes": lambda rank: {"hops": small_model().hops(unlabelled(small_graph()))},
    "layers that are no powers": lambda rank: {
        "model": mg.JKNet(FEATURES, CLASSES, 5),
        "method": mg.Tent(),
    },
    "nothing to mix": lambda rank: {"model": mg.GCNII(FEATURES, CLASSES, 5)},
}


@pytest.mark.parametrize(
    ("options", "kinds", "said"),
    [
        ("few nodes", InvalidArgumentError, "3 for 2 nodes"),
        ("other seeds", IncompatibleError, "different"),
        ("other methods", IncompatibleError, "different"),
        ("other strategies", IncompatibleError, "different"),
        ("other graphs", IncompatibleError, "different"),
        ("a base method that asks for all nodes", IncompatibleError, "lame"),
        ("an encoder that moves", IncompatibleError, "γ alone"),
        ("no seed", InvalidArgumentError, "seed"),
        ("no name of a strategy", InvalidArgumentError, "strategy: got"),
        ("hops of all nodes", IncompatibleError, "hops: made from another graph"),
        ("layers that are no powers", IncompatibleError, "JKNet"),
        ("nothing to mix", IncompatibleError, "GCNII"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line_on_all_ranks(options, kinds, said):
    for answer in run_ranks(3, refused, options):
        assert isinstance(answer, kinds)
        assert said in str(answer)
        assert "\n" not in str(answer)


def test_a_fault_on_one_rank_raises_on_the_others():
    first, second = run_ranks(2, refused, "bad graph on rank 1")
    assert isinstance(second, InvalidArgumentError)
    assert isinstance(first, DistributedError)
    assert "rank 1" in str(first)


def test_a_process_outside_torchrun_is_refused(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(InvalidArgumentError, match="torchrun"):
        mg.adapt(small_model(), mg.distributed.shard(small_graph()))


def limit_in_the_error(rank):
    with joined(timeout=999) as ranks:
        return ranks.timeout


def test_the_limit_in_messages_is_that_of_the_group():
    assert run_ranks(2, limit_in_the_error, timeout=20.0) == [20.0, 20.0]


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return str(place.getsockname()[1])


def in_a_group_of_its_own(rank, port, work):
    """As torchrun starts it."""
    dist.destroy_process_group()
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    with joined(timeout=20):
        work(rank)
        came = time.monotonic()
    return came, time.monotonic()


def second_is_slow(rank):
    time.sleep(rank)


def first_fails(rank):
    if rank == 0:
        raise ValueError("ours")


def test_no_rank_leaves_before_the_last_one_is_done():
    times = run_ranks(2, in_a_group_of_its_own, free_port(), second_is_slow)
    came, left = zip(*times, strict=True)
    assert max(came) <= min(left)


def test_a_rank_with_an_error_waits_for_nobody():
    started = time.monotonic()
    first, second = run_ranks(2, in_a_group_of_its_own, free_port(), first_fails)
    assert (type(first), str(first)) == (ValueError, "ours")
    assert isinstance(second, DistributedError)
    assert time.monotonic() - started < 20
