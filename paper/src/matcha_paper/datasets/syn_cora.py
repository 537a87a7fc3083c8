"""Syn-Cora: Cora's features on synthetic graphs of chosen homophily (H2GCN, Zhu et al. 2020)."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.registry import resolve
from matcha_paper.datasets.arrays import edges_from, features_from, read_arrays
from matcha_paper.datasets.domains import PARTS, Domains
from matcha_paper.datasets.rawfiles import Origin, raw_file
from matcha_paper.datasets.splits import released_split, split_by_features
from matcha_paper.datasets.statistics import Statistics, checked

if TYPE_CHECKING:
    from torch_geometric.data import Data

ORIGIN = Origin(
    "syn-cora",
    "https://raw.githubusercontent.com/JRowbottomGit/graff/"
    "e77029f96db70c2636f2e0b29d17f92c479f419e/data/syn-cora/{file}",
)
HOMOPHILIES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)
RUNS = (1, 2, 3)
SPLITS = {"rows": split_by_features, "released": released_split}
# The files miss their nominal homophily by 0.021 at most.
_TOLERANCE = 0.025


def syn_cora(
    source: float = 0.8,
    validation: float = 0.4,
    target: float = 0.2,
    run: int = 1,
    root: str | Path | None = None,
    split: str = "rows",
) -> Domains:
    """The paper's homophily shift on Cora's features.

    Every graph deals the same 1,490 Cora rows to its nodes anew, so the split goes by feature row:
    about a quarter of the rows of each class are training nodes on every graph, the others test
    nodes (`split_by_features`). Source-training and target-test nodes share no row.

    Args:
        source: nominal homophily of the source graph, one of `HOMOPHILIES`.
        validation: of the validation graph.
        target: of the target graph.
        run: 1, 2 or 3: which of the published graphs.
        root: where the files lie, see `matcha_paper.datasets.rawfiles.data_root`.
        split: "rows", as above; or "released", the training nodes of the published runs
            (`released_split`), where a few equal rows are on both sides.

    Returns:
        Three graphs of 1,490 nodes, 2,968 undirected edges, 1,433 features, 5 classes.

    Example:
        >>> domains = syn_cora(target=0.1)  # doctest: +SKIP
        >>> domains.target.num_nodes  # doctest: +SKIP
        1490
    """
    chosen = dict(zip(PARTS, (source, validation, target), strict=True))
    return Domains.of(lambda part: syn_cora_graph(chosen[part], run, root, split))


def syn_cora_graph(
    homophily: float, run: int = 1, root: str | Path | None = None, split: str = "rows"
) -> "Data":
    """One of the 36 published graphs, with its masks; arguments as in `syn_cora`."""
    from torch_geometric.data import Data

    if homophily not in HOMOPHILIES:
        raise InvalidArgumentError("homophily", homophily, ", ".join(map(str, HOMOPHILIES)))
    if run not in RUNS:
        raise InvalidArgumentError("run", run, "1, 2, 3")
    arrays = read_arrays(raw_file(ORIGIN, f"h{homophily:.2f}-r{run}.npz", root))
    x, y = features_from(arrays).to_dense(), torch.from_numpy(arrays["labels"]).long()
    train, test = resolve("split", split, SPLITS)(x, y)
    graph = Data(x=x, edge_index=edges_from(arrays), y=y, train_mask=train, test_mask=test)
    return checked(graph, _published(homophily), f"Syn-Cora {homophily}")


def _published(homophily: float) -> Statistics:
    # Where all edges stay inside a class, three nodes of the seed graph find no partner.
    edges = 2965 if homophily == 1 else 2968
    degree = round(2 * edges / 1490, 2)
    return Statistics(1490, edges, 1433, 5, degree, homophily, _TOLERANCE)
