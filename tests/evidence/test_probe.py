"""The probe: which nodes it is fitted to."""

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.evidence.probe import MOST, fit_probe


@pytest.mark.parametrize("seed", [0, 1])
def test_the_probe_of_a_large_graph_is_right_where_both_were_drawn_with_one_seed(seed):
    graph = mg.datasets.csbm(50_000, 4, degree=2, signal=1.3, seed=seed)
    assert graph.num_nodes > MOST
    everywhere = torch.ones(graph.num_nodes, dtype=torch.bool)
    probe = fit_probe(graph.x, graph.y, everywhere, 2, seed).probe
    right = (probe.logits(graph.x).argmax(1) == graph.y).double().mean()
    assert float(right) == pytest.approx(0.903, abs=0.005)  # Φ(1.3)


def test_the_nodes_it_is_fitted_to_have_the_shares_of_all_labelled_nodes():
    labels = (torch.arange(40_000) % 10 == 0).long()
    nothing = torch.zeros(40_000, 1)
    fit = fit_probe(nothing, labels, torch.ones(40_000, dtype=torch.bool), 2)
    assert fit.probe.logits(nothing[:1]).softmax(1)[0].tolist() == pytest.approx(
        [0.9, 0.1], abs=1e-4
    )
