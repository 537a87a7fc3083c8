"""The posterior: its inverse temperature, its alternatives, and when the estimate is rejected."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.evidence import infer


@pytest.fixture(scope="module")
def model() -> mg.Backbone:
    model = mg.GPRGNN(64, 2)
    mg.fit(model, mg.datasets.csbm(2000, 64, homophily=0.8, signal=1.5, seed=0), epochs=60)
    return model


def target(seed: int = 1, **options: float) -> Data:
    settings = {"homophily": 0.3, "signal": 1.5} | options
    return mg.datasets.csbm(2000, 64, seed=seed, **settings)


def test_inverse_temperature_on_the_source_is_that_of_linear_discriminants(model):
    source = model.source
    rng = np.random.default_rng(0)
    covariance = source.node_logit_covariance.double().numpy() + 1e-9 * np.eye(2)
    root = np.linalg.cholesky(covariance)
    labels = rng.integers(2, size=40_000)
    means = source.node_logit_centroids.double().numpy()
    logits = means[labels] + rng.standard_normal((40_000, 2)) @ root.T
    differences = logits[:, :1] - logits[:, 1:]
    peer = LinearDiscriminantAnalysis().fit(differences, labels)
    assert source.inverse_temperature == pytest.approx(-float(peer.coef_[0, 0]), rel=0.05)


def test_beliefs_come_true_as_often_as_they_say(model):
    graph = target()
    posterior = infer(model, mg.unlabelled(graph))
    right = (posterior.probs.argmax(1) == graph.y).double().mean()
    assert float(posterior.probs.amax(1).mean()) == pytest.approx(float(right), abs=0.03)
    assert not posterior.rejected


def test_few_edges_leave_more_alternatives(model):
    many = infer(model, mg.unlabelled(target(degree=6)))
    few = infer(model, mg.unlabelled(target(degree=0.3)))
    assert len(few.alternatives) > len(many.alternatives)


def test_the_lower_bound_of_a_gain_is_its_least_over_all_alternatives(model):
    graph = target(degree=0.3)
    posterior = infer(model, mg.unlabelled(graph))
    before = mg.predict(model, graph).probs.argmax(1)
    labels = posterior.probs.argmax(1)
    gains = [
        float((p.gather(1, labels[:, None]) - p.gather(1, before[:, None])).mean())
        for p in (posterior.probs, *posterior.alternatives)
    ]
    assert posterior.gain_lower_bound(labels, over=before) == pytest.approx(min(gains))
    assert posterior.gain_lower_bound(before, over=before) == 0


def test_an_estimate_above_the_accuracy_on_the_source_is_rejected(model):
    graph = mg.unlabelled(target())
    sure = float(infer(model, graph).probs.amax(1).mean())
    for accuracy, rejected in ((sure - 0.06, True), (sure - 0.04, False)):
        rated = copy.deepcopy(model)
        rated.source = dataclasses.replace(model.source, accuracy=torch.tensor(accuracy))
        assert bool(infer(rated, graph).rejected) is rejected


def test_edges_between_nodes_of_similar_features_are_rejected(model):
    """Linked nodes share most of their features, whatever their classes."""
    graph = target()
    generator = torch.Generator().manual_seed(0)
    mates = torch.randperm(2000, generator=generator).view(2, 1000)
    x = graph.x.clone()
    x[mates[1]] = x[mates[0]]
    alike = Data(x=x, edge_index=torch.cat([mates, mates.flip(0)], 1))
    assert infer(model, mg.unlabelled(alike)).rejected
    result = mg.adapt(model, alike)
    assert result.status is mg.Status.KEPT_SOURCE
    assert "the estimate is rejected" in result.decision.summary()
    assert "mg.Matcha" not in result.decision.summary()
    torch.testing.assert_close(result.probs, result.probs_before)
    assert np.isnan(mg.diagnose(model, alike).expected_accuracy[0])


def test_accuracy_is_estimated_where_node_only_logits_are_constant(model):
    blank = copy.deepcopy(model)
    nothing = torch.zeros_like(model.source.node_logit_centroids)
    blank.source = dataclasses.replace(model.source, node_logit_centroids=nothing)
    assert blank.source.inverse_temperature == 0
    posterior = infer(blank, mg.unlabelled(target()))
    assert posterior.probs.isfinite().all()
    assert posterior.inverse_temperature > 0
