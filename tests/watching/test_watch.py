"""A watch: figures of each step, the last model, and what cannot be done."""

import gc
import math
import weakref
from dataclasses import replace

import pytest
import torch
from small_streams import WEIGHTS, day, source_graph, trained

import matcha_gnn as mg
from matcha_gnn.watching import AlarmKind
from matcha_gnn.watching.watch import KEPT


def kinds(step):
    return [alarm.kind for alarm in step.alarms]


def figures(step):
    """What the content of a graph decides."""
    left_out = ("number", "time", "name", "repeats", "seconds")
    return {name: value for name, value in step.figures().items() if name not in left_out}


def test_a_step_says_what_adapt_and_diagnose_say():
    graph = day(0.2, 1)
    step = mg.Watch(trained()).observe(graph, "2026-05-01", "monday")
    result, card = mg.adapt(trained(), graph), mg.diagnose(trained(), graph)
    assert (step.number, step.time, step.name) == (1, "2026-05-01T00:00:00+00:00", "monday")
    chosen = next(c for c in result.decision.candidates if c.name == result.decision.chosen)
    assert step.chosen == chosen.name
    assert (step.accuracy, step.low, step.high) == chosen.accuracy
    assert step.source_accuracy == result.decision.candidates[0].accuracy.value
    assert step.result.probs.equal(result.probs)
    assert step.homophily == pytest.approx(card.homophily[1])
    assert step.degree == pytest.approx(card.degree[1])
    assert step.drift == pytest.approx(card.drift)
    assert step.features == card.features
    assert step.confidence == pytest.approx(card.confidence[1])
    moved = float((card.class_shares[1] - card.class_shares[0]).abs().sum() / 2)
    assert step.shares_moved == pytest.approx(moved, abs=1e-6)
    assert (step.nodes, step.edges) == (graph.num_nodes, graph.num_edges)


def test_model_and_graph_stay_as_they_are_and_labels_are_not_read():
    model, graph = mg.GPRGNN(24, 2, hidden_channels=8, K=4), day(0.2, 1)
    model.load_state_dict(trained().state_dict())
    model.source = trained().source
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    other = graph.clone()
    other.y = 1 - other.y
    steps = [mg.Watch(model, source=g, resamples=2).observe(g) for g in (graph, other)]
    assert figures(steps[0]) == figures(steps[1])
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert graph.x.equal(day(0.2, 1).x)


def test_the_watch_keeps_its_own_model():
    model = mg.GPRGNN(24, 2, hidden_channels=8, K=4)
    mg.fit(model, source_graph(), epochs=20)
    watch, graph = mg.Watch(model), day(0.3, 1)
    before = watch.observe(graph)
    mg.fit(model, source_graph(), epochs=5)
    assert figures(watch.observe(graph)) == figures(before)


def test_the_last_adapted_model_is_a_candidate_that_evidence_may_take():
    watch = mg.Watch(trained(), strategy=WEIGHTS)
    first = watch.observe(day(0.1, 1))
    assert first.adapted
    assert watch.last is first.result.model
    steps = [watch.observe(day(0.1, 2 + n)) for n in range(8)]
    names = [[c.name for c in step.result.decision.candidates] for step in steps]
    assert all("last" in each for each in names)
    assert "last" in [step.chosen for step in steps]
    taken = next(step for step in steps if step.chosen == "last")
    gains = {c.name: c.gain.low for c in taken.result.decision.candidates}
    assert gains["last"] == max(gains.values()) > 0


def test_an_answer_by_evidence_is_not_kept():
    watch = mg.Watch(trained(), strategy=mg.Guarded(strategies=(mg.Belief(),)))
    assert watch.observe(day(0.1, 1)).adapted
    assert watch.last is None


def test_a_repeated_graph_and_gaps_in_time_do_no_harm():
    watch = mg.Watch(trained())
    graphs = day(0.85, 1), day(0.2, 2)
    first = watch.observe(graphs[0], "2026-05-01")
    second = watch.observe(graphs[1], "2026-05-02")
    again = watch.observe(graphs[1], "2031-01-01")
    late = watch.observe(graphs[0], "2026-04-01")
    assert figures(again) == figures(second)
    assert figures(late) == figures(first)
    assert [step.repeats for step in (first, second, again, late)] == [0, 0, 2, 1]


def test_a_strategy_that_does_not_estimate_gets_an_estimate():
    graph = day(0.2, 1)
    step = mg.Watch(trained(), strategy=mg.Matcha(rounds=3)).observe(graph)
    assert step.chosen == "matcha"
    found = mg.estimate_accuracy(trained(), graph)
    assert step.source_accuracy == pytest.approx(found.value)
    assert step.low < step.accuracy < step.high
    plain = mg.Watch(trained(), strategy=mg.Unadapted()).observe(graph)
    assert plain.accuracy == pytest.approx(found.value)


def test_base_methods_can_be_watched():
    graph = day(0.2, 1)
    step = mg.Watch(trained(), mg.T3A()).observe(graph)
    assert step.result.probs.equal(mg.adapt(trained(), graph, mg.T3A()).probs)


def test_a_model_without_a_summary_cannot_be_estimated_and_asks_for_answers():
    model = mg.GPRGNN(24, 2)
    step = mg.Watch(model, level=0.8).observe(day(0.2, 1))
    assert math.isnan(step.accuracy)
    assert kinds(step) == [AlarmKind.ANSWERS]
    assert "cannot be told" in step.alarms[0].message


def test_a_graph_that_cannot_be_used_is_refused_and_the_watch_is_as_before():
    watch = mg.Watch(trained())
    watch.observe(day(0.85, 1))
    wrong = mg.datasets.csbm(50, 7, seed=0)
    with pytest.raises(mg.MatchaError):
        watch.observe(wrong)
    with pytest.raises(mg.InvalidArgumentError, match="time: got 'monday'"):
        watch.observe(day(0.85, 1), "monday")
    assert watch.number == len(watch.steps) == 1
    note = watch.skip("broken\nfile", "2026-05-02", "b.npz")
    assert (note.number, note.problem, note.alarms) == (2, "broken file", ())
    assert watch.observe(day(0.85, 2)).number == 3


@pytest.mark.parametrize(
    "wrong",
    [{"level": 1.5}, {"level": "high"}, {"resamples": 0}, {"seed": -1}],
)
def test_wrong_arguments_are_named(wrong):
    (name,) = wrong
    with pytest.raises(mg.InvalidArgumentError, match=f"^{name}: got"):
        mg.Watch(trained(), **wrong)


def test_a_source_of_other_features_is_refused_at_once():
    with pytest.raises(mg.MatchaError):
        mg.Watch(trained(), source=mg.datasets.csbm(50, 7, seed=0))


def test_only_figures_of_the_newest_steps_are_kept():
    watch = mg.Watch(trained())
    watch.observe(day(0.85, 1))
    for number in range(KEPT):
        watch.skip("none", "2026-05-01", f"{number}")
    assert watch.number == KEPT + 1
    assert len(watch.steps) == KEPT
    assert watch.steps[0].number == 2
    assert all(step.result is None for step in watch.steps)


def test_figures_survive_json_and_other_fields_are_left_out():
    step = mg.Watch(trained(), level=0.99).observe(day(0.3, 1))
    assert step.alarms
    again = mg.Step.from_figures(step.figures() | {"new": 1})
    assert again == replace(step, measured=again.measured)
    with pytest.raises(TypeError):
        mg.Step.from_figures(step.figures() | {"nodes": "many"})
    row = step.row()
    assert row["alarms"] == "; ".join(kinds(step))
    assert row["measured"] == ""


def test_what_a_graph_took_is_freed_at_once():
    watch = mg.Watch(trained(), strategy=WEIGHTS)
    watch.observe(day(0.1, 1))
    gc.collect()
    gc.disable()
    try:
        step = watch.observe(day(0.1, 2))
        gone = [weakref.ref(step.result), weakref.ref(step.result.graph)]
        del step
        assert [each() for each in gone] == [None, None]
        assert gc.collect() == 0, "cycles keep memory until they are looked for"
    finally:
        gc.enable()


def test_any_network_can_be_watched_with_the_source_that_it_does_not_carry(tmp_path):
    from torch_geometric.nn import GCN

    torch.manual_seed(0)
    net, graph = GCN(24, 8, num_layers=2, out_channels=2).eval(), day(0.2, 1)
    summary = mg.summarise_source(net, source_graph())
    summary.save(tmp_path / "source.safetensors")
    given = source_graph(), summary, tmp_path / "source.safetensors"
    steps = [mg.Watch(net, source=each, resamples=2).observe(graph) for each in given]
    assert len({step.accuracy for step in steps}) == 1
    result = mg.adapt(net, graph, source=summary)
    assert steps[0].result.probs.equal(result.probs)


def test_methods_and_strategies_have_names():
    watch = mg.Watch(trained(), "t3a", "fitted")
    assert (watch.method.name, watch.strategy.name) == ("t3a", "fitted")
    with pytest.raises(mg.InvalidArgumentError, match="^strategy"):
        mg.Watch(trained(), strategy="nothing")
