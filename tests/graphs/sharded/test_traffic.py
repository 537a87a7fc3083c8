"""Bytes between ranks: what is counted, what the model says, and what the system has sent."""

import sys

import numpy as np
import pytest
import torch
from spawning import adapt_on_ranks, results_of
from tcp import bytes_sent
from test_equality import CLASSES, FEATURES, small_graph

import matcha_gnn as mg
from matcha_gnn.graphs.sharded import Ranks, costs

HOPS, WIDTH = 4, 5


def sent_by_rounds(rank, classes, make):
    """What three rounds more send, what the hops of a run send, and rows of a hop."""
    torch.manual_seed(0)
    model = mg.GPRGNN(FEATURES, classes, WIDTH, K=HOPS)
    few, many = (
        adapt_on_ranks(model, small_graph(), make(), mg.Matcha(lr=1e-6, rounds=rounds))
        for rounds in (2, 5)
    )
    halo = many.graph.adjacency.halo
    more = {name: sent - few.sent.get(name, 0) for name, sent in many.sent.items()}
    counts = np.bincount(many.labels.numpy(), minlength=classes)
    return more, few.sent["halo"], (sum(halo.to) - halo.to[rank], halo.size), counts


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("classes", [2, CLASSES, 60])
def test_a_round_and_a_hop_send_what_the_model_says(classes, ranks):
    whole = classes < 60
    for more, halo, (rows, _), _ in results_of(ranks, sent_by_rounds, classes, mg.ERM):
        assert more["sums"] == 3 * costs.round_bytes(classes, HOPS, WIDTH, ranks, whole)
        assert sum(more.values()) == more["sums"]
        assert halo == HOPS * costs.hop_bytes(rows, WIDTH)


def t3a_round_bytes(classes, hops, width, ranks, candidates):
    """Counts, prototypes, mass and class sums; for each class that is cut, its candidates."""
    numbers = [classes, classes * width, classes, classes * (hops + 1) * width]
    numbers += [1] + [ranks] * (2 * len(candidates))
    added = sum(costs.all_reduce_bytes(costs.SUM * each, ranks) for each in numbers)
    return added + sum(costs.all_gather_bytes(4 * each, ranks) for each in candidates)


def tent_round_bytes(classes, hops, width, ranks, rows, steps):
    """2K narrow hops per step, gradients, mass and class sums; rows are sent and received."""
    narrow = min(classes - 1, width)
    step = hops * sum(costs.hop_bytes(each, narrow) for each in rows)
    step += 2 * costs.all_reduce_bytes(costs.SUM * width, ranks)
    sums = (classes, classes * (hops + 1) * width)
    added = sum(costs.all_reduce_bytes(costs.SUM * each, ranks) for each in sums)
    return steps * step + added


def cutting_t3a():
    return mg.T3A(k=10)


def two_steps_of_tent():
    return mg.Tent(steps=2, lr=1e-6)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_round_of_t3a_sends_what_the_model_says(ranks):
    answers = results_of(ranks, sent_by_rounds, CLASSES, cutting_t3a)
    # The classes that more than ten nodes and rows have; γ hardly moves, so they stay the same.
    counts = np.array([each for *_, each in answers])
    size = (CLASSES, HOPS, WIDTH, ranks)
    assert len({sum(more.values()) for more, *_ in answers}) == 1
    possible = {3 * t3a_round_bytes(*size, [10] * cut) for cut in range(1, CLASSES + 1)}
    assert (counts.sum(0) > 10).any()
    assert sum(answers[0][0].values()) in possible


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_round_of_tent_sends_what_the_model_says(ranks):
    for more, _, rows, _ in results_of(ranks, sent_by_rounds, CLASSES, two_steps_of_tent):
        size = (CLASSES, HOPS, WIDTH, ranks)
        assert sum(more.values()) == 3 * tent_round_bytes(*size, rows, steps=2)


def sent_by_messages(rank):
    """Counted by us and by the system: a sum, an exchange, rows of all ranks."""
    ranks = Ranks()
    others = [50_000] * ranks.size
    work = (
        lambda: ranks.total(np.zeros(400_000)),
        lambda: ranks.exchange(torch.zeros(50_000 * ranks.size, 8), others, others),
        lambda: ranks.gather(torch.zeros(50_000 + rank, 8)),
    )
    found = []
    for one in work:
        ranks.wait("start")
        before, ranks.sent = bytes_sent(), type(ranks.sent)()
        one()
        counted = sum(ranks.sent.values())
        ranks.wait("end")
        found.append((counted, bytes_sent() - before))
        # Who leaves takes the connections along.
        ranks.wait("counted")
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its own count")
@pytest.mark.parametrize("ranks", [2, 4])
def test_counted_bytes_are_those_that_went_over_the_wire(ranks):
    for answers in results_of(ranks, sent_by_messages):
        for counted, on_the_wire in answers:
            assert counted <= on_the_wire <= 1.02 * counted
