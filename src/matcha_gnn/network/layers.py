"""Which layer a module is, by name: importing PyG takes seconds."""

from collections.abc import Sequence

from torch import nn


def pyg_kind(module: nn.Module, names: Sequence[str]) -> str | None:
    """The name among `names` of a PyG class that a module is or descends from."""
    # By name: importing PyG takes seconds, and who has such a layer has imported it.
    for kind in type(module).__mro__:
        if kind.__name__ in names and kind.__module__.startswith("torch_geometric."):
            return kind.__name__
    return None


def is_linear(module: nn.Module) -> bool:
    """Whether this is torch's or PyG's plain linear layer."""
    return isinstance(module, nn.Linear) or pyg_kind(module, ["Linear"]) is not None
