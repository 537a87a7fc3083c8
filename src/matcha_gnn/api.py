"""What a user calls: adapt, estimate, diagnose. Checks at the top, then a straight line."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import torch
from torch import Tensor

from matcha_gnn.candidates import SOURCE, AnsweringNetwork, Proposal, Rating, choose, proposals
from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    NoEvidenceError,
    NonFiniteError,
    NotAdaptedWarning,
)
from matcha_gnn.evidence.alone import stand_in_summary
from matcha_gnn.evidence.features import compare as compare_features
from matcha_gnn.evidence.goals import Wanted, checked_names
from matcha_gnn.evidence.posterior import Posterior, infer
from matcha_gnn.evidence.summarising import summarised
from matcha_gnn.evidence.summary import Source, SourceSummary
from matcha_gnn.graphs.memory import Graph, GraphLike, unlabelled
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.network.batches import Loader
from matcha_gnn.network.network import Network, as_network, require_finite, require_precision
from matcha_gnn.result import Result, class_counts_of
from matcha_gnn.shift import ShiftCard, shift_card
from matcha_gnn.typing import Parameters, Probs

NO_SUMMARY = (
    "accuracy cannot be estimated without statistics of the source graph, so the model is returned "
    "unadapted. Make them with summary = mg.summarise_source(model, source_graph), and give "
    "source=summary"
)


class Strategy(Protocol):
    """An algorithm that seeks another model and compares nothing, such as `mg.Matcha()`."""

    def run(self, network: Network, graph: Graph, class_names: tuple[str, ...]) -> Result:
        """What it makes of a private copy of the network on the target."""


def adapt(
    model: Any,
    graph: GraphLike,
    *,
    source: Source | None = None,
    strategy: Strategy | None = None,
    metric: str = "accuracy",
    positive: int | str | None = None,
    classes: Sequence[str] | None = None,
    loader: Loader | None = None,
    logits: bool = False,
) -> Result:
    """Adapt a classifier of nodes to an unlabelled graph that differs from the one it knows.

    Its own answer is compared with what features, edges and network say together. It is kept unless
    another answer is expected to be better, with a lower bound above zero; nothing needs tuning.

    Args:
        model: a trained PyG network or backbone as it is, which is not changed; or its class
            probabilities [N, C], as a tensor or an array; or a function that makes them of a
            `Data`. A network is called with the fields of the graph that its `forward` names.
        graph: a PyG `Data`, or anything with `x` [N, F] and `edge_index` [2, E]; labels are not
            read and nothing is changed.
        source: of the model, where it does not carry it: what `summarise_source` returned, the
            path that it was saved to, or the labelled graph itself.
        strategy: an algorithm to run instead, which compares nothing: `mg.Matcha()` is that of the
            paper, `mg.T3A()` a base method alone.
        metric: what is to be high: "accuracy", "balanced_accuracy", "macro_f1", "f1" or
            "average_precision". It is estimated without labels.
        positive: the class that "f1" and "average_precision" are of, by number or name; by default
            the rarer of two classes on the source.
        classes: names of the classes, [C], for sentences and pages; by default the graph's
            `class_names`, those that were saved with the model, or else numbers.
        loader: through which a network of PyG's runs: batches of `graph` with `batch_size` and
            `n_id`, such as a `NeighborLoader` over all nodes, or a function that makes them of a
            `Data`. Graphs that such batches do not sample run in one batch.
        logits: given numbers are logits, not probabilities.

    Returns:
        Predictions, candidates with estimates, the one that was taken and why.

    Raises:
        InvalidArgumentError, InvalidGraphError: bad input, before any work.
        IncompatibleError: model, graph, source or strategy do not fit each other.

    Warns:
        NotAdaptedWarning: the model is returned as it is, because accuracy cannot be estimated.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> mg.adapt(model, target).chosen
        'pool'
    """
    wanted = wanted_by(metric, positive, classes, graph, model)
    if strategy is not None:
        return run_strategy(strategy, model, graph, source, wanted, loader, logits=logits)
    result = compare(model, graph, source, wanted, loader, logits=logits)
    if result.obstacle:
        warnings.warn(f"not adapted: {result.obstacle}", NotAdaptedWarning, stacklevel=2)
    return result


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """How right a classifier is expected to be on a graph without labels.

    Attributes:
        metric: what is estimated, such as "accuracy" or "F1 of fraud".
        value: the estimate; NaN where it cannot be told.
        low: lower bound that holds nine times in ten.
        high: upper bound.
        per_class: expected share of true labels among nodes that are given each class, [C]; NaN
            for a class that no node is given.
        classes: their names, or numbers.
        reason: why it cannot be told, or empty.
    """

    metric: str
    value: float
    low: float
    high: float
    per_class: Tensor
    classes: tuple[str, ...]
    reason: str = ""

    def __repr__(self) -> str:
        """One line."""
        if self.reason:
            return f"Estimate({self.reason})"
        return (
            f"Estimate({self.metric} {self.value:.1%}, 90% interval {self.low:.1%} to "
            f"{self.high:.1%})"
        )

    def to_dict(self) -> Parameters:
        """JSON values."""
        per_class = dict(zip(self.classes, self.per_class.tolist(), strict=True))
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        return {"metric": self.metric, **numbers, "per_class": per_class, "reason": self.reason}


def estimate(
    model: Any,
    graph: GraphLike,
    *,
    source: Source | None = None,
    metric: str = "accuracy",
    positive: int | str | None = None,
    classes: Sequence[str] | None = None,
    loader: Loader | None = None,
    logits: bool = False,
) -> Estimate:
    """Estimate how right a classifier is on a graph without labels; arguments as in `adapt`.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> accuracy = mg.estimate(model, target)
        >>> truth = float((mg.predict(model, target).labels == target.y).double().mean())
        >>> accuracy.low <= truth <= accuracy.high
        True
    """
    wanted = wanted_by(metric, positive, classes, graph, model)
    return estimated(compare(model, graph, source, wanted, loader, logits=logits, proposing=False))


def estimated(result: Result) -> Estimate:
    """The estimate of the network's own answer, from a result."""
    number, source = result.probs.shape[1], result.candidates[0]
    posterior, reason = result.posterior, result.obstacle
    if result.stood_in:
        reason = "accuracy cannot be estimated without statistics of the source graph"
    about = result.goal.title, *source.goal
    if posterior is None or reason:
        nothing = torch.full((number,), math.nan)
        return Estimate(result.goal.title, math.nan, 0.0, 1.0, nothing, result.classes, reason)
    labels = result.labels_before
    hits = posterior.probs.gather(1, labels[:, None].to(posterior.probs.device))[:, 0].cpu()
    counts = torch.bincount(labels.cpu(), minlength=number)
    sums = torch.zeros(number, dtype=hits.dtype).index_add_(0, labels.cpu(), hits)
    return Estimate(*about, (sums / counts).float(), result.classes)


def diagnose(
    model: Any,
    graph: GraphLike,
    *,
    source: Source | None = None,
    metric: str = "accuracy",
    positive: int | str | None = None,
    classes: Sequence[str] | None = None,
    loader: Loader | None = None,
    logits: bool = False,
) -> ShiftCard:
    """Say how a target graph differs from the source; arguments as in `adapt`.

    Raises:
        IncompatibleError: there is no source summary.

    Example:
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> card = mg.diagnose(model, target)
        >>> card.advice, [round(h, 1) for h in card.homophily]
        ('adapt', [0.9, 0.1])
    """
    wanted = wanted_by(metric, positive, classes, graph, model)
    result = compare(model, graph, source, wanted, loader, logits=logits)
    if result.source is None:
        raise IncompatibleError(
            "diagnose needs a source summary: give source=mg.summarise_source(model, "
            "source_graph), or train the model with mg.fit"
        )
    return shift_card(result, result.source)


def wanted_by(
    metric: str,
    positive: int | str | None,
    classes: Sequence[str] | None,
    graph: object,
    model: object = None,
) -> Wanted:
    """What a caller wants to be high; classes are also named by the graph, or a loaded network."""
    names = getattr(graph, "class_names", None) if classes is None else classes
    if names is None and isinstance(model, Network):
        names = model.class_names or None
    return Wanted(metric, positive, checked_names(names))


@plain_torch()
def run_strategy(
    strategy: Strategy,
    model: Any,
    graph: GraphLike,
    source: Source | None,
    wanted: Wanted,
    loader: Loader | None,
    *,
    logits: bool = False,
) -> Result:
    """Run an algorithm that compares nothing."""
    if isinstance(strategy, type) or not callable(getattr(strategy, "run", None)):
        got = f"the class {strategy.__name__}" if isinstance(strategy, type) else repr(strategy)
        raise InvalidArgumentError("strategy", got, "None, or a strategy such as mg.Matcha()")
    if not wanted.is_default:
        allowed = "accuracy with a strategy, which compares no candidates by it"
        raise InvalidArgumentError("metric", repr(wanted.metric), allowed)
    network, target = checked(model, graph, source, loader, logits=logits)
    return strategy.run(network, target, wanted.classes)


def checked(
    model: Any,
    graph: GraphLike,
    source: Source | None,
    loader: Loader | None,
    *,
    logits: bool = False,
) -> tuple[Network, Graph]:
    """A private copy of the network with its source summary, and the graph without labels."""
    target = unlabelled(graph)
    network = as_network(model, target, loader, logits=logits)
    network.source = known_source(network, source)
    if network.source is not None:
        network.expect(len(network.source.class_prior))
    require_precision(network)
    require_finite(network)
    network.accept(target.x)
    return network, target


def known_source(network: Network, source: Source | None) -> SourceSummary | None:
    """The source summary as a caller gives it, or that the network carries.

    Args:
        network: a private copy.
        source: a summary, the path of one, or the labelled graph that the network was trained on.

    Raises:
        IncompatibleError: the summary is of another network.
    """
    if source is None:
        carried: SourceSummary | None = network.source
        return carried
    if isinstance(source, str | Path):
        source = SourceSummary.load(source)
    if not isinstance(source, SourceSummary):
        return summarised(network, source)
    source.require_network(network)
    return source


@plain_torch()
@torch.no_grad()
def compare(
    model: Any,
    graph: GraphLike,
    source: Source | None,
    wanted: Wanted,
    loader: Loader | None = None,
    *,
    logits: bool = False,
    proposing: bool = True,
) -> Result:
    """Rate the network's own answer and others, and take the best; `adapt` without its warning.

    Args:
        model: see `adapt`.
        graph: see `adapt`.
        source: see `adapt`.
        wanted: metric and names of the classes.
        loader: see `adapt`.
        logits: see `adapt`.
        proposing: try other answers, too.
    """
    start = perf_counter()
    network, target = checked(model, graph, source, loader, logits=logits)
    answering = network if isinstance(network, AnsweringNetwork) else None
    inner = answering.network if answering else network
    seconds = {"checks": perf_counter() - start}

    start = perf_counter()
    own = inner.probs(target)
    if not bool(own.isfinite().all()):
        # They would still have a largest class.
        raise NonFiniteError(
            f"the predictions of {inner.name} on this graph are not finite: its features or edge "
            "weights are too large for the model's weights"
        )
    goal = wanted.goal(own.shape[1], network.source.class_prior if network.source else None)
    seconds["network"] = perf_counter() - start

    start = perf_counter()
    summary, posterior, obstacle, broken = evidence_of(network, target, own, wanted)
    probs = own
    if answering and posterior is not None:
        probs = answering.answer.log_probs(posterior, own).exp()
    before = Proposal(SOURCE, probs, network.frozen())
    rate = Rating(goal, None if obstacle else posterior, before)
    candidates = [rate(before)]
    if proposing and posterior is not None and summary is not None:
        tried = map(rate, proposals(inner.frozen(), summary, posterior, own, goal))
        candidates += [one for one in tried if bool(one.probs.isfinite().all())]
    seconds["evidence"] = perf_counter() - start
    return Result(
        graph=target,
        candidates=tuple(candidates),
        chosen=SOURCE if obstacle else choose(candidates, goal).name,
        goal=goal,
        source=network.source,
        posterior=posterior,
        obstacle=obstacle,
        broken=broken,
        class_names=wanted.classes,
        seconds=seconds,
    )


def evidence_of(
    network: Network, graph: Graph, probs: Probs, wanted: Wanted
) -> tuple[SourceSummary | None, Posterior | None, str, bool]:
    """The summary that evidence rests on, the evidence, why nothing can be told, and if broken.

    Without a source summary the network's own labels of the target stand in, where that is safe.
    """
    summary, broken = network.source, ""
    try:
        if summary is None:
            summary, posterior = alone(graph, probs)
        else:
            summary.require(graph.num_features, probs.shape[1])
            broken = compare_features(summary.features, graph).problem
            unknown = summary.without_label(class_counts_of(probs), wanted.classes)
            if unknown:
                raise NoEvidenceError(unknown)
            posterior = infer(summary, graph, probs)
        if not bool(posterior.probs.isfinite().all()):
            raise NoEvidenceError("accuracy cannot be estimated: the estimate is not finite")
    except NoEvidenceError as reason:
        return summary, None, broken or str(reason), bool(broken)
    return summary, posterior, broken or posterior.rejected, bool(broken)


def alone(graph: Graph, probs: Probs) -> tuple[SourceSummary, Posterior]:
    """A stand-in for the source summary, by the network's own labels of the target."""
    try:
        stand_in = stand_in_summary(graph, probs)
    except NoEvidenceError as reason:
        raise NoEvidenceError(f"{NO_SUMMARY}. Without them: {reason}") from reason
    return stand_in.summary, infer(stand_in.summary, graph, probs, stand_in.logits)
