"""Source models: one for each data set, architecture and seed, trained once and kept in a file."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from matcha_gnn.io.jsontext import json_text, write_json
from matcha_paper.experiments.spec import RELEASED, Cell, source_model
from matcha_paper.locks import locked
from matcha_paper.provenance import commit, hardware

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from matcha_gnn.gamma.models import Backbone

FOLDER = "models"
"""Beside the records; not committed."""


class SourceModel(NamedTuple):
    """A trained source model and what a record says of it.

    Attributes:
        model: on the device that was asked for, with the arrays that methods need of the source.
        made: `hash` of its weights, `code` and `hardware` that trained it.
        seconds: of its training.
    """

    model: "Backbone"
    made: Mapping[str, Any]
    seconds: float


def make_graph(arguments: Mapping[str, Any]) -> "Data":
    """The graph that a column names; those of the published CSBM runs are known here alone."""
    from matcha_paper.datasets import named, released_csbm

    options = dict(arguments)
    name = options.pop("generator")
    if name == RELEASED:
        return released_csbm(**options)
    return named.make_graph(name, **options)


def cached_source(
    cell: Cell, folder: Path, device: str = "cpu", methods: Collection[str] = ()
) -> SourceModel:
    """The source model of a cell: from its file if this commit has trained it, else trained.

    All cells with the same source graph, training and seed share it, in whatever table they are,
    alone or on a GPU: training takes one thread of the CPU. What methods need of the source is
    added to the file when the first of their cells asks for it, and leaves the weights as they are.

    Args:
        cell: names the source graph and the training.
        folder: of the records.
        device: where the model is returned, as torch names it.
        methods: those that will be run around the model.

    Raises:
        InvalidFileError: the source graph's files are missing.
    """
    from matcha_gnn.gamma.files import load_model, save_model

    path = folder / FOLDER / f"{_key(cell)}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path), reproducible():
        made = _made(path)
        if made is None or made["code"] != commit():
            start = perf_counter()
            model = train_source(cell)
            made = {
                "hash": hash_of(model),
                "code": commit(),
                "hardware": hardware(model.gamma.device),
                "seconds": round(perf_counter() - start, 3),
            }
            path.with_suffix(".json").unlink(missing_ok=True)
            save_model(model, path)
            write_json(path.with_suffix(".json"), made)
        model = load_model(path)
        if _add_arrays(model, cell, methods):
            save_model(model, path)
    seconds = made.pop("seconds")
    return SourceModel(model.to(device), made, seconds)


def _key(cell: Cell) -> str:
    text = json_text(source_model(cell), indent=None)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _made(path: Path) -> dict[str, Any] | None:
    """How the model in a file was made; None where there is none."""
    about = path.with_suffix(".json")
    if not (path.is_file() and about.is_file()):
        return None
    found: dict[str, Any] = json.loads(about.read_text())
    return found


@contextmanager
def reproducible() -> Iterator[None]:
    """One thread, and only operations that give the same bits every time."""
    import torch

    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict)


def hash_of(model: "Backbone") -> str:
    """A hash of a model's weights and buffers, 16 hexadecimal digits.

    Example:
        >>> import torch
        >>> from matcha_gnn.gamma.models import GPRGNN
        >>> model = GPRGNN(4, 2)
        >>> before = hash_of(model)
        >>> with torch.no_grad():
        ...     _ = model.gamma.add_(1)
        >>> len(before), hash_of(model) == before
        (16, False)
    """
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + str(tuple(tensor.shape)).encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def train_source(cell: Cell, device: str = "cpu", methods: Collection[str] = ()) -> "Backbone":
    """Train the source model of a cell.

    Args:
        cell: names the source graph and the training.
        device: where to train, as torch names it.
        methods: those whose arrays of the source the model gets, of the cell's `ship`.
    """
    from matcha_gnn.gamma.models import BACKBONES
    from matcha_gnn.gamma.train import fit
    from matcha_gnn.registry import resolve

    graph, spec = make_graph(cell.source).to(device), cell.train
    build: Any = resolve("backbone", spec.backbone, BACKBONES)
    model: Backbone = build(
        graph.num_features,
        int(graph.y.max()) + 1,
        hidden_channels=spec.hidden_channels,
        K=spec.K,
        **({} if spec.alpha is None else {"alpha": spec.alpha}),
    ).to(device)
    fit(
        model,
        graph,
        epochs=spec.epochs,
        lr=spec.lr,
        weight_decay=spec.weight_decay,
        holdout=0,
        methods=_shipped(cell, methods),
        seed=cell.seed,
    )
    return model


def _shipped(cell: Cell, methods: Collection[str]) -> list[Any]:
    from matcha_gnn.gamma.methods import METHODS
    from matcha_gnn.registry import resolve

    return [resolve("ship", name, METHODS)() for name in cell.train.ship if name in methods]


def _add_arrays(model: "Backbone", cell: Cell, methods: Collection[str]) -> bool:
    """Add what methods need of the source and the model has not; says whether there was any."""
    from matcha_gnn.gamma.train import add_source_arrays

    lacking = [m for m in _shipped(cell, methods) if m.name not in model.source_arrays]
    if lacking:
        add_source_arrays(model, make_graph(cell.source), lacking, seed=cell.seed)
    return bool(lacking)
