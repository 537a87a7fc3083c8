"""From a spec to records, and from records to a table beside the published numbers."""

from matcha_paper.experiments.compare import Comparison, compare
from matcha_paper.experiments.run import run, run_all
from matcha_paper.experiments.spec import Experiment, load, names
from matcha_paper.experiments.staleness import Stale, stale

__all__ = [
    "Comparison",
    "Experiment",
    "Stale",
    "compare",
    "load",
    "names",
    "run",
    "run_all",
    "stale",
]
