"""The reads of the hops that are told before work are those that are made."""

from dataclasses import replace

import pytest
from small_stores import source_model, target_graph

import matcha_gnn as mg
from matcha_gnn.graphs.stored import target
from matcha_gnn.graphs.stored.streaming import StoredHops

ROUNDS = {"strategy": mg.Matcha(rounds=7)}
CASES = {
    "erm": (ROUNDS, 11, 19),
    "t3a": ({**ROUNDS, "method": mg.T3A()}, 35, 35),
    "tent": ({**ROUNDS, "method": mg.Tent()}, 11, 11),
    "default": ({}, 15, 30),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("keeps_logits", [True, False])
def test_reads_are_as_many_as_estimated(name, keeps_logits, tmp_path, monkeypatch):
    given, *expected = CASES[name]
    made, said = [], []
    for read in ("_host_blocks", "_own_class_sums"):
        plain = getattr(StoredHops, read)

        def counting(self, *arguments, plain=plain):
            made.append(1)
            return plain(self, *arguments)

        monkeypatch.setattr(StoredHops, read, counting)
    if not keeps_logits:
        planned = target.plan_for
        monkeypatch.setattr(target, "plan_for", lambda *g: replace(planned(*g), logit_bytes=0))
    store = mg.GraphStore.create(tmp_path / "store", target_graph())
    telling = mg.GraphStore(store.folder, tell=said.append)
    mg.adapt(source_model(), telling, **given)
    told = expected[not keeps_logits]
    assert f"; {told} reads of the hops" in said[0]
    # What the default tries depends on the graph: it is told at most.
    assert (told // 3 if name == "default" else told - 1) <= len(made) <= told
