from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

import matcha_gnn as mg
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.report import maps, node_map, replay


def test_the_map_says_which_nodes_it_shows(make, monkeypatch):
    result, _ = make()
    assert "nodes: all." in node_map(result).caption
    monkeypatch.setattr(replay, "MAX_NODES", 50)
    part = node_map(result)
    assert "50 of 400, drawn at random." in part.caption
    assert part == node_map(result)


def test_representations_are_those_of_the_model_at_both_gammas(make):
    result, _ = make()
    before, after = maps._both_states(result, np.arange(400))
    hops = result.model.hops(result.graph)
    np.testing.assert_allclose(before, hops.mix(result.gamma_before).numpy(), atol=1e-5)
    np.testing.assert_allclose(after, hops.mix(result.gamma).numpy(), atol=1e-5)


def test_main_directions_are_those_of_scikit_learn():
    rows = np.random.default_rng(0).normal(size=(60, 5)) * [3, 1, 2, 0.5, 0.1]
    np.testing.assert_allclose(
        abs(maps._principal(rows)), abs(PCA(2).fit_transform(rows)), atol=1e-10
    )
    assert maps._principal(rows[:, :1]).shape == (60, 2)


def test_spread_between_classes():
    rows, labels = np.array([[0.0], [2.0], [10.0], [12.0]]), np.array([0, 0, 1, 1])
    assert maps._between(rows, labels) == pytest.approx(100 / 104)
    assert maps._between(np.zeros((4, 1)), labels) == 0


def test_neighbour_map_is_drawn_and_an_unknown_one_refused(make, monkeypatch):
    monkeypatch.setattr(replay, "MAX_NODES", 40)
    assert "t-SNE of both states together" in node_map(make()[0], "tsne").caption
    with pytest.raises(InvalidArgumentError, match="pca, tsne"):
        node_map(make()[0], "umap")


def test_no_map_where_the_state_before_is_not_known(make):
    result, _ = make()
    assert node_map(replace(result, strategy=mg.Matcha(moves="both"))) is None
    assert node_map(replace(result, gamma=torch.full_like(result.gamma, torch.nan))) is None


def test_far_nodes_are_counted_not_drawn():
    places = np.concatenate([np.random.default_rng(0).random((999, 2)), [[1e3, 0.0]]])
    frame = maps._frame(places)
    assert abs(frame).max() < 1.2
    assert maps._outside(places, frame) == " 1 points lie outside the frame."


@pytest.mark.parametrize("num_classes", [2, 40])
def test_a_map_is_light(make, num_classes):
    assert len(node_map(make(num_classes)[0]).svg) < 60_000


def test_nodes_that_were_moved_back_stand_where_they_were():
    source = mg.datasets.csbm(1500, 40, homophily=0.8, signal=2, seed=0)
    target = mg.datasets.csbm(1500, 40, homophily=0.2, signal=2, shift=2.0, seed=1)
    model = mg.GPRGNN(40, 2)
    mg.fit(model, source, epochs=60)
    weights = mg.Guarded(strategies=(mg.ClosedForm(), mg.Fitted()))
    result = mg.adapt(model, target, strategy=weights)
    assert result.decision.moved_back
    before, _ = maps._both_states(result, np.arange(1500))
    with torch.no_grad():
        expected = model.representation(result.graph).numpy()
    np.testing.assert_allclose(before, expected, atol=1e-4)


def test_a_factor_of_gamma_does_not_change_the_map(make):
    result, _ = make()
    larger = replace(result, gamma=128 * result.gamma)  # which rounds nothing
    assert node_map(larger).svg == node_map(result).svg
