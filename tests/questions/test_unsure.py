"""Questions where the evidence cannot tell."""

import copy
import dataclasses
import re

import pytest
import torch

import matcha_gnn as mg
from asked import truth
from matcha_gnn.errors import NotAdaptedWarning
from matcha_gnn.metrics import accuracy


@pytest.fixture(scope="module")
def unsure(model):
    """The model with a summary that explains too little of its source."""
    weak = copy.deepcopy(model)
    evidence = dataclasses.replace(model.source.evidence, information=torch.tensor(0.1))
    weak.source = dataclasses.replace(model.source, evidence=evidence)
    return weak


def test_where_the_evidence_cannot_tell_answers_decide(unsure, target, tmp_path):
    with pytest.warns(NotAdaptedWarning, match="cannot tell"):
        kept = mg.adapt(unsure, target)
    assert "cannot tell" in kept.summary()
    assert "ask(20), or --ask 20, says of which" in kept.summary()
    questions = kept.ask(40)
    assert questions.design.prior is None
    assert set(questions.design.shares) == {1 / len(questions.design.shares)}
    answered = kept.answer(truth(questions, target))
    assert answered.status == "adapted"
    assert accuracy(answered.probs, target.y) > accuracy(kept.probs, target.y) + 0.05
    assert "decided by 40 answers" in answered.summary()
    assert answered.posterior is None
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
    assert "as nothing else could be compared with it" in page
    kept.take("probe").report(tmp_path / "by-hand.html")
    page = (tmp_path / "by-hand.html").read_text()
    assert "probe (chosen)" in page
    assert "as nothing else could be compared with it" not in page
    questions.to_html(tmp_path / "questions.html")
    assert (tmp_path / "questions.html").read_text().count("<h2") >= 1
