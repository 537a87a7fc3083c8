"""Callbacks of an adaptation, called for every recorded round and at the end.

They are called after the run: a round is too short to wait for them. The trackers write to a
library that the user has installed and set up.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matcha_gnn.errors import optional_imports
from matcha_gnn.monitoring.progress import LateBar
from matcha_gnn.typing import Progress

if TYPE_CHECKING:
    from matcha_gnn.result import Adaptation


class Callback:
    """Called for every recorded round and at the end; both do nothing by default.

    Example:
        >>> import matcha_gnn as mg
        >>> class Losses(mg.Callback):
        ...     def on_round(self, number, values):
        ...         print(number, sorted(values)[:2])
        >>> graph = mg.datasets.csbm(num_nodes=50, num_features=4, seed=0)
        >>> model = mg.GPRGNN(4, 2, K=1)
        >>> _ = mg.adapt(model, graph, strategy=mg.Matcha(rounds=1), callbacks=[Losses()])
        0 ['gamma_0', 'gamma_1']
        1 ['gamma_0', 'gamma_1']
    """

    def on_result(self, result: "Adaptation") -> None:
        """Called by `adapt`: calls `on_round` for each round, then `on_end`."""
        for number in range(len(result.trace)):
            self.on_round(number, result.trace.row(number))
        self.on_end(result)

    def on_progress(self, done: int, total: int) -> None:
        """A round was done, of so many; called during the run."""

    def on_round(self, number: int, values: dict[str, float]) -> None:
        """A round was recorded: its loss, γ and class shares, by the names of `history.csv`."""

    def on_end(self, result: "Adaptation") -> None:
        """The run is over."""


class ShowProgress(Callback):
    """Calls a function with the rounds done and their number, in place of the default bar.

    Args:
        progress: the function.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_progress(self, done: int, total: int) -> None:
        """Pass it on."""
        self._progress(done, total)


def progress_of(callbacks: Sequence[Callback], quiet: bool = False) -> Progress:
    """What `adapt` calls after each round: callbacks that show progress, else a bar.

    Args:
        callbacks: of the run.
        quiet: no bar: another process shows one.
    """
    shown = [c for c in callbacks if type(c).on_progress is not Callback.on_progress]
    if not shown and not quiet:
        return LateBar("adapting")

    def progress(done: int, total: int) -> None:
        for callback in shown:
            callback.on_progress(done, total)

    return progress


class TensorBoard(Callback):
    """Curves for TensorBoard.

    Args:
        folder: where event files go.

    Raises:
        MatchaError: tensorboard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        with optional_imports("TensorBoard"):
            from torch.utils.tensorboard import SummaryWriter
        self._writer: Any = SummaryWriter(str(folder))

    def on_round(self, number: int, values: dict[str, float]) -> None:
        """One point on every curve."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, number)

    def on_end(self, result: "Adaptation") -> None:
        """Status and settings as text."""
        for name, value in _facts(result).items():
            self._writer.add_text(name, str(value))
        self._writer.flush()


class MLflow(Callback):
    """Metrics and settings of MLflow's active run.

    Raises:
        MatchaError: mlflow is not installed.
    """

    def __init__(self) -> None:
        with optional_imports("MLflow"):
            import mlflow
        self._mlflow: Any = mlflow

    def on_round(self, number: int, values: dict[str, float]) -> None:
        """One step of every metric."""
        self._mlflow.log_metrics(values, step=number)

    def on_end(self, result: "Adaptation") -> None:
        """Settings as parameters, the outcome as tags."""
        self._mlflow.log_params(result.configuration())
        self._mlflow.set_tags(_outcome(result))


class WandB(Callback):
    """History and summary of a run of Weights & Biases.

    Args:
        run: what `wandb.init(...)` returned.
    """

    def __init__(self, run: Any) -> None:
        self._run = run

    def on_round(self, number: int, values: dict[str, float]) -> None:
        """One line of the history."""
        self._run.log(values, step=number)

    def on_end(self, result: "Adaptation") -> None:
        """Settings as configuration, the outcome as summary."""
        self._run.config.update(result.configuration())
        self._run.summary.update(_outcome(result))


def _outcome(result: "Adaptation") -> dict[str, Any]:
    return {
        "status": str(result.status),
        "meaning": result.summary(),
        "labels_changed": result.changed,
        "pic_before": result.pic_before,
        "pic_after": result.pic_after,
    }


def _facts(result: "Adaptation") -> dict[str, Any]:
    return result.configuration() | _outcome(result)
