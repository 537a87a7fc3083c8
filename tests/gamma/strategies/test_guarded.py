"""The default: it helps under shift, stays put without, says why, and never reads labels."""

import copy
import dataclasses
import math

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn import kernels
from matcha_gnn.evidence import Interval
from matcha_gnn.gamma.strategies import guarded
from matcha_gnn.metrics import accuracy
from matcha_gnn.result import Candidate, Decision

NOTHING = Interval(0.0, 0.0, 0.0)
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
    source, chosen = (candidate_of(result, name) for name in ("source", result.decision.chosen))
    assert result.summary() == (
        f"Adapted ({chosen.name}). Estimated accuracy: {source.expected_accuracy:.1%} → "
        f"{chosen.expected_accuracy:.1%} (90% interval {chosen.accuracy.low:.1%} to "
        f"{chosen.accuracy.high:.1%}). {result.changed:.1%} of labels changed: accuracy cannot "
        f"move by more. {result.decision.posterior.trust.assumption}"
    )
    assert result.severity == "good"


def candidate_of(result, name):
    return next(one for one in result.decision.candidates if one.name == name)


def test_without_a_shift_gamma_is_kept(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.85, seed=3)
    weights = (mg.ClosedForm(), mg.Fitted())
    result = mg.adapt(model, target, strategy=mg.Guarded(strategies=weights))
    assert result.status is mg.Status.KEPT_SOURCE
    assert torch.equal(result.probs, result.probs_before)
    assert torch.equal(result.gamma, model.gamma)
    assert "Kept the source model" in result.decision.summary()


@pytest.mark.parametrize("seed", range(10, 15))
def test_without_a_shift_nothing_is_lost(model, seed):
    target = mg.datasets.csbm(**SIZE, homophily=0.85, seed=seed)
    assert gain(mg.adapt(model, target), target) > -0.01


def test_moved_features_are_moved_back(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, shift=1.0, seed=3)
    weights = mg.Guarded(strategies=(mg.ClosedForm(), mg.Fitted()))
    result = mg.adapt(model, target, strategy=weights)
    assert result.decision.posterior.shift.kind == "offset"
    assert result.decision.posterior.gathered.shift.kind == "offset"
    assert result.decision.chosen.startswith("moved back")
    assert gain(result, target) > 0.15


def test_other_class_shares_bring_an_intercept(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, shares=(0.85, 0.15), seed=4)
    result = mg.adapt(model, target)
    assert result.decision.posterior.shift.kind == "shares"
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
    with pytest.warns(mg.NotAdaptedWarning, match="^not adapted: .*mg.summarise_source"):
        result = mg.adapt(mg.GPRGNN(8, 2), graph)
    assert result.status is mg.Status.KEPT_SOURCE
    assert result.summary().startswith(
        "Kept the source model: accuracy cannot be estimated without statistics of the source "
        "graph, so the model is returned unadapted. Make them with summary = "
        "mg.summarise_source(model, source_graph), and give source=summary. Without them: "
    )
    assert result.severity == "neutral"


@pytest.mark.parametrize("method", [mg.T3A(), mg.Tent(), mg.SOGA()])
def test_around_other_base_methods(model, method):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=6)
    result = mg.adapt(model, target, method)
    assert result.status is mg.Status.ADAPTED
    assert gain(result, target) > 0.05


def test_rounds_of_a_loss_are_judged_too(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=7)
    result = mg.adapt(model, target, strategy=mg.Guarded(strategies=(mg.Matcha(rounds=20),)))
    names = [candidate.name for candidate in result.decision.candidates]
    assert names == ["source", "round 2", "round 8", "round 20"]
    assert gain(result, target) >= -0.01


def test_models_whose_hops_cannot_be_cached_take_an_answer_by_evidence():
    source = mg.datasets.csbm(**SIZE, homophily=0.85, seed=0)
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=1)
    deep = mg.GCNII(64, 2, hidden_channels=8, K=2)
    mg.fit(deep, source, epochs=120)
    result = mg.adapt(deep, target)
    names = [c.name for c in result.decision.candidates]
    assert names == ["source", "fitted", "pool", "belief", "probe"]
    assert gain(result, target) > 0.1


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
    mg.summarise_source(foreign, source)
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
        return lambda hop_weights: (reads.append("classify"), made(hop_weights))[1]

    monkeypatch.setattr(kernels, "classifier", classifier)
    target = mg.datasets.csbm(1000, model.in_channels, homophily=0.1, signal=2, seed=1, **shift)
    assert mg.adapt(model, target).status is mg.Status.ADAPTED
    assert 3 <= len(reads) <= 10, reads


def test_a_kept_source_says_what_could_be_gained(model):
    weights = mg.Guarded(strategies=(mg.ClosedForm(), mg.Fitted()), min_gain=0.02)
    target = mg.datasets.csbm(**SIZE, homophily=0.85, seed=1)
    decision = mg.adapt(model, target, strategy=weights).decision
    assert decision.chosen == "source"
    best = max(decision.candidates[1:], key=lambda c: c.gain_lower_bound)
    assert best.gain_lower_bound <= decision.threshold == 0.02
    own = decision.candidates[0].accuracy
    assert decision.summary() == (
        f"Kept the source model: estimated accuracy {own.value:.1%} (90% interval {own.low:.1%} to "
        f"{own.high:.1%}). Best candidate ({best.name}): expected "
        f"{100 * best.expected_gain:+z.1f} points, at least {100 * best.gain_lower_bound:+z.1f}; "
        f"below the threshold of 2. {decision.posterior.trust.assumption}"
    )
    for one in decision.candidates:
        expected = one.expected_accuracy - decision.candidates[0].expected_accuracy
        assert one.expected_gain == pytest.approx(expected, abs=1e-12)
        assert one.gain_lower_bound <= expected + 1e-12


@pytest.mark.parametrize(
    ("bound", "threshold", "said"),
    [
        (0.0052, 0.02, "expected +4.9 points, at least +0.5; below the threshold of 2."),
        (0.02049, 0.0205, "at least +2.0; below the threshold of 2.05."),
        (0.01999, 0.02, "at least +1.999; below the threshold of 2."),
        (-0.00001, 0.0, "at least -0.001; below the threshold of 0."),
        (0.0, 0.0, "at least +0.0; not above the threshold of 0."),
    ],
)
def test_a_bound_is_never_printed_as_if_it_reached_the_threshold(bound, threshold, said):
    own = Interval(0.869, 0.8, 0.9)
    source = Candidate("source", own, own, NOTHING, 0)
    tried = source, Candidate("fitted", own, own, Interval(0.049, bound, 0.1), 0.1)
    assert Decision("source", tried, None, threshold=threshold).summary().endswith(said)


THREE = {"num_nodes": 800, "num_features": 32, "signal": 2, "shares": (0.4, 0.3, 0.3)}


@pytest.mark.parametrize("homophily", [0.85, 0.2])
@pytest.mark.parametrize("unseen", ["an output too many", "not in the mask"])
def test_a_class_without_a_labelled_node_gives_finite_estimates(homophily, unseen):
    source = mg.datasets.csbm(**THREE, homophily=0.85, seed=0)
    target = mg.datasets.csbm(**THREE, homophily=homophily, seed=1)
    outputs, mask = (4, None) if unseen == "an output too many" else (3, source.y != 2)
    net = mg.GPRGNN(32, outputs)
    mg.fit(net, source, epochs=60, train_mask=mask)
    assert float(net.source.class_prior[-1]) == 0
    result = mg.adapt(net, target)
    assert "nan" not in result.summary()
    for one in result.decision.candidates:
        assert 0 < one.expected_accuracy < 1
        assert -1 < one.gain_lower_bound <= one.expected_gain < 1
    posterior = result.decision.posterior
    assert posterior.probs.isfinite().all()
    assert posterior.edge_shares.isfinite().all()
    if unseen == "an output too many":
        estimate = candidate_of(result, result.decision.chosen).expected_accuracy
        assert estimate == pytest.approx(accuracy(result.probs, target.y), abs=0.04)


def test_a_source_with_one_labelled_class_cannot_be_judged():
    source = mg.datasets.csbm(300, 8, seed=0)
    net = mg.GPRGNN(8, 2)
    mg.fit(net, source, epochs=20, train_mask=source.y == 0)
    result = mg.adapt(net, mg.datasets.csbm(300, 8, seed=1))
    assert net.source.misfit.isfinite().all()
    assert result.status is mg.Status.KEPT_SOURCE
    assert "labelled nodes of the source graph are of one class" in result.summary()


def test_a_class_that_the_model_predicts_and_the_summary_lacks_cannot_be_judged():
    source = mg.datasets.csbm(**THREE, homophily=0.85, seed=0)
    net = mg.GPRGNN(32, 3)
    mg.fit(net, source, epochs=60)
    source.y[source.y == 2] = -1
    mg.summarise_source(net, source, trained=source.y >= 0)
    result = mg.adapt(net, mg.datasets.csbm(**THREE, homophily=0.2, seed=1))
    assert result.status is mg.Status.KEPT_SOURCE
    assert result.severity == "neutral"
    share = float((result.labels == 2).double().mean())
    assert result.summary() == (
        "Kept the source model: accuracy cannot be estimated: class 2 has no labelled node in the "
        f"statistics of the source graph, and the model gives it to {share:.1%} of the target's "
        "nodes."
    )


def test_an_estimate_that_is_not_finite_keeps_the_source(model, monkeypatch):
    sound = guarded.infer

    def broken(*given, **named):
        found = sound(*given, **named)
        return dataclasses.replace(found, probs=found.probs * math.nan)

    monkeypatch.setattr(guarded, "infer", broken)
    result = mg.adapt(model, mg.datasets.csbm(**SIZE, homophily=0.1, seed=1))
    assert result.status is mg.Status.KEPT_SOURCE
    assert torch.equal(result.probs, result.probs_before)
    assert "cannot be estimated" in result.summary()
    assert "nan" not in result.summary()


@pytest.mark.parametrize("place", [0, 1])
def test_a_candidate_that_is_not_a_number_is_not_shown_as_one(place):
    known, unknown = Interval(0.9, 0.8, 1.0), Interval(math.nan, math.nan, math.nan)
    tried = [
        Candidate("source", known, known, NOTHING, 0),
        Candidate("fitted", known, known, NOTHING, 0.1),
    ]
    broken = dict.fromkeys(("accuracy", "goal", "gain"), unknown)
    tried[place] = dataclasses.replace(tried[place], **broken)
    kept = Decision("source", tuple(tried), None, threshold=0.02)
    assert "cannot be estimated" in kept.summary() or "No other candidate" in kept.summary()
    assert "nan" not in kept.summary()
    taken = Decision("fitted", tuple(tried), None, threshold=0.02)
    assert "cannot be estimated" in taken.summary()
    assert "nan" not in taken.summary()


def test_class_shares_that_jump_are_an_alarm_in_a_guarded_run_too():
    """A true change of class shares: the jump is right, and a person has to know of it."""
    options = {"num_nodes": 1500, "num_features": 32, "signal": 1.3}
    source = mg.datasets.csbm(**options, homophily=0.85, shares=(0.95, 0.05), seed=0)
    target = mg.datasets.csbm(**options, homophily=0.5, shares=(0.05, 0.95), seed=1)
    net = mg.GPRGNN(32, 2)
    mg.fit(net, source, epochs=100)
    result = mg.adapt(net, target)
    assert result.status is mg.Status.ADAPTED
    assert gain(result, target) > 0.5
    assert result.severity == "alarm"
    (alarm,) = result.alarms
    assert result.summary() == f"{alarm} {result.decision.summary()}"


def test_the_taken_model_answers_the_next_graph_in_the_same_way(model):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=1)
    result = mg.adapt(model, target)
    assert result.decision.chosen == "pool"
    following = mg.datasets.csbm(**SIZE, homophily=0.1, seed=2)
    again = mg.predict(result.model, following)
    assert accuracy(again.probs, following.y) > accuracy(
        mg.predict(model, following).probs, following.y
    )
    torch.testing.assert_close(mg.predict(result.model, target).probs, result.probs)
    streamed = mg.adapt(result.model, following)
    assert gain(streamed, following) > -0.01


def test_candidates_carry_their_predictions_and_models(model, tmp_path):
    target = mg.datasets.csbm(**SIZE, homophily=0.1, seed=5)
    result = mg.adapt(model, target)
    source, *others = result.decision.candidates
    assert torch.equal(source.probs, result.probs_before)
    assert torch.equal(candidate_of(result, result.decision.chosen).probs, result.probs)
    for one in (source, *others):
        probs = mg.predict(one.model, target).probs
        torch.testing.assert_close(probs, one.probs, atol=1e-5, rtol=1e-4)
        assert one.figures().keys().isdisjoint({"probs", "model"})
    store = mg.GraphStore.create(tmp_path / "store", target)
    stored = mg.adapt(model, store)
    assert [one.probs for one in stored.decision.candidates] == [None] * (1 + len(others))
