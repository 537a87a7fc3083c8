"""What a change of the predicted classes gives away without labels: sentences with figures."""

import enum
from collections.abc import Sequence

from matcha_gnn.evidence.goals import class_title
from matcha_gnn.typing import FloatArray

JUMP = 0.25
"""Distance between class shares before and after from which it counts as a jump: a quarter of all
nodes went, on balance, from some classes to others. Of 66 runs of the published algorithm on CSBM
graphs with equal and unequal classes, 24 were beyond it, of which 22 lost more than five points of
accuracy; of the 42 others 5 did, 14 points at most (`matcha_paper.studies.share_jumps`)."""
NAMED = 5
"""Classes that a sentence names at most."""


class Severity(enum.StrEnum):
    """How an outcome is to be read; pages and the command colour it by this."""

    GOOD = "good"
    NEUTRAL = "neutral"
    WARNING = "warning"
    ALARM = "alarm"


def jumped(before: FloatArray, after: FloatArray) -> bool:
    """Whether class shares moved by `JUMP` or more; nodes of each class, [C] each."""
    return _moved(before, after) >= JUMP


def emptied(before: FloatArray, after: FloatArray) -> list[int]:
    """Classes that had nodes and have none; nodes of each class, [C] each."""
    found: list[int] = ((before > 0) & (after == 0)).nonzero()[0].tolist()
    return found


def class_alarms(
    before: FloatArray, after: FloatArray, names: Sequence[str] = ()
) -> tuple[str, ...]:
    """A sentence for a jump of the class shares, and one for classes that were emptied.

    Args:
        before: nodes that are given each class before adaptation, [C].
        after: the same after it, [C].
        names: of the classes, [C], where they have some.

    Example:
        >>> import numpy as np
        >>> class_alarms(np.array([949.0, 51.0]), np.array([97.0, 903.0]))
        ('Predicted class shares moved by 85 points: class 1 went from 5.1% to 90.3% of nodes.',)
        >>> class_alarms(np.array([60.0, 40.0]), np.array([55.0, 45.0]))
        ()
    """
    alarms = []
    if jumped(before, after):
        old, new = _shares(before), _shares(after)
        most = int((new - old).argmax())
        alarms.append(
            f"Predicted class shares moved by {100 * _moved(before, after):.0f} points: "
            f"{class_title(names, most)} went from {old[most]:.1%} to {new[most]:.1%} of nodes."
        )
    if gone := emptied(before, after):
        several, share = len(gone) > 1, float(_shares(before)[gone].sum())
        alarms.append(
            f"{_named(gone, names)} had {share:.1%} of nodes before and "
            f"{'have' if several else 'has'} none after."
        )
    return tuple(alarms)


def _moved(before: FloatArray, after: FloatArray) -> float:
    """Total variation distance between the class shares."""
    return float(abs(_shares(after) - _shares(before)).sum() / 2)


def _shares(counts: FloatArray) -> FloatArray:
    shares: FloatArray = counts / counts.sum()
    return shares


def _named(classes: list[int], names: Sequence[str]) -> str:
    """Class 3; Classes 1, 4; Classes 1, 4, 5, 6, 9, … (12 in all)."""
    shown = ", ".join(names[c] if names else str(c) for c in classes[:NAMED])
    rest = f", … ({len(classes)} in all)" if len(classes) > NAMED else ""
    return f"{'Classes' if len(classes) > 1 else 'Class'} {shown}{rest}"
