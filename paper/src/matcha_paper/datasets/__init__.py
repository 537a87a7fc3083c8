"""The data sets of the paper: a source, a validation and a target graph each."""

from matcha_paper.datasets.arxiv import arxiv, arxiv_structure
from matcha_paper.datasets.citation import coauthor_cs, cora
from matcha_paper.datasets.domains import Domains
from matcha_paper.datasets.preferential import preferential
from matcha_paper.datasets.released import released_csbm
from matcha_paper.datasets.syn_cora import syn_cora
from matcha_paper.datasets.syn_products import syn_coauthor_cs, syn_products
from matcha_paper.datasets.twitch import twitch

__all__ = [
    "Domains",
    "arxiv",
    "arxiv_structure",
    "coauthor_cs",
    "cora",
    "preferential",
    "released_csbm",
    "syn_coauthor_cs",
    "syn_cora",
    "syn_products",
    "twitch",
]
