"""Steps of a made-up watch, for pages."""

import math

from matcha_gnn.watching import Alarm, AlarmKind, Step
from matcha_gnn.watching.alarms import Chance, Reference

REFERENCE = Reference(0.8, 0.9, "100 nodes not trained on", 100, 0.02, 0.8, 5.0)
CHANCES = {kind: Chance(number, 20) for number, kind in enumerate(AlarmKind)}
AWKWARD = '</script><b>"x" & y</b>'


def made_steps(number: int = 12) -> list[Step]:
    """Accuracy falls and comes back; the third graph is broken and the fifth cannot be told."""
    steps = []
    for n in range(number):
        time = f"2026-{1 + n // 28 % 12:02d}-{1 + n % 28:02d}T00:00:00+00:00"
        if n == 2:
            steps.append(Step(n + 1, time, "broken.npz", problem="not a plain array file"))
            continue
        value = 0.9 - 0.2 * math.sin(math.pi * n / number)
        alarm = Alarm(AlarmKind.LEVEL, f"Below, says {AWKWARD}.", Chance(0, 20))
        known = n != 4
        steps.append(
            Step(
                number=n + 1,
                time=time,
                name=AWKWARD if n == 1 else f"day-{n + 1}.npz",
                nodes=1000,
                edges=5000,
                chosen="pool" if value < 0.85 else "source",
                accuracy=value if known else math.nan,
                low=value - 0.05 if known else math.nan,
                high=value + 0.05 if known else math.nan,
                source_accuracy=value - 0.02 if known else math.nan,
                changed=0.1,
                degree=5.0 + n / 10,
                homophily=0.8 - n / 50,
                shares_moved=0.02,
                drift=0.5,
                confidence=0.9,
                reason=f"Reason {n + 1}.",
                measured=value + 0.01 if n % 3 == 0 else math.nan,
                report=f"graphs/{n + 1}/report.html",
                alarms=(alarm,) if known and value < 0.8 else (),
            )
        )
    return steps
