"""Rendering of pages and formatting of numbers."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from matcha_gnn.candidates import UNKNOWN
from matcha_gnn.io.files import replacing

if TYPE_CHECKING:
    from matcha_gnn.evidence.posterior import Interval


def render(template: str, package: str = "matcha_gnn.report", **content: Any) -> str:
    """Fill a template of a package, which may extend those of the report."""
    places = dict.fromkeys((package, "matcha_gnn.report"))
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(place) for place in places]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"number": number, "percent": percent, "estimated": estimated}
    environment.globals["spread"] = spread
    return environment.get_template(template).render(content)


def write(html: str, path: str | Path) -> None:
    """Write a page; it appears whole or not at all."""
    with replacing(path) as beside:
        beside.write_text(html, encoding="utf-8", newline="\n")


def number(value: float, decimals: int = 4, signed: bool = False) -> str:
    """Formatted, with a proper minus and no negative zero.

    Example:
        >>> number(-0.5, 2), number(-1e-9, signed=True), number(math.nan)
        ('−0.50', '+0.0000', 'not finite')
    """
    if not math.isfinite(value):
        return "not finite"
    return format(value, f"{'+' if signed else ''}z.{decimals}f").replace("-", "−")


def percent(value: float, decimals: int = 2, signed: bool = False) -> str:
    """A share in percent.

    Example:
        >>> percent(0.125, 1)
        '12.5 %'
    """
    return f"{number(100 * value, decimals, signed)} %"


def estimated(value: float, signed: bool = False) -> str:
    """An estimated share in percent, or that there is none.

    Example:
        >>> estimated(0.8689), estimated(math.nan)
        ('86.9 %', 'cannot be estimated')
    """
    return percent(value, 1, signed) if math.isfinite(value) else UNKNOWN


def spread(interval: "Interval", decimals: int, signed: bool = False) -> str:
    """An estimated share and its interval, in percent without the sign; or the interval alone.

    Example:
        >>> from matcha_gnn.evidence.posterior import Interval
        >>> spread(Interval(0.164, 0.052, 0.234), 1, signed=True), spread(Interval(0, 0, 1), 0)
        ('+16.4 (+5.2 to +23.4)', '0 (0 to 100)')
        >>> spread(Interval(math.nan, 0, 1), 0)
        '0 to 100'
    """
    value, low, high = (100 * each for each in interval)
    ends = " to ".join(number(each, decimals, signed) for each in (low, high))
    return f"{number(value, decimals, signed)} ({ends})" if math.isfinite(value) else ends
