"""Candidates that make the surest changes of the pool alone."""

import numpy as np
import torch

from asked import truth
from matcha_gnn.candidates import surer
from matcha_gnn.questions import asking
from matcha_gnn.questions.surest import PARTS, margins


def by_name(candidates):
    return {one.name: one for one in candidates}


def test_margins_keep_the_parts_that_they_are_named_after():
    generator = torch.Generator().manual_seed(0)
    logs = torch.randn(2000, 4, generator=generator).double().log_softmax(1)
    network = torch.randn(2000, 4, generator=generator).double().log_softmax(1)
    changed = logs.argmax(1) != network.argmax(1)
    found = margins(logs, network)
    assert list(found) == list(PARTS)
    for part, margin in found.items():
        labels = surer(logs, network, margin).argmax(1)
        kept = labels != network.argmax(1)
        assert int(kept.sum()) == int(PARTS[part] * int(changed.sum()))
        assert torch.equal(labels[kept], logs.argmax(1)[kept])
        probs = logs.exp()
        gain = probs.amax(1) - probs.gather(1, network.argmax(1)[:, None])[:, 0]
        assert gain[kept].min() > gain[changed & ~kept].max()


def test_nothing_is_parted_where_little_changes():
    logs = torch.tensor([[0.2, 0.8], [0.9, 0.1], [0.3, 0.7]]).log()
    assert margins(logs, torch.tensor([[0.9, 0.1]]).log().expand(3, 2)) == {}


def test_answers_decide_among_them_too(result, target):
    questions = result.ask(20)
    assert [one.name for one in questions.candidates[-4:]] == [f"surest {p} of pool" for p in PARTS]
    assert not any("surest" in one.candidate for one in questions[0].opinions)
    answered = result.answer(truth(questions, target))
    assert len(answered.verdict.gains) == len(answered.candidates)
    assert "surest half of pool" in by_name(answered.candidates)


def test_few_answers_show_sure_changes_first():
    """A pool that is right on its sure changes alone: the part is taken, and not the pool."""
    rng, number = np.random.default_rng(0), 1000
    sure = np.arange(number) < 100
    truth = np.zeros(number, dtype=int)
    truth[sure] = 1
    source, pool, part = np.zeros((3, number), dtype=int)
    pool[:200], part[:100] = 1, 1
    probs = np.where(sure, 0.95, 0.55)[:, None] * np.eye(2)[1] + 0.05 * rng.random((number, 2))
    design = asking.Design(np.stack([source, pool, part]), probs / probs.sum(1, keepdims=True))
    order = design.order(20)
    answers = {int(node): int(truth[node]) for node in order}
    verdict = asking.decide(design, order, answers)
    assert verdict.taken == 2
    assert verdict.permitted[2]
