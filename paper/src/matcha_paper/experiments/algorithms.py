"""Which algorithm made a number, and in which version."""

from typing import Any

from matcha_gnn.gamma.strategies import ClosedForm, Matcha, Strategy, Unadapted
from matcha_paper.experiments.spec import BELIEF, OURS, RowSpec

STRATEGIES: tuple[type[Strategy], ...] = (Unadapted, Matcha, ClosedForm)
DEFAULT = "guarded"
"""What records call the default of `adapt`, which compares answers around a base method in them."""
PRESENT = {strategy.name: strategy.version for strategy in STRATEGIES} | {DEFAULT: 9, BELIEF: 3}
"""Present version of every algorithm."""


def algorithm_of(row: RowSpec) -> dict[str, Any]:
    """Name, present version and parameters of the algorithm that a row runs.

    `none` is the base method alone, `matcha` the published rounds, `closed_form` rounds without a
    step size, `guarded` the default of `adapt`, `belief` the answer by evidence.

    Example:
        >>> algorithm_of(RowSpec("erm", lr=0.5, epochs=3))["parameters"]
        {'loss': 'pic', 'optimizer': 'sgd', 'lr': 0.5, 'epochs': 3, 'features': 'source'}
        >>> algorithm_of(RowSpec("erm", loss="sure", optimizer="exact"))
        {'name': 'closed_form', 'version': 3, 'parameters': {'loss': 'sure', 'epochs': 50}}
    """
    name, used = _name_and_parameters(row)
    parameters = {each: getattr(row, each) for each in used}
    return {"name": name, "version": PRESENT[name], "parameters": parameters}


def _name_and_parameters(row: RowSpec) -> tuple[str, tuple[str, ...]]:
    if row.epochs == 0:
        return Unadapted.name, ()
    if row.loss == OURS:
        return DEFAULT, ()
    if row.loss == BELIEF:
        return BELIEF, ()
    if row.optimizer == "exact":
        return ClosedForm.name, ("loss", "epochs")
    return Matcha.name, ("loss", "optimizer", "lr", "epochs", "features")


def rounds_of_pic(rounds: int) -> Strategy:
    """The published algorithm, or the base method alone for no rounds.

    Example:
        >>> rounds_of_pic(0).name, rounds_of_pic(5).name
        ('none', 'matcha')
    """
    return Matcha(rounds=rounds) if rounds else Unadapted()
