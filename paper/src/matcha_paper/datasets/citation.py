"""Single real graphs: Cora, and Coauthor-CS as a pool of features."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from matcha_paper.datasets.arrays import edges_from, features_from, read_arrays
from matcha_paper.datasets.rawfiles import Origin, raw_file
from matcha_paper.datasets.statistics import Statistics, checked

if TYPE_CHECKING:
    from torch_geometric.data import Data

CORA = Origin("planetoid", "https://github.com/kimiyoung/planetoid/raw/master/data/{file}")
COAUTHOR_CS = Origin(
    "coauthor-cs",
    hint="Coauthor-CS as arrays adj_indptr, adj_indices, attr_data, attr_indices, attr_indptr, "
    "attr_shape, labels, written without pickles",
)
_CORA_FILES = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def cora(root: str | Path | None = None) -> "Data":
    """Cora with Planetoid's split: 2,708 papers, 5,278 citations, 1,433 words, 7 topics.

    The files are pickles: they are opened by PyG's reader, and only if their checksums are those of
    the published files.

    Args:
        root: where the files are, see `matcha_paper.datasets.rawfiles.data_root`.

    Returns:
        A graph with dense binary features and `train_mask`, `val_mask`, `test_mask`.

    Example:
        >>> cora().num_nodes  # doctest: +SKIP
        2708
    """
    from torch_geometric.io import read_planetoid_data

    files = [raw_file(CORA, f"ind.cora.{name}", root) for name in _CORA_FILES]
    graph = read_planetoid_data(str(files[0].parent), "cora")
    return checked(graph, Statistics(2708, 5278, 1433, 7, 3.9, 0.825), "Cora")


def coauthor_cs(root: str | Path | None = None) -> "Data":
    """Coauthor-CS: 18,333 authors, 81,894 co-authorships, 6,805 keywords, 15 fields.

    Args:
        root: where the file is, see `matcha_paper.datasets.rawfiles.data_root`.

    Returns:
        A graph with sparse features and no masks.

    Example:
        >>> coauthor_cs().num_nodes  # doctest: +SKIP
        18333
    """
    from torch_geometric.data import Data

    arrays = read_arrays(raw_file(COAUTHOR_CS, "coauthor_cs.npz", root))
    y = torch.from_numpy(arrays["labels"]).long()
    graph = Data(x=features_from(arrays), edge_index=edges_from(arrays), y=y)
    return checked(graph, Statistics(18333, 81894, 6805, 15, 8.93, 0.832), "Coauthor-CS")
