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
ROOT_STREAMS = {
    # Graphs.
    "matcha_gnn/datasets/csbm.py",
    "matcha_paper/datasets/arxiv.py",
    "matcha_paper/datasets/preferential.py",
    "matcha_paper/datasets/released.py",
    "matcha_paper/datasets/syn_products.py",
    "matcha_paper/figures/gamma.py",
    "matcha_paper/studies/data_checks.py",
    "matcha_paper/studies/worlds.py",
    "matcha_gnn/gamma/testing/graphs.py",
    "matcha_gnn/gamma/testing/losses.py",
    # Starting values, training and the nodes that it keeps apart.
    "matcha_gnn/cli/demo.py",
    "matcha_gnn/kernels/contexts.py",
    "matcha_paper/studies/added_hops.py",
    "matcha_paper/studies/evidence.py",
    "matcha_paper/studies/plain_networks.py",
    "matcha_paper/studies/same_bits.py",
    "matcha_gnn/gamma/testing/backbones.py",
    "matcha_gnn/gamma/train.py",
    # Splits of published data sets and of studies, and how these break features; how the battery
    # renumbers nodes.
    "matcha_paper/datasets/twitch.py",
    "matcha_paper/studies/broken.py",
    "matcha_paper/studies/evidence_cases.py",
    "matcha_paper/studies/harm_cases.py",
    "matcha_paper/studies/natural.py",
    "matcha_paper/studies/networks.py",
    "matcha_paper/studies/shared_rows.py",
    "matcha_gnn/gamma/testing/methods.py",
}
SEEDERS = {"default_rng", "manual_seed", "seed", "RandomState", "SeedSequence"}


def modules():
    return {
        str(path.relative_to(package.parent)): ast.parse(path.read_text())
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path.name != "streams.py"
    }


def called(tree):
    functions = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in functions}


def test_only_listed_modules_draw_from_root_streams():
    assert {name for name, tree in modules().items() if called(tree) & SEEDERS} == ROOT_STREAMS


def test_every_purpose_has_one_place():
    used = Counter(
        node.attr
        for tree in modules().values()
        for node in ast.walk(tree)
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
