"""Syn-Products, grown from ogbn-products' features, and its named stand-in Syn-CoauthorCS."""

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.kernels.sparse import csr_tensor
from matcha_paper.datasets.arrays import scipy_matrix
from matcha_paper.datasets.citation import coauthor_cs
from matcha_paper.datasets.domains import PARTS, Domains
from matcha_paper.datasets.preferential import preferential
from matcha_paper.datasets.rawfiles import Origin, raw_file
from matcha_paper.datasets.splits import split_by_features
from matcha_paper.datasets.statistics import Statistics, checked

if TYPE_CHECKING:
    from torch_geometric.data import Data

IntArray = NDArray[np.int64]
PRODUCTS = Origin(
    "ogbn-products",
    hint="from the folder raw of OGB's https://snap.stanford.edu/ogb/data/nodeproppred/products.zip"
    "; without it there is only `syn_coauthor_cs`",
)
CLASSES = 10
FEATURES = 100
LINKS = 6
SEED_NODES = 70
# Homophily of a drawn graph: a share of more than 40,000 edges, within 0.01 of its target.
_DRAW = 0.01


def syn_products(
    source: float = 0.8,
    validation: float = 0.4,
    target: float = 0.2,
    seed: int = 0,
    root: str | Path | None = None,
) -> Domains:
    """Syn-Products: 10,000 nodes of 10 classes with the features of ogbn-products.

    The published graphs are not at hand; these are grown by their rule (`preferential`, 6 links,
    70 seed nodes). Each graph has 1,000 rows of each of the ten largest classes, and no row is in
    two graphs, so all nodes train on the source and all are tested on the target.

    Args:
        source: homophily of the source graph.
        validation: of the validation graph.
        target: of the target graph.
        seed: of growth and dealing.
        root: where the files lie, see `matcha_paper.datasets.rawfiles.data_root`.

    Example:
        >>> syn_products().target.num_edges // 2  # doctest: +SKIP
        59648
    """
    from torch_geometric.data import Data

    per_class = 1000
    labels = _rows("node-label.csv.gz", root, None, np.int64).ravel()
    chosen = _first_of_largest(labels, 3 * per_class)
    x = _rows("node-feat.csv.gz", root, int(chosen.max()) + 1, np.float32)
    pools = [
        Data(x=torch.from_numpy(x[rows.ravel()]), y=_class_numbers(per_class))
        for rows in np.split(chosen, 3, axis=1)
    ]
    return _grown(pools, (source, validation, target), seed, "Syn-Products")


def syn_coauthor_cs(
    source: float = 0.8,
    validation: float = 0.4,
    target: float = 0.2,
    seed: int = 0,
    root: str | Path | None = None,
) -> Domains:
    """Syn-CoauthorCS: a stand-in for Syn-Products, never to be shown under its name.

    7,000 nodes: the first 700 of each of the ten largest fields of Coauthor-CS, their keywords
    reduced to 100 numbers by a truncated SVD, on graphs grown like those of `syn_products`. All
    three graphs deal the same rows, so the split goes by row as in `syn_cora`.

    Args:
        source: homophily of the source graph.
        validation: of the validation graph.
        target: of the target graph.
        seed: of growth and dealing.
        root: where the file lies, see `matcha_paper.datasets.rawfiles.data_root`.

    Raises:
        MatchaError: scikit-learn is not installed.

    Example:
        >>> syn_coauthor_cs().target.num_edges // 2  # doctest: +SKIP
        41648
    """
    from sklearn.decomposition import TruncatedSVD
    from torch_geometric.data import Data

    per_class = 700
    whole = coauthor_cs(root)
    rows = _first_of_largest(whole.y.numpy(), per_class).ravel()
    keywords = scipy_matrix(whole.x)[rows]
    y = _class_numbers(per_class)
    # By keywords, not by their reduction, whose last bits depend on the machine.
    train, test = split_by_features(csr_tensor(keywords, torch.float32), y)
    reduced = TruncatedSVD(FEATURES, random_state=0).fit_transform(keywords)
    x = torch.from_numpy(reduced.astype(np.float32))
    pool = Data(x=x, y=y, train_mask=train, test_mask=test)
    return _grown([pool] * 3, (source, validation, target), seed, "Syn-CoauthorCS")


def _grown(
    pools: list["Data"], homophilies: tuple[float, float, float], seed: int, name: str
) -> Domains:
    seeds = np.random.SeedSequence(seed).generate_state(3).tolist()
    settings = dict(zip(PARTS, zip(pools, homophilies, seeds, strict=True), strict=True))

    def part(which: str) -> "Data":
        pool, homophily, own_seed = settings[which]
        graph = preferential(pool, homophily, LINKS, SEED_NODES, own_seed)
        return checked(graph, _expected(graph, homophily), f"{name} {which}")

    return Domains.of(part)


def _expected(graph: "Data", homophily: float) -> Statistics:
    nodes = len(graph.y)
    edges = graph.edge_index.shape[1] // 2
    if 0 < homophily < 1:
        edges = (nodes - SEED_NODES) * LINKS + SEED_NODES - 2
    degree = round(2 * edges / nodes, 2)
    return Statistics(nodes, edges, FEATURES, CLASSES, degree, homophily, _DRAW)


def _first_of_largest(labels: IntArray, count: int) -> IntArray:
    """The first nodes of each of the ten largest classes, [10, count], by the class's number."""
    sizes = np.bincount(labels)
    largest = np.sort(np.argsort(-sizes, kind="stable")[:CLASSES])
    if len(largest) < CLASSES or sizes[largest].min() < count:
        allowed = f"{CLASSES} classes of at least {count} nodes"
        raise InvalidFileError("labels", f"class sizes {sizes[largest].tolist()}", allowed)
    return np.stack([np.flatnonzero(labels == c)[:count] for c in largest])


def _class_numbers(per_class: int) -> Tensor:
    return torch.arange(CLASSES).repeat_interleave(per_class)


def _rows(name: str, root: str | Path | None, count: int | None, kind: type[Any]) -> NDArray[Any]:
    """The first rows of a compressed table, or all."""
    with gzip.open(raw_file(PRODUCTS, name, root), "rt", encoding="ascii") as file:
        return np.loadtxt(file, delimiter=",", dtype=kind, ndmin=2, max_rows=count)
