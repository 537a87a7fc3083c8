"""matcha-gnn: adapt a trained graph neural network to a graph whose structure has shifted.

Reading order, which is also the data flow:

1. `graphs`     check a graph, take its labels away; stored and sharded graphs
2. `hops`       propagate once, keep every depth
3. `backbones`  how hops become a representation
4. `methods`    the base test-time adaptation methods
5. `losses`     what the hop weights γ minimise; `evidence`, what is known without labels
6. `strategies` how a better model is sought: Algorithm 1, closed form, the guard
7. `adaptation` the entry points; `result`, predictions, decision, trace, status
8. `report`, `cli`; `paper`, what exists only to reproduce the paper

Names are loaded when first used, so that `matcha --help` does not wait for torch.
"""

import importlib
import logging
from typing import TYPE_CHECKING, Any

_HOME = {
    "APPNP": "matcha_gnn.backbones",
    "ClosedForm": "matcha_gnn.strategies",
    "Fitted": "matcha_gnn.strategies",
    "Guarded": "matcha_gnn.strategies",
    "Matcha": "matcha_gnn.strategies",
    "Proposal": "matcha_gnn.strategies",
    "Strategy": "matcha_gnn.strategies",
    "Task": "matcha_gnn.strategies",
    "Unadapted": "matcha_gnn.strategies",
    "predict": "matcha_gnn.adaptation",
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
    "FilterBackbone": "matcha_gnn.backbones",
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
    "LinearBackbone": "matcha_gnn.backbones",
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
    "TrainableBackbone": "matcha_gnn.backbones",
    "View": "matcha_gnn.methods",
    "find_gamma": "matcha_gnn.backbones",
    "fit": "matcha_gnn.train",
    "load_model": "matcha_gnn.io.models",
    "read_graph": "matcha_gnn.io.graphfiles",
    "summarise_source": "matcha_gnn.train",
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
    "ClosedForm",
    "Decision",
    "Diagnosis",
    "Difference",
    "ERM",
    "Fitted",
    "Entropy",
    "FilterBackbone",
    "GCNII",
    "GPRGNN",
    "GTrans",
    "Graph",
    "GraphPatcher",
    "GraphStore",
    "Guarded",
    "Hops",
    "IncompatibleError",
    "InvalidArgumentError",
    "InvalidFileError",
    "InvalidGraphError",
    "JKNet",
    "LAME",
    "LinearBackbone",
    "Loss",
    "MatchaError",
    "Matcha",
    "PIC",
    "Prediction",
    "Proposal",
    "PseudoLabel",
    "SOGA",
    "SURE",
    "Status",
    "Strategy",
    "T3A",
    "Task",
    "Tent",
    "Modifies",
    "Unadapted",
    "TrainableBackbone",
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
    "predict",
    "read_graph",
    "summarise_source",
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
    from matcha_gnn.adaptation import adapt, predict
    from matcha_gnn.backbones import (
        APPNP,
        GCNII,
        GPRGNN,
        Backbone,
        FilterBackbone,
        JKNet,
        LinearBackbone,
        TrainableBackbone,
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
    from matcha_gnn.strategies import (
        ClosedForm,
        Fitted,
        Guarded,
        Matcha,
        Proposal,
        Strategy,
        Task,
        Unadapted,
    )
    from matcha_gnn.train import fit, summarise_source


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
