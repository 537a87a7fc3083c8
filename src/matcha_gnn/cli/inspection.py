"""What `matcha inspect` does: describe a graph, and compare it with a model's source graph."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.text import Text
from torch import Tensor

from matcha_gnn import metrics
from matcha_gnn.adaptation import predict
from matcha_gnn.cli import console
from matcha_gnn.cli.networks import given_model, given_names
from matcha_gnn.diagnosis import diagnose
from matcha_gnn.errors import InvalidArgumentError, NoEvidenceError
from matcha_gnn.evidence.given import with_source
from matcha_gnn.evidence.goals import ACCURACY
from matcha_gnn.evidence.posterior import Interval
from matcha_gnn.gamma.models import Backbone, as_backbone
from matcha_gnn.graphs.memory import GraphLike, unlabelled
from matcha_gnn.io.graphfiles import read_graph


class Asked(NamedTuple):
    """What --metric, --positive and --classes say."""

    metric: str = ACCURACY.name
    positive: str | None = None
    classes: str | None = None


def inspect(
    graph: Path,
    model: Path | None,
    network: str | None,
    weights: Path | None,
    summary: Path | None,
    asked: Asked,
    json: bool,
) -> None:
    """Describe a graph file, beside the source graph of a model where one is given."""
    data = read_graph(graph, check_labels=False, further=network is not None)
    source = None
    if model or network or weights:
        source = as_backbone(given_model(model, network, weights), data)
    elif given := _without_a_model(summary, asked):
        raise InvalidArgumentError(*given, "none without --model or --network")
    if source is not None and summary is not None:
        source = with_source(source, summary)
    view = unlabelled(data)
    facts = view.facts
    target: dict[str, Any] = {
        "nodes": facts.num_nodes,
        "edges": facts.num_edges,
        "features": facts.num_features,
        "average degree": round(metrics.average_degree(view.edge_index, view.num_nodes), 4),
    }
    known = metrics.scorable(data.y, None, view.num_nodes, view.num_nodes)
    target |= _labelled_facts(view.edge_index, known)
    remarks = [*facts.remarks(), *known.remarks]
    beside: dict[str, Any] = {}
    if source is not None:
        result = predict(source, data)
        target["predicted class shares"] = _shares(result.probs.double().sum(0))
        target["mean confidence"] = round(float(result.probs.amax(1).mean()), 4)
        beside = _source_facts(source)
    advice = None
    if source is not None and source.source:
        advice = _advice(source, data, asked, target)
    said = {"graph": target, "remarks": remarks, "source": beside or None}
    said |= {"advice": advice} if advice else {}
    if json:
        console.print_json(said)
        return
    names = [*target, *(name for name in beside if name not in target)]
    header = ["", str(graph), "source graph"] if beside else ["", str(graph)]
    rows = [[n, str(target.get(n, "")), str(beside.get(n, ""))][: len(header)] for n in names]
    console.print_rows("Graph", header, rows)
    for remark in remarks:
        console.out.print(Text(remark))
    if advice:
        console.out.print(f"Advice: {advice['advice']}. {advice['reason']}")


def _without_a_model(summary: Path | None, asked: Asked) -> tuple[str, object] | None:
    """An option that says nothing where there is no model, and what was given."""
    given = {"--source": summary, "--positive": asked.positive, "--classes": asked.classes}
    given["--metric"] = None if asked.metric == ACCURACY.name else asked.metric
    return next(((name, value) for name, value in given.items() if value is not None), None)


def _labelled_facts(edge_index: Tensor, known: metrics.Scorable) -> dict[str, Any]:
    """What the nodes with a known class, and the edges between them, say of the classes."""
    if not known.number:
        return {}
    edges = edge_index[:, known.mask[edge_index].all(0)]
    return {
        "edge homophily": round(metrics.edge_homophily(edges, known.labels), 4),
        "node homophily": round(metrics.node_homophily(edges, known.labels), 4),
        "class shares": _shares(torch.bincount(known.labels[known.mask]).double()),
    }


def _advice(
    model: Backbone, data: GraphLike, asked: Asked, target: dict[str, Any]
) -> dict[str, Any]:
    """What the shift card estimates, put among the facts, and what it advises."""
    metric, positive, classes = asked
    try:
        card = diagnose(model, data, metric=metric, positive=positive, classes=given_names(classes))
    except NoEvidenceError as error:
        return {"advice": "cannot tell", "reason": str(error)}
    found = card.estimate
    target["expected accuracy"] = _bounded(Interval(found.value, found.low, found.high))
    if metric != ACCURACY.name:
        target[f"expected {card.metric}"] = _bounded(card.expected[0])
    if not found.reason:
        per_class = found.per_class.tolist()
        target["expected accuracy per class"] = _listed([f"{each:.3f}" for each in per_class])
    target["estimated homophily"] = round(card.homophily[1], 4)
    target["estimated class shares"] = _shares(card.class_shares[1].double())
    target["node features"] = str(card.features)
    target["drift of node features"] = round(card.drift, 2)
    return {"advice": card.advice, "reason": card.reason}


def _source_facts(model: Backbone) -> dict[str, Any]:
    if model.source is None:
        return {"note": "there is no source summary"}
    facts: dict[str, Any] = {
        "average degree": round(float(model.source.mean_degree), 4),
        "edge homophily": round(model.source.edge_homophily, 4),
        "class shares": _shares(model.source.class_prior.double()),
        "accuracy": round(float(model.source.accuracy), 4),
        "measured on": model.source.basis,
    }
    # Networks of others do not say it.
    return facts | ({"features": model.in_channels} if model.in_channels else {})


def _bounded(found: Interval) -> str:
    if math.isnan(found.value):
        return "cannot tell"
    return f"{found.value:.3f} (90% interval {found.low:.3f} to {found.high:.3f})"


def _shares(counts: Tensor) -> str:
    return _listed([f"{share:.3f}" for share in (counts / counts.sum()).tolist()])


def _listed(values: list[str]) -> str:
    text = ", ".join(values[:10])
    return text + (f", … ({len(values)} classes)" if len(values) > 10 else "")
