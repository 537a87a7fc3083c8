"""The numbers of paper/docs/datasets.md: generator against published graphs, and spread over draws.

Run: python -m matcha_paper.studies.data_checks [--root FOLDER]
"""

from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch_geometric.data import Data

from matcha_gnn.typing import FloatArray
from matcha_paper.datasets import arxiv_structure, preferential, twitch
from matcha_paper.datasets.statistics import statistics
from matcha_paper.datasets.syn_cora import HOMOPHILIES, RUNS, syn_cora_graph
from matcha_paper.studies.shared import arguments, run_study

IntArray = NDArray[np.int64]
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
GRAPHS = 6


def pool(per_class: int, classes: int) -> Data:
    """Nodes of equally many classes, without features or edges."""
    y = torch.arange(classes).repeat_interleave(per_class)
    return Data(x=torch.zeros(len(y), 1), y=y)


def generated(homophily: float) -> list[Data]:
    """The graphs of paper/tests/datasets/test_preferential.py."""
    seeds = np.random.SeedSequence([10, int(100 * homophily)]).generate_state(GRAPHS).tolist()
    return [preferential(pool(298, 5), homophily, seed=seed) for seed in seeds]


def degrees(graph: Data) -> IntArray:
    """In-degree of each node, [N]."""
    return np.bincount(graph.edge_index[1].numpy(), minlength=graph.num_nodes)


def step_shares(graph: Data) -> FloatArray:
    """Shares of edges by distance of their two classes on the ring, [3]."""
    first, second = graph.y[graph.edge_index].numpy()
    step = np.abs(first - second)
    return np.bincount(np.minimum(step, 5 - step), minlength=3) / len(step)


def compare_generator(root: Path | None) -> None:
    """Print degrees and edges of generated and of published graphs."""
    ours = {h: generated(h) for h in HOMOPHILIES}
    theirs = {h: [syn_cora_graph(h, run, root) for run in RUNS] for h in HOMOPHILIES}
    for name, graphs in (("generated", ours), ("published", theirs)):
        every = [g for some in graphs.values() for g in some]
        edges = sorted({g.num_edges // 2 for g in every})
        quantiles = np.mean([np.quantile(degrees(g), QUANTILES) for g in every], axis=0)
        tail = np.mean([(degrees(g) >= 20).sum() for g in every])
        print(f"{name}: edges {edges}, quantiles {quantiles.round(2)}, degree >= 20: {tail:.1f}")
    made, given = (
        np.concatenate([degrees(g) for some in graphs.values() for g in some])
        for graphs in (ours, theirs)
    )
    print(f"Kolmogorov-Smirnov distance {stats.ks_2samp(made, given).statistic:.4f}")
    gaps = [
        np.mean([step_shares(g) for g in ours[h]], 0)
        - np.mean([step_shares(g) for g in theirs[h]], 0)
        for h in HOMOPHILIES
    ]
    print(f"edge shares by class distance: largest gap {np.abs(gaps).max():.4f}")


def spread_of_draws(root: Path | None) -> None:
    """Print how homophily varies between draws of Twitch-E and Arxiv-structure."""
    for name, load, seeds in (("Twitch-E", twitch, 60), ("Arxiv-structure", arxiv_structure, 8)):
        found = np.array(
            [
                [statistics(graph).homophily for graph in load(seed=seed, root=root)[1:]]
                for seed in range(seeds)
            ]
        )
        for part, values in zip(("validation", "target"), found.T, strict=True):
            print(f"{name} {part}: homophily {values.mean():.4f}, s.d. {values.std():.4f}")


def main() -> None:
    """Print every number."""
    parser = arguments(__doc__)
    parser.add_argument("--root", type=Path)
    root = parser.parse_args().root
    compare_generator(root)
    start = perf_counter()
    preferential(pool(1000, 10), 0.2, links=6, seed_nodes=70)
    print(f"10,000 nodes: {perf_counter() - start:.2f} s")
    spread_of_draws(root)


if __name__ == "__main__":
    run_study(main)
