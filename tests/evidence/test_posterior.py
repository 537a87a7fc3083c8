"""The posterior: its calibration, its bounds, and when it cannot tell."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from matcha_gnn.evidence.belief_model import network_probs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.evidence import Posterior, infer
from matcha_gnn.evidence.posterior import CLASS_ODDS, perturbed, perturbed_hits


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


def posterior_on(model: mg.Backbone, graph: Data) -> Posterior:
    checked = mg.unlabelled(graph)
    return infer(model, checked, network_probs(model, checked))


@pytest.mark.parametrize("options", [{}, {"homophily": 0.8}, {"shares": (0.7, 0.3)}])
def test_probabilities_come_true_as_often_as_they_say(model, options):
    graph = target(**options)
    found = posterior_on(model, graph)
    for probs in (found.probs, found.belief):
        right = (probs.argmax(1) == graph.y).double().mean()
        assert float(probs.amax(1).mean()) == pytest.approx(float(right), abs=0.03)
    assert not found.rejected


def test_features_that_are_noisier_than_on_the_source_are_less_sure(model):
    graph = target()
    noise = torch.randn(graph.x.shape, generator=torch.Generator().manual_seed(0))
    graph.x = graph.x + 1.2 * graph.x.std() * noise
    found = posterior_on(model, graph)
    assert found.gathered.noise > 1.5
    right = (found.gathered.node.argmax(1) == graph.y).double().mean()
    sure = found.gathered.node.exp().amax(1).mean()
    assert float(sure) == pytest.approx(float(right), abs=0.05)


def test_bounds_contain_the_truth_and_the_estimate(model):
    for seed in range(5):
        graph = target(seed=10 + seed)
        labels = mg.predict(model, graph).labels
        found = posterior_on(model, graph).accuracy(labels)
        truth = float((labels == graph.y).double().mean())
        assert found.low <= found.value <= found.high
        assert found.low <= truth <= found.high


def test_a_gain_counts_only_nodes_that_differ(model):
    graph = target()
    found = posterior_on(model, graph)
    before, labels = mg.predict(model, graph).labels, found.probs.argmax(1)
    gain = found.gain(labels, over=before)
    assert gain.value == pytest.approx(
        found.expected_accuracy(labels) - found.expected_accuracy(before)
    )
    assert gain.low < gain.value < gain.high
    nothing = found.gain(before, over=before)
    assert (nothing.value, nothing.low, nothing.high) == (0, 0, 0)


def test_bounds_hold_for_classes_twice_as_likely(model):
    graph = target()
    found = posterior_on(model, graph)
    before, labels = mg.predict(model, graph).labels, found.probs.argmax(1)
    changed = found.probs * torch.tensor([CLASS_ODDS, 1.0]).double()
    skewed = dataclasses.replace(found, probs=changed / changed.sum(1, keepdim=True))
    assert found.gain(labels, over=before).low <= skewed.gain(labels, over=before).value


def test_a_source_that_explains_little_cannot_tell(model):
    weak = copy.deepcopy(model)
    evidence = dataclasses.replace(model.source.evidence, information=torch.tensor(0.1))
    weak.source = dataclasses.replace(model.source, evidence=evidence)
    result = mg.adapt(weak, target())
    assert result.status is mg.Status.KEPT_SOURCE
    assert "cannot tell" in result.summary()
    assert "10% of the classes" in result.summary()
    assert torch.equal(result.probs, result.probs_before)
    found = mg.estimate_accuracy(weak, target())
    assert np.isnan(found.value)
    assert (found.low, found.high) == (0, 1)
    assert "cannot tell" in found.reason


def test_a_summary_of_an_older_version_says_what_to_do(model):
    old = copy.deepcopy(model)
    old.source = dataclasses.replace(model.source, evidence=None)
    assert (
        "mg.summarise_source(model, source_graph) makes a new one"
        in mg.adapt(old, target()).summary()
    )


def test_a_base_method_that_disagrees_is_given_weight(model):
    graph = target()
    checked = mg.unlabelled(graph)
    network = network_probs(model, checked)
    found = infer(model, checked, network)
    same = found.with_answer(network, network)
    torch.testing.assert_close(same.probs, found.probs, atol=2e-3, rtol=0)
    other = found.with_answer(network, network.flip(1))
    labels = network.flip(1).argmax(1)
    assert other.expected_accuracy(labels) > found.expected_accuracy(labels)


def test_labels_of_a_target_are_estimated_per_class(model):
    graph = target(shares=(0.7, 0.3))
    found = mg.estimate_accuracy(model, graph)
    labels = mg.predict(model, graph).labels
    for each in (0, 1):
        truth = float((graph.y[labels == each] == each).double().mean())
        assert float(found.per_class[each]) == pytest.approx(truth, abs=0.06)


def test_sums_of_perturbed_probabilities_are_those_of_the_reference():
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(50, 4, generator=generator).double().softmax(1)
    labels = torch.randint(4, (50,), generator=generator)
    reference = [float(each.gather(1, labels[:, None]).sum()) for each in perturbed(probs)]
    np.testing.assert_allclose(perturbed_hits(probs, labels), reference, rtol=1e-12)
    nothing = perturbed_hits(probs[:0], labels[:0])
    assert nothing.tolist() == [0.0] * 8
