import pytest
import torch
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg
from matcha_gnn.report import render_page, shift, shift_card


@pytest.fixture(scope="module")
def result():
    return mg.adapt(trained_model(), tiny_graph(), strategy=mg.Matcha(rounds=1))


def test_source_stands_beside_target(result):
    rows = {row.name: row for row in shift_card(result)}
    graph, source = tiny_graph(), result.model.source
    assert rows["average degree"].source == f"{float(source.mean_degree):.2f}"
    assert rows["average degree"].target == f"{graph.num_edges / graph.num_nodes:.2f}"
    inside = result.labels_before[graph.edge_index]
    share = float((inside[0] == inside[1]).double().mean())
    assert rows["edges inside a class"].target == f"{100 * share:.1f} %"
    assert rows["edges inside a class"].source == f"{100 * source.edge_homophily:.1f} %"
    first = float(result.probs_before.double().mean(0)[0])
    assert rows["share of class 0"].target == f"{100 * first:.1f} %"


def test_confidence_of_the_source_comes_from_the_histogram(result):
    source = result.model.source
    exact = (source.confidence_histogram * (torch.arange(20) + 0.5) / 20).sum()
    rows = {row.name: row for row in shift_card(result)}
    assert rows["mean confidence"].source == f"{100 * float(exact):.1f} %"


def test_without_a_source_summary_there_is_no_card(make):
    result, _ = make()
    assert shift_card(result) == []
    assert "Source and target" not in render_page(result)


def test_statistics_of_the_target_are_those_of_the_posterior():
    result = mg.adapt(trained_model(), tiny_graph())
    rows = {row.name: row for row in shift_card(result)}
    posterior = result.decision.posterior
    assert rows["edges inside a class"].target == f"{100 * posterior.homophily:.1f} %"
    first = float(posterior.probs.mean(0)[0])
    assert rows["share of class 0"].target == f"{100 * first:.1f} %"
    assert rows["node-only features"].target in shift.SHIFTS.values()
    assert "estimated from node-only features and neighbours" in render_page(result)
