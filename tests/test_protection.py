"""The default: it helps under shift, stays put without, says why, and never reads labels."""

import copy

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn import kernels
from matcha_gnn.metrics import accuracy

SIZE = {"num_nodes": 1500, "num_features": 64, "signal": 1.3}


@pytest.fixture(scope="module")
def model():
    trained = mg.GPRGNN(64, 2, hidden_channels=8, K=4)
    mg.fit(trained, mg.datasets.csbm(**SIZE, homophily=0.85, seed=0), epochs=120)
    return trained


def gain(result, graph):
    return accuracy(result.probs, graph.y) - accuracy(result.probs_before, graph.y)


def test_a_shift_of_homophily_is_mended(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=1)
    result = mg.adapt(model, target)
    assert result.status is mg.Status.ADAPTED
    assert gain(result, target) > 0.08
    assert abs(result.decision.posterior.homophily - 0.1) < 0.08
    assert "accuracy cannot move by more" in result.decision.sentence


def test_without_a_shift_the_source_model_is_kept(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.85, seed=3)
    result = mg.adapt(model, target)
    assert result.status is mg.Status.KEPT_SOURCE
    assert torch.equal(result.probs, result.probs_before)
    assert torch.equal(result.gamma, model.gamma)
    assert "Kept the source model" in result.decision.sentence


@pytest.mark.parametrize("seed", range(10, 15))
def test_without_a_shift_nothing_is_lost(model, seed):
    target = mg.datasets.csbm(**SIZE, homophily=0.85, seed=seed)
    assert gain(mg.adapt(model, target), target) > -0.01


def test_moved_features_are_moved_back(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, shift=1.0, seed=3)
    result = mg.adapt(model, target)
    assert result.decision.posterior.shift.explanation == "offset"
    assert result.decision.chosen.startswith("moved back")
    assert gain(result, target) > 0.15


def test_other_class_shares_bring_an_intercept(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, shares=(0.85, 0.15), seed=4)
    result = mg.adapt(model, target)
    assert result.decision.posterior.shift.explanation == "shares"
    assert float(result.decision.posterior.shift.shares[0]) == pytest.approx(0.85, abs=0.06)
    assert gain(result, target) > 0.05


def test_the_adapted_model_gives_the_adapted_predictions(model, tmp_path):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, shares=(0.85, 0.15), seed=4)
    result = mg.adapt(model, target)
    mg.save_model(result.model, tmp_path / "adapted.safetensors")
    again = mg.load_model(tmp_path / "adapted.safetensors")
    probs = again(target.x, target.edge_index).softmax(1)
    torch.testing.assert_close(probs, result.probs, atol=1e-5, rtol=1e-4)


def test_hidden_labels_change_nothing_and_callers_are_untouched(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=5)
    before = copy.deepcopy(model.state_dict())
    result = mg.adapt(model, target)
    blind = copy.copy(target)
    del blind.y
    assert torch.equal(mg.adapt(model, blind).probs, result.probs)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())


def test_a_model_without_a_summary_is_kept_and_says_how_to_change_that():
    graph = mg.datasets.csbm(200, 8, seed=0)
    result = mg.adapt(mg.GPRGNN(8, 2), graph)
    assert result.status is mg.Status.KEPT_SOURCE
    assert "remember_source" in result.decision.sentence


@pytest.mark.parametrize("method", [mg.T3A(), mg.Tent(), mg.SOGA()])
def test_around_other_base_methods(model, method):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=6)
    result = mg.adapt(model, target, method)
    assert result.status is mg.Status.ADAPTED
    assert gain(result, target) > 0.05


def test_rounds_of_a_loss_are_judged_too(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=7)
    result = mg.adapt(model, target, loss=mg.PIC(), epochs=20)
    names = [candidate.name for candidate in result.decision.candidates]
    assert names == ["source", "round 2", "round 8", "round 20"]
    assert gain(result, target) >= -0.01


def test_models_whose_hops_cannot_be_cached_take_rounds():
    source = mg.datasets.csbm(**SIZE, homophily=0.85, seed=0)
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=1)
    deep = mg.GCNII(64, 2, hidden_channels=8, K=2)
    mg.fit(deep, source, epochs=120)
    result = mg.adapt(deep, target, epochs=20)
    assert any(c.name.startswith("round") for c in result.decision.candidates)
    assert gain(result, target) > 0.02


def test_a_foreign_network_that_remembers_its_source():
    from torch_geometric.nn import GCN

    source = mg.datasets.csbm(**SIZE, homophily=0.85, seed=0)
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=1)
    torch.manual_seed(0)
    net = GCN(64, 16, num_layers=2, out_channels=2)
    steps = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(80):
        steps.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(source.x, source.edge_index), source.y)
        loss.backward()
        steps.step()
    foreign = mg.add_hops(net.eval())
    mg.remember_source(foreign, source)
    result = mg.adapt(foreign, target)
    assert result.decision.posterior is not None
    assert gain(result, target) >= 0


def test_an_empty_graph_is_judged():
    model = mg.GPRGNN(8, 2)
    mg.fit(model, mg.datasets.csbm(300, 8, seed=0), epochs=20)
    alone = mg.datasets.csbm(100, 8, seed=1)
    alone.edge_index = alone.edge_index[:, :0]
    result = mg.adapt(model, alone)
    assert bool(result.probs.isfinite().all())


READS = ("mix", "hop_logits", "node_sums", "gram", "class_sums", "mixed_sums", "hop_slopes")


@pytest.mark.parametrize("shift", [{}, {"shift": 1.0}, {"shares": (0.7, 0.3)}])
def test_the_hops_are_read_at_most_ten_times(model, shift, monkeypatch):
    """What 100 rounds of gradient steps would read a hundred times and more."""
    reads = []
    width = model.head.in_features

    def counted(name, kernel):
        def read(stack, *rest):
            if stack.shape[-1] == width:  # hop logits are a few numbers, kept from the first read
                reads.append(name)
            return kernel(stack, *rest)

        return read

    for name in READS:
        monkeypatch.setattr(kernels, name, counted(name, getattr(kernels, name)))
    in_one_read = kernels.classifier

    def classifier(*given):
        made = in_one_read(*given)
        return lambda coef: (reads.append("classify"), made(coef))[1]

    monkeypatch.setattr(kernels, "classifier", classifier)
    target = mg.datasets.csbm(1000, model.in_channels, homophily=0.1, signal=2, seed=1, **shift)
    assert mg.adapt(model, target).status is mg.Status.ADAPTED
    assert 3 <= len(reads) <= 10, reads


def test_a_kept_source_says_what_could_be_gained_beyond_doubt(model):
    decision = mg.adapt(model, mg.datasets.csbm(**SIZE, homophily=0.85, seed=1)).decision
    assert decision.chosen == "source"
    best = max(decision.candidates[1:], key=lambda c: c.least_gain)
    assert best.least_gain < 0.02
    assert f"({100 * best.least_gain:+.1f} points, {best.name})" in decision.sentence
    for one in decision.candidates:
        expected = one.expected_accuracy - decision.candidates[0].expected_accuracy
        assert one.least_gain <= expected + 1e-12
