"""A small model and graphs of a stream."""

from functools import cache

import matcha_gnn as mg


def day(homophily, seed, nodes=250, shares=(0.5, 0.5), shift=0.0):
    return mg.datasets.csbm(
        nodes, 24, homophily=homophily, degree=6, signal=1.2, shares=shares, shift=shift, seed=seed
    )


@cache
def source_graph(homophily=0.85, shares=(0.5, 0.5)):
    return day(homophily, 0, 800, shares)


@cache
def trained(homophily=0.85, shares=(0.5, 0.5)):
    model = mg.GPRGNN(24, len(shares), hidden_channels=8, K=4)
    mg.fit(model, source_graph(homophily, shares), epochs=80)
    return model


WEIGHTS = mg.Guarded(strategies=(mg.ClosedForm(), mg.Fitted()))
"""Candidates that are other hop weights: the last model is one of them."""
