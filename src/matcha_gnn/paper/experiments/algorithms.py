"""Which algorithm made a number, and in which version."""

from typing import Any

from matcha_gnn.paper.experiments.spec import OURS, RowSpec

PRESENT = {"none": 1, "matcha": 1, "closed_form": 1, "guarded": 5}
"""Present version of every algorithm: it grows whenever the same settings give other numbers."""


def algorithm_of(row: RowSpec) -> dict[str, Any]:
    """Name, present version and parameters of the algorithm that a row runs.

    `none` is the base method alone, `matcha` the published rounds, `closed_form` rounds without a
    step size, `guarded` the default of `adapt`.

    Example:
        >>> algorithm_of(RowSpec("erm", lr=0.5, epochs=3))["parameters"]
        {'loss': 'pic', 'optimizer': 'sgd', 'lr': 0.5, 'epochs': 3}
        >>> algorithm_of(RowSpec("erm", loss="sure", optimizer="exact"))
        {'name': 'closed_form', 'version': 1, 'parameters': {'loss': 'sure', 'epochs': 50}}
    """
    name, used = _name_and_parameters(row)
    parameters = {each: getattr(row, each) for each in used}
    return {"name": name, "version": PRESENT[name], "parameters": parameters}


def _name_and_parameters(row: RowSpec) -> tuple[str, tuple[str, ...]]:
    if row.epochs == 0:
        return "none", ()
    if row.loss == OURS:
        return "guarded", ("lr", "epochs")
    if row.optimizer == "exact":
        return "closed_form", ("loss", "epochs")
    return "matcha", ("loss", "optimizer", "lr", "epochs")
