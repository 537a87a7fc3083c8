"""How far apart two classes lie: logit differences and their histograms."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from matcha_gnn.gamma.models import Backbone
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.typing import FloatArray
from matcha_paper.figures.numbers import Row, Rows, column
from matcha_paper.figures.style import two_classes

if TYPE_CHECKING:
    from torch_geometric.data import Data

BINS = 60


@torch.no_grad()
def margins(model: Backbone, graph: "Data") -> FloatArray:
    """Logit of class 1 less that of class 0, [N]."""
    logits = model.head(model.representation(unlabelled(graph)))
    apart: FloatArray = (logits[:, 1] - logits[:, 0]).double().cpu().numpy()
    return apart


def common_bins(every: list[FloatArray]) -> FloatArray:
    """Edges of bins around zero that hold 99% of all values, [B + 1]."""
    reach = float(np.quantile(np.abs(np.concatenate(every)), 0.99))
    return np.linspace(-reach, reach, BINS + 1)


def histogram_rows(facts: Row, margin: FloatArray, labels: Tensor, edges: FloatArray) -> Rows:
    """Densities of both classes, a row for each bin, with the facts of the panel in each.

    Args:
        facts: what the panel is; accuracy is added.
        margin: from `margins`, [N].
        labels: true classes, [N].
        edges: of the bins, [B + 1].
    """
    truth = labels.cpu().numpy()
    facts = facts | {"accuracy": float(((margin > 0) == truth).mean())}
    parts = [np.histogram(margin[truth == y], edges, density=True)[0] for y in (0, 1)]
    columns = (edges[:-1], edges[1:], *parts)
    return [
        facts | {"left": left, "right": right, "class_0": low, "class_1": high}
        for left, right, low, high in zip(*(each.tolist() for each in columns), strict=True)
    ]


def draw_histograms(axes: Axes, rows: Rows) -> None:
    """The same rows as two histograms with the boundary at zero."""
    edges = np.array([*column(rows, "left"), rows[-1]["right"]])
    heights = np.array([column(rows, "class_0"), column(rows, "class_1")])
    two_classes(axes, heights, edges)
