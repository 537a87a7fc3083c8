"""matcha-gnn: adapt a trained graph neural network to a graph whose structure has shifted.

Reading order, which is also the data flow:

1. `graph`      check a graph, take its labels away
2. `hops`       propagate once, keep every depth
3. `backbones`  how hops become a representation
4. `methods`    the base test-time adaptation methods
5. `losses`     what the hop weights γ minimise; `evidence`, what is known without labels
6. `rounds`     Algorithm 1; `protection` the default around it; `adaptation` the front door
7. `result`     predictions, decision, history, status; `stored`, graphs larger than memory
8. `experiments`, `report`, `distributed`, `cli`

Names are loaded when first used, so that `matcha --help` does not wait for torch.
"""

import importlib
import logging
from typing import TYPE_CHECKING, Any

_HOME = {
    "APPNP": "matcha_gnn.backbones",
    "adapt": "matcha_gnn.adaptation",
    "AdaNPC": "matcha_gnn.methods",
    "add_hops": "matcha_gnn.backbones",
    "apply_delta": "matcha_gnn.io.deltas",
    "Adaptation": "matcha_gnn.result",
    "BaseMethod": "matcha_gnn.methods",
    "Backbone": "matcha_gnn.backbones",
    "Callback": "matcha_gnn.callbacks",
    "Diagnosis": "matcha_gnn.diagnosis",
    "diagnose": "matcha_gnn.diagnosis",
    "Difference": "matcha_gnn.losses",
    "ERM": "matcha_gnn.methods",
    "Entropy": "matcha_gnn.losses",
    "GCNII": "matcha_gnn.backbones",
    "GPRGNN": "matcha_gnn.backbones",
    "GTrans": "matcha_gnn.methods",
    "Graph": "matcha_gnn.graphs.memory",
    "GraphPatcher": "matcha_gnn.methods",
    "GraphStore": "matcha_gnn.graphs.stored",
    "Hops": "matcha_gnn.hops",
    "Decision": "matcha_gnn.result",
    "IncompatibleError": "matcha_gnn.errors",
    "InvalidArgumentError": "matcha_gnn.errors",
    "InvalidFileError": "matcha_gnn.errors",
    "InvalidGraphError": "matcha_gnn.errors",
    "JKNet": "matcha_gnn.backbones",
    "LAME": "matcha_gnn.methods",
    "Loss": "matcha_gnn.losses",
    "MatchaError": "matcha_gnn.errors",
    "PIC": "matcha_gnn.losses",
    "Prediction": "matcha_gnn.methods",
    "PseudoLabel": "matcha_gnn.losses",
    "SOGA": "matcha_gnn.methods",
    "Status": "matcha_gnn.result",
    "SURE": "matcha_gnn.losses",
    "T3A": "matcha_gnn.methods",
    "Tent": "matcha_gnn.methods",
    "Modifies": "matcha_gnn.methods",
    "View": "matcha_gnn.methods",
    "find_gamma": "matcha_gnn.backbones",
    "fit": "matcha_gnn.train",
    "load_model": "matcha_gnn.io.models",
    "read_graph": "matcha_gnn.io.graphfiles",
    "remember_source": "matcha_gnn.train",
    "save_delta": "matcha_gnn.io.deltas",
    "save_model": "matcha_gnn.io.models",
    "unlabelled": "matcha_gnn.graphs.memory",
    "wrap": "matcha_gnn.backbones",
    "write_graph": "matcha_gnn.io.graphfiles",
}
_MODULES = {
    "callbacks": "matcha_gnn.callbacks",
    "datasets": "matcha_gnn.datasets",
    "distributed": "matcha_gnn.graphs.sharded",
    "functional": "matcha_gnn.functional",
    "metrics": "matcha_gnn.metrics",
    "testing": "matcha_gnn.testing",
    "transforms": "matcha_gnn.transforms",
}

# Silent until the user sets up logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AdaNPC",
    "APPNP",
    "Adaptation",
    "Backbone",
    "BaseMethod",
    "Callback",
    "Decision",
    "Diagnosis",
    "Difference",
    "ERM",
    "Entropy",
    "GCNII",
    "GPRGNN",
    "GTrans",
    "Graph",
    "GraphPatcher",
    "GraphStore",
    "Hops",
    "IncompatibleError",
    "InvalidArgumentError",
    "InvalidFileError",
    "InvalidGraphError",
    "JKNet",
    "LAME",
    "Loss",
    "MatchaError",
    "PIC",
    "Prediction",
    "PseudoLabel",
    "SOGA",
    "SURE",
    "Status",
    "T3A",
    "Tent",
    "Modifies",
    "View",
    "adapt",
    "add_hops",
    "apply_delta",
    "callbacks",
    "datasets",
    "diagnose",
    "distributed",
    "find_gamma",
    "fit",
    "functional",
    "load_model",
    "metrics",
    "read_graph",
    "remember_source",
    "save_delta",
    "save_model",
    "testing",
    "transforms",
    "unlabelled",
    "wrap",
    "write_graph",
]

if TYPE_CHECKING:
    __version__: str
    from matcha_gnn import callbacks, datasets, functional, metrics, testing, transforms
    from matcha_gnn.adaptation import adapt
    from matcha_gnn.backbones import (
        APPNP,
        GCNII,
        GPRGNN,
        Backbone,
        JKNet,
        add_hops,
        find_gamma,
        wrap,
    )
    from matcha_gnn.callbacks import Callback
    from matcha_gnn.diagnosis import Diagnosis, diagnose
    from matcha_gnn.errors import (
        IncompatibleError,
        InvalidArgumentError,
        InvalidFileError,
        InvalidGraphError,
        MatchaError,
    )
    from matcha_gnn.graphs import sharded as distributed
    from matcha_gnn.graphs.memory import Graph, unlabelled
    from matcha_gnn.graphs.stored import GraphStore
    from matcha_gnn.hops import Hops
    from matcha_gnn.io.deltas import apply_delta, save_delta
    from matcha_gnn.io.graphfiles import read_graph, write_graph
    from matcha_gnn.io.models import load_model, save_model
    from matcha_gnn.losses import PIC, SURE, Difference, Entropy, Loss, PseudoLabel
    from matcha_gnn.methods import (
        ERM,
        LAME,
        SOGA,
        T3A,
        AdaNPC,
        BaseMethod,
        GraphPatcher,
        GTrans,
        Modifies,
        Prediction,
        Tent,
        View,
    )
    from matcha_gnn.result import Adaptation, Decision, Status
    from matcha_gnn.train import fit, remember_source


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'matcha_gnn' has no attribute {name!r}")


def _version() -> str:
    """As installed, from the git tag; a source tree that is not installed does not know it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("matcha-gnn")
    except PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
