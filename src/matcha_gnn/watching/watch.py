"""Follow a deployed model over a stream of graphs."""

import copy
import math
from collections import deque
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any, TypeGuard

from torch import nn

from matcha_gnn.adaptation import checked_arguments, run_adaptation
from matcha_gnn.diagnosis import Diagnosis, shift_card
from matcha_gnn.errors import (
    InvalidFileError,
    NoEvidenceError,
    optional_imports,
    require_number,
    require_whole,
)
from matcha_gnn.evidence.given import Source, with_source
from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.gamma.methods import ERM, BaseMethod
from matcha_gnn.gamma.models import Backbone, as_backbone
from matcha_gnn.gamma.strategies import Guarded, Strategy
from matcha_gnn.graphs.memory import Graph, GraphLike, content_hash, unlabelled
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.metrics import average_degree
from matcha_gnn.network.checks import require_finite, require_precision
from matcha_gnn.result import Adaptation, Decision
from matcha_gnn.typing import Parameters
from matcha_gnn.watching.alarms import AlarmKind, Chance, Reference, alarms_of, chances_of
from matcha_gnn.watching.last import changes_of, with_changes, with_last, worth_keeping
from matcha_gnn.watching.resampling import resampled
from matcha_gnn.watching.state import State
from matcha_gnn.watching.steps import Step, moment, one_line

KEPT = 1000
"""Steps that a watch keeps: older ones are in files, if anywhere."""
_NONE = Interval(math.nan, math.nan, math.nan)


class Watch:
    """Follow a trained model over a stream of graphs, one after the other, without labels.

    Every graph is adapted to from the source model. The model that was adapted to an earlier graph
    is one more candidate where the strategy compares candidates, and is taken if the evidence
    prefers it. So nothing is adapted twice, and a stream that comes back to its start finds the
    source model there. Memory does not grow with the stream: the source model, at most one adapted
    model, and the figures of the newest 1,000 graphs are kept.

    Args:
        model: a trained backbone, or any PyG network as it is; a copy is kept.
        method: the base method that predicts around each model, or its name.
        strategy: how a better model is sought, or its name.
        source: the graph that the model was trained on. Alarms then say how often they ring on
            graphs resampled from it, which are met once, before the first graph. Where the model
            has a source summary, labels are not needed, and a graph like the source that was not
            trained on is better. Where it has none, this is its source as in `adapt`: the labelled
            graph, a summary or the path of one.
        level: the lowest accuracy that is good enough; an alarm rings below it.
        resamples: how many graphs are drawn from the source.
        seed: of these draws, and for base methods that draw at random.

    Example:
        >>> import matcha_gnn as mg
        >>> def day(homophily, seed):
        ...     return mg.datasets.csbm(1000, 64, homophily=homophily, signal=2, seed=seed)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, day(0.9, 0), epochs=50)
        >>> watch = mg.Watch(model, level=0.99)
        >>> step = watch.observe(day(0.1, 1), time="2026-05-01")
        >>> step.adapted, step.low < step.accuracy < step.high
        (True, True)
        >>> [str(alarm.kind) for alarm in step.alarms]
        ['level']
        >>> step.result.labels.shape
        torch.Size([1000])
    """

    def __init__(
        self,
        model: Backbone | nn.Module,
        method: BaseMethod | str = ERM(),  # noqa: B008 (immutable)
        strategy: Strategy | str = Guarded(),  # noqa: B008 (immutable)
        *,
        source: Source | None = None,
        level: float | None = None,
        resamples: int = 20,
        seed: int = 0,
    ) -> None:
        self.method, self.strategy = checked_arguments(method, strategy, seed)
        if level is not None:
            require_number("level", level, above=0, below=1)
        require_whole("resamples", resamples, least=1)
        self.level, self.seed = level, seed
        self._model = _with_summary(as_backbone(model, None), source).frozen()
        require_precision(self._model)
        require_finite(self._model)
        self.method.require(self._model)
        self.strategy.require(self._model, self.method)
        self._source = unlabelled(source) if _is_graph(source) else None
        if self._source is not None:
            self._model.accept(self._source.x)
        self._resamples = resamples
        self._resampled: tuple[Step, ...] = ()
        self._last: Backbone | None = None
        self._steps: deque[Step] = deque(maxlen=KEPT)
        self.number = 0

    @property
    def steps(self) -> tuple[Step, ...]:
        """The newest 1,000 steps, in the order in which they were observed."""
        return tuple(self._steps)

    @property
    def last(self) -> Backbone | None:
        """The model that was adapted to the latest graph for which one was; None for none."""
        return self._last

    @property
    def reference(self) -> Reference:
        """What figures of a graph are held against."""
        return Reference.of(self.level, self._model.source)

    @property
    def chances(self) -> dict[AlarmKind, Chance]:
        """How often each alarm rings on graphs resampled from the source, at the present level."""
        return chances_of(self.reference, self._resampled)

    @plain_torch()
    def observe(self, graph: GraphLike, time: datetime | str | None = None, name: str = "") -> Step:
        """Adapt to the next graph, and say how right the model is there.

        A graph that was seen before gives the same figures again, unless the last adapted model is
        another one now. Times may have gaps and need not be in order.

        Args:
            graph: in memory; labels are not read and nothing is changed.
            time: of the graph, ISO text or a datetime, UTC if it names no zone; now by default.
            name: shown with it.

        Returns:
            The step; `step.result` has predictions and model.

        Raises:
            InvalidGraphError, IncompatibleError: no graph for this model; the watch is as before.
        """
        when, target = moment(time), unlabelled(graph)
        self._measure_chance()
        step = self._met(target, with_last(self.strategy, self._last))
        alarms = alarms_of(step, self.reference, self.chances)
        number = self.number + 1
        step = replace(step, number=number, time=when, name=one_line(name), alarms=alarms)
        step = replace(step, repeats=self._seen(step.fingerprint))
        result = step.result
        if result is not None and step.adapted and worth_keeping(result.model, self._model):
            self._last = result.model
        return self._done(step)

    def skip(self, reason: str, time: datetime | str | None = None, name: str = "") -> Step:
        """Note that there was a graph which could not be used, and why."""
        number, when = self.number + 1, moment(time)
        return self._done(Step(number, when, one_line(name), problem=one_line(reason)))

    def annotate(self, **figures: Any) -> Step:
        """Add to the newest step what only the caller knows: `measured`, `report`, `version`.

        Returns:
            The step with it, as it is kept.
        """
        self._steps[-1] = replace(self._steps[-1], **figures)
        return self._steps[-1]

    def save(self, path: str | Path) -> None:
        """Write the state, so that `restore` can go on from here; one file, whole or not at all."""
        changes = {} if self._last is None else changes_of(self._last, self._model)
        configuration = self._configuration()
        State(self._key, configuration, self.number, self.steps, self._resampled, changes).save(
            path
        )

    def restore(self, path: str | Path) -> None:
        """Go on from a state that `save` wrote.

        With another strategy or base method, alarms rang by other rules on resampled graphs: these
        figures are dropped, and measured anew where there is a source graph.

        Raises:
            InvalidFileError: not such a file, or made with another model.
        """
        state = State.load(path)
        if state.model != self._key:
            got = f"{path} (made with another model)"
            raise InvalidFileError("state", got, "a state of this model")
        try:
            last = with_changes(self._model, state.changes) if state.changes else None
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise InvalidFileError(
                "state", f"{path} ({reason})", "tensors of this model"
            ) from error
        self.number, self._last = state.number, last
        self._steps = deque(state.steps, maxlen=KEPT)
        same = state.configuration == self._configuration()
        self._resampled = state.resampled if same else ()

    def to_html(self, path: str | Path) -> None:
        """Write the timeline of the newest 1,000 steps as one page that works offline.

        Raises:
            MatchaError: the extra `report` is not installed.
        """
        with optional_imports("timeline"):
            from matcha_gnn.report.timeline import write_timeline
        write_timeline(self.steps, self.reference, self.chances, path)

    @property
    def _key(self) -> str:
        return content_hash(*self._model.state_dict().values())

    def _configuration(self) -> Parameters:
        """As JSON gives it back."""
        strategy, method = self.strategy, self.method
        return {
            "strategy": f"{strategy.name} {strategy.version} {strategy.parameters()}",
            "method": f"{method.name} {method.settings()}",
            "seed": self.seed,
        }

    def _measure_chance(self) -> None:
        """Meet graphs resampled from the source, once; then the source is no longer needed."""
        if self._source is not None and not self._resampled:
            draws = (resampled(self._source, self.seed + n) for n in range(self._resamples))
            met = (self._met(graph, self.strategy) for graph in draws)
            self._resampled = tuple(step.kept() for step in met)
        self._source = None

    def _met(self, graph: Graph, strategy: Strategy) -> Step:
        """The figures of a graph."""
        begin = perf_counter()
        result = run_adaptation(self._model, graph, self.method, strategy, seed=self.seed)
        decision = result.decision or self._evidence(graph)
        before, after = _estimates(result, decision)
        card = self._card(result, decision)
        shares = (0.0, "") if card is None else _moved(card)
        return Step(
            number=0,
            time="",
            fingerprint=graph.fingerprint,
            nodes=graph.num_nodes,
            edges=graph.edge_index.shape[1],
            chosen=result.decision.chosen if result.decision else result.strategy.name,
            accuracy=after.value,
            low=after.low,
            high=after.high,
            source_accuracy=before.value,
            changed=result.changed,
            degree=average_degree(graph.edge_index, graph.num_nodes),
            homophily=math.nan if card is None else card.homophily[1],
            shares_moved=math.nan if card is None else shares[0],
            moved_most=shares[1],
            features="" if card is None else str(card.features),
            drift=math.nan if card is None else card.drift,
            confidence=float(result.probs_before.amax(1).double().mean()),
            reason=result.summary(),
            obstacle=decision.obstacle,
            broken=decision.broken,
            seconds=perf_counter() - begin,
            result=result,
        )

    def _evidence(self, graph: Graph) -> Decision:
        """Where a strategy does not estimate accuracy itself."""
        strategy = Guarded(strategies=())
        estimated = run_adaptation(self._model, graph, self.method, strategy, seed=self.seed)
        assert estimated.decision is not None, "Guarded decides"
        return estimated.decision

    def _card(self, result: Adaptation, decision: Decision) -> Diagnosis | None:
        summary = self._model.source
        if summary is None:
            return None
        try:
            return shift_card(self._model, summary, result, decision)
        except NoEvidenceError:
            return None

    def _seen(self, fingerprint: str) -> int:
        earlier = (step.number for step in self._steps if step.fingerprint == fingerprint)
        return max(earlier, default=0)

    def _done(self, step: Step) -> Step:
        self.number = step.number
        self._steps.append(step.kept())
        return step


def _with_summary(model: Backbone, source: Source | None) -> Backbone:
    """A copy, with the summary that is given, or one of the graph where the model has none."""
    if source is None or (model.source and _is_graph(source)):
        return copy.deepcopy(model)
    return with_source(model, source)


def _is_graph(source: Source | None) -> TypeGuard[GraphLike]:
    return source is not None and not isinstance(source, SourceSummary | str | Path)


def _estimates(result: Adaptation, decision: Decision) -> tuple[Interval, Interval]:
    """Expected accuracy of the source model and of the model that was taken."""
    if decision.obstacle or decision.posterior is None or not decision.candidates:
        return _NONE, _NONE
    before = decision.candidates[0].accuracy
    if result.decision is None:
        return before, decision.posterior.accuracy(result.labels)
    return before, next(c.accuracy for c in decision.candidates if c.name == decision.chosen)


def _moved(card: Diagnosis) -> tuple[float, str]:
    """Distance between class shares, and the class that moved most."""
    before, after = (shares.double().cpu() for shares in card.class_shares)
    most = int((after - before).abs().argmax())
    text = f"class {most} went from {before[most]:.1%} to {after[most]:.1%} of nodes"
    return float((after - before).abs().sum() / 2), text
