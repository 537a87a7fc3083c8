"""Our probe beside scikit-learn's linear classifiers: quality, time and lines.

On natural sources and a generated one each is fitted to 60% of the nodes, its strength chosen by
folds, and says what it says of those nodes by fits that left them out. Shown are cross entropy and
accuracy of these, by how much their mean confidence misses their accuracy, the accuracy on the
first target, and seconds. All have one temperature chosen in the same way.

Run: python benchmarks/probe.py   (with MATCHA_DATA, and the distribution matcha-gnn-paper)
"""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from common import arguments, store
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from torch import Tensor
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.evidence.probe import FOLDS, STRENGTHS, fit_probe, rows_of, temperature_of
from matcha_paper.studies.natural import natural_pairs

SOURCES = ("acmv9", "2012n", "cornell", "left", "usa", "spectral0.0", "Bowdoin")


class Fitted(NamedTuple):
    """Log-odds of labelled nodes by fits without them, and of a target, [N, C] each."""

    own: Any
    target: Any


def ours(x: Tensor, y: Tensor, known: Tensor, target: Tensor, classes: int) -> Fitted:
    fit = fit_probe(x, y, known, classes)
    return Fitted(fit.logits[known].numpy(), fit.probe.logits(target).numpy())


def logistic(x: Tensor, y: Tensor, known: Tensor, target: Tensor, classes: int) -> Fitted:
    """`LogisticRegressionCV` by folds that are stratified, over the strengths that ours tries."""
    rows, labels = _scaled(x, target, known)
    inverse = [1 / (strength * int(known.sum())) for strength in STRENGTHS]
    folds = StratifiedKFold(FOLDS)
    chosen = LogisticRegressionCV(
        Cs=inverse,
        cv=folds,
        scoring="neg_log_loss",
        max_iter=200,
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )
    return _by_sklearn(chosen, rows, y[known].numpy(), labels, folds, "C_")


def stochastic(x: Tensor, y: Tensor, known: Tensor, target: Tensor, classes: int) -> Fitted:
    """`SGDClassifier` with log loss, its strength by `GridSearchCV`."""
    rows, labels = _scaled(x, target, known)
    folds = StratifiedKFold(FOLDS)
    one = SGDClassifier(loss="log_loss", random_state=0, max_iter=200)
    chosen = GridSearchCV(one, {"alpha": list(STRENGTHS)}, cv=folds, scoring="neg_log_loss")
    return _by_sklearn(chosen, rows, y[known].numpy(), labels, folds, "best_estimator_")


def _scaled(x: Tensor, target: Tensor, known: Tensor) -> tuple[Any, Any]:
    """Both by one factor, so that the mean row of the source has the norm 1."""
    rows, others = rows_of(x), rows_of(target)
    squares = rows.multiply(rows) if hasattr(rows, "multiply") else rows**2
    factor = 1 / np.sqrt(squares.sum() / rows.shape[0])
    return (rows * factor)[known.numpy()], others * factor


def _by_sklearn(chosen: Any, rows: Any, labels: Any, target: Any, folds: Any, found: str) -> Fitted:
    chosen.fit(rows, labels)
    best = getattr(chosen, found)
    if found == "C_":
        best = LogisticRegression(C=float(np.ravel(best)[0]), max_iter=200).fit(rows, labels)
    own = cross_val_predict(best, rows, labels, cv=folds, method="predict_log_proba")
    return Fitted(own, best.predict_log_proba(target))


PROBES: dict[str, Callable[..., Fitted]] = {
    "ours": ours,
    "LogisticRegressionCV": logistic,
    "SGDClassifier": stochastic,
}


def sources() -> Iterator[tuple[str, Data, Data]]:
    """Natural pairs, and a generated one."""
    for half in ("first", "second"):
        for family, name, data, targets in natural_pairs(half):
            if name in SOURCES:
                yield f"{family}, {name}", data, targets[0][1]
    made = [
        mg.datasets.csbm(5000, 500, homophily=homophily, signal=2, seed=seed)
        for seed, homophily in enumerate((0.8, 0.3))
    ]
    made[0].train_mask = torch.rand(5000, generator=torch.Generator().manual_seed(0)) < 0.6
    yield "generated", made[0], made[1]


def scores(fitted: Fitted, labels: Any, truth: Any) -> dict[str, float]:
    own, target = (np.maximum(each, -50) for each in fitted)
    logs = log_softmax(temperature_of(own, labels) * own, 1)
    accuracy = float((logs.argmax(1) == labels).mean())
    return {
        "cross entropy": -float(logs[np.arange(len(labels)), labels].mean()),
        "accuracy": accuracy,
        "confidence off": abs(float(np.exp(logs).max(1).mean()) - accuracy),
        "on the target": float((target.argmax(1) == truth).mean()),
    }


def main() -> None:
    args = arguments(__doc__).parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    rows = []
    print(
        "| source | probe | cross entropy | accuracy | confidence off | on the target | seconds |"
    )
    print("|---" * 7 + "|")
    for name, source, target in sources():
        classes = 1 + int(max(source.y.max(), target.y.max()))
        for probe, fit in PROBES.items():
            start = time.perf_counter()
            fitted = fit(source.x, source.y, source.train_mask, target.x, classes)
            row = scores(fitted, source.y[source.train_mask].numpy(), target.y.numpy())
            row["seconds"] = time.perf_counter() - start
            rows.append({"source": name, "probe": probe} | row)
            figures = " | ".join(f"{each:.3f}" for each in row.values())
            print(f"| {name} | {probe} | {figures} |", flush=True)
    store("probe", args, {"rows": rows})


if __name__ == "__main__":
    main()
