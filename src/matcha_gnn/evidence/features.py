"""Whether a target's features can be what the source's are: scale, means, edges, order of columns.

A changed unit, a join that went wrong or noise in place of features leave numbers that a network
answers as surely as any. Five statistics need no network and no label of the target. They are
compared with limits that natural pairs of graphs and generated shifts stay within, and that broken
features are beyond (`matcha_paper.studies.broken`). What they do not show: columns exchanged
among many alike, such as one-hots, and rows exchanged where the source's features go with edges
through the classes alone, as on a block model: there the classes may have changed instead.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.stats
import torch
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.graphs.memory import Graph
from matcha_gnn.io.tensorfiles import require_shapes
from matcha_gnn.kernels.sparse import scipy_csr
from matcha_gnn.streams import Purpose, numpy_stream
from matcha_gnn.typing import FloatArray

SCALE = (-1.0, 3.0)
"""Median log2 ratio of the columns' standard deviations."""
OFFSET = 1.0
"""Root mean square of the columns' offsets, in standard deviations of the source."""
LINKED, UNLINKED = 4.0, (-4.0, 2.0)
"""Features of the source go with edges beyond the classes from the first z on, which edges of the
target must be enough to show, too; those of the target do not go with edges between the others:
random ends are a little more alike than those of edges, as nodes of many edges meet themselves."""
DEGREE = 0.1
"""Share of the source's mean degree below which edges are missing."""
RANKED = 0.1
"""Spearman's correlation of column means below which columns are in another order."""
FEWEST_COLUMNS = 300
"""Columns of numbers >= 0 from which the order of their means says something."""
MOST_NODES, MOST_PAIRS = 20_000, 20_000
"""Nodes on which means and deviations are taken, and edges along which features are compared."""
FEWEST_NODES = 30
"""Nodes of a target below which its columns say nothing: their means differ by chance."""
FEWEST_PAIRS = 100
"""Edges below which nothing is said of features along them."""
_PAIR_ENTRIES, _BLOCK_ENTRIES = 1 << 23, 1 << 18
"""Entries of dense rows at each end of edges, at most, and entries that are read at a time."""
_SPARSE_BELOW = 0.2
"""Dense rows with a smaller share of non-zero entries are compared as sparse ones."""
_VARIES = 1e-5
"""Least standard deviation of a column that varies, as a share of its mean."""

Numbers = NDArray[np.int64]
Rows = FloatArray | scipy.sparse.csr_array


@dataclass(frozen=True)
class FeatureProfile:
    """What of a graph's features travels with the model: numbers for each column, no row.

    Attributes:
        mean: of each column, [F].
        spread: standard deviation of each column, 0 where it does not vary, [F].
        least: the smallest entry, [].
        linked: by how many standard errors standardised rows are more alike along edges than
            otherwise, beyond what their classes explain, []; 0 with too few labelled edges.
        linked_each: the same in standard deviations, for one edge, [].
        degree: edges per node, without loops, [].
    """

    mean: Tensor
    spread: Tensor
    least: Tensor
    linked: Tensor
    linked_each: Tensor
    degree: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """Every field by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "FeatureProfile":
        """The inverse of `tensors`.

        Raises:
            KeyError, ValueError: a tensor is missing or has another shape.
        """
        found = cls(**{each.name: tensors[each.name] for each in fields(cls)})
        require_shapes(found.tensors(), "F F _ _ _ _")
        return found


class Comparison(NamedTuple):
    """A target's features beside the source's; NaN where a statistic says nothing.

    Attributes:
        scale: median log2 ratio of the columns' standard deviations; -inf if none varies.
        offset: root mean square of the columns' offsets, in standard deviations of the source.
        linked: by how many standard errors rows are more alike along edges than otherwise.
        ranked: Spearman's correlation of the column means.
        degree: edges per node, as a share of the source's.
    """

    scale: float
    offset: float
    linked: float
    ranked: float
    degree: float

    @property
    def problem(self) -> str:
        """Why accuracy cannot be told from such features, or empty."""
        if self.scale == -math.inf:
            return "cannot tell: features are the same for all nodes; were they lost on the way?"
        if self.scale < SCALE[0] or self.scale > SCALE[1]:
            return (
                f"cannot tell: features vary {2**self.scale:.3g} times as much as the source's; "
                "same unit, scaled alike?"
            )
        if self.offset > OFFSET:
            return (
                f"cannot tell: features are {self.offset:.3g} standard deviations from the "
                "source's; same columns and units?"
            )
        if self.degree < DEGREE:
            return (
                f"cannot tell: nodes have {self.degree:.2g} times as many edges as on the source; "
                "are edges missing?"
            )
        if UNLINKED[0] < self.linked < UNLINKED[1]:
            return (
                "cannot tell: features do not go with edges, as they do on the source; rows in "
                "another order, or noise?"
            )
        if self.ranked < RANKED:
            return (
                "cannot tell: other columns are large than on the source (rank correlation "
                f"{self.ranked:.2f}); columns in another order?"
            )
        return ""


def profile(graph: Graph, labels: Tensor, labelled: Tensor) -> FeatureProfile:
    """Describe the features of a source graph.

    Args:
        graph: the source.
        labels: classes, [N]; read at labelled nodes only.
        labelled: bool [N].
    """
    columns = _columns(graph.x)
    links = graph.edge_index[:, labelled[graph.edge_index].all(0)]
    linked = _likeness(graph.x, links, columns.spread, labels.cpu().numpy())
    numbers = (columns.least, linked.errors, linked.deviations, _degree(graph))
    return FeatureProfile(
        torch.from_numpy(columns.mean),
        torch.from_numpy(columns.spread),
        *torch.tensor(numbers, dtype=torch.float64).nan_to_num(0.0),
    )


def compare(
    source: FeatureProfile, graph: Graph, rows: Tensor | None = None, degree: float | None = None
) -> Comparison:
    """Compare a target's features with the source's; its labels are not read.

    Args:
        source: of the source.
        graph: the target, with as many columns.
        rows: features of some nodes on which columns are compared, where the graph holds only ends
            of some edges, [n, F].
        degree: edges per node without loops, likewise.
    """
    rows = graph.x if rows is None else rows
    if len(rows) < FEWEST_NODES:
        return Comparison(*[math.nan] * 5)
    mean, spread = source.mean.numpy(), source.spread.numpy()
    columns = _columns(rows)
    varies = spread > 0
    both = varies & (columns.spread > 0)
    scale = offset = ranked = linked = math.nan
    if varies.any():
        ratios = np.log2(columns.spread[both] / spread[both])
        scale = float(np.median(ratios)) if both.any() else -math.inf
        offsets = (columns.mean - mean)[varies] / spread[varies]
        offset = float(np.sqrt(np.square(offsets).mean()))
    if varies.sum() >= FEWEST_COLUMNS and float(source.least) >= 0 and both.any():
        # Rounded, as sums in another order break ties.
        own, other = (each[varies].astype(np.float32) for each in (mean, columns.mean))
        ranked = float(scipy.stats.spearmanr(own, other).statistic)
    if float(source.linked) >= LINKED and both.any():
        alike = np.zeros(graph.num_nodes, dtype=np.int64)
        found = _likeness(graph.x, graph.edge_index, columns.spread, alike)
        if float(source.linked_each) * math.sqrt(found.pairs) >= LINKED:
            linked = found.errors
    usual = float(source.degree)
    here = _degree(graph) if degree is None else degree
    share = here / usual if usual > 0 else math.nan
    return Comparison(scale, offset, linked, ranked, share)


def _degree(graph: Graph) -> float:
    """Edges per node, without loops."""
    sender, receiver = graph.edge_index
    return int((sender != receiver).sum()) / graph.num_nodes


def _draws() -> np.random.Generator:
    """The stream of all draws here."""
    return numpy_stream(0, Purpose.FEATURE_PAIRS)


class _Columns(NamedTuple):
    """Of a graph: mean and standard deviation of each column, [F], and the smallest entry."""

    mean: FloatArray
    spread: FloatArray
    least: float


def _columns(x: Tensor) -> _Columns:
    """Of at most `MOST_NODES` nodes."""
    nodes = np.arange(len(x))
    if len(x) > MOST_NODES:
        nodes = np.sort(_draws().choice(len(x), MOST_NODES, replace=False))
    about, sums, squares = (np.zeros(x.shape[1]) for _ in range(3))
    if x.layout == torch.strided:
        # Moments about the first row: about zero, large means hide small deviations.
        about = np.asarray(next(_blocks(x, nodes[:1]))[0])
    least = math.inf
    for rows in _blocks(x, nodes):
        least = min(least, float(rows.min()))
        moved = rows if x.layout != torch.strided else rows - about
        sums += moved.sum(0)
        squares += (moved * moved).sum(0)
    mean = sums / len(nodes)
    spread = np.sqrt(np.maximum(squares / len(nodes) - np.square(mean), 0))
    mean += about
    spread[spread <= _VARIES * abs(mean)] = 0
    return _Columns(mean, spread, least)


class _Likeness(NamedTuple):
    """By how much rows are more alike along edges; NaN where nothing is said.

    Attributes:
        errors: in standard errors.
        deviations: in standard deviations of one edge.
        pairs: edges that were compared.
    """

    errors: float
    deviations: float
    pairs: int


def _likeness(x: Tensor, edge_index: Tensor, spread: FloatArray, groups: Numbers) -> _Likeness:
    """By how much rows are more alike along edges than the same ends at random.

    Alike is the cosine of standardised rows, each less the mean of its group.

    Args:
        x: features, dense or sparse CSR, [N, F].
        edge_index: [2, E].
        spread: of the columns, [F].
        groups: of the nodes, [N].

    Returns:
        It says nothing for fewer than `FEWEST_PAIRS` edges, or where all rows are the same.
    """
    filled = _filled(x)
    sparse = x.layout != torch.strided or filled < _SPARSE_BELOW
    width = max(1, round(x.shape[1] * (filled if sparse else 1)))
    pairs = _pairs(edge_index.cpu().numpy(), len(x), min(MOST_PAIRS, _PAIR_ENTRIES // width))
    if pairs.shape[1] < FEWEST_PAIRS:
        return _Likeness(math.nan, math.nan, pairs.shape[1])
    nodes = np.unique(pairs)
    sender, receiver = np.searchsorted(nodes, pairs)
    inverse = np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0)
    group = np.unique(groups[nodes], return_inverse=True)[1]
    along, other = np.split(
        _cosines(
            _scaled(x, nodes, inverse, sparse),
            group,
            np.concatenate([sender, sender]),
            np.concatenate([receiver, _draws().permutation(receiver)]),
        ),
        2,
    )
    more = along - other
    spread_of_one = float(more.std())
    each = float(more.mean()) / spread_of_one if spread_of_one > 0 else math.nan
    return _Likeness(each * math.sqrt(len(more)), each, len(more))


def _cosines(rows: Rows, group: Numbers, one: Numbers, other: Numbers) -> FloatArray:
    """Cosines of pairs of rows, each less the mean of its group; sparse rows stay sparse.

    Args:
        rows: [M, F].
        group: of each row, [M].
        one: the first rows, [P].
        other: the second rows, [P].
    """
    member = scipy.sparse.csr_array((np.ones(len(group)), (group, np.arange(len(group)))))
    sums: Any = member @ rows
    if isinstance(rows, np.ndarray):
        centred: FloatArray = rows - (sums / member.sum(1)[:, None])[group]
        products = np.einsum("pf,pf->p", centred[one], centred[other])
        squares = np.einsum("mf,mf->m", centred, centred)
    else:
        means = sums.toarray() / member.sum(1)[:, None]
        along, inner = rows @ means.T, means @ means.T
        products = (rows[one] * rows[other]).sum(1)
        products -= along[one, group[other]] + along[other, group[one]]
        products += inner[group[one], group[other]]
        squares = (rows * rows).sum(1) - 2 * along[np.arange(len(group)), group]
        squares += inner[group, group]
    lengths = np.sqrt(np.maximum(squares, 0))
    both = lengths[one] * lengths[other]
    found: FloatArray = np.divide(products, both, out=np.zeros_like(both), where=both > 0)
    return found


def _pairs(edge_index: Numbers, num_nodes: int, most: int) -> Numbers:
    """Ends of at most so many edges between different nodes, each once in one direction, [2, P]."""
    draws, number = _draws(), edge_index.shape[1]
    # Twice as many: most graphs have each edge in both directions.
    some = draws.integers(number, size=2 * most) if number > 4 * most else slice(None)
    drawn = edge_index[:, some]
    low, high = drawn.min(0), drawn.max(0)
    codes = np.unique((low * num_nodes + high)[low < high])
    return np.stack(np.divmod(draws.permutation(codes)[:most], num_nodes))


def _filled(x: Tensor) -> float:
    """Share of entries that are not zero; of dense features in a thousand rows."""
    if x.layout != torch.strided:
        return len(x.values()) / (x.shape[0] * x.shape[1])
    some = x[:: max(1, len(x) // 1000)]
    return int(some.count_nonzero()) / some.numel()


def _scaled(x: Tensor, nodes: Numbers, factors: FloatArray, sparse: bool) -> Rows:
    """Rows of some nodes times a factor for each column, [M, F]."""
    if not sparse:
        return np.concatenate([block * factors for block in _blocks(x, nodes)])
    blocks = [scipy.sparse.csr_array(block) for block in _blocks(x, nodes)]
    rows: scipy.sparse.csr_array = scipy.sparse.vstack(blocks, format="csr")
    rows.data *= factors[rows.indices]
    return rows


def _blocks(x: Tensor, nodes: Numbers) -> Iterator[Rows]:
    """Rows of some nodes in float64 on the CPU, block by block, [n, F] each."""
    if x.layout != torch.strided:
        yield scipy_csr(x)[nodes].astype(np.float64)
        return
    step = max(1, _BLOCK_ENTRIES // x.shape[1])
    for start in range(0, len(nodes), step):
        some = torch.from_numpy(nodes[start : start + step]).to(x.device)
        yield x.detach()[some].cpu().double().numpy()
