"""The source of a model as a caller gives it: a summary, its file, or the labelled graph itself."""

import copy
from pathlib import Path
from typing import TypeAlias

from matcha_gnn.backbones import Backbone
from matcha_gnn.backbones.foreign.calling import OutputHead
from matcha_gnn.evidence.summarising import summarise_source
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.graphs.memory import GraphLike

Source: TypeAlias = SourceSummary | str | Path | GraphLike


def with_source(model: Backbone, source: Source) -> Backbone:
    """A copy of a model with a source summary.

    Args:
        model: trained.
        source: a summary, the path of one, or the labelled graph that the model was trained on.
    """
    found = copy.deepcopy(model)
    if isinstance(source, str | Path):
        found.source = SourceSummary.load(source)
    elif isinstance(source, SourceSummary):
        found.source = source
    else:
        summarise_source(found, source)
    assert found.source is not None
    if isinstance(found.head, OutputHead) and not found.head.out_features:
        found.head.widen(len(found.source.class_prior), found.gamma.detach())
    return found
