"""A result with another candidate taken: by a person, or by answers to questions."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.gamma.losses import PIC
from matcha_gnn.gamma.methods import ERM, Prediction
from matcha_gnn.gamma.strategies.base import Task
from matcha_gnn.gamma.strategies.guarded import MOVED_BACK
from matcha_gnn.gamma.strategies.run import Run
from matcha_gnn.result import Adaptation, Candidate, Decision, Status, Trace


def take(result: Adaptation, name: str) -> Adaptation:
    """The result with a candidate that a person names; see `Adaptation.take`."""
    decision = result.decision
    names = [one.name for one in decision.candidates] if decision else []
    if decision is None or len(names) < 2:
        why = decision.obstacle if decision else f"strategy {result.strategy.name!r} tries none"
        raise IncompatibleError(f"take: there are no candidates: {why}")
    if name not in names:
        raise InvalidArgumentError("name", repr(name), ", ".join(names))
    if name == decision.chosen:
        return result
    before = decision.by_hand or decision.chosen
    moved_back = name.startswith(MOVED_BACK)
    made = replace(decision, chosen=name, by_hand=before, moved_back=moved_back, verdict=None)
    return with_decision(result, made)


def with_decision(result: Adaptation, decision: Decision) -> Adaptation:
    """The result if another decision had been made."""
    source, taken = decision.candidates[0], decision.taken
    assert taken is not None
    trace = Trace()
    trace.add_estimate(source.expected_accuracy, result.gamma_before, _class_shares(source.probs))
    if decision.adapted:
        trace.add_estimate(taken.expected_accuracy, taken.model.gamma, _class_shares(taken.probs))
    return replace(
        result,
        probs=taken.probs,
        model=taken.model,
        gamma=taken.model.gamma.detach().clone(),
        pic_after=_pic(taken, result) if decision.adapted else result.pic_before,
        trace=trace,
        status=Status.ADAPTED if decision.adapted else Status.KEPT_SOURCE,
        decision=decision,
    )


def _class_shares(probs: Tensor) -> Any:
    return probs.double().mean(0).cpu().numpy()


def _pic(candidate: Candidate, result: Adaptation) -> float:
    """The PIC loss of its predictions."""
    assert result.decision is not None
    if candidate.name == result.decision.chosen:
        return result.pic_after
    task = Task(candidate.model, result.graph, ERM(), result.seed, None, lambda done, total: None)
    return PIC().value(Run(task).view, Prediction(candidate.probs))
