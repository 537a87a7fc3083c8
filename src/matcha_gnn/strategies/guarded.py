"""Adaptation that keeps the source model unless another is expected to be better.

Candidates are models: the source's, and copies with other hop weights, and where own features say
so with all nodes moved back or with an intercept. The base method predicts around each. A posterior
of the classes, made from own features and neighbours and never from a candidate, says how many of
its labels are expected to be true; the best candidate is taken if it beats the source by `MARGIN`.
Weights that were fitted to the posterior agree with its errors too: small gains are believed only
where the closed form gains as well.
"""

import copy
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import NoEvidenceError
from matcha_gnn.evidence import Posterior, fit_hop_weights, infer
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.hops import Hops
from matcha_gnn.losses import PIC, SURE, Loss
from matcha_gnn.methods import BaseMethod, Modifies
from matcha_gnn.monitoring.timing import Stopwatch
from matcha_gnn.result import (
    Adaptation,
    Candidate,
    Decision,
    History,
    Status,
    class_counts_of,
)
from matcha_gnn.strategies.matcha import Exact, Run, run_rounds
from matcha_gnn.typing import Progress

MARGIN = 0.02
"""Share of nodes that must be expected to be right in addition."""
AGREED_MARGIN = 0.0075
"""The same where the closed form, which has not seen the posterior, gains as much by itself."""
CLOSED_FORM = "closed form"
CHECKPOINTS = (0.1, 0.4, 1.0)
"""Shares of the rounds after which γ is a candidate, for models that need rounds."""
SOURCE = "source"


@dataclass
class _Trial:
    """A candidate, and the base method's answer around it."""

    name: str
    run: Run
    expected: float
    gain: float


def protected(
    model: Backbone,
    graph: Graph,
    method: BaseMethod,
    loss: Loss | None,
    settings: dict[str, Any],
    hops: Hops | None,
    progress: Progress | None,
) -> Adaptation:
    """Adapt, judge, and return the better of source and adapted model.

    Args:
        model: a trained backbone; it is not changed.
        graph: the target.
        method: the base method.
        loss: run rounds of this loss for candidates; None: fit hop weights where possible.
        settings: every argument of `adapt` that decides the outcome, checked.
        hops: of this model and graph, if they are at hand.
        progress: called after each round, where there are rounds.
    """
    watch = Stopwatch(graph.device)
    judge = _Judge(graph, method, settings, watch)
    source = judge.run(model, hops)
    source.require_finite()
    if model.source is None:
        return _kept(model, source, None, _UNJUDGED, watch)
    if obstacle := _missing_classes(model.source, source):
        return _kept(model, source, None, obstacle, watch)
    try:
        with watch.stage("judge"):
            posterior = infer(model, graph)
    except NoEvidenceError as error:
        return _kept(model, source, None, f"accuracy cannot be estimated: {error}", watch)
    if posterior.contradicted:
        return _kept(model, source, posterior, posterior.contradiction, watch)
    judge.posterior = posterior
    trials = [judge.score(SOURCE, source)]
    if not math.isfinite(trials[0].expected):
        return _kept(model, source, None, _NOT_FINITE, watch)
    fitted = loss is None and settings["moves"] == "gamma" and model.mixes_linearly
    proposals = (
        judge.fitted(model, source)
        if fitted
        else judge.after_rounds(model, loss or PIC(), source, progress)
    )
    trials += [trial for trial in proposals if trial.run.prediction.finite]
    threshold = _threshold(trials)
    best = _better(trials, threshold)
    source_accuracy = trials[0].expected
    tried = tuple(judge.candidate(trial, source_accuracy) for trial in trials)
    decision = Decision(best.name, tried, posterior, threshold=threshold)
    return _result(model, best, source, decision, watch)


def _threshold(trials: list[_Trial]) -> float:
    """What a gain has to reach."""
    agreed = any(t.name.endswith(CLOSED_FORM) and t.gain >= AGREED_MARGIN for t in trials)
    return AGREED_MARGIN if agreed else MARGIN


def _better(trials: list[_Trial], threshold: float) -> _Trial:
    """The best candidate, or the first one, the source, if it is not clearly better."""
    best = max(trials, key=lambda trial: trial.gain)
    return best if best.gain >= threshold else trials[0]


_UNJUDGED = (
    "accuracy cannot be estimated without statistics of the source graph, so the model is returned "
    "unadapted. mg.remember_source(model, source_graph) adds them"
)
_ONE_CLASS = "accuracy cannot be estimated: all labelled nodes of the source graph are of one class"
_NOT_FINITE = "accuracy cannot be estimated: the estimate is not a finite number"


def _missing_classes(source: SourceSummary, run: Run) -> str:
    """Why nothing can be judged where classes have no labelled source node, or empty.

    Classes that the model gives to fewer nodes than the smallest gain that counts do no harm.
    """
    absent = (source.class_prior == 0).cpu().numpy()
    if not absent.any():
        return ""
    if absent.sum() == len(absent) - 1:
        return _ONE_CLASS
    (counts,) = run.graph.shard.total(class_counts_of(run.prediction.probs))
    shares = counts / counts.sum()
    most = int((shares * absent).argmax())
    if shares[absent].sum() < AGREED_MARGIN:
        return ""
    return (
        f"accuracy cannot be estimated: class {most} has no labelled node in the statistics of the "
        f"source graph, and the model gives it to {shares[most]:.1%} of the target's nodes"
    )


class _Judge:
    """Tries candidates around one base method on one target."""

    posterior: Posterior

    def __init__(
        self, graph: Graph, method: BaseMethod, settings: dict[str, Any], watch: Stopwatch
    ) -> None:
        self.graph, self.method, self.settings, self.watch = graph, method, settings, watch
        self._labels_before: torch.Tensor | None = None

    def run(self, model: Backbone, hops: Hops | None = None) -> Run:
        """The base method around a model, once."""
        run = Run(model, self.graph, self.method, PIC(), self.settings, hops)
        run.predict()
        self.watch.seconds = dict(Counter(self.watch.seconds) + Counter(run.watch.seconds))
        if self._labels_before is None:
            self._labels_before = run.prediction.probs.argmax(1)
        return run

    @property
    def labels_before(self) -> torch.Tensor:
        """Those of the first run, the source's, [N]."""
        assert self._labels_before is not None
        return self._labels_before

    def score(self, name: str, run: Run) -> _Trial:
        """How many of its labels are expected to be true."""
        with self.watch.stage("judge"):
            labels = run.prediction.probs.argmax(1)
            expected = self.posterior.expected_accuracy(labels)
            gain = self.posterior.gain_lower_bound(labels, over=self.labels_before)
        return _Trial(name, run, expected, gain)

    def candidate(self, trial: _Trial, source_accuracy: float) -> Candidate:
        """What the decision says of a trial."""
        labels = trial.run.prediction.probs.argmax(1)
        shard, other = self.graph.shard, float(labels.ne(self.labels_before).sum())
        changed = float(shard.total(other)[0]) / shard.count(len(labels))
        gained = trial.expected - source_accuracy
        return Candidate(trial.name, trial.expected, gained, trial.gain, changed)

    def fitted(self, model: Backbone, source: Run) -> Iterator[_Trial]:
        """Hop weights in closed form, and fitted to the posterior, where own features say it is."""
        shift, prefix = self.posterior.shift, ""
        base = source
        moves_norm = Modifies.NORM in self.method.modifies
        if shift.kind.moves_offset and model.takes_offset and not moves_norm:
            moved = copy.deepcopy(model)
            moved.move(offset=shift.offset.to(model.gamma))
            model, prefix = moved, "moved back, "
            base = self.run(model)
            yield self.score("moved back", base)
        if model.is_filter and model.gamma_is_coefficients:
            yield self.score(prefix + CLOSED_FORM, self._closed_form(model, base))
        yield self.score(prefix + "fitted", self._fit(model, base, intercept=False))
        if shift.kind.moves_shares and model.takes_intercept:
            name = prefix + "fitted with intercept"
            yield self.score(name, self._fit(model, base, intercept=True))

    def _fit(self, model: Backbone, base: Run, intercept: bool) -> Run:
        view = base.prediction.own_view(base.view)
        with self.watch.stage("fit"):
            fit = fit_hop_weights(view, self.posterior.probs, intercept=intercept)
        found = copy.deepcopy(model)
        found.gamma.data.copy_(fit.gamma)
        if intercept:
            found.move(intercept=fit.intercept)
        return self._again(found, base)

    def _closed_form(self, model: Backbone, base: Run) -> Run:
        steps = Run(model, self.graph, self.method, SURE(), self.settings, base.hops)
        steps.prediction = base.prediction
        with self.watch.stage("fit"):
            Exact(steps).step()
        return self._again(steps.model, base)

    def _again(self, model: Backbone, base: Run) -> Run:
        """The same encoder with other hop weights: its hops are those of `base`."""
        return self.run(model, base.hops)

    def after_rounds(
        self, model: Backbone, loss: Loss, source: Run, progress: Progress | None
    ) -> Iterator[_Trial]:
        """γ of a few rounds; all that moved, if more than γ did."""
        result = run_rounds(model, self.graph, self.method, loss, self.settings, None, progress)
        self.watch.seconds = dict(Counter(self.watch.seconds) + Counter(result.seconds))
        rounds = len(result.history.gamma) - 1
        if self.settings["moves"] != "gamma":
            yield self.score(f"round {rounds}", self.run(result.model))
            return
        for round_number in sorted({max(1, round(share * rounds)) for share in CHECKPOINTS}):
            found = copy.deepcopy(model)
            found.gamma.data.copy_(result.history.gamma[min(round_number, rounds)])
            hops = source.hops if source.hops_stay else None
            yield self.score(f"round {round_number}", self.run(found, hops))


def _kept(
    model: Backbone, source: Run, posterior: Posterior | None, obstacle: str, watch: Stopwatch
) -> Adaptation:
    """The source model, where nothing could be judged."""
    unknown = float("nan")
    decision = Decision(SOURCE, (), posterior, obstacle)
    return _result(model, _Trial(SOURCE, source, unknown, unknown), source, decision, watch)


def _result(
    model: Backbone, best: _Trial, source: Run, decision: Decision, watch: Stopwatch
) -> Adaptation:
    history = History()
    for trial in decision.candidates:
        if trial.name == SOURCE:
            shares = source.prediction.class_shares
            history.add(1 - trial.expected_accuracy, model.gamma.detach().clone(), shares)
    run = best.run
    if decision.adapted:
        history.add(1 - best.expected, run.view.gamma, run.prediction.class_shares)
    return Adaptation(
        probs=run.prediction.probs,
        probs_before=source.prediction.probs,
        model=run.model.frozen(),
        gamma=run.gamma.detach().clone(),
        gamma_before=model.gamma.detach().clone(),
        pic_before=PIC().value(source.view, source.prediction),
        pic_after=PIC().value(run.view, run.prediction),
        history=history,
        status=Status.ADAPTED if decision.adapted else Status.KEPT_SOURCE,
        seconds=watch.seconds,
        settings=run.settings,
        graph=source.graph,
        decision=decision,
    )
