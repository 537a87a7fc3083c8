"""Step 6: Algorithm 1 of the paper.

Each round the base method predicts, then γ takes one step down the loss; after the last step the
base method predicts once more. For models that mix cached hops linearly a round reads the hops
once and needs no autograd graph.
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch

from matcha_gnn.backbones import Backbone
from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.graph import Graph, GraphLike, unlabelled
from matcha_gnn.hops import Hops
from matcha_gnn.losses import PIC, Loss
from matcha_gnn.methods import ERM, BaseMethod, Prediction, View
from matcha_gnn.result import Adaptation, History, outcome
from matcha_gnn.timing import Stopwatch
from matcha_gnn.typing import Progress


class SGD:
    """Plain gradient steps. `torch.optim.SGD` spends longer on bookkeeping than on K+1 numbers."""

    def __init__(self, parameters: list[torch.nn.Parameter], lr: float) -> None:
        self.parameters, self.lr = parameters, lr

    @torch.no_grad()
    def step(self) -> None:
        """One step down the gradients."""
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=-self.lr)


OPTIMIZERS = {"sgd": SGD, "adam": torch.optim.Adam}
MOVES = ("gamma", "theta", "both")
Objective = Callable[[View, Prediction, Stopwatch], float]


def adapt(
    model: Backbone,
    graph: GraphLike,
    method: BaseMethod | None = None,
    loss: Loss | None = None,
    *,
    epochs: int = 50,
    lr: float = 1.0,
    optimizer: str = "sgd",
    moves: str = "gamma",
    restart: bool = True,
    hops: Hops | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Adaptation:
    """Adapt a trained model to an unlabelled graph whose structure differs from the source's.

    Args:
        model: a trained backbone; it is not changed.
        graph: a PyG `Data`, or anything with `x` [N, F] and `edge_index` [2, E]; labels are not
            read and nothing is changed.
        method: the base method that predicts in each round; ERM by default.
        loss: what γ minimises; PIC by default.
        epochs: rounds; 0 gives the base method's prediction without adaptation.
        lr: step size.
        optimizer: "sgd", as in the published runs, or "adam".
        moves: which parameters take the steps: "gamma"; "theta", the encoder; or "both".
        restart: run the base method from its start in each round; otherwise it carries on.
        hops: `model.hops(graph)` from an earlier call, checked against both; else made here.
        seed: for base methods that draw at random.
        progress: called after each round with the rounds done and their number.

    Returns:
        Predictions, the adapted copy, history, status and timings.

    Raises:
        InvalidArgumentError, InvalidGraphError: bad input, before any work.
        IncompatibleError: the model lacks what the method needs.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> result = mg.adapt(mg.GPRGNN(8, 2), graph, epochs=2)
        >>> result.probs.shape, len(result.history.loss)
        (torch.Size([100, 2]), 3)
    """
    method, loss = method or ERM(), loss or PIC()
    settings = _checked_settings(method, loss, epochs, lr, optimizer, moves, restart, seed)
    target = unlabelled(graph)
    model.accept(target.x)
    method.require(model)

    adapted = copy.deepcopy(model).frozen()
    watch, history = Stopwatch(target.x.device), History()
    moving = _moving_parameters(adapted, moves)
    steps = OPTIMIZERS[optimizer](moving, lr=lr)
    objective = _objective(adapted, loss, target, moves)

    with watch.stage("inference"):
        hops = hops.require(model.hops_key(target)) if hops else adapted.hops(target, keyed=False)
        first_view = _view(adapted, target, hops, seed)
        state = method.start(first_view)
        first, _ = method.predict(first_view, state)
    with watch.stage("setup"):
        loss.prepare(hops)

    finite = True
    for epoch in range(epochs):
        with watch.stage("forward"), torch.no_grad():
            hops = hops if moves == "gamma" else adapted.hops(target, keyed=False)
            view = _view(adapted, target, hops, seed)
            prediction, state = method.predict(view, method.start(view) if restart else state)
        value = objective(view, prediction, watch)
        finite = math.isfinite(value)
        if not finite:
            break
        history.add(value, view.gamma, prediction.class_shares)
        with watch.stage("update"):
            steps.step()
        if progress:
            progress(epoch + 1, epochs)

    with watch.stage("forward"), torch.no_grad():
        hops = hops if moves == "gamma" else adapted.hops(target, keyed=False)
        view = _view(adapted, target, hops, seed)
        last, _ = method.predict(view, method.start(view) if restart else state)
    history.add(objective(view, last, watch), view.gamma, last.class_shares)

    return Adaptation(
        probs=last.probs,
        probs_before=first.probs,
        model=adapted.frozen(),
        gamma=adapted.gamma.detach().clone(),
        gamma_before=model.gamma.detach().clone(),
        pic_before=PIC().value(first_view, first),
        pic_after=PIC().value(view, last),
        history=history,
        status=outcome(history, first.probs, last.probs, finite, epochs),
        seconds=watch.seconds,
        settings=settings,
    )


def _view(model: Backbone, graph: Graph, hops: Hops, seed: int) -> View:
    return View(model, graph, hops, model.gamma.detach().clone(), seed)


def _moving_parameters(model: Backbone, moves: str) -> list[torch.nn.Parameter]:
    gamma, theta = [model.gamma], model.encoder_parameters()
    moving = {"gamma": gamma, "theta": theta, "both": gamma + theta}[moves]
    for parameter in moving:
        parameter.requires_grad_(True)
    return moving


def _objective(model: Backbone, loss: Loss, graph: Graph, moves: str) -> Objective:
    """A function that leaves the gradient on the moving parameters and returns the loss.

    It returns NaN if the loss or any part of the gradient is not finite.
    """

    def from_sums(view: View, prediction: Prediction, watch: Stopwatch) -> float:
        with watch.stage("loss"), torch.no_grad():
            value, slope = loss.from_sums(view, prediction)
        with watch.stage("backward"):
            model.gamma.grad = model.gamma_gradient(view.gamma, torch.from_numpy(slope))
        return value if math.isfinite(slope.sum()) else math.nan

    def by_autograd(view: View, prediction: Prediction, watch: Stopwatch) -> float:
        with watch.stage("forward"):
            model.zero_grad()
            z = model.representation(graph)
        with watch.stage("loss"):
            value = loss(z, model.head(z), prediction.probs)
        with watch.stage("backward"):
            value.backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        finite = all(bool(g.isfinite().all()) for g in gradients)
        return float(value.detach()) if finite else math.nan

    return from_sums if moves == "gamma" and model.mixes_linearly else by_autograd


def _checked_settings(
    method: BaseMethod,
    loss: Loss,
    epochs: int,
    lr: float,
    optimizer: str,
    moves: str,
    restart: bool,
    seed: int,
) -> dict[str, Any]:
    if epochs < 0:
        raise InvalidArgumentError("epochs", epochs, "an integer >= 0")
    if not (math.isfinite(lr) and lr > 0):
        raise InvalidArgumentError("lr", lr, "a number > 0")
    if optimizer not in OPTIMIZERS:
        raise InvalidArgumentError("optimizer", repr(optimizer), ", ".join(OPTIMIZERS))
    if moves not in MOVES:
        raise InvalidArgumentError("moves", repr(moves), ", ".join(MOVES))
    return {
        "method": method.name,
        "method_settings": method.settings(),
        "loss": loss.name,
        "loss_settings": loss.settings(),
        "epochs": epochs,
        "lr": lr,
        "optimizer": optimizer,
        "moves": moves,
        "restart": restart,
        "seed": seed,
    }
