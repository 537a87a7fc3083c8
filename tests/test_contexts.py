"""The same answers in every context of torch's, and in threads."""

import threading

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph, trained_model

CONTEXTS = {
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "anomaly": torch.autograd.set_detect_anomaly,
    "sparse checks": torch.sparse.check_sparse_tensor_invariants,
}


def entered(name):
    return CONTEXTS[name](True) if name == "anomaly" else CONTEXTS[name]()


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def trained(seed):
    model = mg.GPRGNN(6, 3, hidden_channels=8, K=3)
    mg.fit(model, tiny_graph(0.8, seed=0), epochs=12, seed=seed)
    return weights(model)


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize(
    "run",
    [
        lambda model, graph: mg.adapt(model, graph).probs,
        lambda model, graph: mg.adapt(model, graph, strategy=mg.Tent()).probs,
        lambda model, graph: mg.adapt(model, graph, strategy=mg.Matcha(rounds=3)).probs,
        lambda model, graph: mg.predict(model, graph, mg.T3A()).probs,
        lambda model, graph: torch.tensor(mg.estimate(model, graph).value),
    ],
    ids=["adapt", "tent", "matcha", "predict", "estimate"],
)
def test_a_context_changes_no_answer(name, run):
    model = trained_model()
    expected = run(model, tiny_graph())
    with entered(name):
        # Made inside, so that in inference mode its tensors are inference tensors.
        found = run(model, tiny_graph())
        state = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        assert state == (name == "inference mode", name not in ("inference mode", "no gradients"))
        assert torch.is_autocast_enabled("cpu") == (name == "autocast")
    assert torch.equal(found.clone(), expected)


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_context_changes_no_training(name):
    expected, graph = trained(3), tiny_graph(0.8, seed=0)
    model = mg.GPRGNN(6, 3, hidden_channels=8, K=3)
    with entered(name):
        mg.fit(model, graph, epochs=12, seed=3)
    assert torch.equal(weights(model), expected)


@pytest.mark.parametrize("build", [mg.GPRGNN, mg.APPNP, mg.JKNet, mg.GCNII])
def test_where_float64_is_the_default_models_are_float64_throughout(build):
    graph = tiny_graph()
    torch.set_default_dtype(torch.float64)
    try:
        model = build(6, 3, K=2)
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
        mg.fit(model, graph, epochs=2)
        assert mg.adapt(model, graph).probs.isfinite().all()
    finally:
        torch.set_default_dtype(torch.float32)


def in_threads(work, number):
    found, failed = [None] * number, []

    def one(place):
        try:
            found[place] = work(place)
        # What is raised is counted: pytest does not see the errors of threads.
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    return found


def test_training_in_threads_gives_the_same_models():
    expected = [trained(seed) for seed in range(4)]
    for _ in range(3):
        found = in_threads(trained, 4)
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_adaptation_in_threads_of_one_model_gives_the_same_answers():
    model, graph = trained_model(), tiny_graph()
    expected = mg.adapt(model, graph).probs
    assert all(
        torch.equal(one, expected) for one in in_threads(lambda _: mg.adapt(model, graph).probs, 6)
    )


def test_weights_made_in_inference_mode_cannot_be_trained():
    with torch.inference_mode():
        model = mg.GPRGNN(6, 3)
        with pytest.raises(mg.InvalidArgumentError, match="made outside of it"):
            mg.fit(model, tiny_graph(), epochs=1)
        assert mg.adapt(model, tiny_graph(), strategy=mg.Matcha(rounds=1)).probs.isfinite().all()
