"""What every benchmark shares: the clock, the machine, the bound, the record."""

import argparse
import ctypes
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from matcha_paper.timing import best_seconds

RESULTS = Path(__file__).parents[1] / "results" / "bench"


def repeats_for(nodes: int, device: str) -> int:
    if device == "cuda":
        return 100
    return 200 if nodes <= 10_000 else 30 if nodes <= 100_000 else 7


def copy_bandwidth(device: str) -> float:
    """Bytes a second, read and written, of copying an array far beyond the caches."""
    source = torch.ones(1 << (32 if device == "cuda" else 27), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    repeats = 100 if device == "cuda" else 10
    return 2 * source.numel() / best_seconds(lambda: target.copy_(source), repeats)


def peak_memory(work: Callable[[], object], device: str) -> int:
    """Bytes that some work takes at its peak beyond what was held before."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    ctypes.CDLL(None).malloc_trim(0)  # what was freed is not held any more,
    Path("/proc/self/clear_refs").write_text("5")  # and the peak starts anew
    before = memory_status("VmRSS")
    work()
    return memory_status("VmHWM") - before


def memory_status(field: str) -> int:
    """Bytes that the system counts for this process: VmRSS now, VmHWM at the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def processor(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {torch.get_num_threads()} threads"


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--full", action="store_true", help="the large sizes too")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the record")
    parser.add_argument("--max-gb", type=float, default=4.0, help="leave out larger stacks")
    return parser


def store(
    name: str, args: argparse.Namespace, parts: dict[str, Any], script: str | None = None
) -> None:
    """Print the record and keep it under results/, one file for each machine.

    `script` is what was run, with its own options, where it is not called as the record is.
    """
    machine = processor(args.device)
    full = " --full" if args.full else ""
    record = {
        "command": f"python benchmarks/{script or name + '.py'} --device {args.device}{full}",
        "machine": machine,
        "torch": torch.__version__,
        "copy_gb_per_second": copy_bandwidth(args.device) / 1e9,
        **parts,
    }
    text = json.dumps(rounded(record), indent=1)
    print(text)
    tag = "-".join("".join(c if c.isalnum() else " " for c in machine.lower()).split())
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{name}-{tag}.json").write_text(text + "\n")


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float | np.floating) else value
