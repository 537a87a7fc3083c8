"""Model files: safetensors with the architecture and source summary inside; never a pickle."""

import json
import math
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from matcha_gnn.backbones import (
    BACKBONES,
    GROUP,
    Backbone,
    TrainableBackbone,
    resolve_backbone,
)
from matcha_gnn.backbones.checks import first_non_finite
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError, InvalidFileError
from matcha_gnn.evidence.belief_model import ANSWERS, BeliefModel
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.evidence.weighing import BiasedPool, PoolWeights
from matcha_gnn.io.files import existing_file, replacing
from matcha_gnn.registry import installed_names, name_of_class

FORMAT = "matcha-gnn model 5"
OLDER = ("matcha-gnn model 3", "matcha-gnn model 4")
"""Read as well, see `_renewed`."""
_SUMMARY = "source_summary."
_ARRAYS = "source_arrays."


def save_model(model: Backbone, path: str | Path) -> None:
    """Write weights, architecture, source summary and source arrays to `path`, whole or not at all.

    Architectures are those of this library, and those that installed packages offer by an entry
    point of the group "matcha_gnn.backbones".

    Raises:
        IncompatibleError: a model of another class.

    Example:
        >>> import tempfile, torch
        >>> from matcha_gnn.backbones import GPRGNN
        >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
        >>> save_model(GPRGNN(4, 2), path)
        >>> load_model(path).num_hops
        9
    """
    metadata = {}
    if isinstance(model, BeliefModel):
        metadata = {"answer": model.answer, "margin": repr(model.margin)}
        if model.pool is not None:
            weights, bias = model.pool
            metadata["pool"] = json.dumps({"weights": weights, "bias": bias})
        model = model.network
    metadata |= _metadata(model)
    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    if model.source is not None:
        for name, tensor in model.source.tensors().items():
            tensors[_SUMMARY + name] = tensor.detach().cpu().contiguous()
    for method, arrays in model.source_arrays.items():
        for name, tensor in arrays.items():
            tensors[f"{_ARRAYS}{method}.{name}"] = tensor.detach().cpu().contiguous()
    with replacing(path) as beside:
        save_file(tensors, str(beside), metadata)


def can_save(model: Backbone) -> bool:
    """Whether `save_model` can write a model: another one is built by code of its user's."""
    inner = model.network if isinstance(model, BeliefModel) else model
    return isinstance(inner, TrainableBackbone)


def load_model(path: str | Path) -> Backbone:
    """Read a model that `save_model` wrote, in evaluation mode, on the CPU.

    Raises:
        InvalidFileError: not such a file, of an architecture this version does not know, or
            with numbers that are not finite.
    """
    path = existing_file(path, "model")
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        allowed = "a .safetensors file written by matcha; for a PyG network of your own: mg.wrap"
        raise InvalidFileError("model", f"{path} (not a safetensors file)", allowed) from error
    broken = first_non_finite(tensors)
    if broken is not None:
        got = f"{path} (NaN or infinite entries in {broken})"
        raise InvalidFileError("model", got, "a file of finite numbers")
    model = _build(metadata, path)
    tensors = _renewed(tensors, metadata["format"])
    summary, source_arrays = _take(tensors, _SUMMARY), _take(tensors, _ARRAYS)
    for tensor in tensors.values():
        if tensor.is_floating_point():
            model.to(tensor.dtype)
            break
    try:
        model.load_state_dict(tensors)
        model.source = SourceSummary.from_tensors(summary) if summary else None
        for full_name, tensor in source_arrays.items():
            method, name = full_name.split(".", 1)
            model.source_arrays.setdefault(method, {})[name] = tensor
    except (RuntimeError, KeyError, ValueError) as error:
        allowed = "weights that fit the architecture named in the file"
        raise InvalidFileError("model", f"{path} ({_reason(error)})", allowed) from error
    if "answer" in metadata:
        model = _answering(model, metadata, path)
    return model.eval()


def _answering(model: Backbone, metadata: dict[str, str], path: Path) -> BeliefModel:
    """The model as `Belief` returned it, or as it was fitted to or chosen by answers."""
    answer, pool = metadata["answer"], metadata.get("pool")
    if answer not in ANSWERS or model.source is None:
        got = f"{path} (answer {answer!r})" if model.source else f"{path} (no source summary)"
        raise InvalidFileError("model", got, f"one of {', '.join(ANSWERS)}, and a source summary")
    fitted = None if pool is None else _pool(pool, model, path)
    try:
        return BeliefModel(model, answer, fitted, float(metadata.get("margin", "0")))
    except (ValueError, InvalidArgumentError) as error:
        got = f"{path} (margin {metadata['margin']!r})"
        raise InvalidFileError("model", got, "a difference of probabilities, 0 to 1") from error


def _pool(text: str, model: Backbone, path: Path) -> BiasedPool:
    """Weights and biases that were fitted to answers."""
    try:
        found = json.loads(text)
        weights, bias = PoolWeights(*map(float, found["weights"])), found["bias"]
        pool = BiasedPool(weights, tuple(map(float, bias)))
        fits = len(pool.bias) == model.head.out_features
        if not (fits and all(map(math.isfinite, (*weights, *pool.bias)))):
            raise ValueError("not as many finite numbers as classes")
    except (ValueError, TypeError, KeyError) as error:
        allowed = "two weights and a bias for each class"
        raise InvalidFileError("model", f"{path} (pool {text})", allowed) from error
    return pool


def _renewed(tensors: dict[str, Tensor], given: str) -> dict[str, Tensor]:
    """Tensors of a file of an older format under their present names.

    Format 3 does not say which nodes its source summary was taken on: the training nodes.
    """
    if given == FORMAT:
        return tensors
    renewed = {}
    for name, tensor in tensors.items():
        name = name.replace(f"{_SUMMARY}own_", f"{_SUMMARY}node_")
        name = _ARRAYS + name.removeprefix("artefact.") if name.startswith("artefact.") else name
        renewed[name] = tensor
    if any(name.startswith(_SUMMARY) for name in renewed):
        renewed.setdefault(f"{_SUMMARY}held_out", torch.tensor(0))
    return renewed


def _take(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Move what starts with `prefix` out of `tensors`, off the mapped file and into memory."""
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors.pop(name).clone() for name in names}


def _reason(error: Exception) -> str:
    """The first complaint in one line; torch puts a heading above its list of them."""
    lines = str(error).splitlines()
    return (lines[1] if len(lines) > 1 else lines[0]).strip()


def _build(metadata: dict[str, str], path: Path) -> Backbone:
    if metadata.get("format") not in (FORMAT, *OLDER):
        got = metadata.get("format", "no format")
        raise InvalidFileError("model", f"{path} ({got!r})", f"a file of format {FORMAT!r}")
    name = metadata.get("backbone", "none")
    known = installed_names(BACKBONES, GROUP)
    if name not in known:
        raise InvalidFileError("model", f"{path} (architecture {name!r})", ", ".join(known))
    build = resolve_backbone("model", name)
    try:
        return build(**json.loads(metadata.get("config", "{}")))
    except (TypeError, ValueError, RuntimeError) as error:
        allowed = f"a configuration of {name}"
        raise InvalidFileError("model", f"{path} ({_reason(error)})", allowed) from error


def _metadata(model: Backbone) -> dict[str, str]:
    """What the file says of the architecture; only a class with a name can be built again."""
    if not isinstance(model, TrainableBackbone):
        raise IncompatibleError(
            f"{model.name} cannot be built again from a file, as it is no TrainableBackbone: keep "
            "its state_dict; of a wrapped network save its γ with save_delta"
        )
    name = name_of_class(type(model), BACKBONES, GROUP)
    if name is None:
        raise IncompatibleError(
            f"{type(model).__name__} is no architecture of this library or of an installed package "
            f"(entry points {GROUP!r}): keep its state_dict"
        )
    return {"format": FORMAT, "config": json.dumps(model.config()), "backbone": name}
