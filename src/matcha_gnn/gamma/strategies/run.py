"""The base method around a private copy of a model, with all that is cached for it.

For models that mix cached hops linearly a round reads the hops once and needs no autograd graph.
For others a round runs the model once, with an autograd graph: its representation is the one hop
that the base method sees.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from matcha_gnn.candidates import NO_ESTIMATE, SOURCE, Candidate
from matcha_gnn.errors import NonFiniteError
from matcha_gnn.evidence.goals import checked_names
from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.losses import PIC, Loss
from matcha_gnn.gamma.methods import Prediction, View
from matcha_gnn.gamma.models import Backbone, LinearBackbone
from matcha_gnn.gamma.result import MatchaResult
from matcha_gnn.gamma.status import Status
from matcha_gnn.gamma.strategy import Strategy, Task
from matcha_gnn.gamma.timing import Stopwatch
from matcha_gnn.gamma.trace import Trace
from matcha_gnn.typing import Repr


class Ways(NamedTuple):
    """Points that the paper leaves open, as in its published runs; `Matcha` explains them."""

    moves: str = "gamma"
    restart: bool = True
    features: str = "source"


PUBLISHED = Ways()


class Run:
    """The state of one adaptation: a private copy of the model, and what is cached for it.

    Attributes:
        model: the copy that is adapted.
        moving: its parameters that take steps.
        view: the model at the γ of the last prediction.
        prediction: the base method's last answer.

    Args:
        task: what to run on.
        loss: what γ moves down; None where it is not moved by rounds.
        ways: points that the paper leaves open.
        gamma_stays: γ is not going to move, so that Z may stand for the hops.
    """

    def __init__(
        self,
        task: Task,
        loss: Loss | None = None,
        ways: Ways = PUBLISHED,
        *,
        gamma_stays: bool = False,
    ) -> None:
        model, graph, method = task.model, task.graph, task.method
        self.graph, self.method, self.seed, self.ways = graph, method, task.seed, ways
        self.loss, self.takes_rounds = loss or PIC(), loss is not None
        self.watch = Stopwatch(graph.device)
        self.z: Repr | None = None
        with self.watch.stage("inference"):
            self.model = model.copied().frozen()
            self.gamma = self.model.gamma
            self.encoder_stays = ways.moves == "gamma"
            self.hops_stay = self.encoder_stays and isinstance(model, LinearBackbone)
            self.keeps_z_alone = gamma_stays and not method.needs_hops
            theta, gamma = self.model.encoder_parameters(), [self.gamma]
            self.moving = {"gamma": gamma, "theta": theta, "both": gamma + theta}[ways.moves]
            for parameter in self.moving:
                parameter.requires_grad_(True)
            self.constants = self.model.constants(graph) if self.encoder_stays else None
            self.hops = task.hops or self._fresh_hops()
        with self.watch.stage("setup"), torch.no_grad():
            self.view = self._fresh_view()
            self.prepared = method.prepare(self.view)
            self.state = method.start(self.view, self.prepared)

    @cached_property
    def loss_prepared(self) -> Any:
        """What the loss needs in every round; a candidate whose loss nobody asks for needs none."""
        with self.watch.stage("setup"), torch.no_grad():
            return self.loss.prepare(self.view)

    def predict(self) -> Prediction:
        """Run the base method at the current γ."""
        with self.watch.stage("forward"), torch.no_grad():
            self.view = self._fresh_view()
            if not self.encoder_stays:
                self.prepared = self.method.prepare(self.view)
            if self.ways.restart:
                self.state = self.method.start(self.view, self.prepared)
            self.prediction, self.state = self.method.predict(self.view, self.state)
        return self.prediction

    def require_finite(self) -> None:
        """Refuse to go on from numbers that are not finite: they would still have a largest class.

        Raises:
            NonFiniteError: the model's hops on this graph, or the method's predictions.
        """
        if not np.isfinite(self.view.hops.mean).all():
            raise NonFiniteError(
                f"the representation of this graph by {self.model.name} is not finite: its "
                "features or edge weights are too large for the model's weights"
            )
        if not self.prediction.finite:
            raise NonFiniteError(
                f"{self.method.name}: its predictions on this graph are not finite; smaller "
                "features, or a smaller step size, may help"
            )

    def step(self, move: Callable[[], object]) -> None:
        """Move, and make anew what is no longer valid."""
        with self.watch.stage("update"):
            move()
        self._refresh()

    def rewind(self, trace: Trace) -> None:
        """Go back to the γ of the last recorded round, and predict there."""
        if trace.gamma:
            with torch.no_grad():
                self.gamma.copy_(trace.gamma[-1])
            self._refresh()
            self.predict()

    def descend_direction(self) -> float:
        """Leave the gradient on the moving parameters and return the loss.

        Returns NaN if the loss or any part of the gradient is not finite.
        """
        return self._from_sums() if self.hops_stay else self._by_autograd()

    def _from_sums(self) -> float:
        own, view, prepared = self.ways.features == "base", self.view, self.loss_prepared
        view = self.prediction.own_view(view) if own else view
        with self.watch.stage("loss"):
            value, slope = self.loss.from_sums(view, self.prediction, prepared)
        with self.watch.stage("backward"):
            assert isinstance(self.model, LinearBackbone), "others have no hops that stay"
            self.gamma.grad = self.model.gamma_gradient(view.gamma, torch.from_numpy(slope))
        return value if math.isfinite(slope @ slope) else math.nan

    def _by_autograd(self) -> float:
        with self.watch.stage("forward"):
            self.model.zero_grad()
            z = self._representation() if self.z is None else self.z
            self.z = None
        with self.watch.stage("loss"):
            value = self.loss(z, self.model.head(z), self.prediction.probs)
        with self.watch.stage("backward"):
            value.backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad for p in self.moving if p.grad is not None]
        finite = all(bool(g.isfinite().all()) for g in gradients)
        return float(value.detach()) if finite else math.nan

    def _representation(self) -> Repr:
        return self.model.representation(self.graph, self.constants)

    def _refresh(self) -> None:
        if not self.hops_stay:
            with self.watch.stage("forward"):
                self.hops = self._fresh_hops()

    def _fresh_hops(self) -> Hops:
        if self.keeps_z_alone and (mixed := self.model.mixed_hops(self.graph)):
            return mixed
        if isinstance(self.model, LinearBackbone):
            return self.model.hops(self.graph, keyed=False)
        # Kept with its history: the loss of the same round differentiates it.
        self.z = self._representation()
        return Hops(self.z.detach()[:, None])

    def _fresh_view(self) -> View:
        gamma = self.gamma.detach().clone()
        return View(self.model, self.graph, self.hops, gamma, self.seed, sums=self.takes_rounds)


def pic_value(view: View, prediction: Prediction) -> float:
    """The PIC loss at a view; of hops whose Gram matrix nobody needed, from Z alone."""
    hops = view.hops
    if "gram" not in vars(hops):
        z = hops.mix(view.hop_weights)
        view = replace(view, hops=Hops(z[:, None], mixed=True))
    return PIC().value(view, prediction)


def finished(
    strategy: Strategy,
    task: Task,
    run: Run,
    *,
    first: Run,
    trace: Trace,
    status: Status,
    before: tuple[Prediction, float] | None = None,
) -> MatchaResult:
    """The result of a strategy, from its last run and its first, which is around the source model.

    `before` has the source model's prediction and PIC loss, where `first` has moved on.
    """
    with run.watch.stage("loss"):
        source, pic = before or (first.prediction, pic_value(first.view, first.prediction))
        after = pic if run.prediction is source else pic_value(run.view, run.prediction)
    taken = _untested(strategy.name, run.prediction, source, run.model.frozen())
    candidates: tuple[Candidate, ...] = (_untested(SOURCE, source, source, task.model), taken)
    if run.prediction is source:
        candidates = (replace(taken, name=SOURCE),)
    return MatchaResult(
        graph=task.graph,
        candidates=candidates,
        chosen=candidates[-1].name,
        source=task.model.source,
        class_names=checked_names(task.class_names or None, run.prediction.probs.shape[1]),
        seconds=run.watch.seconds,
        gamma=run.gamma.detach().clone(),
        gamma_before=task.model.gamma.detach().clone(),
        pic_before=pic,
        pic_after=after,
        trace=trace,
        ended=status,
        strategy=strategy,
    )


def _untested(name: str, answer: Prediction, source: Prediction, model: Backbone) -> Candidate:
    """A candidate of which nothing is estimated."""
    unknown = NO_ESTIMATE, NO_ESTIMATE, NO_ESTIMATE
    changed = float(answer.labels.ne(source.labels).sum()) / len(answer.labels)
    return Candidate(name, *unknown, changed, answer.probs, model)
