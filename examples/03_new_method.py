"""A base method of your own in a few lines: checked, run alone and with adapted hop weights.

Run: python examples/03_new_method.py

To share it, put it into a package with an entry point: examples/third_party_method.
"""

import argparse

import matcha_gnn as mg
from matcha_gnn.gamma.testing import check_method


class Smooth(mg.BaseMethod):
    """A node's prediction, averaged with those of its neighbours.

    Args:
        weight: of the neighbours; 0 gives the source model's prediction back.
    """

    name = "smooth"

    def __init__(self, weight: float = 0.5) -> None:
        self.weight = weight

    def predict(self, view: mg.View, state: None) -> tuple[mg.Prediction, None]:
        own = view.logits.softmax(-1)
        neighbours = view.graph.adjacency @ own
        mixed = (1 - self.weight) * own + self.weight * neighbours
        return mg.Prediction(mixed / mixed.sum(1, keepdim=True)), state


def main(arguments: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=200)
    given = parser.parse_args(arguments)

    check_method(Smooth())  # the checks that every built-in method passes
    print("check_method: passed")

    source = mg.datasets.csbm(given.nodes, given.features, homophily=0.2, seed=0)
    target = mg.datasets.csbm(given.nodes, given.features, homophily=0.8, seed=1)
    model = mg.GPRGNN(given.features, 2)
    mg.fit(model, source, epochs=given.epochs)
    said = {}
    for name, method in {"erm": mg.ERM(), "smooth": Smooth()}.items():
        result = mg.adapt(model, target, method)
        said[name] = mg.metrics.accuracy(result.probs_before, target.y)
        said[f"{name}, Guarded"] = mg.metrics.accuracy(result.probs, target.y)
    for name, share in said.items():
        print(f"{name:16} {share:.1%}")
    return said


if __name__ == "__main__":
    main()
