"""scikit-learn's gradient boosting on node features: a classifier that knows no edge.

Run: python examples/classifiers/gradient_boosting.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import matcha_gnn as mg


def main(folder: Path) -> tuple[float, float]:
    source = mg.datasets.csbm(1500, 32, homophily=0.85, signal=1.5, seed=0)
    target = mg.datasets.csbm(1500, 32, homophily=0.2, signal=1.5, seed=1)
    trained = np.arange(1500) % 2 == 0
    boosting = HistGradientBoostingClassifier(max_iter=30, random_state=0)
    boosting.fit(source.x[trained], source.y[trained])

    def classify(graph):
        return boosting.predict_proba(graph.x)

    summary = mg.summarise_source(classify, source, trained=trained)
    result = mg.adapt(classify, target, source=summary)
    print(result.summary())
    result.report(folder / "report.html")
    answers = {each.node: int(target.y[each.node]) for each in result.ask(20)}
    decided = result.answer(answers)
    decided.save(folder / "answer.safetensors")
    again = mg.load(folder / "answer.safetensors", network=classify)
    assert (again(target).argmax(1) == decided.labels).all()
    return tuple(mg.metrics.accuracy(p, target.y) for p in (result.probs_before, decided.probs))


if __name__ == "__main__":
    print("accuracy {:.1%} → {:.1%}".format(*main(Path(sys.argv[1]))))
