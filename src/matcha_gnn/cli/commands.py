"""What each command does, for `cli` to call: read files, call the library, write, print."""

import os
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from rich.text import Text
from torch import Tensor, nn

from matcha_gnn.adaptation import run_adaptation, wanted_by
from matcha_gnn.cli import asking, console
from matcha_gnn.cli.networks import given_model, given_names
from matcha_gnn.cli.output import require_free
from matcha_gnn.datasets import csbm
from matcha_gnn.datasets.catalogue import make_graph as draw_graph
from matcha_gnn.datasets.catalogue import seeded
from matcha_gnn.errors import (
    InvalidArgumentError,
    InvalidFileError,
    InvalidGraphError,
)
from matcha_gnn.evidence import Wanted
from matcha_gnn.gamma.losses import LOSSES
from matcha_gnn.gamma.methods import ERM, METHODS, BaseMethod
from matcha_gnn.gamma.models import GPRGNN, Backbone, resolve_backbone
from matcha_gnn.gamma.strategies import STRATEGIES, Guarded, Strategy
from matcha_gnn.gamma.train import fit
from matcha_gnn.graphs.memory import GraphLike
from matcha_gnn.io.files import output_folder, require_writable
from matcha_gnn.io.graphfiles import read_graph, write_graph
from matcha_gnn.io.models import load_model, save_model
from matcha_gnn.io.outputs import RUN_FILES, Made, can_report, write_outputs
from matcha_gnn.registry import (
    LOSS_GROUP,
    METHOD_GROUP,
    STRATEGY_GROUP,
    build,
    parse_options,
    resolve_installed,
)
from matcha_gnn.result import Adaptation
from matcha_gnn.result.alarms import Severity
from matcha_gnn.streams import Purpose, torch_stream
from matcha_gnn.transforms import attacked, shifted

STYLES = {
    Severity.GOOD: "green",
    Severity.NEUTRAL: "default",
    Severity.WARNING: "yellow",
    Severity.ALARM: "bold red",
}
SOURCE_MODEL = "source-model.safetensors"
"""What the demo adapts."""
NO_FILE = "No model file: your network, and a source summary beside it, stay as they are."


def demo(output: Path, force: bool, seed: int, json: bool, command: str) -> None:
    """Homophily 0.8 → 0.2 on the paper's CSBM, with fewer features and epochs than its runs.

    A folder that holds nothing but the files of this command is written again.
    """
    tell = _unheard if json else console.say
    was_demo = os.path.exists(output / SOURCE_MODEL)
    require_free(output, force, {SOURCE_MODEL, *RUN_FILES} if was_demo else ())
    folder, page = output_folder(output), can_report(console.say)
    tell("drawing two graphs …")
    nodes, features = 5000, 1000
    source = csbm(nodes, features, homophily=0.8, seed=seed)
    target = csbm(nodes, features, homophily=0.2, seed=1000 + seed)
    model = GPRGNN(features, 2)
    tell("training on the first, where 80% of edges join alike nodes …")
    with console.progress_bar("training on homophily 0.8", quiet=json) as progress:
        fit(model, source, epochs=200, seed=seed, progress=progress)
    save_model(model, folder / SOURCE_MODEL)
    tell("adapting to the second, where 20% do …")
    with console.progress_bar("adapting to homophily 0.2", quiet=json) as progress:
        result = run_adaptation(model, target, ERM(), Guarded(), seed=seed, progress=progress)
    tell("writing the results …")
    made = Made(command, "a graph with 20% of edges inside classes", page)
    summary = write_outputs(result, folder, target.y, None, made)
    if json:
        console.print_json(summary)
        return
    console.out.print(
        "A GPRGNN trained where 80% of edges join alike nodes meets a graph where 20% do. "
        "It is adapted without labels; those of that graph are used for this table alone."
    )
    print_summary(summary)
    if page:
        console.point_to(folder / "report.html")


def _unheard(line: str) -> None:
    """Where one JSON document is wanted."""


def train(
    graph: Path,
    output: Path,
    backbone: str,
    hops: int | None,
    hidden: int,
    epochs: int,
    train_fraction: float | None,
    methods: list[str],
    seed: int,
    json: bool,
) -> None:
    """Train on a graph file and write a model file."""
    architecture = resolve_backbone("--backbone", backbone)
    around = [resolve_installed("--method", name, METHODS, METHOD_GROUP)() for name in methods]
    if output.suffix != ".safetensors":
        raise InvalidFileError("output", output, "a file named .safetensors")
    require_writable(output)
    data = read_graph(graph, further=False)
    if data.y is None:
        raise InvalidFileError("graph", f"{graph} (no array y)", "a graph with labels y")
    classes = _num_classes(data.y)
    mask = None
    if train_fraction is not None:
        mask = _stratified(data.y, train_fraction, seed)
    sizes = {"in_channels": data.x.shape[1], "out_channels": classes, "hidden_channels": hidden}
    depth = {} if hops is None else {"K": hops}
    model: Backbone = build("--backbone", architecture, sizes | depth)
    start = perf_counter()
    with console.progress_bar("training", quiet=json) as progress:
        run = fit(
            model,
            data,
            epochs=epochs,
            train_mask=mask,
            methods=around,
            seed=seed,
            progress=progress,
        )
    save_model(model, output)
    said = {
        "model": str(output),
        "train_accuracy": run.train_accuracy,
        "final_loss": run.loss[-1] if run.loss else None,
        "gamma": model.gamma.tolist(),
        "seconds": perf_counter() - start,
    }
    if json:
        console.print_json(said)
        return
    console.out.print(
        f"{output}: accuracy {run.train_accuracy:.1%} on its training nodes, "
        f"{said['seconds']:.1f} s"
    )


@dataclass(frozen=True)
class Job:
    """What `matcha adapt` is asked for, as written on the command line."""

    model: Path | None
    graph: Path
    output: Path
    method: str
    options: list[str]
    strategy: str
    parameters: list[str]
    seed: int
    device: str
    json: bool
    command: str
    ask: int | None = None
    table: Path | None = None
    classes: str | None = None
    metric: str = "accuracy"
    positive: str | None = None
    network: str | None = None
    weights: Path | None = None
    source: Path | None = None
    force: bool = False

    @property
    def named_model(self) -> str:
        """The model as it is written in a command."""
        if self.network is None:
            return str(self.model)
        return f"--network {self.network} --weights {self.weights}"

    def check(self) -> None:
        """Refuse names and options that do not exist, before any file is read."""
        self.base_method()
        self.chosen_strategy()
        usable_device(self.device)

    def base_method(self) -> BaseMethod:
        """From --method and --option."""
        kind = resolve_installed("--method", self.method, METHODS, METHOD_GROUP)
        return build("--option", kind, parse_options("--option", self.options))

    def chosen_strategy(self) -> Strategy:
        """From --strategy and --set; a loss is given by its name."""
        kind = resolve_installed("--strategy", self.strategy, STRATEGIES, STRATEGY_GROUP)
        given = parse_options("--set", self.parameters)
        if "loss" in given:
            name = str(given["loss"])
            given["loss"] = resolve_installed("--set loss", name, LOSSES, LOSS_GROUP)()
        if "strategies" in given:
            allowed = "a strategy in Python: mg.Guarded(strategies=...)"
            raise InvalidArgumentError("--set strategies", given["strategies"], allowed)
        return build("--set", kind, given)

    def wanted(self, data: object) -> Wanted:
        """From --metric, --positive and --classes."""
        return wanted_by(self.metric, self.positive, given_names(self.classes), data)


def adapt(job: Job) -> None:
    """Adapt a model file to a graph file and write a folder."""
    job.check()
    require_free(job.output, job.force)
    model = given_model(job.model, job.network, job.weights)
    data: GraphLike = read_graph(job.graph, check_labels=False, further=job.network is not None)
    asking.check(job, data)
    output_folder(job.output)
    result = adapted(job, model, data)
    page = can_report(console.say)
    trouble = asking.ask(result, job)
    made = Made(job.command, job.graph.name, page, asking.call_of(job))
    summary = write_outputs(result, job.output, *for_scores(data), made)
    if trouble is not None:
        raise trouble
    if job.json:
        console.print_json(summary)
        return
    print_summary(summary)
    console.out.print(
        Text(f"Written to {job.output}: predictions.npz, changed.csv, {summary['model_file']}, …")
        if summary["model_file"]
        else Text(f"Written to {job.output}: predictions.npz, changed.csv, … {NO_FILE}")
    )
    if page:
        console.point_to(job.output / "report.html")
    asking.print_questions(result, job.output, page)


def adapted(job: Job, model: Backbone | nn.Module, data: Any) -> Adaptation:
    """Run a job on its model and graph, with a progress bar."""
    on = usable_device(job.device)
    data = data.to(on)
    with console.progress_bar("adapting", quiet=job.json) as progress:
        return run_adaptation(
            model.to(on),
            data,
            job.base_method(),
            job.chosen_strategy(),
            source=job.source,
            wanted=job.wanted(data),
            seed=job.seed,
            progress=progress,
        )


def for_scores(data: GraphLike) -> tuple[object, object]:
    """True classes, and the nodes that accuracy counts, as they came; either may be missing."""
    return getattr(data, "y", None), getattr(data, "test_mask", None)


def make_graph(
    name: str,
    output: Path,
    options: dict[str, Any],
    changes: dict[str, Any],
    attack: Path | None,
    rate: float,
    json: bool,
) -> None:
    """Draw a graph, or read one of a data set or a file; shift and attack it, and write it."""
    require_writable(output)
    seed = options.get("seed", 0)
    if Path(name).suffix in (".npz", ".pt"):
        other = next((each for each in options if each != "seed"), None)
        if other:
            raise InvalidArgumentError(other, options[other], "--change and --seed for a file")
        data = read_graph(name)
    else:
        if (changes or attack) and "seed" in options and not seeded(name):
            del options["seed"]
        data = draw_graph(name, **options)
    data = shifted(data, changes, seed)
    if attack:
        data = attacked(load_model(attack), data, rate, seed=seed)
    write_graph(data, output)
    if json:
        written = {"graph": str(output), "nodes": data.num_nodes, "edges": data.num_edges}
        console.print_json(written)
    else:
        counts = f"{data.num_nodes:,} nodes, {data.num_edges:,} directed edges"
        console.out.print(f"{output}: {counts}")


def print_summary(summary: dict[str, Any]) -> None:
    """What an adaptation did, as a table and a line."""
    rows = []
    if summary["accuracy_before"] is not None:
        percent = [f"{summary[key]:.1%}" for key in ("accuracy_before", "accuracy_after")]
        rows.append(["accuracy", *percent])
    if summary["metric_before"] is not None:
        rows.append([summary["metric_title"], *_both(summary, "metric_{}", summary["metric_unit"])])
    if summary["expected_before"] is not None:
        estimated = f"estimated {summary['metric_title']}"
        rows.append([estimated, *_both(summary, "expected_{}", summary["metric_unit"])])
    pairs = zip(summary["gamma_before"], summary["gamma_after"], strict=True)
    if summary["gamma_before"] != summary["gamma_after"]:
        rows.append(["PIC loss", f"{summary['pic_before']:.4f}", f"{summary['pic_after']:.4f}"])
        rows += [[f"γ {k}", f"{a:+.3f}", f"{b:+.3f}"] for k, (a, b) in enumerate(pairs)]
    alarm = "ALARM, " if summary["severity"] == Severity.ALARM else ""
    title = f"{alarm}{summary['status']}"
    if summary["method"] != ERM.name:
        title += f", around {summary['method']}"
    if rows:
        console.print_rows(title, ["", "before", "after"], rows)
    for remark in summary["score_remarks"]:
        console.out.print(Text(remark))
    console.out.print(Text(summary["meaning"], style=STYLES[summary["severity"]]))
    if "labels changed" not in summary["meaning"]:
        share = f"{summary['labels_changed']:.1%} of labels changed"
        console.out.print(f"{share}: accuracy cannot have moved by more.")


def _both(summary: dict[str, Any], name: str, unit: str) -> list[str]:
    """A value before and after, as percent or as it is."""
    values = [summary[name.format(when)] for when in ("before", "after")]
    return [f"{value:.1%}" if unit == "share" else f"{value:.4g}" for value in values]


def _num_classes(labels: Tensor) -> int:
    """One more than the largest class; refuses what cannot be classes before a model is built."""
    allowed = f"classes 0 to {len(labels) - 1}, one for each node; negative where unknown"
    if labels.dim() != 1 or labels.is_floating_point() or labels.is_complex():
        got = f"{labels.dtype} of shape {list(labels.shape)}"
        raise InvalidGraphError("graph.y", got, allowed)
    largest = int(labels.max())
    if not 0 <= largest < len(labels):
        raise InvalidGraphError("graph.y", f"class {largest} as the largest", allowed)
    return largest + 1


def _stratified(labels: Tensor, fraction: float, seed: int) -> Tensor:
    if not 0 < fraction <= 1:
        raise InvalidArgumentError("--train-fraction", fraction, "a share in (0, 1]")
    draw = torch.rand(len(labels), generator=torch_stream(seed, Purpose.TRAINING_NODES))
    mask = torch.zeros(len(labels), dtype=torch.bool)
    for label in range(int(labels.max()) + 1):
        members = (labels == label).nonzero().squeeze(1)
        count = max(min(1, len(members)), round(fraction * len(members)))
        mask[members[draw[members].argsort()[:count]]] = True
    return mask


def usable_device(name: str) -> torch.device:
    """The device that the option --device names."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidArgumentError(
            "--device", repr(name), "cpu, or a device torch can use"
        ) from error
    return device
