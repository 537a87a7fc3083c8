from dataclasses import replace

import numpy as np
import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.report import replay
from matcha_gnn.testing import tiny_graph, trained_model


def test_a_replay_gives_the_rounds_again(make):
    result, _ = make(12)
    done = replay.replay(result)
    np.testing.assert_allclose(done.pic, result.trace.loss, rtol=1e-4)
    assert done.rounds.tolist() == [0, 1, 2, 3]


def test_infomax_and_churn_are_those_of_each_gamma(make):
    result, _ = make()
    done = replay.replay(result)
    hops = result.model.hops(result.graph)
    probs = [result.model.head(hops.mix(g)).softmax(-1).detach() for g in result.trace.gamma]
    for round_, p in enumerate(probs):
        mean = p.mean(0)
        mutual = (p * (p / mean).log()).sum(1).mean()
        assert done.infomax[round_] == pytest.approx(float(mutual), abs=1e-5)
    changed = (probs[2].argmax(1) != probs[1].argmax(1)).double().mean()
    assert done.churn[2] == pytest.approx(float(changed))
    assert done.churn[0] == 0


def test_the_picture_says_what_it_shows(make, monkeypatch):
    result, _ = make()
    monkeypatch.setattr(replay, "MAX_NODES", 60)
    picture = replay.round_curves(result)
    assert "nodes: 60 of 400, drawn at random." in picture.caption
    assert "base method" not in picture.caption
    other = replace(result, method=mg.Tent(), strategy=mg.Matcha(loss=mg.Entropy()))
    assert "without the base method" in replay.round_curves(other).caption
    assert "Curves of PIC, InfoMax" in replay.round_curves(other).svg


def test_no_picture_without_rounds_or_for_models_that_run_whole(make):
    assert replay.round_curves(make(rounds=0)[0]) is None
    result, _ = make()
    whole = mg.adapt(mg.GCNII(64, 2), result.graph, strategy=mg.Matcha(rounds=1))
    assert replay.round_curves(whole) is None
    assert replay.round_curves(mg.adapt(trained_model(), tiny_graph())) is None


def test_representations_of_a_model_that_runs_whole(make):
    result, _ = make()
    whole = mg.adapt(mg.GCNII(64, 2), result.graph, strategy=mg.Matcha(rounds=1))
    shown = np.arange(10)
    gammas = (whole.gamma_before, whole.gamma)
    before, after = replay.representations(whole.model, whole.graph, shown, gammas)
    assert not torch.equal(before, after)
    with torch.no_grad():
        torch.testing.assert_close(after, whole.model.representation(whole.graph)[:10])
