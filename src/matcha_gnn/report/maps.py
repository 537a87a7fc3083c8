"""A map of the nodes: their representations before and after, in two dimensions."""

import copy
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from torch import Tensor

from matcha_gnn.backbones import Backbone, MovableBackbone
from matcha_gnn.class_names import class_title
from matcha_gnn.errors import InvalidArgumentError, optional_imports
from matcha_gnn.evidence.belief_model import BeliefModel
from matcha_gnn.report.figures import Picture
from matcha_gnn.report.replay import IntArray, representations, sample_nodes, sample_text
from matcha_gnn.report.svg import COLOURS, INK, inline_svg, sheet
from matcha_gnn.result import Adaptation
from matcha_gnn.typing import FloatArray

COLOURED = len(COLOURS) - 1
COLOURED_OPACITY, OTHERS = 0.75, 0.3
"""Opacity of nodes whose class has a colour, and of the rest."""
OUTSIDE = 0.005
"""Share of points at each side that the frame of the map may leave out."""
FLAT = 1e-6
"""Spread across a map, as a share of that along it, from which nodes lie on a line."""
POINT = 2.6
"""Diameter of a node, in points."""
PERPLEXITY = 30


Projection = Callable[[FloatArray], FloatArray]
"""From [n, D] to [n, 2]."""


def node_map(result: Adaptation, projection: str = "pca") -> Picture | None:
    """Where the nodes lie before and after, coloured by predicted class.

    Both states are projected together, each at its own scale, so that positions can be compared.

    Args:
        result: what `adapt` returned.
        projection: "pca" or "tsne".

    Returns:
        None where the state before is not known, as the encoder itself moved, where numbers are not
        finite, or where all nodes lie on a line, as by logits of two classes.
    """
    project = _projection(projection)
    shown = sample_nodes(len(result.labels))
    rows = _both_states(result, shown)
    if rows is None:
        return None
    places = project(np.concatenate([_scaled(each) for each in rows]))
    if places.std(0).min() < FLAT * places.std(0).max():
        return None
    labels = [each.cpu().numpy()[shown] for each in (result.labels_before, result.labels)]
    largest = _largest(labels[1], result.probs.shape[1])
    with sheet(2.7) as (figure, axes):
        axes.remove()
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        for panel, title, at, label in zip(
            panels, ("before", "after"), np.split(places, 2), labels, strict=True
        ):
            _draw(panel, at, label, largest)
            panel.set_title(title, fontsize=9)
        names = [class_title(result.class_names, c) for c in range(result.probs.shape[1])]
        figure.legend(handles=_key(labels, largest, names), loc="outside lower center", ncols=3)
        spread = _spread(rows, labels)
        (left, low), (right, high) = frame = _frame(places)
        panels[0].set(xlim=(left, right), ylim=(low, high))
        svg = inline_svg(figure, "map", f"Two maps of the nodes, before and after. {spread}")
    caption = f"{spread} {_caption(projection, shown, result)}{_outside(places, frame)}"
    return Picture("Map of the nodes", svg, caption, wide=True)


def _projection(name: str) -> Projection:
    known: dict[str, Projection] = {"pca": _principal, "tsne": _neighbours}
    if name not in known:
        raise InvalidArgumentError("projection", repr(name), ", ".join(known))
    return known[name]


def _both_states(result: Adaptation, shown: IntArray) -> tuple[FloatArray, FloatArray] | None:
    """Z of the shown nodes before and after, [n, D] each."""
    if result.moves != "gamma":
        return None
    before = _state(_source_encoder(result), result.gamma_before, result, shown)
    after = _state(result.model, result.gamma, result, shown)
    return (before, after) if np.isfinite([before, after]).all() else None


def _state(model: Backbone, gamma: Tensor, result: Adaptation, shown: IntArray) -> FloatArray:
    # An answer by evidence has no representation of its own: the nodes stay, their labels change.
    encoder = model.network if isinstance(model, BeliefModel) else model
    z = next(representations(encoder, result.graph, shown, [gamma]))
    found: FloatArray = z.double().cpu().numpy()
    return found


def _source_encoder(result: Adaptation) -> Backbone:
    """The source model; where it is not kept, the adapted one without the offset it was given."""
    decision = result.decision
    if decision and decision.candidates and decision.candidates[0].model:
        return decision.candidates[0].model
    if decision is None or decision.posterior is None or not decision.moved_back:
        return result.model
    model = copy.deepcopy(result.model)
    assert isinstance(model, MovableBackbone), "no other model is moved back"
    model.move(offset=-decision.posterior.shift.offset.to(model.gamma))
    return model


def _scaled(rows: FloatArray) -> FloatArray:
    """Centred, with unit spread: a common factor of γ has no meaning."""
    centred: FloatArray = rows - rows.mean(0)
    return centred / max(float(np.sqrt((centred**2).mean())), 1e-30)


def _principal(rows: FloatArray) -> FloatArray:
    centred = rows - rows.mean(0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    # The sign of an eigenvector is arbitrary; it is fixed so that pages are reproducible.
    axes = vectors[:, values.argsort()[::-1][:2]]
    axes *= np.sign(axes[abs(axes).argmax(0), range(axes.shape[1])])
    flat: FloatArray = centred @ axes
    return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))


def _neighbours(rows: FloatArray) -> FloatArray:
    with optional_imports("projection 'tsne'"):
        from sklearn.manifold import TSNE
    perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
    start = _principal(rows)[:, :2]
    start = 1e-4 * start / max(start.std(), 1e-30)
    flat: FloatArray = TSNE(perplexity=perplexity, init=start, random_state=0).fit_transform(rows)
    return flat.astype(np.float64)


def _frame(places: FloatArray) -> FloatArray:
    """Lower and upper corner, [2, 2]; a few outliers are left out."""
    corners = np.quantile(places, (OUTSIDE, 1 - OUTSIDE), axis=0)
    margin = 0.15 * (corners[1] - corners[0]) + 1e-12
    framed: FloatArray = corners + np.stack([-margin, margin])
    return framed


def _outside(places: FloatArray, frame: FloatArray) -> str:
    count = int(((places < frame[0]) | (places > frame[1])).any(1).sum())
    return f" {count:,} points lie outside the frame." if count else ""


def _largest(labels: IntArray, num_classes: int) -> list[int]:
    """The classes that get a colour."""
    sizes = np.bincount(labels, minlength=num_classes)
    return sorted(np.argsort(-sizes, kind="stable")[:COLOURED].tolist())


def _draw(panel: Axes, at: FloatArray, labels: IntArray, largest: list[int]) -> None:
    others = ~np.isin(labels, largest)
    panel.add_patch(_dots(at[others], INK, OTHERS))
    for colour, one in zip(COLOURS, largest, strict=False):
        panel.add_patch(_dots(at[labels == one], colour, COLOURED_OPACITY))
    panel.set(xticks=[], yticks=[])
    panel.spines[:].set_visible(True)


def _key(labels: list[IntArray], largest: list[int], names: Sequence[str]) -> list[Line2D]:
    chosen = zip(largest, COLOURS, strict=False)
    entries = [(names[c], colour, COLOURED_OPACITY) for c, colour in chosen]
    if not all(np.isin(each, largest).all() for each in labels):
        entries.append(("other classes", INK, OTHERS))
    return [
        Line2D([], [], linestyle="", marker="o", markersize=5, color=to_rgba(c, a), label=name)
        for name, c, a in entries
    ]


def _dots(at: FloatArray, colour: str, alpha: float) -> PathPatch:
    """All points as one path of strokes of length zero: a tenth of the bytes of markers."""
    vertices = np.repeat(at, 2, axis=0)
    codes = np.tile([Path.MOVETO, Path.LINETO], len(at)).astype(Path.code_type)
    path = Path(vertices, codes)
    path.should_simplify = False
    return PathPatch(
        path,
        facecolor="none",
        edgecolor=colour,
        alpha=alpha,
        linewidth=POINT,
        capstyle="round",
    )


def _caption(projection: str, shown: IntArray, result: Adaptation) -> str:
    how = {
        "pca": "The two main directions (PCA) of both states together, each at its own scale",
        "tsne": "t-SNE of both states together, each at its own scale",
    }[projection]
    nodes = sample_text(shown, len(result.labels))
    cut = f" The {COLOURED} largest classes have a colour."
    cut = cut if result.probs.shape[1] > COLOURED else ""
    return f"{how}; colour: predicted class; nodes: {nodes}.{cut}"


def _spread(rows: tuple[FloatArray, FloatArray], labels: list[IntArray]) -> str:
    before, after = (_between(row, label) for row, label in zip(rows, labels, strict=True))
    return f"Predicted classes explain {before:.0%} of the spread before and {after:.0%} after."


def _between(rows: FloatArray, labels: IntArray) -> float:
    """Share of the variance that lies between predicted classes."""
    centred = rows - rows.mean(0)
    total = float((centred**2).sum())
    sizes = np.bincount(labels)
    sums = np.zeros((len(sizes), rows.shape[1]))
    np.add.at(sums, labels, centred)
    return float(((sums**2).sum(1) / sizes.clip(1)).sum()) / total if total else 0.0
