"""matcha-gnn: how right is a classifier of nodes on a new graph, and can it be made better?

Start reading at `api`: `adapt`, `estimate`, `diagnose`. They use, in the order of the data:

1. `graphs`     check a graph, take its labels away
2. `network`    call the classifier: a module, a function, or its probabilities
3. `evidence`   what features, edges and network say of the classes; what the source has taught
4. `candidates` what is tried, rated and chosen
5. `result`     predictions and the reasons; `questions`, a few labels that decide
6. `watch`, `report`, `cli`    graphs day by day, pages, the command

`gamma` is the Matcha paper (ICLR 2025): hop weights, losses, base methods and models. Names are
loaded when first used; the stub beside this file lists them.
"""

import logging
from typing import Any

import lazy_loader

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    return _version() if name == "__version__" else _attribute(name)


def _version() -> str:
    """As installed, from the git tag; a source tree that is not installed does not know it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("matcha-gnn")
    except PackageNotFoundError:
        return "0+unknown"


# Silent until the user sets up logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())
