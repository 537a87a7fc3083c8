"""Candidates of every shift of the harm study, saved so that questions can be studied offline.

A saved run has the class probabilities of all candidates, the true classes and the evidence, at the
nodes that the study scores. Candidates are those of the default, if it has any, and of a few
strategies alone; those that give the same labels are one.

Run: python -m matcha_gnn.paper.studies.ask_runs test --out FOLDER [--seeds 0 1] [--methods erm]
         [--device cuda]
Runs that are there already are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.io.files import output_folder, replacing
from matcha_gnn.methods import METHODS
from matcha_gnn.paper.studies.harm import train_on
from matcha_gnn.paper.studies.harm_cases import (
    TEST_SEEDS,
    TUNING_SEEDS,
    Case,
    Source,
    cases,
    target_graph,
)
from matcha_gnn.paper.studies.shared import arguments
from matcha_gnn.questions.sampling import IntArray
from matcha_gnn.typing import FloatArray

TRIED: dict[str, mg.Strategy] = {
    "closed form": mg.ClosedForm(),
    "fitted": mg.Fitted(),
    "PIC, 5 rounds": mg.Matcha(rounds=5),
    "PIC, 20 rounds": mg.Matcha(rounds=20),
    "PIC, 50 rounds": mg.Matcha(rounds=50),
}
"""Candidates beside those of the default."""


@dataclass(frozen=True, eq=False)
class SavedRun:
    """One shift, base method and seed.

    Attributes:
        case: name of the shift.
        family: its family.
        real: whether the graph is measured.
        names: of the candidates, the source first.
        probs: of the candidates, [M, N, C].
        truth: true classes, [N].
        prior: class probabilities by evidence, [N, C], or None.
        default: labels that the default takes without answers, [N].
    """

    case: str
    family: str
    real: bool
    names: tuple[str, ...]
    probs: NDArray[np.float32]
    truth: IntArray
    prior: FloatArray | None
    default: IntArray

    @property
    def labels(self) -> IntArray:
        """Of the candidates, [M, N]."""
        found: IntArray = self.probs.argmax(2)
        return found

    @property
    def accuracies(self) -> FloatArray:
        """Of the candidates, in percent, [M]."""
        shares: FloatArray = 100 * (self.labels == self.truth).mean(1)
        return shares

    def save(self, path: Path) -> None:
        """Write it as one file."""
        values: dict[str, Any] = dict(vars(self), names=np.array(self.names))
        values["probs"] = self.probs.astype(np.float16)
        kept = {name: value for name, value in values.items() if value is not None}
        with replacing(path) as beside, open(beside, "wb") as file:
            np.savez_compressed(file, **kept)

    @classmethod
    def load(cls, path: Path) -> "SavedRun":
        """Read what `save` wrote."""
        with np.load(path) as arrays:
            return cls(
                case=str(arrays["case"]),
                family=str(arrays["family"]),
                real=bool(arrays["real"]),
                names=tuple(arrays["names"].tolist()),
                probs=arrays["probs"].astype(np.float32),
                truth=arrays["truth"],
                prior=arrays["prior"] if "prior" in arrays.files else None,
                default=arrays["default"],
            )


def collect(model: mg.Backbone, graph: Data, case: Case, seed: int, name: str) -> SavedRun:
    """Adapt in every way and keep what the candidates say."""
    method = METHODS[name]()
    default = mg.adapt(model, graph, method, seed=seed)
    assert default.decision is not None
    posterior = default.decision.posterior
    found = {"source": default.probs_before}
    found |= {one.name: one.probs for one in default.decision.candidates if one.probs is not None}
    for tried, strategy in TRIED.items():
        if tried not in found and strategy.can_run(model, method):
            found[tried] = mg.adapt(model, graph, method, strategy, seed=seed).probs
    mask = graph.get("test_mask")
    known = slice(None) if mask is None else mask
    found = _different({name: probs[known] for name, probs in found.items()})
    return SavedRun(
        case=case.name,
        family=case.family,
        real=case.source.real,
        names=tuple(found),
        probs=torch.stack(list(found.values())).float().numpy(),
        truth=graph.y[known].numpy(),
        prior=None if posterior is None else posterior.probs[known].float().numpy(),
        default=default.labels[known].numpy(),
    )


def _different(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """One candidate for each way to label the nodes."""
    kept: dict[str, Tensor] = {}
    for name, probs in found.items():
        if not any(torch.equal(probs.argmax(1), other.argmax(1)) for other in kept.values()):
            kept[name] = probs
    return kept


def file_of(folder: Path, case: Case, seed: int, method: str) -> Path:
    """Where a run is saved."""
    title = "".join(c if c.isalnum() or c in ".-" else "_" for c in case.name)
    return folder / f"{title}-{method}-{seed}.npz"


def collect_all(
    chosen: Sequence[Case], seeds: Sequence[int], methods: Sequence[str], out: Path, device: str
) -> None:
    """Every run that is not there yet; one training for each source and seed."""
    groups: dict[str, tuple[Source, list[Case]]] = {}
    for case in chosen:
        groups.setdefault(repr(case.source), (case.source, []))[1].append(case)
    for seed in seeds:
        for source, group in groups.values():
            wanted = [(case, name) for case in group for name in methods]
            wanted = [pair for pair in wanted if not file_of(out, pair[0], seed, pair[1]).exists()]
            model = train_on(source, seed, device) if wanted else None
            for case, name in wanted:
                assert model is not None
                run = collect(model, target_graph(case, seed), case, seed, name)
                run.save(file_of(out, case, seed, name))
                points = dict(zip(run.names, run.accuracies.round(1).tolist(), strict=True))
                print(f"{case.name}, {name}, seed {seed}: {points}", flush=True)


def main() -> None:
    """Save the runs of one half of the study."""
    halves, parser = cases(), arguments(__doc__)
    parser.add_argument("half", choices=halves)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--methods", nargs="+", default=["erm"])
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    seeds = args.seeds or (TUNING_SEEDS if args.half == "tuning" else TEST_SEEDS)
    out = output_folder(args.out)
    collect_all(halves[args.half], seeds, args.methods, out, args.device)


if __name__ == "__main__":
    main()
