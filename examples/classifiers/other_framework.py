"""A function of another framework: it takes its own graph object and returns NumPy probabilities.

The message passing of DGL or JAX stands here as a few lines of SciPy, so that this file runs
without either.  Run: python examples/classifiers/other_framework.py FOLDER
"""

import sys
from pathlib import Path

import scipy.sparse as sp
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

import matcha_gnn as mg


def smoothed(graph):
    """Features averaged over a node and its neighbours."""
    sender, receiver = graph.edge_index.numpy()
    number = graph.num_nodes
    edges = sp.coo_array(([1.0] * len(sender), (receiver, sender)), (number, number))
    return (edges @ graph.x.numpy() + graph.x.numpy()) / (1 + edges.sum(1))[:, None]


def main(folder: Path) -> tuple[float, float]:
    source = mg.datasets.csbm(1500, 32, homophily=0.85, signal=1.5, seed=0)
    target = mg.datasets.csbm(1500, 32, homophily=0.2, signal=1.5, seed=1)
    model = LogisticRegression().fit(smoothed(source)[:750], source.y[:750])

    def classify(graph):
        scores = model.decision_function(smoothed(graph))
        return softmax([[-s / 2, s / 2] for s in scores], axis=1)

    summary = mg.summarise_source(classify, source, trained=list(range(750)))
    result = mg.adapt(classify, target, source=summary)
    result.report(folder / "report.html")
    decided = result.answer({each.node: int(target.y[each.node]) for each in result.ask(20)})
    decided.save(folder / "answer.safetensors")
    again = mg.load(folder / "answer.safetensors", network=classify)
    assert (again(target).argmax(1) == decided.labels).all()
    return tuple(mg.metrics.accuracy(p, target.y) for p in (result.probs_before, decided.probs))


if __name__ == "__main__":
    print("accuracy {:.1%} → {:.1%}".format(*main(Path(sys.argv[1]))))
