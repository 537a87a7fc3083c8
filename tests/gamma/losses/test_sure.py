"""The risk estimate is unbiased, its minimum is exact, and on CSBM it finds the best filter."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import matcha_gnn as mg
from matcha_gnn import kernels
from matcha_gnn.gamma import functional
from matcha_gnn.gamma.losses import sure
from matcha_gnn.gamma.losses.sure import SteinForms, stein_forms
from matcha_gnn.gamma.methods import View
from matcha_gnn.gamma.testing import tiny_graph, trained_model


def view_of(model, graph, seed=0):
    target = mg.unlabelled(graph)
    return View(model, target, model.hops(target), model.gamma.detach(), seed)


def random_forms(num_hops=4, seed=0):
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(num_hops, 2 * num_hops))
    return root @ root.T, generator.normal(size=num_hops), 0.3


def test_the_estimate_is_unbiased_in_simulation():
    """Own values = class value + noise; the true risk is known, the estimate sees values only."""
    generator = torch.Generator().manual_seed(0)
    graph = mg.datasets.csbm(num_nodes=600, num_features=4, degree=4.0, homophily=0.3, seed=0)
    dense = mg.unlabelled(graph).adjacency.matrix.to_dense().double()
    powers = torch.stack([torch.linalg.matrix_power(dense, k) for k in range(4)])
    signal = (graph.y * 2.0 - 1).double()
    signal -= signal.mean()
    traces = torch.stack([p.trace() for p in powers]).numpy() / 600
    hop_weights, noise = np.array([0.5, -0.2, 0.4, 0.1]), 0.7
    filtered = torch.einsum("k,kij->ij", torch.from_numpy(hop_weights), powers)
    true, estimated = [], []
    for _ in range(400):
        own = signal + noise**0.5 * torch.randn(600, generator=generator, dtype=torch.float64)
        hops = (powers @ own).numpy()
        gram = hops @ hops.T / 600
        estimated.append(functional.stein_risk(hop_weights, gram, gram[0] - noise * traces, noise))
        true.append(float((filtered @ own - signal).square().mean()))
    error = np.std(np.array(estimated) - true) / np.sqrt(400)
    assert abs(np.mean(estimated) - np.mean(true)) < 4 * error
    assert error < 0.01 * np.mean(true)


def distance_from_the_labelled_filter(num_nodes, seed):
    """1 − cosine between the closed form and the least-squares filter of the true classes."""
    graph = mg.datasets.csbm(num_nodes, 1, degree=5.0, homophily=0.2, seed=seed)
    adjacency = mg.unlabelled(graph).adjacency
    classes = graph.y.double() * 2 - 1
    generator = torch.Generator().manual_seed(seed)
    own = classes + torch.randn(num_nodes, generator=generator, dtype=torch.float64)
    stack = kernels.propagate(adjacency, own.float()[:, None], 3)[:, :, 0].double().numpy()
    signs = torch.randint(0, 2, (num_nodes, 32), generator=generator) * 2.0 - 1
    powers = kernels.propagate(adjacency, signs, 3)
    traces = torch.einsum("nkr,nr->k", powers, signs).double().numpy() / signs.numel()
    gram = stack.T @ stack / num_nodes
    ours = functional.stein_hop_weights(gram, gram[0] - traces)
    labelled = np.linalg.lstsq(stack, classes.numpy(), rcond=None)[0]
    return 1 - ours @ labelled / np.linalg.norm(ours) / np.linalg.norm(labelled)


def test_on_csbm_the_minimum_tends_to_the_filter_that_labels_would_choose():
    small, large = (
        np.mean([distance_from_the_labelled_filter(n, seed) for seed in (3, 4, 5)])
        for n in (500, 100_000)
    )
    assert large < 1e-3
    assert large < small / 10


def test_forms_equal_their_definition():
    model, graph = trained_model().double(), tiny_graph()
    graph.x = graph.x.double()
    forms = stein_forms(view_of(model, graph))
    dense = mg.unlabelled(graph).adjacency.matrix.to_dense().double()
    head = model.head.weight.detach()
    own = model.encode(graph.x).detach() @ (head - head.mean(0)).T
    hops = [torch.linalg.matrix_power(dense, k) @ (own - own.mean(0)) for k in range(4)]
    gram = np.array([[float((a * b).sum(1).mean()) for b in hops] for a in hops])
    np.testing.assert_allclose(forms.gram, gram, rtol=1e-5, atol=1e-7)
    noise = model.source.own["logit_covariance"].double()
    centre = torch.eye(3).double() - 1 / 3
    assert forms.noise == pytest.approx(float((centre @ noise @ centre).trace()), rel=1e-6)
    traces = np.array([float(torch.linalg.matrix_power(dense, k).trace()) for k in range(4)]) / 120
    np.testing.assert_allclose((gram[0] - forms.signal) / forms.noise, traces, atol=1e-6)


def test_scaled_risk_is_the_risk_at_the_best_scale():
    forms = random_forms()
    hop_weights = functional.stein_hop_weights(*forms[:2]) + 0.1
    scales = np.linspace(0, 3, 3001)
    best = min(functional.stein_risk(s * hop_weights, *forms) for s in scales)
    value, slope = functional.scaled_stein_risk(hop_weights, *forms)
    assert value == pytest.approx(best, abs=1e-5)
    assert abs(slope @ hop_weights) < 1e-10
    assert functional.scaled_stein_risk(7 * hop_weights, *forms)[0] == pytest.approx(value)
    assert functional.scaled_stein_risk(-hop_weights, *forms)[0] > forms[0][0, 0] - forms[2]


def test_one_exact_round_reaches_the_minimum_and_keeps_the_scale():
    model, graph = trained_model(), tiny_graph()
    result = mg.gamma.run(model, graph, strategy=mg.ClosedForm(rounds=2))
    assert result.trace.loss[1] == pytest.approx(result.trace.loss[2], rel=1e-4)
    assert result.trace.loss[1] < result.trace.loss[0]
    total = model.hops(mg.unlabelled(graph)).gram
    before, after = model.gamma.detach().double().numpy(), result.gamma.double().numpy()
    assert after @ total @ after == pytest.approx(before @ total @ before, rel=1e-4)


def test_noise_share_replaces_the_summary():
    model, graph = trained_model(), tiny_graph()
    view = view_of(model, graph)
    forms = stein_forms(view, noise_share=0.25)
    assert isinstance(forms, SteinForms)
    assert forms.noise == pytest.approx(0.25 * forms.gram[0, 0])
    model.source = None
    with pytest.raises(mg.IncompatibleError, match="noise_share"):
        mg.gamma.run(model, graph, strategy=mg.Matcha(loss=mg.SURE(), rounds=1))
    with pytest.raises(mg.InvalidArgumentError, match="noise_share"):
        mg.SURE(noise_share=1.5)


@pytest.mark.parametrize("num_hops", [1, 2, 3, 4, 10])
def test_signs_that_go_half_way_have_the_same_traces(num_hops):
    graph = mg.unlabelled(mg.datasets.csbm(60, 4, seed=0))
    assert graph.symmetric
    adjacency = graph.adjacency.to(torch.float64)
    signs = 2.0 * torch.randint(0, 2, (60, 3), generator=torch.Generator().manual_seed(0)) - 1
    signs, h, whole = signs.double(), signs.double(), []
    for _ in range(num_hops):
        whole.append(float((signs * h).sum()))
        h = adjacency @ h
    columns = torch.cat([torch.ones(60, 1), signs], 1).double()
    powers, traces = sure.half_way(adjacency, columns, num_hops)
    np.testing.assert_allclose(traces, whole, rtol=1e-6)
    expected = [columns[:, 0]]
    for _ in range(num_hops - 1):
        expected.append(adjacency @ expected[-1])
    torch.testing.assert_close(powers, torch.stack(expected))


@pytest.mark.parametrize("nodes", [400, 4_000, 40_000])
def test_traces_have_the_error_that_is_allowed(nodes):
    graph = mg.unlabelled(mg.datasets.csbm(nodes, 2, seed=0))
    exact = float(graph.adjacency.matrix.values().square().sum()) / nodes  # tr P² = Σ P_ij²
    model, found = mg.GPRGNN(2, 2, 4, 2), []
    for seed in range(20):
        view = replace(view_of(model, graph), seed=seed)
        found.append(sure._powers(view)[1][2] - exact)
    allowed = np.sqrt(2 / (nodes * sure.probes_for(nodes)))
    assert np.std(found) <= allowed
    assert abs(np.mean(found)) <= 3 * allowed / np.sqrt(20)
    assert sure.probes_for(nodes) == {400: 16, 4_000: 16, 40_000: 2}[nodes]
