"""The memory plan of a run, and an estimate of its cost before it starts."""

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.io.files import unwritten
from matcha_gnn.monitoring.memory import available_memory, system_figure

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
RESERVE = 200 << 20
"""Bytes for file pages in use, and for freed memory that an allocator keeps."""
MOST_BLOCK, LEAST_BLOCK = 4 << 20, 1 << 20
"""Bytes of a block of hops: at most what caches hold, at least what is worth a call."""
PROBE = 32 << 20
HOP_BYTES = 4
"""Of a stored number."""


@dataclass(frozen=True)
class Work:
    """The sizes of a run.

    Attributes:
        num_nodes: N.
        num_features: F.
        num_hops: K+1.
        width: D.
        num_classes: C.
        node_bytes: memory of base method and loop per node.
        reads: of the whole stack.
        reads_for_logits: further reads where hop logits cannot be kept in memory.
        remakes: hops may have to be computed while this memory is in use.
    """

    num_nodes: int
    num_features: int
    num_hops: int
    width: int
    num_classes: int
    node_bytes: int
    reads: int
    reads_for_logits: int
    remakes: bool

    @property
    def stack_bytes(self) -> int:
        """Of all hops on disk."""
        return self.num_nodes * self.num_hops * self.width * HOP_BYTES


@dataclass(frozen=True)
class Plan:
    """How the memory is divided.

    Attributes:
        memory: the limit, in bytes.
        block_width: columns of a hop that are propagated at a time.
        columns: columns that base methods and losses may propagate at a time.
        rows: nodes that are encoded at a time.
        block_bytes: of a block of hops.
        logit_bytes: for hop logits, which save a read in each round.
        peak: expected peak, in bytes.
    """

    memory: int
    block_width: int
    columns: int
    rows: int
    block_bytes: int
    logit_bytes: int
    peak: int


def plan_for(work: Work, memory: int | str | None) -> Plan:
    """Divide the memory.

    Raises:
        InvalidArgumentError: too little memory; the message says how much is enough.
    """
    limit = bytes_of(memory) if memory is not None else available_memory() // 2
    base = resident() + RESERVE
    nodes = work.num_nodes
    # The estimate of accuracy uses features of 10,000 nodes in float64, raw and whitened.
    held = nodes * work.node_bytes + (24 * work.width * min(nodes, 10_000) if work.remakes else 0)
    block = max(LEAST_BLOCK, min(MOST_BLOCK, (limit - base - held) // 32))
    buffers = 10 * block
    # Propagation holds a hop, adaptation its memory per node; mostly not at the same time.
    least = base + buffers + max(4 * nodes, held + 8 * nodes)
    if limit < least:
        # Rounded up, so that the next run with this limit succeeds.
        enough = in_words(-(-least // 10**8) * 10**8)
        got = f"{in_words(limit)}, half of what is free" if memory is None else memory
        allowed = f"at least {enough} for this graph, model and method"
        raise InvalidArgumentError("memory", got, allowed)
    room = limit - base - buffers - held
    logits = 4 * nodes * work.num_hops * (work.num_classes - 1)
    kept = logits if 2 * logits <= room else 0
    columns = max(2, (room - kept) // (8 * nodes))
    beside = held + kept if work.remakes else 0
    block_width = max(1, min(work.width, (limit - base - buffers - beside) // (4 * nodes)))
    needed = max(4 * nodes * block_width + beside, held + kept + 8 * nodes * min(columns, 17))
    rows = max(1, block // (4 * max(work.num_features, work.width)))
    return Plan(limit, block_width, columns, rows, block, kept, min(limit, base + buffers + needed))


@dataclass(frozen=True)
class Estimate:
    """The expected cost of a run.

    Attributes:
        stack_bytes: of all hops on disk.
        missing_bytes: of those that have to be computed first.
        peak_bytes: resident memory.
        reads: of the stack.
        seconds: for these bytes at the measured speed of the disk; a stack that fits the page cache
            is read faster.
    """

    stack_bytes: int
    missing_bytes: int
    peak_bytes: int
    reads: int
    seconds: float

    def __str__(self) -> str:
        """One line."""
        make = f", {in_words(self.missing_bytes)} to compute" if self.missing_bytes else ""
        return (
            f"hops: {in_words(self.stack_bytes)} on disk{make}; memory: at most "
            f"{in_words(self.peak_bytes)}; {self.reads} reads of the hops; about "
            f"{self.seconds:,.0f} s at the disk's speed, less from the page cache"
        )


def estimate(work: Work, plan: Plan, folder: Path, sample: Path, missing: int) -> Estimate:
    """Estimate a run, and refuse it if the disk has no room.

    Args:
        work: the sizes of the run.
        plan: its memory plan.
        folder: where hops are stored.
        sample: a file there, to measure the read speed.
        missing: bytes of hops to be computed.

    Raises:
        InvalidArgumentError: too little space.
    """
    free = shutil.disk_usage(folder).free
    # A candidate with other features has hops of its own.
    needed = missing + (work.stack_bytes if work.remakes else 0)
    if needed > free:
        raise InvalidArgumentError(
            "store", f"{folder} ({in_words(free)} free)", f"{in_words(needed)} for the hops"
        )
    read, write = read_speed(sample), write_speed(folder, missing) if missing else 1.0
    reads = work.reads + (0 if plan.logit_bytes else work.reads_for_logits)
    seconds = missing / write + reads * work.stack_bytes / read
    return Estimate(work.stack_bytes, missing, plan.peak, reads, seconds)


def read_speed(path: Path) -> float:
    """Bytes per second of reading a file that is not in the page cache."""
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, PROBE, os.POSIX_FADV_DONTNEED)
        start = perf_counter()
        size = len(file.read(PROBE))
    return max(size, 1) / max(perf_counter() - start, 1e-6)


def write_speed(folder: Path, size: int) -> float:
    """Bytes per second of writing to the disk, by a trial of at most `size` bytes."""
    block = bytes(min(PROBE // 4, size))
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            start = perf_counter()
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise unwritten(folder, error) from error
    return len(block) / max(perf_counter() - start, 1e-6)


def bytes_of(memory: int | str) -> int:
    """Bytes from a number or a string.

    Example:
        >>> bytes_of("4GB"), bytes_of("1.5 GiB"), bytes_of(1000)
        (4000000000, 1610612736, 1000)
    """
    plain = isinstance(memory, int | str) and not isinstance(memory, bool)
    text = str(memory) if plain else ""
    match = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    try:
        number = float(match[1]) if match else -1.0
    except ValueError:
        number = -1.0
    if not match or number <= 0:
        raise InvalidArgumentError(
            "memory", repr(memory), "bytes, or a string such as 4GB or 512MiB"
        )
    unit = UNITS[match[2].upper()]
    if match[3]:
        unit = 1024 ** list(UNITS).index(match[2].upper())
    return int(number * unit)


def in_words(size: float) -> str:
    """Bytes with a unit.

    Example:
        >>> in_words(12_800_000_000), in_words(5_300_000)
        ('12.8 GB', '5.3 MB')
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size / 1000:.1f} kB"


def resident() -> int:
    """Bytes of this process that are in memory."""
    return system_figure("/proc/self/status", "VmRSS")


def peak_resident() -> int:
    """The largest `resident` so far."""
    return system_figure("/proc/self/status", "VmHWM")
