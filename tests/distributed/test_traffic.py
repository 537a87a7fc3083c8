"""Bytes between ranks: what is counted, what the model says, and what the system has sent."""

import sys

import numpy as np
import pytest
import torch
from spawning import results_of
from tcp import bytes_sent
from test_equality import CLASSES, FEATURES, small_graph

import matcha_gnn as mg
from matcha_gnn.distributed import Ranks, adapt, costs
from matcha_gnn.distributed.part import part_of
from matcha_gnn.graph import unlabelled

HOPS, WIDTH = 4, 5


def sent_by_rounds(rank, classes):
    """What three rounds more send, and what the hops of a run send."""
    torch.manual_seed(0)
    model = mg.GPRGNN(FEATURES, classes, WIDTH, K=HOPS)
    few, many = (
        adapt(model, small_graph(), loss=mg.PIC(), protect=False, epochs=n).sent for n in (2, 5)
    )
    part = part_of(unlabelled(small_graph()), Ranks(), "contiguous")
    rows = sum(part.adjacency.halo.to) - part.adjacency.halo.to[rank]
    return {name: many[name] - few.get(name, 0) for name in many}, few["halo"], rows


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("classes", [2, CLASSES, 60])
def test_a_round_and_a_hop_send_what_the_model_says(classes, ranks):
    whole = classes < 60
    for more, halo, rows in results_of(ranks, sent_by_rounds, classes):
        assert more["sums"] == 3 * costs.epoch_bytes(classes, HOPS, WIDTH, ranks, whole)
        assert sum(more.values()) == more["sums"]
        assert halo == HOPS * costs.hop_bytes(rows, WIDTH)


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
