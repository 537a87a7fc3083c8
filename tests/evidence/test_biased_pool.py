"""The pool with weights and biases of its own: fitted, saved and read back."""

import pytest
import torch
from matcha_gnn.evidence.belief_model import BeliefModel
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg
from matcha_gnn.evidence.weighing import BiasedPool, PoolWeights, fit_biased_pool
from tensor_files import rewritten


def biased():
    return BeliefModel(trained_model(), "pool", BiasedPool(PoolWeights(0.9, 0.4), (1.0, 0.0, -1.0)))


def test_a_bias_that_answers_tell_is_found():
    generator = torch.Generator().manual_seed(0)
    evidence = torch.randn(400, 3, generator=generator).double().log_softmax(1)
    network = torch.randn(400, 3, generator=generator).double().log_softmax(1)
    true = BiasedPool(PoolWeights(0.9, 0.4), (1.5, 0.0, -1.5))
    probs = true.pool(evidence, network).exp()
    labels = torch.multinomial(probs, 1, generator=generator)[:, 0]
    found = fit_biased_pool(evidence, network, labels, PoolWeights(0.8, 0.3))
    assert found.bias == pytest.approx(true.bias, abs=0.4)
    assert sum(found.bias) == pytest.approx(0, abs=1e-4)
    few = fit_biased_pool(evidence[:5], network[:5], labels[:5], PoolWeights(0.8, 0.3))
    assert few.weights == pytest.approx((0.8, 0.3), abs=0.1)
    assert max(map(abs, few.bias)) < max(map(abs, found.bias))
    even = BiasedPool(PoolWeights(0.8, 0.3), (0.0, 0.0, 0.0))
    assert torch.allclose(even.pool(evidence, network), even.weights.pool(evidence, network))


def test_it_is_a_model_for_the_next_graph(tmp_path):
    model = biased()
    mg.save_model(model, tmp_path / "biased.safetensors")
    again = mg.load_model(tmp_path / "biased.safetensors")
    assert isinstance(again, BeliefModel)
    assert again.pool == model.pool
    assert again.name == "GPRGNN with biased pool"
    graph = tiny_graph(0.1, seed=2)
    found = mg.predict(again, graph).probs
    assert torch.equal(found, mg.predict(model, graph).probs)
    assert (
        found[:, 0].mean()
        > mg.predict(BeliefModel(trained_model(), "pool"), graph).probs[:, 0].mean()
    )
    assert mg.adapt(again, graph).decision.candidates[0].name == "source"


@pytest.mark.parametrize(
    "text", ["{", '{"weights": [1], "bias": [0, NaN]}', '{"weights": [1, 1], "bias": [0]}', "[]"]
)
def test_a_damaged_pool_in_a_file_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "biased.safetensors"
    mg.save_model(biased(), path)
    rewritten(path, metadata={"pool": text})
    with pytest.raises(mg.InvalidFileError, match="a bias for each class") as caught:
        mg.load_model(path)
    assert "\n" not in str(caught.value)


def test_only_the_pool_can_be_fitted():
    pool = BiasedPool(PoolWeights(), (0.0, 0.0, 0.0))
    with pytest.raises(mg.InvalidArgumentError, match="none with the answer 'probe'"):
        BeliefModel(trained_model(), "probe", pool)
