"""Step 6: Algorithm 1 of the paper.

Each round the base method predicts, then γ takes one step down the loss; after the last step the
base method predicts once more. For models that mix cached hops linearly a round reads the hops
once and needs no autograd graph. For others a round runs the model once, with an autograd graph:
its representation is the one hop that the base method sees.
"""

import copy
import math
from typing import Any

import numpy as np
import torch

from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import NonFiniteError
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.hops import Hops
from matcha_gnn.losses import PIC, Loss
from matcha_gnn.methods import BaseMethod, Prediction, View
from matcha_gnn.monitoring.timing import Stopwatch
from matcha_gnn.result import Adaptation, History, outcome
from matcha_gnn.typing import Progress, Repr


class SGD:
    """Plain gradient steps. `torch.optim.SGD` spends longer on bookkeeping than on K+1 numbers."""

    def __init__(self, parameters: list[torch.nn.Parameter], lr: float) -> None:
        self.parameters, self.lr = parameters, lr

    def step(self) -> None:
        """One step down the gradients."""
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.detach().add_(parameter.grad, alpha=-self.lr)


OPTIMIZERS = {"sgd": SGD, "adam": torch.optim.Adam}
EXACT = "exact"


def run_rounds(
    model: Backbone,
    graph: Graph,
    method: BaseMethod,
    loss: Loss,
    settings: dict[str, Any],
    hops: Hops | None,
    progress: Progress | None,
) -> Adaptation:
    """All rounds of the algorithm, and what the last one gave.

    Args:
        model: a trained backbone; it is not changed.
        graph: the target.
        method: the base method.
        loss: what γ minimises.
        settings: every argument of `adapt` that decides the outcome, checked.
        hops: of this model's encoder and graph, if they are at hand.
        progress: called after each round with the rounds done and their number.
    """
    epochs, history = settings["epochs"], History()
    run = Run(model, graph, method, loss, settings, hops)
    exact = settings["optimizer"] == EXACT
    steps = Exact(run) if exact else OPTIMIZERS[settings["optimizer"]](run.moving, settings["lr"])
    first = run.predict()
    run.require_finite()
    pic_before = PIC().value(run.view, first)
    finite = True
    for epoch in range(epochs):
        value = run.descend_direction()
        finite = math.isfinite(value)
        if not finite:
            run.rewind(history)
            break
        history.add(value, run.view.gamma, run.prediction.class_shares)
        run.step(steps)
        run.predict()
        if progress:
            progress(epoch + 1, epochs)
    if not run.prediction.finite:
        finite = False
        run.rewind(history)
        run.require_finite()
    last = run.prediction
    history.add(run.descend_direction(), run.view.gamma, last.class_shares)
    return Adaptation(
        probs=last.probs,
        probs_before=first.probs,
        model=run.model.frozen(),
        gamma=run.gamma.detach().clone(),
        gamma_before=model.gamma.detach().clone(),
        pic_before=pic_before,
        pic_after=PIC().value(run.view, last),
        history=history,
        status=outcome(history, first, last, finite, epochs),
        seconds=run.watch.seconds,
        settings=settings,
        graph=graph,
    )


class Run:
    """The state of one adaptation: a private copy of the model, and what is cached for it.

    Attributes:
        model: the copy that is adapted.
        moving: its parameters that take steps.
        view: the model at the γ of the last prediction.
        prediction: the base method's last answer.
    """

    def __init__(
        self,
        model: Backbone,
        graph: Graph,
        method: BaseMethod,
        loss: Loss,
        settings: dict[str, Any],
        hops: Hops | None,
    ) -> None:
        self.graph, self.method, self.loss, self.settings = graph, method, loss, settings
        self.model = copy.deepcopy(model).frozen()
        self.gamma = self.model.gamma
        self.encoder_stays = settings["moves"] == "gamma"
        self.hops_stay = self.encoder_stays and model.mixes_linearly
        self.moving = _moving_parameters(self.model, settings["moves"])
        self.watch = Stopwatch(graph.device)
        self.z: Repr | None = None
        with self.watch.stage("inference"):
            self.constants = self.model.constants(graph) if self.encoder_stays else None
            self.hops = hops or self._fresh_hops()
        with self.watch.stage("setup"), torch.no_grad():
            self.view = self._fresh_view()
            self.prepared = method.prepare(self.view)
            self.state = method.start(self.view, self.prepared)
            self.loss_prepared = loss.prepare(self.view)

    def predict(self) -> Prediction:
        """Run the base method at the current γ."""
        with self.watch.stage("forward"), torch.no_grad():
            self.view = self._fresh_view()
            if not self.encoder_stays:
                self.prepared = self.method.prepare(self.view)
            if self.settings["restart"]:
                self.state = self.method.start(self.view, self.prepared)
            self.prediction, self.state = self.method.predict(self.view, self.state)
            self.prediction.shard = self.graph.shard
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

    def step(self, steps: "SGD | Exact | torch.optim.Optimizer") -> None:
        """Move, and make anew what is no longer valid."""
        with self.watch.stage("update"):
            steps.step()
        self._refresh()

    def rewind(self, history: History) -> None:
        """Go back to the γ of the last recorded round, and predict there."""
        if history.gamma:
            with torch.no_grad():
                self.gamma.copy_(history.gamma[-1])
            self._refresh()
            self.predict()

    def descend_direction(self) -> float:
        """Leave the gradient on the moving parameters and return the loss.

        Returns NaN if the loss or any part of the gradient is not finite.
        """
        if self.hops_stay:
            return self._from_sums()
        return self._by_autograd()

    def _from_sums(self) -> float:
        own = self.settings["features"] == "base"
        view = self.prediction.own_view(self.view) if own else self.view
        with self.watch.stage("loss"):
            value, slope = self.loss.from_sums(view, self.prediction, self.loss_prepared)
        with self.watch.stage("backward"):
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
        if self.model.mixes_linearly:
            return self.model.hops(self.graph, keyed=False)
        # Kept with its history: the loss of the same round differentiates it.
        self.z = self._representation()
        return Hops(self.z.detach()[:, None], shard=self.graph.shard)

    def _fresh_view(self) -> View:
        gamma = self.gamma.detach().clone()
        return View(self.model, self.graph, self.hops, gamma, self.settings["seed"])


class Exact:
    """Instead of a step: γ goes where the loss is smallest for the last prediction.

    The representation keeps its scale, as the head's softmax was trained for it. Where the loss has
    no minimum γ stays.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    def step(self) -> None:
        """Go there."""
        run = self.run
        best = run.loss.minimiser(run.view, run.prediction, run.loss_prepared)
        total, now = run.hops.gram, run.view.coef_array
        size = best @ total @ best
        if size > 0:
            scale = math.sqrt(now @ total @ now / size)
            run.gamma.detach().copy_(torch.from_numpy(scale * best))


def _moving_parameters(model: Backbone, moves: str) -> list[torch.nn.Parameter]:
    gamma, theta = [model.gamma], model.encoder_parameters()
    moving = {"gamma": gamma, "theta": theta, "both": gamma + theta}[moves]
    for parameter in moving:
        parameter.requires_grad_(True)
    return moving
