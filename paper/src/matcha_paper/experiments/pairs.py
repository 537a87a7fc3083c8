"""Differences between two rows that share their seeds and source models."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import mean, stdev
from typing import Any

from scipy.stats import binomtest


@dataclass(frozen=True)
class Paired:
    """A row less the row it is compared with, seed by seed, in percent.

    Attributes:
        base: the other row.
        mean: of the differences.
        sd: their standard deviation; None for one seed.
        better: seeds where the row is above its base.
        worse: seeds where it is below.
        p: of the sign test: how likely so uneven a split of `better` and `worse` is where neither
            row is better. With five seeds it is 0.0625 at least.
    """

    base: str
    mean: float
    sd: float | None
    better: int
    worse: int
    p: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def paired(base: str, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired | None:
    """Compare two rows over the seeds that both have; None where there are none.

    Args:
        base: name of the other row.
        ours: accuracy in percent by seed.
        theirs: of the other row.

    Example:
        >>> paired("ERM", {0: 71.0, 1: 74.0, 2: 73.0}, {0: 70.0, 1: 71.0, 2: 71.0})
        Paired(base='ERM', mean=2.0, sd=1.0, better=3, worse=0, p=0.25)
    """
    differences = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    if not differences:
        return None
    better, worse = (sum(sign * d > 0 for d in differences) for sign in (1, -1))
    return Paired(
        base=base,
        mean=round(mean(differences), 3),
        sd=round(stdev(differences), 3) if len(differences) > 1 else None,
        better=better,
        worse=worse,
        p=sign_test(better, worse),
    )


def sign_test(better: int, worse: int) -> float:
    """The two-sided p-value of so many differences up and down; 1 where there are none.

    Example:
        >>> sign_test(5, 0), sign_test(0, 0)
        (0.0625, 1.0)
    """
    if better + worse == 0:
        return 1.0
    return float(binomtest(better, better + worse).pvalue)
