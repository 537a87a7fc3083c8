"""T3A + Matcha with T3A's logits as they are, and at the scale of the model's own.

Syn-Cora, held-out graphs (runs 2 and 3) and seeds (10 and 11), four architectures, all supports
kept, 100 rounds. Labels are used to report.

Run: python -m matcha_paper.studies.t3a_scale
Prints for each architecture and scale, at both seeds: mean confidence and PIC of T3A alone, its
accuracy in %, and that of T3A + Matcha with step sizes 0.1, 0.3 and 1.
"""

from typing import Literal

from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.metrics import accuracy
from matcha_paper.studies.gtrans_syn_cora import RUNS
from matcha_paper.studies.shared import (
    DEPTHS,
    arguments,
    published_syn_cora,
    run_study,
    syn_cora_model,
)

Scale = Literal["unit", "model"]
SCALES: tuple[Scale, ...] = ("unit", "model")
STEP_SIZES = (0.1, 0.3, 1.0)


def line(model: mg.Backbone, target: Data, scale: Scale) -> str:
    """Confidence, PIC and accuracies, as they are printed."""
    method = mg.T3A(k=-1, scale=scale)
    results = [
        mg.gamma.run(
            model,
            target,
            method,
            mg.Matcha(lr=lr, rounds=100),
        )
        for lr in STEP_SIZES
    ]
    first = results[0]
    answers = [first.probs_before, *(result.probs for result in results)]
    scores = [f"{100 * accuracy(probs, target.y, target.test_mask):.1f}" for probs in answers]
    sure = float(first.probs_before.amax(1).mean())
    return f"{sure:.2f} {first.pic_before:.2f} {' '.join(scores)}"


def main() -> None:
    """Print a line for each architecture, scale and run."""
    arguments(__doc__).parse_args()
    for backbone in DEPTHS:
        models = {run: syn_cora_model(backbone, run, seed) for run, seed in RUNS.items()}
        for scale in SCALES:
            for run, model in models.items():
                target = published_syn_cora(run).target
                print(backbone, scale, f"run {run}:", line(model, target, scale), flush=True)


if __name__ == "__main__":
    run_study(main)
