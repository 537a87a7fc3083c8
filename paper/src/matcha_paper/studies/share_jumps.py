"""What a jump of predicted class shares says about accuracy: 66 shifts of CSBM graphs.

Run: python -m matcha_paper.studies.share_jumps
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.alarms import JUMP, jumped
from matcha_gnn.datasets import csbm
from matcha_gnn.metrics import accuracy
from matcha_paper.studies.shared import arguments, run_study

SIZE: dict[str, Any] = {"num_nodes": 1500, "num_features": 32}
SHARES: tuple[tuple[float, ...], ...] = ((0.5, 0.5), (0.95, 0.05), (0.8, 0.2), (0.4, 0.3, 0.3))
OTHER: dict[int, tuple[float, ...]] = {2: (0.85, 0.15), 3: (0.7, 0.2, 0.1)}
"""Class shares of a third target, by number of classes."""
LOST = 0.05


def shifts() -> Iterator[tuple[mg.GPRGNN, Data]]:
    """Trained models, each with every target."""
    for shares, signal in product(SHARES, (1.3, 2.5)):
        model = mg.GPRGNN(SIZE["num_features"], len(shares))
        source = csbm(**SIZE, homophily=0.85, signal=signal, shares=shares, seed=0)
        mg.fit(model, source, epochs=100)
        # One class in twenty has no room for edges of homophily 0.2.
        lowest = 0.9 if max(shares) > 0.9 else 0.2
        targets = dict.fromkeys((shares, shares[::-1], OTHER[len(shares)]))
        for homophily, of_target in product((0.85, 0.5, lowest), targets):
            options: dict[str, Any] = {
                "homophily": homophily,
                "signal": signal,
                "shares": of_target,
            }
            yield model, csbm(**SIZE, **options, seed=1)


def main() -> None:
    """Print how many runs on either side of `JUMP` lost accuracy."""
    arguments(__doc__).parse_args()
    runs: dict[str, list[tuple[bool, float]]] = {"published": [], "guarded": []}
    for model, target in shifts():
        results = {
            "published": mg.adapt(model, target, strategy=mg.Matcha(rounds=100)),
            "guarded": mg.adapt(model, target),
        }
        for name, result in results.items():
            gain = accuracy(result.probs, target.y) - accuracy(result.probs_before, target.y)
            runs[name].append((jumped(*result.class_counts), gain))
    for name, found in runs.items():
        for side, words in ((True, "at or above"), (False, "below")):
            gains = [gain for beyond, gain in found if beyond is side]
            lost = sum(gain < -LOST for gain in gains)
            print(
                f"{name}, {words} {JUMP}: {len(gains)} runs, {lost} lost more than {LOST:.0%}, "
                f"worst {min(gains, default=0):+.1%}, best {max(gains, default=0):+.1%}"
            )


if __name__ == "__main__":
    run_study(main)
