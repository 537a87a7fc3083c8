"""A watch never drifts: 200 graphs that come back, and 200 that tempt a chain of adaptations."""

import math

import numpy as np
import pytest
from small_streams import WEIGHTS, day, trained

import matcha_gnn as mg
from matcha_gnn.graphs.memory import content_hash
from matcha_gnn.metrics import accuracy

STEPS = 200


def weights_of(model):
    return content_hash(*model.state_dict().values())


def follow(watch, graphs):
    """True accuracy of the source model and of the model in use; no model is adapted twice."""
    found, made = [], {weights_of(watch._model)}
    for graph in graphs:
        step = watch.observe(graph)
        if step.chosen == "last":
            assert weights_of(step.result.model) in made
        made.add(weights_of(step.result.model))
        found.append([accuracy(p, graph.y) for p in (step.result.probs_before, step.result.probs)])
    return np.array(found).T


def chained(model, graphs):
    """True accuracy where each graph starts from the model of the one before."""
    found = []
    for graph in graphs:
        result = mg.adapt(model, graph, strategy=mg.Matcha())
        model = result.model
        found.append(accuracy(result.probs, graph.y))
    return np.array(found)


@pytest.mark.parametrize("strategy", [mg.Guarded(), WEIGHTS], ids=["default", "hop weights"])
def test_a_stream_that_comes_back_finds_the_source_model(strategy):
    along = [0.85 - 0.75 * math.sin(math.pi * n / (STEPS - 1)) for n in range(STEPS - 1)]
    graphs = [day(h, 1 + n) for n, h in enumerate(along)]
    graphs.append(graphs[0])
    watch = mg.Watch(trained(), strategy=strategy)
    before, after = follow(watch, graphs)
    fresh = mg.Watch(trained(), strategy=strategy).observe(graphs[0])
    assert after.mean() > before.mean() + 0.1
    assert abs(after[-1] - after[0]) <= 0.01
    assert after[-10:].mean() > before[-10:].mean() - 0.01
    assert weights_of(watch._model) == weights_of(trained())
    assert watch.steps[-1].source_accuracy == fresh.source_accuracy
    assert watch.steps[-1].repeats == 1


def test_a_stream_that_tempts_a_chain_of_adaptations_away():
    model = trained(0.7, (0.8, 0.2))
    graphs = [
        day(0.7 - 0.2 * n / STEPS, 1 + n, shares=(0.8, 0.2), shift=1.2 * n / STEPS)
        for n in range(STEPS)
    ]
    before, after = follow(mg.Watch(model), graphs)
    assert after.mean() > before.mean() - 0.005
    assert (after - before).min() > -0.05
    assert after[-20:].mean() > chained(model, graphs)[-20:].mean() + 0.3
