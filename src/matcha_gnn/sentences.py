"""What a result says in words, with the figures of its own fields."""

import math
from typing import TYPE_CHECKING

from matcha_gnn.candidates import UNKNOWN, Candidate
from matcha_gnn.evidence.goals import ACCURACY
from matcha_gnn.evidence.posterior import Interval

if TYPE_CHECKING:
    from matcha_gnn.result import Result

WITHOUT_SOURCE = " There is no source summary: the network's own labels stood in for it."
WOULD_DECIDE = " The classes of a few nodes would decide: ask(20), or --ask 20, says of which."
"""Where natural graphs kept the network though a candidate gained over a point, 20 answers gained
in 65% of runs, 50 in 82% (`matcha_paper.studies.natural_answers`)."""


def summary(result: "Result") -> str:
    """What was done and why, in a few sentences."""
    if result.verdict:
        return result.verdict.summary(result.candidates) + _untested(result)
    if result.by_hand:
        return _by_hand(result)
    if result.obstacle:
        stop = "" if result.obstacle.endswith("?") else "."
        help_text = WOULD_DECIDE if len(result.candidates) > 1 and not result.broken else ""
        return f"Kept the source model: {result.obstacle}{stop}{help_text}"
    said = _adapted(result) if result.adapted else _kept(result)
    return f"{said} {result.assumption}".rstrip() + (WOULD_DECIDE if _promising(result) else "")


def headline(result: "Result") -> str:
    """The estimate in a few words."""
    source, taken, goal = result.candidates[0], result.taken, result.goal
    if not math.isfinite(source.goal.value + taken.goal.value):
        return f"{result.chosen} taken, {goal.title} {UNKNOWN}"
    if not result.adapted:
        return f"{goal.title} {spread(result, source.goal)}"
    before = goal.text(source.goal.value)
    return f"{goal.title} {before} → {spread(result, taken.goal)} by {result.chosen}"


def fallen(result: "Result") -> str:
    """A sentence where less is expected of what was taken than of the network; empty otherwise."""
    goal, before, after = result.goal, result.candidates[0].goal.value, result.taken.goal.value
    if not (result.adapted and after < before):
        return ""
    lost = goal.difference(after - before)
    fell = f"{goal.text(before)} to {goal.text(after)}"
    return f"Estimated {goal.title} fell from {fell} ({lost} points)."


def spread(result: "Result", of: Interval) -> str:
    """An estimate with its bounds in brackets."""
    text = result.goal.text
    if not math.isfinite(of.value):
        return UNKNOWN
    if not math.isfinite(of.low + of.high):
        return text(of.value)
    return f"{text(of.value)} (90% interval {text(of.low)} to {text(of.high)})"


def estimate(value: float) -> str:
    """An estimated share in percent, or that there is none.

    Example:
        >>> estimate(0.869), estimate(math.nan)
        ('86.9%', 'cannot be estimated')
    """
    return f"{value:.1%}" if math.isfinite(value) else UNKNOWN


def _adapted(result: "Result") -> str:
    taken = result.taken
    return (
        f"Adapted ({result.chosen}). {_change(result, taken)} "
        f"{taken.changed:.1%} of labels changed: accuracy cannot move by more."
        f"{_without_source(result)}"
    )


def _kept(result: "Result") -> str:
    source = result.candidates[0]
    best = result.compared or source
    estimated = 0.0 if result.stood_in else source.goal.value
    if not math.isfinite(estimated + best.gain.value + best.gain.low):
        return f"Kept the source model: its {result.goal.title} {UNKNOWN}."
    kept = "Kept the source model."
    if not result.stood_in:
        kept = (
            f"Kept the source model: estimated {result.goal.title} {spread(result, source.goal)}."
        )
    if best is source:
        return f"{kept} No other candidate could be tried.{_without_source(result)}"
    missed = f"{_gain(result, best)}; {_missed(best)} zero"
    return f"{kept} Best candidate ({best.name}): {missed}.{_without_source(result)}"


def _promising(result: "Result") -> bool:
    """Whether another candidate is expected to be more accurate, but not surely."""
    best = result.compared
    return (
        not result.adapted and result.goal == ACCURACY and best is not None and best.gain.value > 0
    )


def _by_hand(result: "Result") -> str:
    taken, source, title = result.taken, result.candidates[0], result.goal.title
    instead = f"Taken by hand: {result.chosen}, in place of {result.by_hand}."
    if not math.isfinite(source.goal.value + taken.goal.value):
        why = f" ({result.obstacle})" if result.obstacle else ""
        return f"{instead} Its {title} {UNKNOWN}{why}."
    if taken is source:
        return f"{instead} Estimated {title}: {spread(result, source.goal)}."
    where = "above" if result.assured else _missed(taken)
    return (
        f"{instead} {_change(result, taken)} Gain: {_gain(result, taken)}; {where} zero. "
        f"{taken.changed:.1%} of labels changed."
    )


def _change(result: "Result", taken: Candidate) -> str:
    """Estimates before and after, of accuracy too where that is not the goal."""
    source, goal = result.candidates[0], result.goal
    if result.stood_in:
        return f"Gain: {_gain(result, taken)}."
    before = goal.text(source.goal.value) if math.isfinite(source.goal.value) else UNKNOWN
    said = f"Estimated {goal.title}: {before} → {spread(result, taken.goal)}."
    if goal == ACCURACY:
        return said
    accuracies = (estimate(one.accuracy.value) for one in (source, taken))
    return f"{said} Estimated accuracy: {' → '.join(accuracies)}."


def _gain(result: "Result", one: Candidate) -> str:
    show, low = result.goal.difference, one.gain.low
    least = show(low)
    if low < 0:
        # As many digits as show that the bound is below zero.
        digits = (show(low, digits=digits) for digits in range(1, 17))
        least = next((text for text in digits if float(text) < 0), least)
    return f"expected {show(one.gain.value)} points, at least {least}"


def _missed(one: Candidate) -> str:
    return "below" if one.gain.low < 0 else "not above"


def _without_source(result: "Result") -> str:
    return WITHOUT_SOURCE if result.stood_in else ""


def _untested(result: "Result") -> str:
    """What answers do not tell: a goal other than accuracy."""
    source, taken, goal = result.candidates[0], result.taken, result.goal
    if goal == ACCURACY or not math.isfinite(source.goal.value):
        return ""
    after = f" → {spread(result, taken.goal)}" if result.adapted else ""
    said = (
        f" Answers test accuracy, not {goal.title}, which is estimated without them: "
        f"{goal.text(source.goal.value)}{after}."
    )
    rated = [one for one in result.candidates if math.isfinite(one.goal.value)]
    best = max(rated, key=lambda one: one.goal.value)
    if best.goal.value > taken.goal.value:
        said += (
            f" {best.name} is expected to have the highest ({goal.text(best.goal.value)}), but it "
            f"is not shown to keep accuracy; result.take({best.name!r}) takes it."
        )
    return said
