"""Streams of random numbers: one for each seed and purpose, so that no draw repeats another.

Two draws from one stream agree. `csbm(seed=0)` and `fit_probe(seed=0)` once drew the same
permutation of the nodes, so the probe met the nodes sorted by class.

Some draws keep the root stream of a seed, `numpy.random.default_rng(seed)` or
`torch.manual_seed(seed)`, as published graphs and source models came from it:

- graphs that are generated: `datasets.csbm`, those of `paper.datasets`, the nodes of
  `paper.figures.gamma`, small graphs of `testing`. The worlds of `paper.studies` have
  `default_rng([seed, 1])` and `default_rng([meaning, 2])`, so no purpose is 1 or 2;
- training: starting values, dropout, and the nodes that `fit` keeps apart to choose an epoch;
- splits: edges of `paper.datasets.twitch`, and the nodes on which `paper.studies` train.

Every other draw has a purpose here. `tests/test_streams.py` names the modules with a root stream.
"""

from enum import IntEnum, unique

import numpy as np
import torch

__all__ = ["Purpose", "numpy_stream", "torch_seed", "torch_stream"]


@unique
class Purpose(IntEnum):
    """What is drawn. Each has one place in the code; a number, as 41, is never used again."""

    PROBE_NODES = 11
    """Labelled nodes on which the probe is fitted, and its folds."""
    SIMULATED_SHIFTS = 12
    """Edges that are dropped and rewired to try estimates on the source."""
    DRAWN_CLASSES = 13
    """Nodes, and their classes, over which a metric is averaged."""
    LINKS = 14
    """Edges that stand for all of a graph."""
    REHEARSAL = 15
    """Nodes kept apart in the second training that measures the source model's accuracy."""
    SOURCE_ARRAYS = 16
    """What base methods draw while they are trained on the source graph."""
    QUESTIONS = 18
    """The order of the questions."""
    FEATURE_PAIRS = 25
    """Nodes, edges and pairs on which features of two graphs are compared."""
    SURE_SIGNS = 21
    """Random signs for the traces of SURE."""
    SOGA_PAIRS = 22
    """Successors and negative samples of SOGA."""
    GTRANS_EDITS = 23
    """Edges and nodes of GTrans's views, and the edge sets it tries."""
    GRAPHPATCHER_TRAINING = 24
    """Starting values, batches and dropped edges of GraphPatcher."""
    HOMOPHILY_SHIFT = 31
    """Edges that `with_homophily` drops."""
    DEGREE_SHIFT = 32
    """Edges that `with_degree` drops."""
    EDGE_SHARES_SHIFT = 33
    """Edges that `with_edge_shares` drops."""
    SOURCE_PARTS = 26
    """Regions of the source that are left out whole."""
    CLASS_SHARES_SHIFT = 34
    """Nodes that `with_class_shares` keeps."""
    FEATURE_NOISE = 35
    """Noise of `with_feature_noise`."""
    ATTACK = 36
    """Candidate edges of `attacked`."""
    POWER_ITERATION = 51
    """Where the power iteration of `paper.convergence.smoothness` begins."""
    EMBEDDED_NODES = 52
    """Nodes in the paper's pictures of representations."""
    SELECTORS = 53
    """Draws and ties of the study of questions."""


def numpy_stream(seed: int, purpose: Purpose) -> np.random.Generator:
    """Random numbers of numpy for one purpose.

    Example:
        >>> first = numpy_stream(0, Purpose.LINKS).permutation(5).tolist()
        >>> first == numpy_stream(0, Purpose.LINKS).permutation(5).tolist()
        True
    """
    return np.random.default_rng([seed, purpose])


def torch_stream(
    seed: int, purpose: Purpose, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Random numbers of torch for one purpose.

    Example:
        >>> first = torch.rand(3, generator=torch_stream(0, Purpose.LINKS))
        >>> torch.equal(first, torch.rand(3, generator=torch_stream(1, Purpose.LINKS)))
        False
    """
    return torch.Generator(device).manual_seed(torch_seed(seed, purpose))


def torch_seed(seed: int, purpose: Purpose) -> int:
    """With which torch's own generators are seeded for one purpose."""
    return int(np.random.SeedSequence([seed, purpose]).generate_state(1, np.uint64)[0])
