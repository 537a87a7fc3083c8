"""From a result to questions and back: what is shown, what is decided, what is refused."""

import numpy as np
import pytest
import torch

import matcha_gnn as mg
from asked import truth
from matcha_gnn.metrics import accuracy


def test_answers_confirm_a_good_candidate(result, target):
    answered = result.answer(truth(result.ask(40), target))
    verdict = answered.verdict
    assert answered.status == "adapted"
    assert (verdict.answered, verdict.skipped) == (40, 0)
    assert accuracy(answered.probs, target.y) > accuracy(result.probs_before, target.y) + 0.05
    assert "error rate of at most 5%" in answered.summary()
    assert "decided by 40 answers" in answered.summary()
    gain, chosen = verdict.gains[verdict.taken], answered.chosen
    true = accuracy(answered.probs, target.y) - accuracy(answered.probs_before, target.y)
    assert -0.01 < gain.low <= true <= gain.high
    assert answered.taken.name == chosen
    assert answered.taken.gain.value == gain.value


def test_lying_answers_lead_back_to_the_source(result, target):
    asked = result.ask(40)
    assert result.status == "adapted"
    source = result.labels_before
    kept = result.answer({each.node: int(source[each.node]) for each in asked})
    assert kept.status == "kept source"
    assert torch.equal(kept.probs, result.probs_before)
    assert "no candidate is estimated to be better" in kept.summary()
    assert kept.severity == "neutral"


def test_too_few_answers_keep_the_source_and_say_how_many_more(result, target):
    kept = result.answer(truth(result.ask(20)[:2], target))
    assert kept.status == "kept source"
    assert "2 answers: it is not shown" in kept.summary()
    assert "more like these would" in kept.summary()
    assert kept.verdict.more > 1


def test_answers_add_up_whatever_their_order(result, target):
    known = truth(result.ask(30), target)
    once = result.answer(known)
    pairs = list(known.items())
    twice = result.answer(dict(pairs[20:])).answer(dict(pairs[:20]))
    assert twice.verdict == once.verdict
    again = once.answer(dict(pairs[:3]))
    assert again.verdict == once.verdict


def test_further_questions_go_on_in_the_same_order(result, target):
    whole = [each.node for each in result.ask(30)]
    first = result.ask(10)
    assert [each.node for each in first] == whole[:10]
    some = truth(first, target)
    skipped = whole[3]
    del some[skipped]
    answered = result.answer(some)
    more = answered.ask(10)
    assert [each.node for each in more] == [skipped, *whole[10:19]]
    assert [each.number for each in more] == [4, *range(11, 20)]
    assert answered.questions.answers == some
    later = answered.answer(truth(more, target))
    assert (later.verdict.answered, later.verdict.skipped) == (19, 0)


def test_another_seed_asks_other_nodes(result):
    first = [each.node for each in result.ask(20)]
    other = [each.node for each in result.ask(20, seed=1)]
    assert len(set(first) & set(other)) < 10
    assert [each.node for each in result.ask(20)] == other
    assert [each.node for each in result.ask(20, seed=0)] == first


def test_what_a_question_shows(result, target):
    names = [f"user {i}" for i in range(1500)]
    table = {"country": ["DE", "FR", "IT"] * 500}
    questions = result.ask(10, names=names, table=table, classes=["ham", "spam"])
    for each in questions:
        assert each.name == f"user {each.node}"
        assert each.facts == {"country": ["DE", "FR", "IT"][each.node % 3]}
        assert each.opinions[0].label == int(result.labels_before[each.node])
        ends = target.edge_index[:, (target.edge_index == each.node).any(0)]
        near = set(ends.flatten().tolist()) - {each.node}
        assert each.num_neighbours == len(near)
        assert {one.node for one in each.neighbours} <= near
        for one in each.neighbours:
            assert (one.label, one.name) == (int(result.labels[one.node]), f"user {one.node}")
    disputed = [len({one.label for one in each.opinions}) > 1 for each in questions]
    assert disputed == [True] * 9 + [False]
    text = repr(questions)
    assert text.startswith("10 questions, 0 answered so far\n  1. node")
    assert "(user " in text
    assert "spam (" in text
    assert "… and 5 more" in text
    named = {each.node: ["ham", "spam"][int(target.y[each.node])] for each in questions}
    assert result.answer(named).questions.answers == truth(questions, target)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, "answers: got none; allowed: at least one"),
        ([1, 2], r"answers: got a list; allowed: a dictionary"),
        ({-1: 0}, r"answers: got node -1; allowed: nodes that were asked: \d+, "),
        ({"7": 0}, "answers: got node '7'"),
        ({True: 0}, "answers: got node True"),
    ],
)
def test_answers_that_fit_no_question_are_refused(result, answers, message):
    result.ask(10)
    with pytest.raises(mg.InvalidArgumentError, match=message):
        result.answer(answers)
    assert result.questions.answers == {}


@pytest.mark.parametrize("label", [2, -1, 0.0, "0.0", None, True, "spam"])
def test_what_is_no_class_is_refused(result, label):
    node = result.ask(10)[0].node
    message = rf"answers of node {node}: got {label!r}; allowed: classes 0 to 1"
    with pytest.raises(mg.InvalidArgumentError, match=message):
        result.answer({node: label})


def test_bad_arguments_of_ask(result, target):
    for wrong in (0, 2.5, True):
        with pytest.raises(mg.InvalidArgumentError, match="count: got"):
            result.ask(wrong)
    with pytest.raises(mg.InvalidArgumentError, match="names: got 2 names; allowed: one for each"):
        result.ask(5, names=["a", "b"])
    with pytest.raises(mg.InvalidArgumentError, match="table: got 1 entries in column 'x'"):
        result.ask(5, table={"x": [1]})
    for wrong in (["a"], ["a", "a"], "ab"):
        with pytest.raises(mg.InvalidArgumentError, match="allowed: 2 different names"):
            result.ask(5, classes=wrong)
    answered = result.answer(truth(result.ask(5), target))
    with pytest.raises(mg.InvalidArgumentError, match="seed: got 3; allowed: 0, with which"):
        answered.ask(5, seed=3)


def test_without_candidates_nothing_can_be_asked(model, target):
    with pytest.raises(mg.IncompatibleError, match="no candidates to choose among"):
        mg.predict(model, target).ask(5)
    few = mg.datasets.csbm(120, 64, seed=0)
    with pytest.warns(mg.NotAdaptedWarning):
        bare = mg.adapt(mg.GPRGNN(64, 2), few)
    with pytest.raises(mg.IncompatibleError, match="among: accuracy cannot be estimated without"):
        bare.ask(5)
    with pytest.raises(mg.IncompatibleError, match=r"nothing has been asked; result.ask\(20\)"):
        mg.adapt(model, target).answer({1: 1})


def test_a_data_frame_may_be_the_table(result):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"score": np.arange(1500) / 2}, index=range(1500, 0, -1))
    question = result.ask(1, table=frame)[0]
    assert question.facts == {"score": str(question.node / 2)}


def test_the_page_of_a_decided_result_shows_what_answers_say(result, target, tmp_path):
    answered = result.answer(truth(result.ask(40), target))
    answered.report(tmp_path / "page.html", labels=target.y)
    page = (tmp_path / "page.html").read_text()
    assert "Estimated from 40 answers" in page
    assert "may be taken" in page
    assert "estimated without labels" not in page
    first = result.answer(truth(result.ask(40)[:1], target))
    first.report(tmp_path / "first.html")
    assert "Estimated from 1 answer, the accuracies" in (tmp_path / "first.html").read_text()
    # One answer leaves what evidence said nearly as it is.
    before, after = result.candidates[0].accuracy, first.candidates[0].accuracy
    assert after.value == pytest.approx(before.value, abs=0.1)
    assert after.high - after.low == pytest.approx(before.high - before.low, abs=0.1)


def test_another_metric_stays_the_goal(model, target, tmp_path):
    result = mg.adapt(model, target, metric="f1", positive=1)
    answered = result.answer(truth(result.ask(40), target))
    assert answered.goal == result.goal
    permitted = zip(answered.candidates, answered.verdict.permitted, strict=True)
    able = [one for one, permit in permitted if permit]
    assert answered.taken.goal.value == max(one.goal.value for one in able)
    assert "Answers test accuracy, not F1 of class 1" in answered.summary()
    assert answered.taken.class_estimates() is not None
    answered.report(tmp_path / "page.html")
    assert "expected F1 of class 1</th>" in (tmp_path / "page.html").read_text()


def test_an_answer_where_all_agree_tells_nothing_of_gains(result, target):
    agreed = result.ask(10)[9]
    assert len({one.label for one in agreed.opinions}) == 1
    kept = result.answer({agreed.node: int(target.y[agreed.node])})
    assert kept.status == "kept source"
    assert "nan" not in kept.summary()
    assert "estimated gain between -" in kept.summary()
    assert "Skipped questions count as losses of the candidates: 9." in kept.summary()
