"""Are broken features told from natural and generated shifts? No network is needed to see.

Natural pairs and generated shifts as they are, and with features as a broken pipeline delivers them
(of generated shifts those of the evidence study). The limits of `evidence.features` were chosen on
the tuning half; the test half was run once. Natural families were split before any statistic was
looked at.

Run: python -m matcha_paper.studies.broken tuning --out results/broken-tuning.json
     python -m matcha_paper.studies.broken test --out results/broken-test.json
     python -m matcha_paper.studies.broken show results/broken-test.json
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from matcha_gnn.evidence.features import FeatureProfile, compare, profile
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.io.graphfiles import read_graph
from matcha_gnn.io.jsontext import write_json
from matcha_paper.datasets.rawfiles import data_root
from matcha_paper.datasets.twitch import country
from matcha_paper.studies.evidence_cases import pairs
from matcha_paper.studies.harm_cases import cases, source_graph, target_graph
from matcha_paper.studies.shared import arguments, run_study, show_record
from matcha_paper.studies.worlds import World

FAMILIES = {
    "tuning": ("citation", "counties", "universities"),
    "test": ("airports", "Twitch", "colleges", "Cora-ML"),
}
SEEDS = {"tuning": 10, "test": 0}
NATURAL, GENERATED, HARM = "natural", "generated", "harm study"
Record = dict[str, Any]
Names = dict[str, tuple[Sequence[str], Callable[[str], Data]]]


def _file(folder: str, start: str = "") -> Callable[[str], Data]:
    def read(name: str) -> Data:
        return read_graph(data_root() / folder / f"{start}{name}.npz")

    return read


def _natural() -> Names:
    """Graphs of each family, and what reads one; every graph is a source to every other."""
    universities = ("cornell", "texas", "washington", "wisconsin")
    counties = tuple(map("".join, product(("2012", "2016"), "ns")))
    return {
        "citation": (("acmv9", "dblpv7"), _file("citation")),
        "counties": (counties, _file("natural", "county-")),
        "universities": (universities, _file("natural", "web-")),
        "airports": (("usa", "brazil"), _file("airport")),
        "Twitch": (("DE", "ENGB", "ES"), country),
        "colleges": (("Bowdoin", "Caltech", "USFCA"), _file("natural", "fb-")),
        "Cora-ML": (("left", "right"), _file("natural", "cora-ml-")),
    }


def natural_pairs(half: str) -> Iterator[tuple[str, str, Data, Data]]:
    """Family, name, source and target."""
    for family in FAMILIES[half]:
        names, read = _natural()[family]
        graphs = {name: read(name) for name in names}
        for source, target in permutations(names, 2):
            yield family, f"{source}-{target}", graphs[source], graphs[target]


def generated_pairs(half: str) -> Iterator[tuple[str, str, Data, Data]]:
    """The shifts of the evidence and harm studies; Coauthor-CS with noise takes too much memory."""
    seed = SEEDS[half]
    for name, pair in pairs()[half].items():
        if isinstance(pair.source, World) or pair.shifts or pair.source[0] == "syn_cora":
            yield pair.family, name, *pair.draw(seed)
    for case in cases()[half]:
        real_alone = case.source.real and not case.shifts and case.source.data != "syn_cora"
        if case.source.data == "coauthor_cs" or real_alone:
            continue
        yield HARM, case.name, source_graph(case.source, seed), target_graph(case, seed)


def _shuffled(size: int) -> Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(7))


def _noise(x: Tensor) -> Tensor:
    return torch.rand(x.shape, generator=torch.Generator().manual_seed(8)).to(x)


def _normalised(x: Tensor) -> Tensor:
    """As PyG's `NormalizeFeatures`."""
    moved = x - x.min()
    return moved / moved.sum(1, keepdim=True).clamp_min(1)


BROKEN: Mapping[str, Callable[[Tensor], Tensor]] = {
    "noise": _noise,
    "ones": torch.ones_like,
    "zeros": torch.zeros_like,
    "× 100": lambda x: 100 * x,
    "/ 100": lambda x: x / 100,
    "1 − x": lambda x: 1 - x,
    "rows normalised": _normalised,
    "rows permuted": lambda x: x[_shuffled(len(x))],
    "columns permuted": lambda x: x[:, _shuffled(x.shape[1])],
    "columns shifted by one": lambda x: x.roll(1, 1),
}


WAYS = (*BROKEN, "source's rows normalised")


def _with(graph: Data, x: Tensor) -> Data:
    changed = graph.clone()
    changed.x = x
    return changed


def _dense(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_dense()


def _profile(source: Data) -> FeatureProfile:
    test = source.get("test_mask")
    labelled = source.y >= 0 if test is None else (source.y >= 0) & ~test
    return profile(unlabelled(source), source.y, labelled)


def work(half: str, kind: str) -> Iterator[Record]:
    """One record per pair, as it is and broken in each way."""
    drawn = natural_pairs(half) if kind == NATURAL else generated_pairs(half)
    for family, name, source, target in drawn:
        own = _profile(source)
        facts: Record = {"half": half, "kind": kind, "family": family, "pair": name}
        facts["linked on the source"] = float(own.linked)
        yield facts | _record("", own, target)
        if family == HARM:
            continue
        x = _dense(target.x)
        for broken, change in BROKEN.items():
            yield facts | _record(broken, own, _with(target, change(x)))
        normalised = _profile(_with(source, _normalised(_dense(source.x))))
        yield facts | _record(WAYS[-1], normalised, target)


def _record(broken: str, source: FeatureProfile, target: Data) -> Record:
    found = compare(source, unlabelled(target))
    shown = {n: v if math.isfinite(v) else None for n, v in found._asdict().items()}
    return {"broken": broken, **shown, "problem": found.problem}


def show(records: Sequence[Record]) -> None:
    """Refused pairs of each family as a table, and ranges of the statistics."""
    ways = ("", *WAYS)
    groups = list(dict.fromkeys((record["kind"], _group(record)) for record in records))
    print("| graphs | pairs | " + " | ".join(way or "as they are" for way in ways) + " |")
    print("|---" * (len(ways) + 2) + "|")
    for kind, group in groups:
        own = [r for r in records if (r["kind"], _group(r)) == (kind, group)]
        cells = [_refused([r for r in own if r["broken"] == way]) for way in ways]
        pairs_met = sum(not r["broken"] for r in own)
        print(f"| {group} | {pairs_met} | " + " | ".join(cells) + " |")
    for kind in dict.fromkeys(record["kind"] for record in records):
        own = [r for r in records if r["kind"] == kind and not r["broken"]]
        ranges = [f"{name} {_range(own, name)}" for name in ("scale", "offset", "linked", "ranked")]
        refused = sum(bool(r["problem"]) for r in own)
        print(f"{kind}, as they are: {refused} of {len(own)} refused; " + ", ".join(ranges))


def _group(record: Record) -> str:
    own = record["kind"] == NATURAL or record["family"] == HARM
    return str(record["family"]) if own else GENERATED


def _refused(records: Sequence[Record]) -> str:
    return f"{sum(bool(r['problem']) for r in records)}"


def _range(records: Sequence[Record], name: str) -> str:
    values = [r[name] for r in records if r[name] is not None]
    return f"{min(values):.2f} to {max(values):.2f}" if values else "says nothing"


def main() -> None:
    """Run one half of the study, or show the record of one."""
    parser = arguments(__doc__)
    parser.add_argument("what", choices=(*FAMILIES, "show"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.what == "show":
        show_record(parser, args.file, show)
        return
    records: list[Record] = []
    for kind in (NATURAL, GENERATED):
        for record in work(args.what, kind):
            records.append(record)
            if args.out and record["broken"] in ("", WAYS[-1]):
                write_json(args.out, {"seed": SEEDS[args.what], "runs": records}, indent=0)
    show(records)


if __name__ == "__main__":
    run_study(main)
