"""Callbacks of an adaptation, called for every recorded round and at the end, and of a watch.

Those of an adaptation are called after the run: a round is too short to wait for them. The trackers
write to a library that the user has installed and set up.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matcha_gnn.errors import optional_imports
from matcha_gnn.io.files import append_line, replacing
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.monitoring.progress import LateBar
from matcha_gnn.typing import Progress

if TYPE_CHECKING:
    from matcha_gnn.result import Adaptation
    from matcha_gnn.watching import Step


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

    def on_graph(self, step: "Step") -> None:
        """A graph of a stream was observed; called by `Watch`, which calls nothing else."""


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

    def on_graph(self, step: "Step") -> None:
        """One point on every curve, and the alarms as text."""
        self.on_round(step.number, step.numbers())
        for alarm in step.alarms:
            self._writer.add_text(f"alarm: {alarm.kind}", str(alarm), step.number)
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

    def on_graph(self, step: "Step") -> None:
        """One step of every metric, and the newest alarms as a tag."""
        self.on_round(step.number, step.numbers())
        self._mlflow.set_tags({"alarms": " ".join(map(str, step.alarms)) or "none"})


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

    def on_graph(self, step: "Step") -> None:
        """One line of the history, and the newest alarms in the summary."""
        self.on_round(step.number, step.numbers())
        self._run.summary.update({"alarms": " ".join(map(str, step.alarms)) or "none"})


class JSONLines(Callback):
    """A line of JSON for every graph of a stream, added to a file.

    A line is on the disk when the call ends; what does not exist is null.

    Args:
        path: of the file; its folder must exist.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def on_graph(self, step: "Step") -> None:
        """Add its line."""
        append_line(self._path, json_text(step.figures(), indent=None))


class Prometheus(Callback):
    """The newest graph of a stream as a text file that Prometheus' node exporter collects.

    Args:
        path: a file named .prom in the folder of the textfile collector; it is replaced as a whole.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def on_graph(self, step: "Step") -> None:
        """Replace the file."""
        with replacing(self._path) as beside:
            beside.write_text(metrics_text(step), encoding="utf-8", newline="\n")


METRICS = {
    "accuracy": "Expected accuracy of the model in use on the newest graph.",
    "low": "Lower bound of the expected accuracy, 90% interval.",
    "high": "Upper bound of the expected accuracy, 90% interval.",
    "source_accuracy": "Expected accuracy of the source model on the newest graph.",
    "measured": "Accuracy of the model in use by labels, where there are some.",
    "changed": "Share of labels that differ from the source model's.",
    "degree": "Average incoming degree.",
    "homophily": "Estimated share of edges inside a class.",
    "shares_moved": "Distance between class shares of source and graph.",
    "drift": "Offset of node features in standard deviations within classes.",
    "confidence": "Mean largest probability of the source model.",
    "nodes": "Nodes of the newest graph.",
    "edges": "Edges of the newest graph.",
    "adapted": "1 where another model than the source's was taken.",
    "seconds": "Seconds that the newest graph took.",
}
"""Names of `Step.numbers`, and what Prometheus says of them."""


def metrics_text(step: "Step") -> str:
    r"""A step in Prometheus' text format; a figure that cannot be estimated is left out.

    Example:
        >>> from matcha_gnn.watching import Step
        >>> text = metrics_text(Step(3, "2026-05-01T00:00:00+00:00", accuracy=0.81))
        >>> print(*text.splitlines()[:3], sep="\n")
        # HELP matcha_accuracy Expected accuracy of the model in use on the newest graph.
        # TYPE matcha_accuracy gauge
        matcha_accuracy 0.81
    """
    found, lines = step.numbers(), []
    for name, meaning in METRICS.items():
        if name in found:
            lines += _metric(name, "gauge", meaning, {"": found[name]})
    rung = {n.removeprefix("alarm_"): v for n, v in found.items() if n.startswith("alarm_")}
    rung = {f'{{kind="{kind}"}}': value for kind, value in rung.items()}
    lines += _metric("alarm", "gauge", "1 where the alarm rings on the newest graph.", rung)
    usable = {"": float(not step.problem)}
    lines += _metric("usable", "gauge", "0 where the newest graph could not be used.", usable)
    lines += _metric("graphs_total", "counter", "Graphs so far.", {"": float(step.number)})
    when = {"": datetime.fromisoformat(step.time).timestamp()}
    lines += _metric("graph_time_seconds", "gauge", "Time of the newest graph.", when)
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, meaning: str, values: dict[str, float]) -> list[str]:
    head = [f"# HELP matcha_{name} {meaning}", f"# TYPE matcha_{name} {kind}"]
    return head + [f"matcha_{name}{labels} {value!r}" for labels, value in values.items()]


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
