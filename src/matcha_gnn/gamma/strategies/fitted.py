"""γ that agrees best with what is known of the classes without labels."""

from dataclasses import dataclass, replace

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.evidence.posterior import Posterior, infer
from matcha_gnn.gamma.methods import ERM
from matcha_gnn.gamma.models import Backbone, LinearBackbone
from matcha_gnn.gamma.models.encoder import LinearEncoder
from matcha_gnn.gamma.node_statistics import feature_shift
from matcha_gnn.gamma.result import MatchaResult
from matcha_gnn.gamma.status import outcome
from matcha_gnn.gamma.strategies.autograd_fit import fit_by_autograd
from matcha_gnn.gamma.strategies.run import Run, finished
from matcha_gnn.gamma.strategy import Strategy, Task, with_gamma
from matcha_gnn.gamma.trace import Trace
from matcha_gnn.gamma.weights import fit_hop_weights


@dataclass(frozen=True)
class Fitted(Strategy):
    """Fit γ to the class probabilities by node-only features and edges (`docs/matcha.md`).

    By logistic regression on the cached hops; where class shares moved, an intercept is fitted too.
    A model without cached hops, such as a wrapped network, runs once or more for each of a few
    steps. The evidence may be wrong, and nothing is compared here.

    Example:
        >>> Fitted().parameters()
        {}
    """

    name = "fitted"
    version = 9

    def require(self, model: Backbone) -> None:
        """γ must decide something, and the evidence needs a source summary."""
        if not model.gamma_decides:
            raise IncompatibleError(f"strategy 'fitted' needs a γ that {model.name} depends on")
        if model.source is None:
            raise IncompatibleError(
                "strategy 'fitted' needs a source summary: mg.summarise_source(model, source_graph)"
            )

    def seek(self, task: Task) -> MatchaResult:
        """Estimate the classes, fit, and predict."""
        base = Run(task)
        base.predict()
        base.require_finite()
        assert task.model.source is not None, "checked before any work"
        with base.watch.stage("evidence"):
            erm = isinstance(base.method, ERM)
            network = base.prediction.probs if erm else base.view.classify().probs
            evidence = infer(task.model.source, task.graph, network)
        fitted = self._fitted(task, base, evidence)
        run = Run(replace(task, model=fitted, hops=None))
        run.predict()
        trace = Trace()
        for each in (base, run):
            shown = each.prediction
            accuracy = evidence.expected_accuracy(shown.probs.argmax(1))
            trace.add_estimate(accuracy, each.view.gamma, shown.class_shares)
        status = outcome(trace, base.prediction, run.prediction, run.prediction.finite)
        run.watch.add(base.watch.seconds)
        return finished(self, task, run, first=base, trace=trace, status=status)

    def _fitted(self, task: Task, base: Run, evidence: Posterior) -> Backbone:
        """γ alone, or γ with an intercept where class shares moved."""
        model = task.model
        if not isinstance(model, LinearBackbone):
            with base.watch.stage("fit"):
                return with_gamma(model, fit_by_autograd(base, evidence.probs))
        shift = feature_shift(model, task.graph, evidence.probs.shape[1])
        moved = shift.kind.moves_shares and isinstance(model, LinearEncoder)
        view = base.prediction.own_view(base.view)
        with base.watch.stage("fit"):
            fit = fit_hop_weights(view, evidence.probs, intercept=moved)
        fitted = with_gamma(model, fit.gamma)
        if moved and isinstance(fitted, LinearEncoder):
            fitted.add_intercept(fit.intercept)
        return fitted
