"""No random draw repeats another: each has a stream of its own."""

import ast
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import matcha_gnn
import matcha_paper
from matcha_gnn.streams import Purpose, numpy_stream, torch_stream

PACKAGES = [Path(each.__file__).parent for each in (matcha_gnn, matcha_paper)]
SEEDS = range(5)


def test_every_purpose_has_one_place():
    texts = [path.read_text() for package in PACKAGES for path in package.rglob("*.py")]
    used = Counter(
        node.attr
        for text in texts
        if "Purpose." in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "Purpose"
    )
    assert used == {purpose.name: 1 for purpose in Purpose}


def numpy_generators():
    for seed in SEEDS:
        yield np.random.default_rng(seed)
        for world in (1, 2):
            yield np.random.default_rng([seed, world])
        for purpose in Purpose:
            yield numpy_stream(seed, purpose)


def torch_generators():
    for seed in SEEDS:
        yield torch.Generator().manual_seed(seed)
        for purpose in Purpose:
            yield torch_stream(seed, purpose)


DRAWS = {
    "permutation": (numpy_generators, lambda rng: rng.permutation(50)),
    "random": (numpy_generators, lambda rng: rng.random(3)),
    "standard_normal": (numpy_generators, lambda rng: rng.standard_normal(3)),
    "randperm": (torch_generators, lambda rng: torch.randperm(50, generator=rng)),
    "rand": (torch_generators, lambda rng: torch.rand(3, generator=rng)),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_no_two_streams_agree(draw):
    generators, take = DRAWS[draw]
    drawn = [tuple(take(generator).tolist()) for generator in generators()]
    assert len(drawn) > len(SEEDS) * len(Purpose)
    assert len(set(drawn)) == len(drawn)
