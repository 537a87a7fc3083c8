"""What a user calls: adapt, estimate, diagnose, summarise_source, for any classifier."""

import copy
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import matcha_gnn as mg
from matcha_gnn.metrics import accuracy

CLASSES, FEATURES = 3, 32


def world(homophily, seed, **options):
    sizes = {"num_nodes": 1500, "num_features": FEATURES, "signal": 2.5, "degree": 5.0}
    return mg.datasets.csbm(**sizes | options, homophily=homophily, shares=[1 / 3] * 3, seed=seed)


def trained(net, graph, steps=60):
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        logits = net(graph.x, graph.edge_index)[graph.train_mask]
        nn.functional.cross_entropy(logits, graph.y[graph.train_mask]).backward()
        optimizer.step()
    return net.eval()


@pytest.fixture(scope="module")
def source():
    graph = world(0.85, 0)
    graph.train_mask = torch.rand(1500, generator=torch.Generator().manual_seed(0)) < 0.6
    return graph


@pytest.fixture(scope="module")
def target():
    return world(0.2, 1)


@pytest.fixture(scope="module")
def net(source):
    torch.manual_seed(0)
    return trained(GCN(FEATURES, 16, num_layers=2, out_channels=CLASSES), source)


@pytest.fixture(scope="module")
def summary(net, source):
    return mg.summarise_source(net, source)


def probs_of(net, graph):
    with torch.no_grad():
        return net(graph.x, graph.edge_index).softmax(1)


def test_a_network_on_a_graph_that_differs(net, summary, target):
    result = mg.adapt(net, target, source=summary)
    assert [one.name for one in result.candidates] == ["source", "pool", "belief", "probe"]
    torch.testing.assert_close(result.probs_before, probs_of(net, target))
    before, after = (accuracy(p, target.y) for p in (result.probs_before, result.probs))
    assert after > before + 0.1
    assert result.taken.accuracy.low <= after <= result.taken.accuracy.high
    assert result.candidates[0].accuracy.low <= before <= result.candidates[0].accuracy.high
    assert result.taken.gain.low > 0
    assert result.severity == "good"
    estimate = mg.estimate(net, target, source=summary)
    assert (estimate.value, estimate.low, estimate.high) == result.candidates[0].accuracy


def test_a_graph_like_the_source_keeps_the_network_or_loses_nothing(net, summary):
    graph = world(0.85, 2)
    result = mg.adapt(net, graph, source=summary)
    assert accuracy(result.probs, graph.y) >= accuracy(result.probs_before, graph.y) - 0.01


def test_the_network_is_copied_once_and_runs_once_and_nothing_else_is_loaded_or_said():
    code = """
import copy, sys, warnings
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN
import matcha_gnn as mg
source, target = (mg.datasets.csbm(400, 8, seed=seed) for seed in (0, 1))
net = GCN(8, 16, num_layers=2, out_channels=2)
summary = mg.summarise_source(net, source)
target.x = target.x.to_sparse()
# Torch warns once in a process, so only a fresh one can tell.
warnings.simplefilter("error", UserWarning)
runs, copies, deepcopy, forward = [], [], copy.deepcopy, GCN.forward
def counted(*args, **options):
    runs.append(1)
    return forward(*args, **options)
def copying(what, *args):
    copies.append(isinstance(what, GCN))
    return deepcopy(what, *args)
GCN.forward, copy.deepcopy = counted, copying
mg.adapt(net, target, source=summary)
rooms = ("matcha_gnn.gamma.", "matcha_gnn.report", "matcha_gnn.cli", "matcha_gnn.tables")
rooms += ("duckdb", "matplotlib")
print(len(runs), sum(copies), [name for name in sys.modules if name.startswith(rooms)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "1 1 []"


def test_given_probabilities_are_as_good_as_the_network(net, summary, source, target):
    whole = mg.adapt(net, target, source=summary)
    given = mg.summarise_source(probs_of(net, source), source)
    with pytest.warns(UserWarning, match="cannot be told whether"):
        result = mg.adapt(probs_of(net, target).numpy(), target, source=given)
    assert accuracy(result.probs, target.y) >= accuracy(whole.probs, target.y) - 0.03
    torch.testing.assert_close(result.probs_before, whole.probs_before)


def test_a_function_runs_on_changed_copies_of_the_source(net, summary, source, target):
    calls = []

    def classify(data):
        calls.append((data.num_edges, int(data.edge_index.sum())))
        assert "y" not in data
        return probs_of(net, data)

    made = mg.summarise_source(classify, source)
    assert len(set(calls)) == 4, "as it is, edges dropped, rewired, fewer inside classes"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = mg.adapt(classify, target, source=made)
    whole = mg.adapt(net, target, source=summary)
    torch.testing.assert_close(result.probs, whole.probs, atol=1e-4, rtol=1e-4)


def test_a_classifier_without_a_graph():
    source, target = world(0.85, 0, signal=1.5), world(0.2, 1, signal=1.5)
    mask = torch.arange(1500).numpy() < 700
    classifier = LogisticRegression().fit(source.x[mask], source.y[mask])

    def classify(data):
        return classifier.predict_proba(data.x.numpy())

    summary = mg.summarise_source(classify, source, trained=mask)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = mg.adapt(classify, target, source=summary)
    assert accuracy(result.probs, target.y) > accuracy(result.probs_before, target.y) + 0.02


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p: 3 * p, r"model: got row 0: .*; allowed: rows .* sum to 1; logits=True"),
        (lambda p: p[:-1], r"model: got shape \[1499, 3\]; allowed: \[1500, C\]"),
        (lambda p: p[:, :1], r"model: got shape \[1500, 1\]"),
        (lambda p: p * float("nan"), "model: got NaN or infinity in row 0"),
        (lambda p: p.argmax(1), r"model: got shape \[1500\]"),
        (lambda p: p.long(), "model: got torch.int64"),
        (lambda p: "probs.npy", "model: got the str 'probs.npy'; allowed: a trained"),
        (lambda p: GCN, "model: got the class GCN; allowed"),
    ],
)
def test_what_are_no_probabilities_is_refused_in_one_line(net, source, change, says):
    with pytest.raises(mg.InvalidArgumentError, match=says) as error:
        mg.summarise_source(change(probs_of(net, source)), source)
    assert "\n" not in str(error.value)


ENTRIES = {
    "adapt": lambda net, graph, summary: mg.adapt(net, graph, source=summary).probs,
    "estimate": lambda net, graph, summary: mg.estimate(net, graph, source=summary).per_class,
    "diagnose": lambda net, graph, summary: mg.diagnose(net, graph, source=summary).class_shares[1],
    "metric": lambda net, graph, summary: (
        mg.adapt(net, graph, source=summary, metric="macro_f1").probs
    ),
    "alone": lambda net, graph, summary: quiet(net, graph).probs,
    "matcha": lambda net, graph, summary: (
        mg.adapt(net, graph, strategy=mg.Matcha(mg.T3A(), rounds=2)).probs
    ),
    "a base method": lambda net, graph, summary: mg.adapt(net, graph, strategy=mg.T3A()).probs,
    "predict": lambda net, graph, summary: mg.predict(net, graph).probs,
    "ask": lambda net, graph, summary: torch.tensor(
        [each.node for each in mg.adapt(net, graph, source=summary).ask(5)]
    ),
    "the adapted model": lambda net, graph, summary: mg.adapt(net, graph, source=summary).model(
        graph
    ),
    "probabilities": lambda net, graph, summary: (
        quiet(probs_of(net, graph), graph, source=summary).probs
    ),
}


def quiet(model, graph, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mg.adapt(model, graph, **options)


@pytest.mark.parametrize("entry", ENTRIES)
def test_labels_are_not_read_and_nothing_of_the_callers_changes(entry, net, summary, target):
    graph = target.clone()
    before = copy.deepcopy(net.state_dict()), graph.clone(), net.training
    answer = ENTRIES[entry](net, graph, summary)
    assert all(torch.equal(net.state_dict()[name], part) for name, part in before[0].items())
    assert net.training == before[2]
    assert all(torch.equal(graph[name], before[1][name]) for name in ("x", "edge_index", "y"))
    wrong = target.clone()
    wrong.y = (target.y + 1) % CLASSES
    assert torch.equal(ENTRIES[entry](net, wrong, summary), answer)
    del wrong.y
    assert torch.equal(ENTRIES[entry](net, wrong, summary), answer)


def test_answers_follow_the_nodes(net, summary, target):
    order = torch.randperm(1500, generator=torch.Generator().manual_seed(0))
    turned = Data(target.x[order], order.argsort()[target.edge_index])
    results = [mg.adapt(net, graph, source=summary) for graph in (target, turned)]
    torch.testing.assert_close(results[1].probs, results[0].probs[order], atol=1e-5, rtol=0)
    assert results[1].taken.accuracy == pytest.approx(results[0].taken.accuracy, abs=1e-6)


def test_one_record_has_the_same_figures_for_people_and_machines(net, summary, target):
    result = mg.adapt(net, target, source=summary)
    record = json.loads(json.dumps(result.to_dict()))
    assert record["chosen"] == result.chosen
    assert record["meaning"] == result.summary()
    assert record["expected_after"] == result.taken.goal.value
    assert f"{record['expected_after']:.1%}" in result.summary()
    assert f"{record['expected_after']:.1%}" in repr(result)
    assert result.metrics()["accuracy"] == record["expected_after"]
    assert repr(result).count("\n") == 0
    assert np.asarray(result.probs).shape == (1500, CLASSES)
    card = mg.diagnose(net, target, source=summary)
    assert card.advice == "adapt"
    assert "edges inside a class" in repr(card)
    assert json.loads(json.dumps(card.to_dict()))["homophily"] == list(card.homophily)
    assert json.loads(json.dumps(mg.estimate(net, target, source=summary).to_dict()))["value"]


def test_a_candidate_can_be_taken_by_hand(net, summary, target):
    result = mg.adapt(net, target, source=summary)
    taken = result.take("belief")
    assert (taken.chosen, taken.by_hand) == ("belief", result.chosen)
    assert taken.summary().startswith("Taken by hand: belief, in place of")
    torch.testing.assert_close(taken.model(target).softmax(1), taken.probs)
    assert result.take(result.chosen) is result
    with pytest.raises(mg.InvalidArgumentError, match="name: got 'best'; allowed: source, pool"):
        result.take("best")


def test_the_adapted_model_answers_the_next_graph_and_can_be_adapted(net, summary, target):
    model = mg.adapt(net, target, source=summary).model
    following = world(0.2, 3)
    answer = model(following.x, following.edge_index)
    assert accuracy(answer, following.y) > accuracy(probs_of(net, following), following.y) + 0.1
    again = mg.adapt(model, following)
    torch.testing.assert_close(again.probs_before, answer.softmax(1), atol=1e-6, rtol=1e-5)


def test_without_a_summary_it_is_said_in_a_warning_with_the_line_to_run(net):
    few = world(0.2, 1, num_nodes=150)
    with pytest.warns(mg.NotAdaptedWarning, match="summary = mg.summarise_source"):
        result = mg.adapt(net, few)
    assert result.chosen == "source"
    assert len(result.candidates) == 1
    assert "cannot be estimated" in repr(result)
    assert np.isnan(mg.estimate(net, few).value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"strategy": mg.Matcha}, "strategy: got the class Matcha; allowed: None, or a strategy"),
        ({"strategy": "matcha"}, "strategy: got 'matcha'; allowed"),
        ({"strategy": mg.T3A(), "metric": "f1"}, "metric: got 'f1'; allowed: accuracy"),
        ({"metric": "auc"}, "metric: got 'auc'; allowed: accuracy, balanced_accuracy"),
        ({"positive": 1}, "positive: got 1; allowed: none, unless metric is f1"),
        ({"classes": ["a", "b"]}, "classes: got .*; allowed: 3 different names"),
        ({"loader": 3}, "loader: got a int; allowed: an iterable of batches"),
        ({"logits": True}, "logits: got True; allowed: False with a network"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(net, summary, target, options, says):
    with pytest.raises(mg.InvalidArgumentError, match=says) as error:
        mg.adapt(net, target, source=summary, **options)
    assert "\n" not in str(error.value)


def test_names_of_the_classes_show_everywhere(net, summary, target, tmp_path):
    names = ("red", "green", "blue")
    result = mg.adapt(net, target, source=summary, classes=names)
    assert result.classes == names
    assert result.to_dict()["classes"] == list(names)
    assert "share of green" in repr(mg.diagnose(net, target, source=summary, classes=names))
    assert set(mg.estimate(net, target, source=summary, classes=names).to_dict()["per_class"]) == (
        set(names)
    )
    result.report(tmp_path / "page.html")
    assert "blue" in (tmp_path / "page.html").read_text()
