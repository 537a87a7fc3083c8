"""The state of a watch in one file, whole or not at all: tensors, and JSON beside them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from matcha_gnn.backbones.checks import first_non_finite
from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import existing_file, replacing
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.typing import Parameters
from matcha_gnn.watching.steps import Step

FORMAT = "matcha-gnn watch 1"


@dataclass(frozen=True)
class State:
    """What a watch needs to go on.

    Attributes:
        model: a hash of the source model.
        configuration: strategy and base method with their parameters: resampled graphs were met
            with these.
        number: steps so far.
        steps: the newest of them.
        resampled: steps of graphs resampled from the source; empty where there was none.
        changes: tensors in which the last adapted model differs from the source; empty for none.
    """

    model: str
    configuration: Parameters
    number: int
    steps: tuple[Step, ...]
    resampled: tuple[Step, ...]
    changes: dict[str, Tensor]

    def save(self, path: str | Path) -> None:
        """Write it; the file appears whole or not at all."""
        content = {
            "model": self.model,
            "configuration": self.configuration,
            "number": self.number,
            "steps": [step.figures() for step in self.steps],
            "resampled": [step.figures() for step in self.resampled],
        }
        metadata = {"format": FORMAT, "watch": json_text(content, indent=None)}
        with replacing(path) as beside:
            save_file(self.changes, str(beside), metadata)

    @classmethod
    def load(cls, path: str | Path) -> "State":
        """Read it, and refuse what is no such file.

        Raises:
            InvalidFileError: with what is wrong.
        """
        path = existing_file(path, "state")
        try:
            with safe_open(str(path), framework="pt") as file:
                metadata = file.metadata() or {}
                changes = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise _refused(path, "not a safetensors file") from error
        if metadata.get("format") != FORMAT:
            raise _refused(path, f"format {metadata.get('format', 'none')!r}")
        broken = first_non_finite(changes)
        if broken is not None:
            raise _refused(path, f"NaN or infinite entries in {broken}")
        try:
            content: dict[str, Any] = json.loads(metadata["watch"])
            return cls(
                model=str(content["model"]),
                configuration=dict(content["configuration"]),
                number=int(content["number"]),
                steps=tuple(map(Step.from_figures, content["steps"])),
                resampled=tuple(map(Step.from_figures, content["resampled"])),
                changes=changes,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _refused(path, f"{type(error).__name__}: {error}") from error


def _refused(path: Path, what: str) -> InvalidFileError:
    return InvalidFileError("state", f"{path} ({what})", f"a file of format {FORMAT!r}")
