"""Fitted hop weights against scikit-learn's logistic regression, and their derivatives."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import matcha_gnn as mg
from matcha_gnn.gamma import weights
from matcha_gnn.gamma.weights import _Regression, fit_hop_weights


def small_view(backbone=mg.GPRGNN, classes=2, seed=0):
    graph = mg.datasets.csbm(400, 12, homophily=0.3, shares=(1 / classes,) * classes, seed=seed)
    torch.manual_seed(seed)
    model = backbone(12, classes, hidden_channels=6, K=3).double().frozen()
    graph.x = graph.x.double()
    target = mg.unlabelled(graph)
    return mg.View(model, target, model.hops(target), model.gamma.detach(), 0), graph


def test_two_classes_are_logistic_regression():
    view, graph = small_view()
    truth = torch.nn.functional.one_hot(graph.y, 2).double()
    fit = fit_hop_weights(view, truth, intercept=True)
    contrast = view.model.head.weight[1] - view.model.head.weight[0]
    inputs = (view.hops.stack @ contrast).numpy()
    peer = LogisticRegression(C=1e8, tol=1e-10, max_iter=5000).fit(inputs, graph.y)
    ours = inputs @ fit.gamma.numpy() + float(fit.intercept[1] - fit.intercept[0])
    theirs = peer.decision_function(inputs)
    assert np.corrcoef(ours, theirs)[0, 1] > 0.99
    assert fit.passes <= 8


def test_gradient_and_curvature_are_finite_differences():
    for backbone in (mg.GPRGNN, mg.APPNP):
        view, graph = small_view(backbone, classes=3)
        targets = torch.rand(400, 3).double()
        targets /= targets.sum(1, keepdim=True)
        regression = _Regression(view, view.model, targets, True)
        assert regression.has_scale is (backbone is mg.APPNP)
        point = regression.start()
        point += torch.linspace(0.1, 0.3, len(point)).double()
        sums = regression.sums(point)
        for k in range(len(point)):
            step = torch.zeros_like(point)
            step[k] = 1e-6
            ahead, behind = (regression.sums(point + s) for s in (step, -step))
            slope = (ahead.value - behind.value) / 2e-6
            assert abs(slope - float(sums.slope[k])) < 1e-5
            if backbone is mg.GPRGNN:
                curve = (ahead.slope - behind.slope) / 2e-6
                np.testing.assert_allclose(curve, sums.curvature[k], atol=1e-5)


def test_overconfidence_is_not_reduced_by_the_hop_weights():
    """Labels that node-only features determine: α must go to one, however large the logits are."""
    for temperature in (1.0, 30.0):
        view, _ = small_view(mg.APPNP, seed=3)
        view.model.head.weight.data *= temperature
        logits = view.model.head(view.hops.stack[:, 0])
        targets = (logits / temperature).softmax(1)
        fit = fit_hop_weights(view, targets, intercept=False)
        assert float(fit.gamma) > 0.9


@pytest.mark.parametrize("backbone", [mg.GPRGNN, mg.APPNP])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_start_on_a_sample_ends_at_the_same_minimum(backbone, intercept, monkeypatch):
    graph = mg.datasets.csbm(20_000, 8, homophily=0.3, seed=0)
    torch.manual_seed(0)
    model = backbone(8, 2, hidden_channels=6, K=3).double().frozen()
    graph.x = graph.x.double()
    target = mg.unlabelled(graph)
    view = mg.View(model, target, model.hops(target), model.gamma.detach(), 0)
    truth = torch.nn.functional.one_hot(graph.y, 2).double()
    sampled = fit_hop_weights(view, truth, intercept=intercept)
    monkeypatch.setattr(weights, "SAMPLE_EXCESS", 1e-9)
    whole = fit_hop_weights(view, truth, intercept=intercept)
    assert sampled.passes <= 4
    torch.testing.assert_close(sampled.gamma, whole.gamma, rtol=2e-2, atol=2e-3)
    values = []
    for fit in (sampled, whole):
        logits = model.head(view.hops.mix(model.hop_weights(fit.gamma))) + fit.intercept
        values.append(logits.argmax(1))
    assert (values[0] != values[1]).double().mean() < 1e-3
