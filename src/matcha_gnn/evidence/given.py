"""The source of a model as a caller gives it: a summary, its file, or the labelled graph itself."""

import warnings
from pathlib import Path
from typing import TypeAlias

from torch import Tensor

from matcha_gnn.errors import IncompatibleError
from matcha_gnn.evidence.summarising import summarised
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.graphs.memory import GraphLike
from matcha_gnn.network.network import ModuleNetwork, Network

Source: TypeAlias = SourceSummary | str | Path | GraphLike


def given_source(network: Network, source: Source) -> SourceSummary:
    """The source summary of a network as a caller gives it.

    Args:
        network: a private copy.
        source: a summary, the path of one, or the labelled graph that the network was trained on.

    Raises:
        IncompatibleError: the summary is of another network.

    Warns:
        UserWarning: it cannot be told which network the summary is of.
    """
    if isinstance(source, str | Path):
        source = SourceSummary.load(source)
    if not isinstance(source, SourceSummary):
        return summarised(network, source)
    _require_same_network(network, source)
    return source


def _require_same_network(network: Network, summary: SourceSummary) -> None:
    """Refuse the summary of another network.

    The model may have been adapted since: then the summary that it carries says which network it
    comes from, or what it was wrapped from.
    """
    present = network.fingerprint
    if summary.network is None or present is None:
        warnings.warn(
            f"source: taken as it is, as it cannot be told whether the summary is of "
            f"{network.title}: one of them has no weights",
            stacklevel=2,
        )
        return
    carried = None if network.source is None else network.source.network
    wrapped_from = network.origin if isinstance(network, ModuleNetwork) else None
    if not any(_same(each, summary.network) for each in (present, carried, wrapped_from)):
        raise IncompatibleError(
            f"source: the summary is of a network with other weights than this {network.name}: "
            "make it again for this one, mg.summarise_source(model, source_graph)"
        )


def _same(one: Tensor | None, other: Tensor) -> bool:
    return one is not None and one.equal(other)
