"""matcha-gnn: adapt a trained graph neural network to a graph whose structure has shifted.

Reading order, which is also the data flow:

1. `graphs`     check a graph, take its labels away; stored and sharded graphs
2. `hops`       propagate once, keep every depth
3. `backbones`  how hops become a representation
4. `methods`    the base test-time adaptation methods
5. `losses`     what the hop weights γ minimise; `evidence`, what is known without labels
6. `strategies` how a better model is sought: Algorithm 1, closed form, the guard
7. `adaptation` the entry points; `result`, predictions, decision, trace, status
8. `watching`   a stream of graphs: expected accuracy, alarms, state
9. `report`, `cli`; `paper`, what exists only to reproduce the paper

Names are loaded when first used, so that `matcha --help` does not wait for torch. Methods,
strategies, losses and backbones need no line here: what their packages export is `mg.NAME`.
"""

import importlib
import logging
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

_PACKAGES = {
    "matcha_gnn.gamma.models": "BACKBONES",
    "matcha_gnn.gamma.losses": "LOSSES",
    "matcha_gnn.gamma.methods": "METHODS",
    "matcha_gnn.gamma.strategies": "STRATEGIES",
}
"""Packages whose exports are names of this one, each with its registry."""
_HOME = {
    "matcha_gnn.adaptation": ("adapt", "predict"),
    "matcha_gnn.gamma.models": (
        *("Backbone", "FilterBackbone", "LinearBackbone", "TrainableBackbone"),
        *("add_hops", "find_gamma", "wrap"),
    ),
    "matcha_gnn.diagnosis": ("AccuracyEstimate", "Diagnosis", "diagnose", "estimate_accuracy"),
    "matcha_gnn.errors": (
        *("IncompatibleError", "InvalidArgumentError", "InvalidFileError", "InvalidGraphError"),
        *("MatchaError", "NotAdaptedWarning"),
    ),
    "matcha_gnn.graphs.memory": ("Graph", "unlabelled"),
    "matcha_gnn.graphs.stored": ("GraphStore",),
    "matcha_gnn.gamma.hops": ("Hops",),
    "matcha_gnn.io.graphfiles": ("read_graph", "write_graph"),
    "matcha_gnn.io.models": ("load_model", "save_model"),
    "matcha_gnn.gamma.losses": ("Loss",),
    "matcha_gnn.gamma.methods": ("BaseMethod", "Modifies", "Prediction", "View"),
    "matcha_gnn.result": ("Adaptation", "Decision", "Status"),
    "matcha_gnn.gamma.strategies": ("Proposal", "Strategy", "Task"),
    "matcha_gnn.evidence.summarising": ("summarise_source",),
    "matcha_gnn.evidence.summary": ("SourceSummary",),
    "matcha_gnn.gamma.train": ("fit",),
    "matcha_gnn.watching": ("Alarm", "AlarmKind", "Step", "Watch"),
}
"""Where the other public names are."""
_MODULES = {
    "datasets": "matcha_gnn.datasets",
    "distributed": "matcha_gnn.graphs.sharded",
    "functional": "matcha_gnn.functional",
    "metrics": "matcha_gnn.metrics",
    "tables": "matcha_gnn.tables",
    "testing": "matcha_gnn.testing",
    "transforms": "matcha_gnn.transforms",
}

# Silent until the user sets up logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())

if TYPE_CHECKING:
    __version__: str
    __all__: list[str]
    from matcha_gnn import datasets as datasets
    from matcha_gnn import functional as functional
    from matcha_gnn import metrics as metrics
    from matcha_gnn import tables as tables
    from matcha_gnn import testing as testing
    from matcha_gnn import transforms as transforms
    from matcha_gnn.adaptation import adapt as adapt
    from matcha_gnn.adaptation import predict as predict
    from matcha_gnn.diagnosis import AccuracyEstimate as AccuracyEstimate
    from matcha_gnn.diagnosis import Diagnosis as Diagnosis
    from matcha_gnn.diagnosis import diagnose as diagnose
    from matcha_gnn.diagnosis import estimate_accuracy as estimate_accuracy
    from matcha_gnn.errors import IncompatibleError as IncompatibleError
    from matcha_gnn.errors import InvalidArgumentError as InvalidArgumentError
    from matcha_gnn.errors import InvalidFileError as InvalidFileError
    from matcha_gnn.errors import InvalidGraphError as InvalidGraphError
    from matcha_gnn.errors import MatchaError as MatchaError
    from matcha_gnn.errors import NotAdaptedWarning as NotAdaptedWarning
    from matcha_gnn.evidence.summarising import summarise_source as summarise_source
    from matcha_gnn.evidence.summary import SourceSummary as SourceSummary
    from matcha_gnn.gamma.hops import Hops as Hops
    from matcha_gnn.gamma.losses import *  # noqa: F403
    from matcha_gnn.gamma.methods import *  # noqa: F403
    from matcha_gnn.gamma.models import *  # noqa: F403
    from matcha_gnn.gamma.strategies import *  # noqa: F403
    from matcha_gnn.gamma.train import fit as fit
    from matcha_gnn.graphs import sharded as distributed  # noqa: F401
    from matcha_gnn.graphs.memory import Graph as Graph
    from matcha_gnn.graphs.memory import unlabelled as unlabelled
    from matcha_gnn.graphs.stored import GraphStore as GraphStore
    from matcha_gnn.io.graphfiles import read_graph as read_graph
    from matcha_gnn.io.graphfiles import write_graph as write_graph
    from matcha_gnn.io.models import load_model as load_model
    from matcha_gnn.io.models import save_model as save_model
    from matcha_gnn.result import Adaptation as Adaptation
    from matcha_gnn.result import Decision as Decision
    from matcha_gnn.result import Status as Status
    from matcha_gnn.watching import Alarm as Alarm
    from matcha_gnn.watching import AlarmKind as AlarmKind
    from matcha_gnn.watching import Step as Step
    from matcha_gnn.watching import Watch as Watch


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name == "__all__":
        return _public()
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    # Python asks here before it imports a module by `from matcha_gnn.gamma import hops`.
    if find_spec(f"matcha_gnn.{name}") is not None:
        raise AttributeError(f"module 'matcha_gnn' has no attribute {name!r} yet: import it")
    homes = [home for home, names in _HOME.items() if name in names]
    for home in homes or _PACKAGES:
        if not name.startswith("_") and hasattr(importlib.import_module(home), name):
            value = getattr(importlib.import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'matcha_gnn' has no attribute {name!r}")


def _public() -> list[str]:
    """Every documented name: those above, and what is registered."""
    registries = (
        getattr(importlib.import_module(home), kinds) for home, kinds in _PACKAGES.items()
    )
    offered = (kind.__name__ for kinds in registries for kind in kinds.values())
    return sorted({*(name for names in _HOME.values() for name in names), *_MODULES, *offered})


def _version() -> str:
    """As installed, from the git tag; a source tree that is not installed does not know it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("matcha-gnn")
    except PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *_public()})
