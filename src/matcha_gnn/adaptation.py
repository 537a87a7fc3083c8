"""The front door: check what was given, then adapt, guarded or as published."""

import logging
from collections.abc import Sequence
from typing import Any

from matcha_gnn.backbones import Backbone
from matcha_gnn.backbones.checks import require_finite, require_precision
from matcha_gnn.callbacks import Callback
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, require_kind
from matcha_gnn.graphs.memory import GraphLike
from matcha_gnn.graphs.stored import GraphStore, target_of
from matcha_gnn.hops import Hops
from matcha_gnn.losses import PIC, Loss
from matcha_gnn.methods import ERM, BaseMethod
from matcha_gnn.monitoring.progress import LateBar
from matcha_gnn.result import Adaptation
from matcha_gnn.strategies.guarded import protected
from matcha_gnn.strategies.matcha import EXACT, OPTIMIZERS, run_rounds
from matcha_gnn.typing import Progress

logger = logging.getLogger(__name__)

MOVES = ("gamma", "theta", "both")
FEATURES = ("source", "base")


def adapt(
    model: Backbone,
    graph: GraphLike | GraphStore,
    method: BaseMethod | None = None,
    loss: Loss | None = None,
    *,
    protect: bool = True,
    epochs: int = 50,
    lr: float = 1.0,
    optimizer: str = "sgd",
    moves: str = "gamma",
    restart: bool = True,
    features: str = "source",
    hops: Hops | None = None,
    memory: int | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
) -> Adaptation:
    """Adapt a trained model to an unlabelled graph whose structure differs from the source's.

    By default hop weights are fitted to what own features and neighbours say about each node's
    class, and the result is kept only where it is expected to be right on at least two nodes in a
    hundred more than the source model; nothing needs tuning. `protect=False, loss=PIC()` is the
    published algorithm: a fixed number of steps down the loss, the last one kept.

    Args:
        model: a trained backbone; it is not changed.
        graph: a PyG `Data`, or anything with `x` [N, F] and `edge_index` [2, E]; labels are not
            read and nothing is changed. A `GraphStore` is streamed from its folder.
        method: the base method that predicts in each round; ERM by default.
        loss: what γ minimises in rounds. None with `protect`: hop weights are fitted, and rounds
            of PIC are run only for models whose hops cannot be cached. None without: PIC.
        protect: keep the source model unless another is expected to be better. Needs the summary
            of the source that `fit` or `remember_source` put into the model.
        epochs: rounds; 0 gives the base method's prediction without adaptation.
        lr: step size of the rounds.
        optimizer: "sgd", as in the published runs; "adam"; or "exact", which has no step size and
            puts γ where the loss is smallest for the round's predictions, for losses that know.
        moves: which parameters take the steps: "gamma"; "theta", the encoder; or "both".
        restart: run the base method from its start in each round; otherwise it carries on.
        features: whose representation enters the loss where the base method changes it: the
            "source" model's at the current γ, as in the published runs, or the "base" method's.
        hops: `model.hops(graph)` from an earlier call, checked against both; else made here.
        memory: for a store: the most that may be resident, such as "4GB"; half of what is free by
            default. For a graph on a GPU: what hops may take there; beyond it they stay in host
            memory and are streamed.
        seed: for base methods that draw at random.
        progress: called after each round with the rounds done and their number; by default a
            bar on a terminal, once a run has lasted a second.
        callbacks: told of the recorded rounds and of the end; `mg.callbacks` has some.

    Returns:
        Predictions, the adapted copy, history, status and timings.

    Raises:
        InvalidArgumentError, InvalidGraphError: bad input, before any work.
        IncompatibleError: the model lacks what the method needs.
        NonFiniteError: predictions on this graph are not finite numbers.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> mg.adapt(model, target).status
        <Status.ADAPTED: 'adapted'>
    """
    method = method or ERM()
    settings = checked(
        model,
        method,
        loss,
        protect=protect,
        epochs=epochs,
        lr=lr,
        optimizer=optimizer,
        moves=moves,
        restart=restart,
        features=features,
        seed=seed,
    )
    target = target_of(graph, model, method, settings, memory)
    _, block = next(target.blocks())
    model.accept(block.x)
    if hops is not None:
        hops.require(model.hops_key(target))
    logger.info("adapting to %d nodes with %s", target.num_nodes, settings)
    progress = progress or LateBar("adapting")
    if protect and epochs > 0:
        result = protected(model, target, method, loss, settings, hops, progress)
    else:
        result = run_rounds(model, target, method, loss or PIC(), settings, hops, progress)
    logger.info("%r in %.2f s", result, sum(result.seconds.values()))
    for callback in callbacks:
        callback.on_result(result)
    return result


def checked(model: Backbone, method: BaseMethod, loss: Loss | None, **given: Any) -> dict[str, Any]:
    """Every argument that decides the outcome, for the loop and for the record.

    Raises:
        InvalidArgumentError: bad input.
        IncompatibleError: the model lacks what the method or the loss needs.
    """
    _require_kinds(model, method, loss or PIC())
    require_precision(model)
    require_finite(model)
    settings = _checked_settings(method, loss, **given)
    _require(model, method, loss or PIC(), settings)
    return settings


def _require_kinds(model: object, method: object, loss: object) -> None:
    """The three parts are objects of ours; the usual slips are told how to mend them."""
    yours = "a Backbone; a PyG network of your own becomes one by mg.wrap(net)"
    require_kind("model", model, Backbone, yours)
    require_kind("method", method, BaseMethod, "a BaseMethod, such as mg.T3A()")
    require_kind("loss", loss, Loss, "a Loss, such as mg.PIC()")


def _checked_settings(method: BaseMethod, loss: Loss | None, **given: Any) -> dict[str, Any]:
    if given["epochs"] < 0:
        raise InvalidArgumentError("epochs", given["epochs"], "an integer >= 0")
    if not 0 < given["lr"] < 1e30:
        raise InvalidArgumentError("lr", given["lr"], "a number > 0 and below 1e30")
    choices = {"optimizer": (*OPTIMIZERS, EXACT), "moves": MOVES, "features": FEATURES}
    for name, allowed in choices.items():
        if given[name] not in allowed:
            raise InvalidArgumentError(name, repr(given[name]), ", ".join(allowed))
    if given["optimizer"] == EXACT and given["moves"] != "gamma":
        raise InvalidArgumentError("moves", repr(given["moves"]), "gamma, with optimizer 'exact'")
    if loss is None and not given["protect"]:
        loss = PIC()
    own = {"method": method.name, "method_settings": method.settings()}
    objective = {
        "loss": None if loss is None else loss.name,
        "loss_settings": {} if loss is None else loss.settings(),
    }
    return own | objective | given


def _require(model: Backbone, method: BaseMethod, loss: Loss, settings: dict[str, Any]) -> None:
    """Raise IncompatibleError for what the model lacks."""
    method.require(model)
    if loss.needs_filter and not (settings["moves"] == "gamma" and model.is_filter):
        raise IncompatibleError(
            f"loss {loss.name!r} needs moves 'gamma' and a model that is a filter of its own logits"
        )
    if settings["optimizer"] == EXACT and not model.gamma_is_coefficients:
        raise IncompatibleError(
            f"optimizer 'exact' needs hop weights that are free; those of {model.name} "
            "are a function of γ"
        )
    if settings["features"] == "base" and not model.mixes_linearly:
        raise IncompatibleError(f"features: 'base' needs cached hops, which {model.name} has not")
