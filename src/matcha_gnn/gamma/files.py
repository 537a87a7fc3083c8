"""Model files: safetensors with the architecture and source summary inside; never a pickle."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError, InvalidFileError, require_kind
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.gamma.models import BACKBONES, GROUP, Backbone, TrainableBackbone, resolve_backbone
from matcha_gnn.io.jsontext import json_object
from matcha_gnn.io.tensorfiles import TensorFormat
from matcha_gnn.kernels.contexts import plain_torch, seeded
from matcha_gnn.registry import installed_names, name_of_class

FORMAT = TensorFormat(
    "model",
    "matcha-gnn model 7",
    allowed="a .safetensors file as matcha wrote it; for a PyG network of your own: mg.wrap",
)
MOST = 10_000
"""Sizes in a configuration up to which models are built whatever the file holds."""
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
        >>> from matcha_gnn.gamma.models import GPRGNN
        >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
        >>> save_model(GPRGNN(4, 2), path)
        >>> load_model(path).num_hops
        9
    """
    require_kind("model", model, Backbone, "a backbone, such as result.model")
    metadata = _metadata(model)
    tensors = dict(model.state_dict())
    if model.source is not None:
        tensors |= {_SUMMARY + name: tensor for name, tensor in model.source.tensors().items()}
    for method, arrays in model.source_arrays.items():
        tensors |= {f"{_ARRAYS}{method}.{name}": tensor for name, tensor in arrays.items()}
    FORMAT.write(path, tensors, metadata)


@plain_torch()
def load_model(path: str | Path) -> Backbone:
    """Read a model that `save_model` wrote, in evaluation mode, on the CPU.

    Raises:
        InvalidFileError: not such a file, damaged, of an architecture this version does not know,
            or with numbers that are not finite.
    """
    metadata, tensors = FORMAT.read(path)
    summary, source_arrays = _take(tensors, _SUMMARY), _take(tensors, _ARRAYS)
    model = _build(metadata, tensors, path)
    try:
        model.load_state_dict(tensors, assign=True)
        model.source = SourceSummary.from_tensors(summary) if summary else None
        for full_name, tensor in source_arrays.items():
            method, name = full_name.split(".", 1)
            model.source_arrays.setdefault(method, {})[name] = tensor
    except (RuntimeError, KeyError, ValueError) as error:
        raise FORMAT.refused(path, _reason(error)) from error
    return model.eval()


def _take(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Move what starts with `prefix` out of `tensors`."""
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors.pop(name) for name in names}


def _reason(error: Exception) -> str:
    """The first complaint in one line; torch puts a heading above its list of them."""
    lines = str(error).splitlines()
    return (lines[1] if len(lines) > 1 else lines[0]).strip()


def _build(metadata: dict[str, str], tensors: dict[str, Tensor], path: str | Path) -> Backbone:
    """The model without its weights, for which memory is taken only where the file has them."""
    name = metadata.get("backbone", "none")
    known = installed_names(BACKBONES, GROUP)
    if name not in known:
        raise InvalidFileError("model", f"{path} (architecture {name!r})", ", ".join(known))
    build = resolve_backbone("model", name)
    try:
        config = json_object(metadata.get("config", "{}"))
        _require_small(config, sum(tensor.numel() for tensor in tensors.values()))
        with torch.device("meta"), seeded(0, torch.empty(0, device="cpu")):
            _require_same_shapes(build(**config).state_dict(), tensors)
        # Weights are drawn, and then replaced: torch's generator stays as it was.
        with seeded(0, torch.empty(0)):
            model: Backbone = build(**config)
        return model
    # A class of an installed package may refuse its arguments by any of these.
    except (TypeError, ValueError, RuntimeError, AttributeError, LookupError) as error:
        raise FORMAT.refused(path, f"{name}: {_reason(error)}") from error


def _require_small(config: dict[str, Any], numbers: int) -> None:
    """No model has more channels or hops than numbers, but for a few: refuse before it is built."""
    for name, value in config.items():
        if isinstance(value, int) and abs(value) > max(MOST, numbers):
            raise ValueError(f"{name}={value}, where the file has {numbers:,} numbers")


def _require_same_shapes(wanted: dict[str, Tensor], given: dict[str, Tensor]) -> None:
    for name in sorted({*wanted, *given}):
        shapes = [list(each[name].shape) if name in each else None for each in (given, wanted)]
        if shapes[0] != shapes[1]:
            got, needed = (shape if shape is not None else "missing" for shape in shapes)
            raise ValueError(f"{name}: {got}, the architecture has {needed}")


def _metadata(model: Backbone) -> dict[str, str]:
    """What the file says of the architecture; only a class with a name can be built again."""
    if not isinstance(model, TrainableBackbone):
        raise IncompatibleError(
            f"{model.name} cannot be built again from a file, as it is no TrainableBackbone: keep "
            "its state_dict; of a wrapped network its gamma"
        )
    name = name_of_class(type(model), BACKBONES, GROUP)
    if name is None:
        raise IncompatibleError(
            f"{type(model).__name__} is no architecture of this library or of an installed package "
            f"(entry points {GROUP!r}): keep its state_dict"
        )
    return {"config": json.dumps(model.config()), "backbone": name}
