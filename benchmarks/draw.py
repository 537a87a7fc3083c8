"""Draw the records of the benchmarks, and write them as tables into paper/docs/kernels.md.

Run: python benchmarks/draw.py
Writes roofline.svg, scaling.svg and whole.svg beside it, one panel for each machine that has
records.
"""

import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from common import RESULTS

from matcha_gnn.report.palette import BLACK, BLUE, GREY, ORANGE, PINK

DOCS = Path(__file__).parents[1] / "paper" / "docs"
SHOWN = {
    "ours_ms": ("matcha-gnn", BLUE, "o"),
    "twin_ms": ("reference implementation", GREY, "s"),
    "autograd_ms": ("cached autograd", ORANGE, "^"),
    "torch_ms": ("torch CSR", GREY, "s"),
    "scipy_ms": ("SciPy CSR", PINK, "D"),
    "pyg_ms": ("PyG message passing", ORANGE, "^"),
}
WHOLE = {
    "predict_of_pyg": ("predict", BLUE, "o"),
    "default_of_pyg": ("adapt, default", PINK, "s"),
    "closed_form_of_pyg": ("adapt, closed form", GREY, "D"),
    "belief_of_pyg": ("adapt, belief", ORANGE, "^"),
    "matcha_of_pyg": ("adapt, published", BLACK, "v"),
}
PICTURES = {
    "whole": "\n![Whole runs in units of PyG's inference against the number of nodes](whole.svg)\n",
    "round": "\n![Speed of a round against what one read allows](roofline.svg)\n",
    "propagate": "\n![Times against the number of nodes](scaling.svg)\n",
}
ROUND, PRODUCT = (
    ("ours_ms", "twin_ms", "autograd_ms"),
    ("ours_ms", "torch_ms", "scipy_ms", "pyg_ms"),
)


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{name}*.json"))]


def multiplications(row: dict[str, Any]) -> float:
    """Of a round for one node, in the cheaper of the two forms."""
    hops, width, classes = row["hops"] + 1, row["width"], row["classes"]
    return min(classes * hops * width, 2 * hops * width + 3 * classes * width)


def roofline(axes: Any, record: dict[str, Any]) -> None:
    bandwidth = record["copy_gb_per_second"]
    for key in ROUND:
        label, colour, marker = SHOWN[key]
        bytes_of = [4 * r["nodes"] * (r["hops"] + 1) * r["width"] for r in record["shapes"]]
        work = [r["nodes"] * multiplications(r) for r in record["shapes"]]
        axes.plot(
            [w / b for w, b in zip(work, bytes_of, strict=True)],
            [w / r[key] / 1e6 for w, r in zip(work, record["shapes"], strict=True)],
            marker, color=colour, label=label, alpha=0.8,
        )  # fmt: skip
    reach = (0.2, 12)
    axes.plot(reach, [bandwidth * x for x in reach], color=BLACK, lw=1, label="one read")
    axes.set(xscale="log", yscale="log", xlim=reach, title=record["machine"])
    axes.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "1", "2", "4", "8"])
    axes.minorticks_off()
    axes.set(xlabel="multiplications per byte of hops", ylabel="billion multiplications / s")
    axes.legend(fontsize=8)


def scaling(axes: Any, record: dict[str, Any], keys: tuple[str, ...], title: str) -> None:
    rows = [r for r in record["shapes"] if r["width"] == 32 and r.get("classes", 2) == 2]
    rows.sort(key=lambda row: row["nodes"])
    for key in keys:
        if key in rows[0]:
            label, colour, marker = SHOWN[key]
            per_hop = [r[key] / (r["hops"] if keys is PRODUCT else 1) for r in rows]
            axes.plot([r["nodes"] for r in rows], per_hop, marker + "-", color=colour, label=label)
    bound = [r["bound_ms"] / (r["hops"] if keys is PRODUCT else 1) for r in rows]
    axes.plot([r["nodes"] for r in rows], bound, "--", color=BLACK, lw=1, label="bound")
    axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="ms")
    axes.set_title(f"{title}\n{record['machine']}", fontsize=10)
    axes.legend(fontsize=8)


def whole_runs(axes: Any, record: dict[str, Any]) -> None:
    """From a Data to a result, in units of PyG's own inference."""
    rows = sorted(record["shapes"], key=lambda row: row["nodes"])
    for key, (label, colour, marker) in WHOLE.items():
        drawn = [row for row in rows if key in row]
        places, ratios = [row["nodes"] for row in drawn], [row[key] for row in drawn]
        axes.plot(places, ratios, marker + "-", color=colour, label=label)
    axes.axhline(1, ls="--", color=BLACK, lw=1, label="PyG's inference")
    axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="PyG inferences")
    axes.set_title(record["machine"], fontsize=10)
    axes.legend(fontsize=8)


def panels(rows: int, columns: int) -> tuple[Any, Any]:
    size = (5 * columns, 4 * rows)
    return plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)


def table(record: dict[str, Any]) -> str:
    """The rows of a record as Markdown, under its machine and command."""
    rows = record.get("shapes") or [
        {key: value for key, value in record.items() if not isinstance(value, str)}
    ]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    lines = [[f"{row[key]:,}" if key in row else "" for key in keys] for row in rows]
    head = [key.replace("_", " ") for key in keys]
    cells = [head, ["---:"] * len(keys), *lines]
    body = "\n".join(f"| {' | '.join(row)} |" for row in cells)
    return f"`{record['command']}` on {record['machine']}:\n\n{body}\n"


def with_tables(text: str) -> str:
    for name in ("whole", "first-call", "round", "propagate", "inference", "train"):
        made = "\n".join(table(record) for record in records(name)) or "No record yet.\n"
        made += rounds(records(name)) + PICTURES.get(name, "")
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)",
            lambda found, made=made: f"{found[1]}{made}{found[2]}",
            text,
            flags=re.DOTALL,
        )
    return text


def rounds(of: list[dict[str, Any]]) -> str:
    """Whole rounds of `adapt`, where a record has them."""
    return "".join(
        f"\nA round of `adapt` on {record['machine']} at {row['nodes']:,} nodes: "
        f"{row['round_ms']:.3g} ms, {row['share_of_inference']:.2%} of an inference; peak memory "
        f"beside the stack {row['peak_memory_beside_the_stack']:.1%} of it.\n"
        for record in of
        for row in record.get("round", ())
    )


def main() -> None:
    page = DOCS / "kernels.md"
    page.write_text(with_tables(page.read_text()))
    mpl.rcParams["svg.hashsalt"] = "matcha"
    whole, products = records("round"), records("propagate")
    figure, ((*axes,),) = panels(1, len(whole))
    for axis, record in zip(axes, whole, strict=True):
        roofline(axis, record)
    figure.savefig(DOCS / "roofline.svg", metadata={"Date": None})
    figure, (above, below) = panels(2, max(len(whole), len(products)))
    for axis, record in zip(above, whole, strict=False):
        scaling(axis, record, ROUND, "a round, D = 32, K = 9, C = 2")
    for axis, record in zip(below, products, strict=False):
        scaling(axis, record, PRODUCT, "one hop, D = 32, 6 entries a row")
    figure.savefig(DOCS / "scaling.svg", metadata={"Date": None})
    if runs := records("whole"):
        figure, ((*axes,),) = panels(1, len(runs))
        for axis, record in zip(axes, runs, strict=True):
            whole_runs(axis, record)
        figure.savefig(DOCS / "whole.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
