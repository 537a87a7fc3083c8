"""The source of a model as a caller gives it: a summary, its file, or the labelled graph itself."""

import copy
import warnings
from pathlib import Path
from typing import TypeAlias

from torch import Tensor

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.evidence.summarising import summarise_source
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.networks.wrap import Foreign
from matcha_gnn.graphs.memory import GraphLike
from matcha_gnn.network.calling import OutputHead

Source: TypeAlias = SourceSummary | str | Path | GraphLike


def with_source(model: Backbone, source: Source) -> Backbone:
    """A copy of a model with a source summary.

    Args:
        model: trained.
        source: a summary, the path of one, or the labelled graph that the model was trained on.

    Raises:
        IncompatibleError: the summary is of another network.

    Warns:
        UserWarning: it cannot be told which network the summary is of.
    """
    found = copy.deepcopy(model)
    if isinstance(source, str | Path):
        source = SourceSummary.load(source)
    if isinstance(source, SourceSummary):
        _require_same_network(model, source)
        found.source = source
    else:
        summarise_source(found, source)
    assert found.source is not None
    classes = len(found.source.class_prior)
    if isinstance(found, Foreign):
        found.classes = classes
    if isinstance(found.head, OutputHead) and not found.head.out_features:
        found.head.widen(classes, found.gamma.detach())
    return found


def _require_same_network(model: Backbone, summary: SourceSummary) -> None:
    """Refuse the summary of another network.

    The model may have been adapted since: then the summary that it carries says which network it
    comes from, or what it was wrapped from.
    """
    present = model.fingerprint
    if summary.network is None or present is None:
        warnings.warn(
            f"source: taken as it is, as it cannot be told whether the summary is of this "
            f"{model.name}: it names no network",
            stacklevel=2,
        )
        return
    carried = None if model.source is None else model.source.network
    wrapped_from = model.origin if isinstance(model, Foreign) else None
    if not any(_same(each, summary.network) for each in (present, carried, wrapped_from)):
        raise IncompatibleError(
            f"source: the summary is of a network with other weights than this {model.name}: make "
            "it again for this one, mg.summarise_source(model, source_graph)"
        )


def _same(one: Tensor | None, other: Tensor) -> bool:
    return one is not None and one.equal(other)
