"""Curves over the rounds, computed again on a sample of nodes from the γ of each round.

The loop does not record them, as that would slow down every round.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.backbones import Backbone, LinearBackbone
from matcha_gnn.functional import entropy, pic
from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.graphs.memory import whole_in_memory
from matcha_gnn.report.figures import Picture, drawn_rounds, text, thinned
from matcha_gnn.report.svg import COLOURS, INK, inline_svg, sheet
from matcha_gnn.result import Adaptation
from matcha_gnn.streams import Purpose, numpy_stream
from matcha_gnn.typing import FloatArray, Repr

MAX_NODES = 1500
"""Nodes in the sample; more would overlap on a map and make a large page."""
MIN_SHARE = 1e-9

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Replay:
    """Curves over the rounds that are drawn, on the sample.

    Attributes:
        rounds: their numbers.
        pic: the PIC loss.
        infomax: entropy of the mean prediction less the mean entropy, in nats.
        churn: share of labels that differ from the round drawn before; 0 in the first.
    """

    rounds: IntArray
    pic: FloatArray
    infomax: FloatArray
    churn: FloatArray


def sample_nodes(num_nodes: int) -> IntArray:
    """At most `MAX_NODES` nodes, the same ones every time, in order."""
    order = numpy_stream(0, Purpose.SHOWN_NODES).permutation(num_nodes)[:MAX_NODES]
    return np.sort(order).astype(np.int64)


def sample_text(shown: IntArray, total: int) -> str:
    """Which nodes these are, in words."""
    return f"{len(shown):,} of {total:,}, drawn at random" if len(shown) < total else "all"


@torch.no_grad()
def representations(
    model: Backbone, graph: BaseGraph, shown: IntArray, gammas: Sequence[Tensor]
) -> Iterator[Repr]:
    """Z of the shown nodes at each γ, [n, D]."""
    rows = torch.from_numpy(shown).to(graph.device)
    if isinstance(model, LinearBackbone):
        stack = model.hops(graph, keyed=False).stack[rows]
        for gamma in gammas:
            yield torch.einsum("k,nkd->nd", model.hop_weights(gamma).to(stack), stack)
        return
    moved, local = copy.deepcopy(model), whole_in_memory(graph, "the report")
    for gamma in gammas:
        moved.gamma.copy_(gamma)
        yield moved.representation(local)[rows]


@torch.no_grad()
def replay(result: Adaptation) -> Replay | None:
    """The curves; None without rounds, for models without cached hops, or where θ moved."""
    recorded = not result.decision and result.moves == "gamma"
    if not (recorded and isinstance(result.model, LinearBackbone)):
        return None
    rounds = drawn_rounds(len(result.trace.gamma))
    gammas = [result.trace.gamma[t] for t in rounds]
    values, labels = [], []
    shown = sample_nodes(len(result.labels))
    for z in representations(result.model, result.graph, shown, gammas):
        probs = result.model.head(z).softmax(-1)
        spread = entropy(probs.mean(0, keepdim=True)) - entropy(probs).mean()
        values.append((float(pic(z, probs, MIN_SHARE)), float(spread)))
        labels.append(probs.argmax(1))
    moves = [float((a != b).double().mean()) for a, b in zip(labels, labels[1:], strict=False)]
    found = np.array(values)
    return Replay(rounds, found[:, 0], found[:, 1], np.array([0.0, *moves]))


def round_curves(result: Adaptation) -> Picture | None:
    """InfoMax and churn over the rounds, and PIC where it was not the loss."""
    done = replay(result)
    if done is None or len(done.rounds) < 2 or not np.isfinite([done.pic, done.infomax]).all():
        return None
    curves = {"InfoMax, nats": done.infomax, "labels changed": done.churn}
    if result.loss_name != "pic":
        curves = {"PIC": done.pic} | curves
    with sheet(1.2 * len(curves) + 0.5) as (figure, axes):
        axes.remove()
        panels = figure.subplots(len(curves), 1, sharex=True)
        for panel, (name, values), colour in zip(panels, curves.items(), COLOURS, strict=False):
            panel.plot(done.rounds, values, color=colour, linewidth=1.6)
            panel.axvline(done.rounds[-1], color=INK, linewidth=0.8, linestyle=":")
            panel.set_ylabel(name)
            panel.grid(True, axis="y")
        panels[-1].yaxis.set_major_formatter(PercentFormatter(1))
        panels[-1].set_xlabel("rounds done")
        panels[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        ends = _ends(done)
        svg = inline_svg(figure, "rounds", f"Curves of {', '.join(curves)}. {ends}")
    return Picture("Rounds", svg, f"{ends} {_how(result)}{thinned(len(result.trace.gamma))}")


def _ends(done: Replay) -> str:
    most = int(done.churn.argmax())
    ends = "InfoMax, which is high for confident and diverse predictions: "
    ends += f"{text(done.infomax[0])} at first, {text(done.infomax[-1])} at the end."
    if not done.churn[most]:
        return f"{ends} No label changed."
    return f"{ends} Most labels changed in round {done.rounds[most]}: {done.churn[most]:.1%}."


def _how(result: Adaptation) -> str:
    shown = sample_text(sample_nodes(len(result.labels)), len(result.labels))
    whose = "" if result.method.name == "erm" else ", without the base method"
    return f"The model's predictions{whose}; nodes: {shown}. Dotted: the round that is kept."
