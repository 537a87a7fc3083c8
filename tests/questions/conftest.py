"""A model that was trained where edges join alike nodes, and a target where they do not."""

import pytest

import matcha_gnn as mg
from asked import SIZE


@pytest.fixture(scope="package")
def model():
    trained = mg.GPRGNN(64, 2, hidden_channels=8, K=4)
    mg.fit(trained, mg.datasets.csbm(**SIZE, homophily=0.85, seed=0), epochs=120)
    return trained


@pytest.fixture(scope="package")
def target():
    return mg.datasets.csbm(**SIZE, homophily=0.1, seed=1)


@pytest.fixture
def result(model, target):
    return mg.adapt(model, target)
