"""Draw the pictures of paper/docs/theory.md from `matcha_paper.theory` as SVG.

Run in a checkout: python -m matcha_paper.figures.theory
"""

from pathlib import Path

import numpy as np

from matcha_gnn.io.files import replacing
from matcha_gnn.report.svg import COLOURS, INK, inline_svg, sheet
from matcha_paper import theory

FOLDER = Path("paper/docs/pictures")
DEGREE, SIGNAL = 5.0, 1.0
DASHES = ("-", "--", ":")


def accuracy_over_gamma() -> str:
    """Accuracy for each weight of the neighbours, at three homophilies."""
    gamma = np.linspace(-6, 6, 241)
    with sheet(2.8) as (figure, axes):
        for homophily, colour, dash in zip((0.8, 0.5, 0.2), COLOURS, DASHES, strict=False):
            accuracy = theory.expected_accuracy(gamma, DEGREE, homophily, SIGNAL)
            axes.plot(gamma, accuracy, dash, color=colour, label=f"homophily {homophily}")
            best = theory.best_gamma(DEGREE, homophily)
            at_best = theory.expected_accuracy(best, DEGREE, homophily, SIGNAL)
            axes.plot(best, at_best, "o", color=colour, markersize=5)
        axes.set(xlabel="γ, the weight of the neighbours", ylabel="accuracy")
        axes.grid(True)
        figure.legend(loc="outside upper center", ncols=3, fontsize=8)
        return inline_svg(
            figure,
            "theory-gamma",
            "Three curves of accuracy over γ; the peak lies right of zero at homophily 0.8, at "
            "zero at 0.5 and left of zero at 0.2.",
        )


def where_accuracy_goes() -> str:
    """What a shift costs, split into representation and classifier."""
    gamma = theory.best_gamma(DEGREE, 0.8)
    at = {"source_degree": DEGREE, "source_homophily": 0.8, "signal": SIGNAL}
    same = {"target_degree": DEGREE, "target_homophily": 0.8}
    shifts = {
        "homophily\n0.8 → 0.2": same | {"target_homophily": 0.2},
        "degree\n5 → 1": same | {"target_degree": 1.0},
        "attributes\nmove by 1": same | {"shift_norm": 1.0},
        "homophily and\nattributes": same | {"target_homophily": 0.4, "shift_norm": 1.0},
    }
    gaps = [theory.accuracy_gap(gamma, **at, **shift) for shift in shifts.values()]
    lost = np.array([gap.representation_degradation for gap in gaps])
    bias = np.array([gap.classifier_bias for gap in gaps])
    with sheet(2.8) as (figure, axes):
        axes.bar(range(len(gaps)), lost, 0.6, color=COLOURS[0], label="representation")
        axes.bar(
            range(len(gaps)),
            bias,
            0.6,
            bottom=lost,
            facecolor="none",
            edgecolor=COLOURS[1],
            hatch="//",
            label="classifier",
        )
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.set_xticks(range(len(gaps)), list(shifts), fontsize=7.5)
        axes.set(ylabel="accuracy lost")
        figure.legend(loc="outside upper center", ncols=2)
        parts = zip(shifts, lost, bias, strict=True)
        said = "; ".join(f"{n.replace(chr(10), ' ')}: {a:.2f} and {b:.2f}" for n, a, b in parts)
        return inline_svg(
            figure, "theory-gap", f"Bars of accuracy lost to representation and classifier. {said}."
        )


def best_gamma_over_homophily() -> str:
    """The best weight of the neighbours, by homophily and degree."""
    homophily = np.linspace(0, 1, 101)
    with sheet(2.6) as (figure, axes):
        for degree, colour, dash in zip((2.0, 5.0, 10.0), COLOURS, DASHES, strict=False):
            best = theory.best_gamma(degree, homophily)
            axes.plot(homophily, best, dash, color=colour, label=f"degree {degree:g}")
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.set(xlabel="homophily", ylabel="best γ")
        axes.grid(True)
        figure.legend(loc="outside upper center", ncols=3)
        return inline_svg(
            figure,
            "theory-best",
            "Straight lines of the best γ over homophily through zero at one half; the steeper the "
            "higher the degree.",
        )


PICTURES = {
    "accuracy-over-gamma": accuracy_over_gamma,
    "where-accuracy-goes": where_accuracy_goes,
    "best-gamma": best_gamma_over_homophily,
}


def main() -> None:
    """Draw every picture into the checkout in the working directory."""
    for name, draw in PICTURES.items():
        with replacing(FOLDER / f"{name}.svg") as beside:
            beside.write_text(" ".join(draw().split()) + "\n")


if __name__ == "__main__":
    main()
