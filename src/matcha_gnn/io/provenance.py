"""With what a number was made."""

import platform
from importlib.metadata import version

from matcha_gnn import __version__

PACKAGES = ("torch", "torch_geometric", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Of this package, Python, and what its numbers depend on.

    Example:
        >>> sorted(versions())
        ['matcha-gnn', 'numpy', 'python', 'scipy', 'torch', 'torch_geometric']
    """
    own = {"matcha-gnn": __version__, "python": platform.python_version()}
    return own | {name: version(name) for name in PACKAGES}
