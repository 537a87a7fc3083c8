"""A run as a study of questions needs it: candidates, evidence and true classes, as one file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import matcha_gnn as mg
from matcha_gnn.evidence.posterior import network_logs
from matcha_gnn.io.files import replacing
from matcha_gnn.questions.sampling import IntArray
from matcha_gnn.typing import FloatArray


@dataclass(frozen=True, eq=False)
class SavedRun:
    """One shift, base method and seed, at the nodes that are scored.

    Attributes:
        case: name of the shift.
        family: its family.
        real: whether the graph is measured.
        names: of the candidates, the source first.
        probs: of the candidates, [M, N, C].
        truth: true classes, [N].
        prior: class probabilities by evidence, [N, C]; None where they are not to be believed.
        default: labels that the default takes without answers, [N].
        evidence: log-probabilities by features and edges, [N, C], or None.
        network: log-probabilities by the network, [N, C], or None.
        pool: weights of both in the pool, [2], or None.
    """

    case: str
    family: str
    real: bool
    names: tuple[str, ...]
    probs: NDArray[np.float32]
    truth: IntArray
    prior: FloatArray | None
    default: IntArray
    evidence: FloatArray | None = None
    network: FloatArray | None = None
    pool: FloatArray | None = None

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
            found: dict[str, Any] = {name: arrays[name] for name in arrays.files}
        found["names"] = tuple(found["names"].tolist())
        found["probs"] = found["probs"].astype(np.float32)
        plain = {name: found[name].item() for name in ("case", "family", "real")}
        return cls(**{"prior": None} | found | plain)


class Shift(NamedTuple):
    """The shift of a run: its name, its family, and whether the graph is measured."""

    case: str
    family: str
    real: bool


def saved_run(
    result: mg.Result,
    truth: Tensor,
    scored: Tensor,
    shift: Shift,
    others: Mapping[str, Tensor] | None = None,
) -> SavedRun:
    """What a result of the default has to say at the nodes that are scored.

    Args:
        result: of `mg.adapt`.
        truth: true classes, [N].
        scored: the nodes, bool [N].
        shift: which it was.
        others: class probabilities of further candidates by name, [N, C] each.
    """
    found = {"source": result.probs_before}
    found |= {one.name: one.probs for one in result.candidates}
    found |= others or {}
    found = _different({name: probs[scored] for name, probs in found.items()})
    posterior, known = result.posterior, dict[str, Any](prior=None)
    if posterior is not None:
        known = {
            "prior": None if result.obstacle else _array(posterior.probs[scored]),
            "evidence": _array(posterior.evidence[scored]),
            "network": _array(network_logs(result.probs_before[scored])),
            "pool": np.array(posterior.source.pool_weights),
        }
    return SavedRun(
        **shift._asdict(),
        names=tuple(found),
        probs=_array(torch.stack(list(found.values()))),
        truth=truth[scored].cpu().numpy(),
        default=result.labels[scored].cpu().numpy(),
        **known,
    )


def _array(values: Tensor) -> NDArray[np.float32]:
    found: NDArray[np.float32] = values.float().cpu().numpy()
    return found


def _different(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """One candidate for each way to label the nodes."""
    kept: dict[str, Tensor] = {}
    for name, probs in found.items():
        if not any(torch.equal(probs.argmax(1), other.argmax(1)) for other in kept.values()):
            kept[name] = probs
    return kept
