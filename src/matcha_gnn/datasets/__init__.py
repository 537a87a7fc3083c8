"""Graphs to train on and adapt to."""

from matcha_gnn.datasets.arxiv import arxiv, arxiv_structure
from matcha_gnn.datasets.attack import attacked
from matcha_gnn.datasets.catalogue import make_graph
from matcha_gnn.datasets.citation import coauthor_cs, cora
from matcha_gnn.datasets.csbm import csbm
from matcha_gnn.datasets.domains import Domains
from matcha_gnn.datasets.preferential import preferential
from matcha_gnn.datasets.shifts import shifted
from matcha_gnn.datasets.stored import store_csbm
from matcha_gnn.datasets.syn_cora import syn_cora
from matcha_gnn.datasets.syn_products import syn_coauthor_cs, syn_products
from matcha_gnn.datasets.twitch import twitch

__all__ = [
    "Domains",
    "arxiv",
    "arxiv_structure",
    "attacked",
    "coauthor_cs",
    "cora",
    "csbm",
    "make_graph",
    "preferential",
    "shifted",
    "store_csbm",
    "syn_coauthor_cs",
    "syn_cora",
    "syn_products",
    "twitch",
]
