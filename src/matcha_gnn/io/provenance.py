"""With what, and on what, a number was made."""

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from matcha_gnn import __version__

if TYPE_CHECKING:
    import torch

PACKAGES = ("torch", "torch_geometric", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Of this package, Python, and what its numbers depend on.

    Example:
        >>> sorted(versions())
        ['matcha-gnn', 'numpy', 'python', 'scipy', 'torch', 'torch_geometric']
    """
    own = {"matcha-gnn": __version__, "python": platform.python_version()}
    return own | {name: version(name) for name in PACKAGES}


def hardware(device: "torch.device") -> str:
    """What a run used, in a few words."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
