"""Keep the source model unless another is expected to be better.

Candidates are models: the source's, the source's with all nodes moved back where features have
moved, and what other strategies propose. The base method predicts around each. The evidence says
what accuracy, or the metric that the caller chose, is expected of each, with bounds; a candidate is
taken if the lower bound of its gain over the source is above the threshold.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from torch import Tensor

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    NoEvidenceError,
    require_kind,
    require_number,
)
from matcha_gnn.evidence import (
    ACCURACY,
    Goal,
    Interval,
    Posterior,
    Wanted,
    feature_shift,
    infer,
)
from matcha_gnn.evidence.alone import stand_in_summary
from matcha_gnn.evidence.features import problem_of
from matcha_gnn.evidence.goals import expected_confusion
from matcha_gnn.evidence.rating import rater_of
from matcha_gnn.evidence.shift_kinds import FeatureShift
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.gamma.methods import BaseMethod, Modifies
from matcha_gnn.gamma.models import Backbone, MovableBackbone
from matcha_gnn.gamma.models.products import kept_product
from matcha_gnn.gamma.strategies.base import Strategy, Task
from matcha_gnn.gamma.strategies.belief import Belief, own_probs
from matcha_gnn.gamma.strategies.closed_form import ClosedForm
from matcha_gnn.gamma.strategies.fitted import Fitted
from matcha_gnn.gamma.strategies.run import Run, finished
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.graphs.shards import tensor_total
from matcha_gnn.monitoring.timing import Stopwatch
from matcha_gnn.result import (
    Adaptation,
    Candidate,
    Decision,
    Status,
    Trace,
    class_counts_of,
)
from matcha_gnn.typing import Probs

SOURCE = "source"
MOVED_BACK = "moved back"


@dataclass(frozen=True)
class Guarded(Strategy):
    """Try other strategies, and take a candidate only if it is expected to beat the source model.

    It needs the source summary that `fit` or `summarise_source` leaves in the model. Without it the
    network's own labels of the target stand in, where that is safe (`evidence.alone`); elsewhere
    the model is returned unadapted.

    Args:
        strategies: what proposes candidates, as far as it can run on the model.
        min_gain: what the lower bound of a candidate's gain in the metric must exceed: 0.01 is a
            point of accuracy.
        of_error: `min_gain` is a share of the source model's expected error, 1 − metric, instead:
            0.1 asks for a tenth of the errors, be they 30% of nodes or 2%.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> mg.adapt(model, target, strategy=Guarded(min_gain=0.01)).status
        <Status.ADAPTED: 'adapted'>
    """

    name = "guarded"
    version = 9
    uses_evidence = True

    strategies: tuple[Strategy, ...] = (ClosedForm(), Fitted(), Belief())
    min_gain: float = 0.0
    of_error: bool = False

    def __post_init__(self) -> None:
        given = self.strategies
        if not (isinstance(given, tuple) and all(isinstance(s, Strategy) for s in given)):
            allowed = "a tuple of strategies, such as (mg.Matcha(),)"
            raise InvalidArgumentError("strategies", repr(given), allowed)
        require_number("min_gain", self.min_gain, least=0)
        require_kind("of_error", self.of_error, bool, "True or False")
        if self.of_error and not 0 < self.min_gain < 1:
            raise InvalidArgumentError("min_gain", self.min_gain, "a share in (0, 1) with of_error")

    @property
    def blockwise(self) -> bool:
        """Where all that it tries is."""
        return all(strategy.blockwise for strategy in self.strategies)

    @property
    def shardable(self) -> bool:
        """Where all that it tries is."""
        return all(strategy.shardable for strategy in self.strategies)

    def require(self, model: Backbone, method: BaseMethod) -> None:
        """Something must be able to run on the model; with no strategies accuracy is estimated."""
        if self.strategies and not self.usable(model, method):
            tried = ", ".join(s.name for s in self.strategies)
            raise IncompatibleError(f"strategies: none of {tried} can run on {model.name}")

    def require_metric(self, wanted: Wanted) -> None:
        """The least gain must be one that the metric can have."""
        is_share = isinstance(wanted.metric, str)
        if is_share and self.min_gain >= 1:
            allowed = f"a number < 1, as {wanted.metric} is a share: 0.02 is two points"
            raise InvalidArgumentError("min_gain", self.min_gain, allowed)
        if self.of_error and not is_share:
            raise InvalidArgumentError("of_error", True, "False with a metric of your own")

    def usable(self, model: Backbone, method: BaseMethod) -> list[Strategy]:
        """The strategies that are tried on a model."""
        return [each for each in self.strategies if each.can_run(model, method)]

    def run(self, task: Task) -> Adaptation:
        """Estimate, try, compare."""
        with kept_product() if isinstance(task.graph, Graph) else nullcontext():
            return self._run(task)

    def _run(self, task: Task) -> Adaptation:
        watch = Stopwatch(task.graph.device)
        with watch.stage("evidence"):
            broken = _broken(task)
            shift = _shift(task)
        # Where nodes are moved back, nothing is proposed from the source's hops.
        source = Run(task, gamma_stays=shift is not None and shift.kind.moves_offset)
        source.watch.add(watch.seconds)
        source.predict()
        source.require_finite()
        answer = source.prediction.probs
        try:
            with source.watch.stage("evidence"):
                network = own_probs(source, task.graph)
                task, evidence = _gathered(task, source, network, shift)
                scores = evidence if network is answer else evidence.with_answer(network, answer)
        except NoEvidenceError as reason:
            return self._kept(task, source, broken or str(reason), bool(broken))
        obstacle = broken or evidence.rejected
        summary = task.model.source
        goal = task.wanted.goal(answer.shape[1], summary.class_prior if summary else None)
        # Where nothing can be estimated, candidates are there for questions to decide among.
        guard = _Guard(task, source, evidence, None if obstacle else scores, goal)
        trials = [guard.trial(SOURCE, source)]
        if not obstacle and not math.isfinite(trials[0].accuracy.value + trials[0].goal.value):
            return self._kept(task, source, _NOT_FINITE, False)
        for trial in guard.trials(self.usable(task.model, task.method)):
            if trial.run.prediction.finite:
                trials.append(trial)
        best, threshold = trials[0], None
        if not obstacle:
            threshold = self.min_gain * (1 - best.goal.value if self.of_error else 1)
            best = _best(trials, threshold, goal)
        decision = Decision(
            best.name,
            tuple(guard.candidate(trial) for trial in trials),
            scores,
            obstacle,
            threshold=threshold,
            moved_back=best.moved_back,
            goal=goal,
            broken=bool(broken),
        )
        return self._result(task, best, trials[0], decision)

    def _kept(self, task: Task, source: Run, obstacle: str, broken: bool) -> Adaptation:
        """The source model, where nothing is known of the target."""
        kept = _Trial(SOURCE, source, _NONE, _NONE, _NONE)
        decision = Decision(SOURCE, (), None, obstacle, broken=broken)
        return self._result(task, kept, kept, decision)

    def _result(
        self, task: Task, best: "_Trial", source: "_Trial", decision: Decision
    ) -> Adaptation:
        trace = Trace()
        estimated = [one for one in decision.candidates if math.isfinite(one.accuracy.value)]
        for trial in (source, best) if decision.adapted else (source,):
            if estimated:
                shares = trial.run.prediction.class_shares
                trace.add_estimate(trial.accuracy.value, trial.run.view.gamma, shares)
        return finished(
            self,
            task,
            best.run,
            first=source.run,
            trace=trace,
            status=Status.ADAPTED if decision.adapted else Status.KEPT_SOURCE,
            decision=decision,
            watch=source.run.watch,
        )


_NO_SUMMARY = (
    "accuracy cannot be estimated without statistics of the source graph, so the model is returned "
    "unadapted. Make them with summary = mg.summarise_source(model, source_graph), and give "
    "source=summary"
)
_NONE = Interval(math.nan, math.nan, math.nan)
_NOT_FINITE = "accuracy cannot be estimated: the estimate is not a finite number"


def _broken(task: Task) -> str:
    """Why the target's features cannot be what the source's are, or empty."""
    summary = task.model.source
    if summary is None or summary.features is None:
        return ""
    if task.graph.num_features != len(summary.features.mean):
        return ""
    return problem_of(summary.features, task.graph)


def _movable(task: Task) -> bool:
    """Whether the model can be tried with all nodes moved back."""
    model = task.model
    has_bias = isinstance(model, MovableBackbone) and model.takes_offset
    return has_bias and Modifies.NORM not in task.method.modifies


def _shift(task: Task) -> FeatureShift | None:
    """How features of a movable model moved; where that cannot be said, `infer` says why."""
    try:
        if _movable(task):
            return feature_shift(task.model, task.graph, task.model.head.out_features)
    except (IncompatibleError, NoEvidenceError):
        pass
    return None


def _gathered(
    task: Task, source: Run, network: Probs, shift: FeatureShift | None
) -> tuple[Task, Posterior]:
    """The evidence, and the task around a model with a source summary, or with its stand-in."""
    summary = task.model.source
    if summary is not None:
        _require_classes(summary, source, task.wanted.classes)
        return task, infer(task.model, task.graph, network, shift=shift)
    try:
        if not isinstance(task.graph, Graph):
            raise NoEvidenceError("this graph is not in memory")
        if network is not source.prediction.probs:
            raise NoEvidenceError(f"the network's labels are not those of {task.method.name}")
        found = stand_in_summary(task.model, task.graph, network)
    except NoEvidenceError as reason:
        raise NoEvidenceError(f"{_NO_SUMMARY}. Without them: {reason}") from reason
    model = task.model.copied()
    model.source = found.summary
    return task.around(model, task.hops), infer(model, task.graph, network, found.logits)


def _require_classes(source: SourceSummary, run: Run, names: Sequence[str]) -> None:
    """Raise NoEvidenceError where the model predicts classes without a labelled source node."""
    source.require(run.graph.num_features, run.prediction.probs.shape[1])
    (counts,) = run.graph.shard.total(class_counts_of(run.prediction.probs))
    reason = source.without_label(counts, names)
    if reason:
        raise NoEvidenceError(reason)


def _best(trials: Sequence["_Trial"], threshold: float, goal: Goal) -> "_Trial":
    """Among candidates whose lower bound is above the threshold; the source where there are none.

    For accuracy the one with the largest bound: the posterior's own labels have the largest
    expectation by construction. For other goals they have not, and the largest expectation counts.
    """
    better = [trial for trial in trials if trial.gain.low > threshold]
    return max(
        better,
        key=lambda trial: trial.gain.low if goal == ACCURACY else trial.gain.value,
        default=trials[0],
    )


@dataclass
class _Trial:
    """A candidate, and the base method's answer around it."""

    name: str
    run: Run
    accuracy: Interval
    goal: Interval
    gain: Interval
    confusion: Tensor | None = None
    moved_back: bool = False


class _Guard:
    """Scores candidates around one base method on one target."""

    def __init__(
        self,
        task: Task,
        source: Run,
        evidence: Posterior,
        scores: Posterior | None,
        goal: Goal,
    ) -> None:
        self.task, self.source, self.goal = task, source, goal
        self.evidence, self.scores = evidence, scores
        self.labels_before = source.prediction.labels
        if scores is not None:
            with source.watch.stage("evidence"):
                self.rater = rater_of(goal, scores)
                first = source.prediction
                self.rated_before = self.rater.rate(first.probs, first.labels)

    def trial(self, name: str, run: Run) -> _Trial:
        """What is expected of its labels, where that can be estimated."""
        if self.scores is None:
            return _Trial(name, run, _NONE, _NONE, _NONE)
        probs, rater = run.prediction.probs, self.rater
        with self.source.watch.stage("evidence"):
            labels = run.prediction.labels
            rated = self.rated_before if run is self.source else rater.rate(probs, labels)
            gain, value = rater.gain(rated, self.rated_before), rater.value(rated)
            accuracy = value if self.goal == ACCURACY else self.scores.accuracy(labels)
            counts = expected_confusion(labels, self.scores.probs)
            confusion = tensor_total(self.scores.shard, counts).cpu()
        return _Trial(name, run, accuracy, value, gain, confusion)

    def trials(self, strategies: list[Strategy]) -> Iterator[_Trial]:
        """What strategies propose, around the model moved back where features have moved."""
        task, base, prefix = self.task, self.source, ""
        moved = self._moved_back()
        if moved is not None:
            task = self.task.around(moved)
            base, prefix = self._around(task), f"{MOVED_BACK}, "
            trial = self.trial(MOVED_BACK, base)
            trial.moved_back = True
            yield trial
        for strategy in strategies:
            for proposal in strategy.proposals(task, base, self.evidence):
                run = self._around(self.task.of(proposal))
                around_base = proposal.method is None
                trial = self.trial(prefix * around_base + proposal.name, run)
                trial.moved_back = moved is not None and around_base
                yield trial
        if base is not self.source:
            self.source.watch.add(base.watch.seconds)
        for name, form in self.task.model.forms(self.task.graph):
            yield from self._form_trials(name, self.task.around(form), strategies)

    def _form_trials(self, name: str, task: Task, strategies: list[Strategy]) -> Iterator[_Trial]:
        """What strategies propose around another form of the source model."""
        base = self._around(task)
        for strategy in strategies:
            if not strategy.can_run(task.model, task.method):
                continue
            for proposal in strategy.proposals(task, base, self.evidence):
                # What brings its own method answers without γ, and has been tried.
                if proposal.method is None:
                    yield self.trial(f"{name}, {proposal.name}", self._around(task.of(proposal)))
        self.source.watch.add(base.watch.seconds)

    def candidate(self, trial: _Trial) -> Candidate:
        """What the decision says of a trial."""
        labels = trial.run.prediction.labels
        shard, other = self.task.graph.shard, float(labels.ne(self.labels_before).sum())
        changed = float(shard.total(other)[0]) / shard.count(len(labels))
        run, graph = trial.run, self.task.graph
        in_memory = isinstance(graph, Graph)
        probs, model = (run.prediction.probs, run.model.frozen()) if in_memory else (None, None)
        accuracy, goal, confusion = trial.accuracy, trial.goal, trial.confusion
        if bool(self.evidence.source.stand_in):
            # It shows which labels fit features and edges better, not how many are right.
            accuracy, goal, confusion = _NONE, _NONE, None
        return Candidate(trial.name, accuracy, goal, trial.gain, changed, probs, model, confusion)

    def _moved_back(self) -> Backbone | None:
        shift = self.evidence.shift
        if not (shift.kind.moves_offset and _movable(self.task)):
            return None
        moved = self.task.model.copied()
        assert isinstance(moved, MovableBackbone), "no other model is moved back"
        moved.move(offset=shift.offset.to(moved.gamma))
        return moved

    def _around(self, task: Task) -> Run:
        run = Run(task)
        run.predict()
        self.source.watch.add(run.watch.take())
        return run
