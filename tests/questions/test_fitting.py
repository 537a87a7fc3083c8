"""Candidates fitted to answers, and questions where the evidence cannot tell."""

import copy
import dataclasses
import re

import numpy as np
import pytest
import torch

import matcha_gnn as mg
from asked import SIZE, truth
from matcha_gnn.errors import NotAdaptedWarning
from matcha_gnn.evidence.belief_model import BeliefModel
from matcha_gnn.evidence.weighing import BiasedPool, PoolWeights, fit_biased_pool
from matcha_gnn.metrics import accuracy
from matcha_gnn.questions import asking, fitting
from tensor_files import rewritten

NAME = "fitted to 20 answers"


@pytest.fixture(scope="module")
def unsure(model):
    """The model with a summary that explains too little of its source."""
    weak = copy.deepcopy(model)
    evidence = dataclasses.replace(model.source.evidence, information=torch.tensor(0.1))
    weak.source = dataclasses.replace(model.source, evidence=evidence)
    return weak


def fitted_to(result, target, count=30):
    answered = result.answer(truth(result.ask(count), target))
    return answered, next(c for c in answered.decision.candidates if c.name == NAME)


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


def test_from_twenty_answers_on_a_candidate_is_fitted_to_them(result, target):
    asked = result.ask(20)
    few = result.answer(truth(asked[:19], target))
    assert NAME not in {one.name for one in few.decision.candidates}
    answered, one = fitted_to(result, target, 20)
    assert answered.decision.candidates[-1] is one
    assert len(answered.decision.verdict.gains) == len(answered.decision.candidates)
    assert np.isnan(one.gain.value)
    assert one.gain.low == pytest.approx(-one.gain.high)
    assert answered.decision.chosen != NAME
    assert accuracy(one.probs, target.y) > accuracy(result.probs_before, target.y)
    labels = one.probs.argmax(1)
    assert one.changed == pytest.approx((labels != result.labels_before).double().mean().item())
    more, again = fitted_to(answered, target, 20)
    assert torch.equal(again.probs, one.probs)
    assert np.isfinite(again.gain.value)
    names = [each.name for each in more.decision.candidates]
    assert len(set(names)) == len(names)
    assert more.ask(3)[0].opinions[-1].candidate == NAME


def test_a_skipped_question_among_the_first_leaves_nothing_to_fit(result, target):
    known = truth(result.ask(40), target)
    skipped = list(known)[7]
    gap = result.answer({node: label for node, label in known.items() if node != skipped})
    assert NAME not in {one.name for one in gap.decision.candidates}
    whole = gap.answer({skipped: known[skipped]})
    assert whole.decision.candidates[-1].name == NAME


def test_a_fitted_candidate_is_a_model_for_the_next_graph(result, target, tmp_path):
    _, one = fitted_to(result, target)
    predicted = mg.predict(one.model, target)
    assert torch.allclose(predicted.probs, one.probs, atol=1e-5)
    mg.save_model(one.model, tmp_path / "fitted.safetensors")
    again = mg.load_model(tmp_path / "fitted.safetensors")
    assert isinstance(again, BeliefModel)
    assert again.pool == one.model.pool
    assert again.name == "GPRGNN with biased pool"
    following = mg.datasets.csbm(**SIZE, homophily=0.1, seed=2)
    assert torch.equal(mg.predict(again, following).probs, mg.predict(one.model, following).probs)
    assert accuracy(mg.predict(again, following).probs, following.y) > 0.9
    onwards = mg.adapt(again, following)
    assert onwards.decision.candidates[0].name == "source"
    assert accuracy(onwards.probs, following.y) > 0.9
    asked = truth(onwards.ask(20), following)
    assert onwards.answer(asked).decision.candidates[-1].name == NAME


@pytest.mark.parametrize(
    "text", ["{", '{"weights": [1], "bias": [0, NaN]}', '{"weights": [1, 1], "bias": [0]}', "[]"]
)
def test_a_damaged_pool_in_a_file_is_refused_in_one_line(result, target, tmp_path, text):
    _, one = fitted_to(result, target)
    path = tmp_path / "fitted.safetensors"
    mg.save_model(one.model, path)
    rewritten(path, metadata={"pool": text})
    with pytest.raises(mg.InvalidFileError, match="a bias for each class") as caught:
        mg.load_model(path)
    assert "\n" not in str(caught.value)


def test_only_the_pool_can_be_fitted(model):
    pool = BiasedPool(PoolWeights(), (0.0, 0.0))
    with pytest.raises(mg.InvalidArgumentError, match="none with the answer 'probe'"):
        BeliefModel(model, "probe", pool)


def test_a_fitted_candidate_is_taken_where_it_is_clearly_better(result, target, monkeypatch):
    """A fit that finds the truth stands in for one that is much better than all candidates."""
    asked = result.ask(120)
    perfect = torch.nn.functional.one_hot(target.y, 2).float()
    own = fitting.fitted_candidates

    def found(source, *rest):
        changed = float((target.y != source.probs.argmax(1)).double().mean())
        kept = own(source, *rest)
        return {
            start: dataclasses.replace(one, probs=perfect, changed=changed)
            for start, one in kept.items()
        }

    # Candidates that are hardly better than the source.
    candidates = [one for one in result.decision.candidates if one.name in ("source", "probe")]
    decision = dataclasses.replace(result.decision, candidates=tuple(candidates))
    poor = dataclasses.replace(result, decision=decision, questions=None)
    monkeypatch.setattr(asking, "fitted_candidates", found)
    answered = poor.answer(truth(poor.ask(120), target))
    assert len(asked) == 120
    assert answered.decision.chosen.startswith("fitted to ")
    assert isinstance(answered.model, BeliefModel)
    assert torch.equal(answered.probs, perfect)
    assert f"Adapted ({answered.decision.chosen})" in answered.summary()
    assert np.isfinite(answered.pic_after)


def test_where_the_evidence_cannot_tell_answers_decide(unsure, target, tmp_path):
    with pytest.warns(NotAdaptedWarning, match="cannot tell"):
        kept = mg.adapt(unsure, target)
    assert "cannot tell" in kept.summary()
    assert "ask(20), or --ask 20, says of which" in kept.summary()
    questions = kept.ask(40)
    assert questions.design.prior is None
    assert set(questions.design.shares) == {1 / len(questions.design.shares)}
    answered = kept.answer(truth(questions, target))
    assert answered.status is mg.Status.ADAPTED
    assert accuracy(answered.probs, target.y) > accuracy(kept.probs, target.y) + 0.05
    assert "decided by 40 answers" in answered.summary()
    assert answered.decision.posterior is None
    few = kept.answer(truth(questions[:2], target))
    for one, name in ((kept, "kept"), (few, "few"), (answered, "answered")):
        assert "nan" not in one.summary().lower()
        one.report(tmp_path / f"{name}.html")
        page = (tmp_path / f"{name}.html").read_text()
        shown = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
        assert re.search(r"\bnan\b", shown, re.IGNORECASE) is None
        assert "estimated from node-only features" not in shown
    page = (tmp_path / "kept.html").read_text()
    assert "Nothing is estimated of them." in page
    assert "as no other could be compared with it" in page
    kept.take("probe").report(tmp_path / "by-hand.html")
    page = (tmp_path / "by-hand.html").read_text()
    assert "probe (chosen)" in page
    assert "as no other could be compared with it" not in page
    questions.to_html(tmp_path / "questions.html")
    assert (tmp_path / "questions.html").read_text().count("<h2") >= 1
