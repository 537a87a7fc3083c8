"""The state of a watch in one file, whole or not at all: tensors, and JSON beside them."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from matcha_gnn.io.jsontext import json_object, json_text
from matcha_gnn.io.tensorfiles import TensorFormat
from matcha_gnn.typing import Parameters
from matcha_gnn.watching.steps import Step

FORMAT = TensorFormat(
    "state",
    "matcha-gnn watch 2",
    allowed="a file as a watch wrote it; without it the watch starts anew",
)


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
        FORMAT.write(path, self.changes, {"watch": json_text(content, indent=None)})

    @classmethod
    def load(cls, path: str | Path) -> "State":
        """Read it, and refuse what is no such file.

        Raises:
            InvalidFileError: with what is wrong.
        """
        metadata, changes = FORMAT.read(path)
        try:
            content = json_object(metadata["watch"])
            return cls(
                model=str(content["model"]),
                configuration=dict(content["configuration"]),
                number=int(content["number"]),
                steps=tuple(map(Step.from_figures, content["steps"])),
                resampled=tuple(map(Step.from_figures, content["resampled"])),
                changes=changes,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FORMAT.refused(path, f"{type(error).__name__}: {error}") from error
