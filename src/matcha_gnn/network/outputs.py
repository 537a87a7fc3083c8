"""What a network returns, read as logits of node classes.

| returned | read as |
|---|---|
| [N, C], C >= 2, any numbers | logits; log-probabilities are some |
| [N, C], C >= 2, rows of numbers >= 0 that sum to 1 | probabilities |
| [N, 1] or [N] | the logit of class 1 of two; its probability where all lie between 0 and 1 |
| a tuple or list | the first tensor in it with a row for each node, by the rules above |

Where the number of classes is known, a tensor with as many columns goes first.
"""

from typing import Any

import torch
from torch import Tensor

from matcha_gnn.errors import IncompatibleError

ATOL = 1e-4
"""How far the sum of a row of probabilities may be from 1."""


def read_output(
    name: str, output: Any, num_nodes: int, num_edges: int, classes: int | None = None
) -> Tensor:
    """Logits of what a network returned, less their mean over classes, [N, C].

    Args:
        name: of the network, for errors.
        output: what it returned.
        num_nodes: N.
        num_edges: E, to tell outputs of edges.
        classes: how many there are, where that is known: it tells logits from an embedding.

    Raises:
        IncompatibleError: no node classes, in one line.

    Example:
        >>> read_output("Net", torch.tensor([[-2.0], [4.0]]), 2, 0)
        tensor([[ 1., -1.],
                [-2.,  2.]])
    """
    if isinstance(output, tuple | list):
        return _in_sequence(name, output, num_nodes, num_edges, classes)
    if not isinstance(output, Tensor):
        raise IncompatibleError(
            f"{name} returns a {type(output).__name__}: name the classifying layer with head=, or "
            "give a network that returns logits"
        )
    if not output.is_floating_point():
        raise IncompatibleError(f"{name} returns {output.dtype}: labels, where logits are needed")
    if output.dim() not in (1, 2) or len(output) != num_nodes or not output.numel():
        raise IncompatibleError(_no_nodes(name, output, num_nodes, num_edges))
    return _one_column(output) if output[0].numel() == 1 else _columns(output)


def _in_sequence(
    name: str, output: Any, num_nodes: int, num_edges: int, classes: int | None
) -> Tensor:
    tensors = ((k, each) for k, each in enumerate(output) if isinstance(each, Tensor))
    fitting = [k for k, each in tensors if each.dim() in (1, 2) and len(each) == num_nodes]
    if not fitting:
        raise IncompatibleError(
            f"{name} returns a {type(output).__name__} in which no tensor has a row for each of "
            f"{num_nodes} nodes"
        )
    of_classes = (k for k in fitting if _num_classes(output[k]) == classes)
    place = next(of_classes, fitting[0])
    return read_output(name, output[place], num_nodes, num_edges)


def _num_classes(output: Tensor) -> int:
    """One column is two classes."""
    columns = output[0].numel()
    return 2 if columns == 1 else columns


def _one_column(output: Tensor) -> Tensor:
    column = output.reshape(-1)
    is_probability = bool(((column >= 0) & (column <= 1)).all())
    logit = column.clamp(*_inside(column)).logit() if is_probability else column
    return torch.stack([-logit / 2, logit / 2], 1)


def _columns(output: Tensor) -> Tensor:
    if bool((output >= 0).all()) and _all_near(output.sum(1), 1.0):
        return _centred(output.clamp_min(torch.finfo(output.dtype).tiny).log())
    return _centred(output)


def _centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(1, keepdim=True)


def _all_near(values: Tensor, number: float) -> bool:
    return bool(((values - number).abs() <= ATOL).all())


def _inside(like: Tensor) -> tuple[float, float]:
    """Bounds of a probability whose logit is finite."""
    return float(torch.finfo(like.dtype).tiny), float(1 - torch.finfo(like.dtype).eps)


def _no_nodes(name: str, output: Tensor, num_nodes: int, num_edges: int) -> str:
    said = f"{name} returns a tensor of shape {list(output.shape)}"
    wanted = f"one row of logits for each of {num_nodes} nodes is needed"
    rows = len(output) if output.dim() else 1
    if output.dim() < 3 and rows == num_edges:
        return f"{said}, one row for each edge: {wanted}; edges cannot be classified"
    if output.dim() < 3 and rows == 1:
        return f"{said}, one row for the whole graph: {wanted}; graphs cannot be classified"
    return f"{said}: {wanted}"
