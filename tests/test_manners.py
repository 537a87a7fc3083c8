"""Results and their parts print in a line, are copied and pickled, and say their parameters."""

import copy
import pickle
from inspect import signature

import pytest
import torch
from torch_geometric.nn import GCN

import matcha_gnn as mg
from matcha_gnn.gamma.losses import LOSSES
from matcha_gnn.gamma.methods import METHODS
from matcha_gnn.gamma.strategies import STRATEGIES
from matcha_gnn.gamma.testing import tiny_graph, trained_model

PARTS = [kind() for kinds in (METHODS, LOSSES, STRATEGIES) for kind in kinds.values()]
COPIES = [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))]


def own_network():
    torch.manual_seed(0)
    return GCN(6, 8, num_layers=2, out_channels=3).eval()


def result_of(strategy=None, make=trained_model):
    return mg.adapt(make(), tiny_graph(), strategy=strategy, source=tiny_graph(0.8, seed=0))


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_parts_are_copied_and_built_from_their_parameters(part):
    given = {name: getattr(part, name) for name in signature(type(part)).parameters}
    assert type(part)(**given) == part
    for copied in COPIES:
        assert copied(part) == part
        assert repr(copied(part)) == repr(part)


@pytest.mark.parametrize("copied", COPIES, ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("make", [trained_model, own_network])
@pytest.mark.parametrize("strategy", [None, mg.Matcha(rounds=2), mg.T3A()], ids=repr)
def test_results_are_copied(copied, strategy, make):
    result = result_of(strategy, make)
    again, graph = copied(result), tiny_graph()
    assert again.probs.equal(result.probs)
    assert again.summary() == result.summary()
    assert again.graph.fingerprint == result.graph.fingerprint
    assert again.model(graph).equal(result.model(graph))
    for one in again.candidates:
        assert one.model(graph).isfinite().all()


def test_everything_prints_in_one_short_line():
    result = result_of()
    shown = (result, *result.candidates, result.source, mg.estimate(trained_model(), tiny_graph()))
    for each in (*shown, result_of(mg.Matcha(rounds=2))):
        assert "\n" not in repr(each)
        assert "tensor" not in repr(each)
        assert len(repr(each)) < 300
    assert repr(result.candidates[0]).startswith("Candidate('source', accuracy ")


@pytest.mark.parametrize("make", [trained_model, own_network])
def test_a_model_is_called_both_ways(make):
    model, graph = result_of(make=make).model, tiny_graph()
    whole = model(graph)
    assert whole.equal(model(graph.x, graph.edge_index))
    assert whole.shape == (120, 3)
    with pytest.raises(mg.InvalidGraphError, match="^edge_index: got none; allowed: edges"):
        model(graph.x)
