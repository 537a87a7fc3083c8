"""What a model must be before it is used: of one of two precisions, and of finite numbers."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.nn.utils import get_total_norm

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.graphs.memory import FLOATS
from matcha_gnn.network.network import Network


def require_precision(model: Network) -> None:
    """Refuse a model with weights in another precision than float32 and float64."""
    for parameter in model.parameters():
        if parameter.is_floating_point() and parameter.dtype not in FLOATS:
            allowed = "float32 or float64 weights; model.float() makes them float32"
            raise InvalidArgumentError("model", f"parameters in {parameter.dtype}", allowed)


def require_finite(model: Network) -> None:
    """Refuse a model that carries a NaN or an infinity, and name the tensor."""
    name = first_non_finite(_carried(model))
    if name is not None:
        got = f"NaN or infinite entries in {name}"
        raise InvalidArgumentError("model", got, "finite numbers")


def first_non_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor with a NaN or an infinity.

    Example:
        >>> first_non_finite({"a": torch.ones(2), "b": torch.tensor([0.0, torch.nan])})
        'b'
    """
    held = {name: each for name, each in tensors.items() if _holds_floats(each)}
    # A finite norm of all rules out NaN and infinity, and a GPU is waited for once.
    if bool(get_total_norm([each.detach() for each in held.values()]).isfinite()):
        return None
    return next((name for name, each in held.items() if not bool(each.isfinite().all())), None)


def _holds_floats(tensor: Tensor) -> bool:
    """Dense, and with numbers: not one that is still to be made, or on the meta device."""
    dense = tensor.is_floating_point() and tensor.layout == torch.strided
    return dense and not tensor.is_meta and not is_lazy(tensor)


def _carried(network: Network) -> dict[str, Tensor]:
    """Parameters, buffers, the source summary and what else travels with it, by name."""
    tensors: dict[str, Tensor] = dict(network.named_parameters()) | dict(network.named_buffers())
    if network.source is not None:
        summary: dict[str, Tensor] = network.source.tensors()
        tensors |= {f"source_summary.{name}": tensor for name, tensor in summary.items()}
    return {**tensors, **network.further_tensors()}
