"""Does the default lose anything without candidates that have other hop weights?

The default of an earlier version, which tried such candidates, beside one that takes the source,
pool, belief, probe or, where a metric is chosen, the pool for it. The same source models and
targets got both: shifts of `harm_cases` and the test half of the study `evidence`, with base
methods; the networks and worlds of `networks`, alone, with a summary and by F1; Syn-Cora from
homophily 0.8 to every level; and Table 1. On Syn-Cora and between ACM and DBLP it is also noted
what the pool reaches whose network is not the source model, but the one with fitted γ, or T3A
inside Matcha.

The second default is as good if mean accuracy differs by less than 0.1 points, in every family by
less than 0.3, and not one more run is hurt. It became the default, and the other is gone: commit
b893fda7 is the last that runs this study. Here its record is shown.

Run: python -m matcha_paper.studies.gate results/gate.json
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from matcha_paper.studies.shared import arguments, run_study, show_record

KEPT = ("source", "pool", "belief", "probe")
"""Candidates of the second default; the pool for a metric is named after it."""
BOTH_WAYS = ("ACM-DBLP", "DBLP-ACM")
BOTH = ("default", "second")
HURT = 1.0
"""Points of accuracy whose loss counts as harm."""
MEAN_LIMIT, FAMILY_LIMIT, SHOWN = 0.1, 0.3, 12
Record = dict[str, Any]


def show(records: Sequence[Record]) -> None:
    """Means by family, harm, what was taken, the verdict, and what γ earns."""
    counted = [r for r in records if (r["study"], r["case"]) != ("evidence", BOTH_WAYS[0])]
    by_family: dict[str, list[Record]] = {}
    for record in counted:
        by_family.setdefault(f"{record['study']}, {record['family']}", []).append(record)
    print("| | runs | before | default | second | difference | hurt | hurt, second | γ taken |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, own in (by_family | {"all": counted}).items():
        means = [np.mean([r[when] for r in own]) for when in ("before", "default", "second")]
        print(
            f"| {name} | {len(own)} | {means[0]:.2f} | {means[1]:.2f} | {means[2]:.2f} "
            f"| {_difference(own):+.3f} | {_hurt(own, 'default')} | {_hurt(own, 'second')} "
            f"| {sum(_has_gamma(r) for r in own)} |"
        )
    _show_metrics([r for r in counted if "metric_default" in r])
    _show_choices(counted)
    print(verdict(counted, by_family))
    _show_earned([r for r in records if "earned" in r])


def _difference(own: Sequence[Record]) -> float:
    return float(np.mean([r["second"] - r["default"] for r in own]))


def _lost(record: Record, which: str) -> bool:
    """Whether a run is hurt."""
    return bool(record[which] - record["before"] < -HURT)


def _hurt(own: Sequence[Record], which: str) -> int:
    return sum(_lost(record, which) for record in own)


def _has_gamma(record: Record) -> bool:
    """Whether the default took what the second default does not try."""
    return record["chosen"] not in KEPT and not record["chosen"].startswith("pool for")


def _show_metrics(records: Sequence[Record]) -> None:
    if records:
        means = {
            when: np.mean([r[f"metric_{when}"] for r in records])
            for when in ("before", "default", "second")
        }
        shown = ", ".join(f"{when} {mean:.4f}" for when, mean in means.items())
        print(f"\n{len(records)} runs by F1, mean F1: {shown}")


def _show_choices(records: Sequence[Record]) -> None:
    """What was taken with γ, whether equal choices have equal bits, and what differs most."""
    names = [r["chosen"] for r in records if _has_gamma(r)]
    counts = {name: names.count(name) for name in sorted(set(names))}
    print(f"\ntaken with other hop weights or moved nodes: {counts or 'none'}")
    alike = [r for r in records if r["chosen"] == r["second_chosen"]]
    equal = sum(r["same_probs"] for r in alike)
    print(
        f"{len(alike)} of {len(records)} runs take the same candidate, {equal} with the same bits"
    )
    by_difference = sorted(records, key=lambda r: -abs(r["second"] - r["default"]))[:SHOWN]
    for r in by_difference:
        if r["second"] != r["default"]:
            print(
                f"{r['study']}, {r['case']}, {r['network']} {r['method']}, seed {r['seed']}: "
                f"before {r['before']:.1f}, default {r['default']:.1f} ({r['chosen']}), second "
                f"{r['second']:.1f} ({r['second_chosen']})"
            )


def verdict(records: Sequence[Record], by_family: dict[str, list[Record]]) -> str:
    """Whether the second default is as good, by the rule above."""
    mean = _difference(records)
    widest = max(by_family, key=lambda name: abs(_difference(by_family[name])))
    family = _difference(by_family[widest])
    hurt = {which: {n for n, r in enumerate(records) if _lost(r, which)} for which in BOTH}
    newly, no_longer = hurt["second"] - hurt["default"], hurt["default"] - hurt["second"]
    few = len(newly) <= len(no_longer)
    passed = abs(mean) < MEAN_LIMIT and abs(family) < FAMILY_LIMIT and few
    return (
        f"\n{'passed' if passed else 'not passed'}: mean difference {mean:+.3f} points, largest of "
        f"a family {family:+.3f} ({widest}), {len(newly)} runs newly hurt, {len(no_longer)} no "
        "longer"
    )


def _show_earned(records: Sequence[Record]) -> None:
    """Mean accuracy of each answer, and how often its bound is above that of the pool."""
    groups = dict.fromkeys(r["case"] if r["study"] == "evidence" else r["study"] for r in records)
    for group in groups:
        own = [r for r in records if group in (r["case"], r["study"])]
        print(f"\n{group}, {len(own)} runs: accuracy, and runs with a bound above the pool's")
        for name in own[0]["earned"]:
            mean = np.mean([r["earned"][name][0] for r in own])
            above = sum(r["earned"][name][1] > r["earned"]["pool around source"][1] for r in own)
            print(f"  {name}: {mean:.2f}, {above}")


def main() -> None:
    """Show the record."""
    parser = arguments(__doc__)
    parser.add_argument("file", type=Path)
    show_record(parser, parser.parse_args().file, show)


if __name__ == "__main__":
    run_study(main)
