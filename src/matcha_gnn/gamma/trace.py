"""What every round saw."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from matcha_gnn.errors import optional_imports
from matcha_gnn.typing import FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass
class Trace:
    """What each round saw before its step; the last entry is after the last step.

    Attributes:
        loss: one number per entry.
        gamma: γ, [K+1] each.
        class_shares: the mean prediction, [C] each.
    """

    loss: list[float] = field(default_factory=list)
    gamma: list[Tensor] = field(default_factory=list)
    class_shares: list[FloatArray] = field(default_factory=list)

    def add(self, loss: float, gamma: Tensor, class_shares: FloatArray) -> None:
        """Record one round of a loss."""
        self.loss.append(loss)
        self.gamma.append(gamma.detach().clone())
        self.class_shares.append(class_shares)

    def __len__(self) -> int:
        """Entries."""
        return len(self.gamma)

    def row(self, number: int) -> dict[str, float]:
        """One entry by flat names."""
        gamma, shares = self.gamma[number], self.class_shares[number]
        return (
            {"loss": self.loss[number]}
            | {f"gamma_{k}": g for k, g in enumerate(gamma.tolist())}
            | {f"share_{c}": s for c, s in enumerate(shares.tolist())}
        )

    def rows(self) -> list[dict[str, float]]:
        """One flat row per entry, for CSV files and data frames."""
        return [{"round": t} | self.row(t) for t in range(len(self))]

    def frame(self) -> "DataFrame":
        """The rows as a pandas DataFrame, one line per entry.

        Raises:
            MatchaError: pandas is not installed.
        """
        with optional_imports("frame"):
            from pandas import DataFrame
        return DataFrame(self.rows() or {"round": [], "loss": []}).set_index("round")
