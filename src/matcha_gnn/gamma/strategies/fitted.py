"""γ that agrees best with what is known of the classes without labels."""

from collections.abc import Iterator
from dataclasses import dataclass

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.evidence import Posterior, fit_hop_weights, infer
from matcha_gnn.gamma.methods import BaseMethod
from matcha_gnn.gamma.models import Backbone, LinearBackbone, MovableBackbone
from matcha_gnn.gamma.strategies.autograd_fit import fit_by_autograd
from matcha_gnn.gamma.strategies.base import Proposal, Strategy, Task, with_gamma
from matcha_gnn.gamma.strategies.belief import own_probs
from matcha_gnn.gamma.strategies.run import Run, finished
from matcha_gnn.result import Adaptation, Trace, outcome


@dataclass(frozen=True)
class Fitted(Strategy):
    """Fit γ to the class probabilities by node-only features and edges (`docs/method.md`).

    By logistic regression on the cached hops; where class shares moved, an intercept is fitted too.
    A model without cached hops, such as a wrapped network, runs once or more for each of a few
    steps. The evidence may be wrong, and nothing is compared here: `Guarded` does.

    Example:
        >>> Fitted().parameters()
        {}
    """

    name = "fitted"
    version = 9
    uses_evidence = True

    def require(self, model: Backbone, method: BaseMethod) -> None:
        """γ must decide something."""
        if not model.gamma_decides:
            raise IncompatibleError(f"strategy 'fitted' needs a γ that {model.name} depends on")

    def run(self, task: Task) -> Adaptation:
        """Estimate the classes, fit, and predict with the last proposal."""
        base = Run(task)
        base.predict()
        base.require_finite()
        with base.watch.stage("evidence"):
            network = own_probs(base, task.graph)
            evidence = infer(task.model, task.graph, network)
        *_, last = self.proposals(task, base, evidence)
        run = Run(task.around(last.model))
        run.predict()
        trace = Trace()
        for each in (base, run):
            shown = each.prediction
            known = evidence.expected_accuracy(shown.probs.argmax(1))
            trace.add_estimate(known, each.view.gamma, shown.class_shares)
        status = outcome(trace, base.prediction, run.prediction, run.prediction.finite)
        run.watch.add(base.watch.seconds)
        return finished(self, task, run, first=base, trace=trace, status=status)

    def proposals(self, task: Task, base: Run, evidence: Posterior) -> Iterator[Proposal]:
        """γ alone, and γ with an intercept where class shares moved."""
        if not isinstance(task.model, LinearBackbone):
            with base.watch.stage("fit"):
                gamma = fit_by_autograd(base, evidence.probs)
            yield Proposal("fitted", with_gamma(task.model, gamma), fresh=True)
            return
        model = _fit(task.model, base, evidence, intercept=False)
        yield Proposal("fitted", model, base.hops, fresh=True)
        if evidence.shift.kind.moves_shares and isinstance(task.model, MovableBackbone):
            model = _fit(task.model, base, evidence, intercept=True)
            yield Proposal("fitted with intercept", model, base.hops, fresh=True)


def _fit(model: Backbone, base: Run, evidence: Posterior, *, intercept: bool) -> Backbone:
    view = base.prediction.own_view(base.view)
    with base.watch.stage("fit"):
        fit = fit_hop_weights(view, evidence.probs, intercept=intercept)
    found = with_gamma(model, fit.gamma)
    if intercept:
        assert isinstance(found, MovableBackbone), "no other model is given an intercept"
        found.move(intercept=fit.intercept)
    return found
