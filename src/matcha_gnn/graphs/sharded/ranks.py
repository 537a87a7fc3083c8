"""The ranks of a cluster: collective operations, bytes sent, and lost ranks."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from matcha_gnn.errors import DistributedError, InvalidArgumentError
from matcha_gnn.graphs.sharded import costs
from matcha_gnn.kernels.devices import DEVICES, device_of
from matcha_gnn.typing import FloatArray

TIMEOUT = 30.0
"""Seconds that a rank waits for another one."""


class Ranks:
    """All processes of a run, seen from one of them.

    Every method is called by all ranks in the same order. A rank that dies closes its connections,
    which the others notice at once; one that does not respond is lost after the process group's
    time limit. In both cases the others raise `DistributedError`.

    Attributes:
        rank: the number of this process, from 0.
        size: the number of ranks.
        sent: bytes that this rank has sent, by purpose, without the headers of the transport.

    Args:
        device: of the messages: the CPU for gloo, this rank's GPU for NCCL.
        timeout: the limit of the process group, for error messages.
    """

    def __init__(self, device: torch.device | str = "cpu", timeout: float = TIMEOUT) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device, self.timeout = torch.device(device), timeout
        self.sent: Counter[str] = Counter()

    def total(self, *sums: FloatArray | float, purpose: str = "sums") -> list[FloatArray]:
        """Add up arrays over the ranks, in one message."""
        arrays = [np.asarray(each, np.float64) for each in sums]
        buffer = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
        buffer = buffer.to(self.device)
        with self._together(purpose):
            dist.all_reduce(buffer)
        self.sent[purpose] += costs.all_reduce_bytes(buffer.nbytes, self.size)
        ends = np.cumsum([array.size for array in arrays])[:-1]
        added = np.split(buffer.cpu().numpy(), ends)
        return [new.reshape(old.shape) for new, old in zip(added, arrays, strict=True)]

    def gather(self, rows: Tensor, purpose: str = "rows") -> Tensor:
        """The rows of all ranks one after another; they may differ in number."""
        counts = self.counts(len(rows))
        padded = rows.new_zeros(max(counts), *rows.shape[1:], device=self.device)
        padded[: len(rows)] = rows
        shards = [torch.empty_like(padded) for _ in counts]
        with self._together(purpose):
            dist.all_gather(shards, padded)
        self.sent[purpose] += costs.all_gather_bytes(padded.nbytes, self.size)
        kept = [shard[:count] for shard, count in zip(shards, counts, strict=True)]
        return torch.cat(kept).to(rows.device)

    def counts(self, count: int) -> list[int]:
        """One number of each rank, in their order."""
        numbers = np.zeros(self.size)
        numbers[self.rank] = count
        (added,) = self.total(numbers, purpose="counts")
        return [int(count) for count in added]

    def exchange(
        self, rows: Tensor, to: Sequence[int], of: Sequence[int], purpose: str = "halo"
    ) -> Tensor:
        """Send rows to each rank, and receive theirs.

        Args:
            rows: [Σ to, …], ordered by receiver; on the device of messages.
            to: number of rows for each rank.
            of: number of rows from each rank.
            purpose: under which the bytes are counted.

        Returns:
            [Σ of, …], ordered by sender.
        """
        received = rows.new_empty(sum(of), *rows.shape[1:])
        with self._together(purpose):
            dist.all_to_all_single(received, rows.contiguous(), list(of), list(to))
        elsewhere = len(rows) - to[self.rank]
        self.sent[purpose] += elsewhere * rows[:1].numel() * rows.element_size()
        return received

    def broadcast(self, value: Any, purpose: str = "broadcast") -> Any:
        """Rank 0's value, on all ranks."""
        held = [value]
        with self._together(purpose):
            dist.broadcast_object_list(held, src=0, device=self.device)
        return held[0]

    def wait(self, purpose: str) -> None:
        """Wait until all ranks have come here."""
        self.total(np.zeros(1), purpose=purpose)

    @contextmanager
    def agreeing(self, purpose: str) -> Iterator[None]:
        """Run a block on all ranks; where it fails on one, all raise."""
        problem: Exception | None = None
        try:
            yield
        except DistributedError:
            raise
        except Exception as error:
            problem = error
        failed = self.counts(int(problem is not None))
        if problem is not None:
            raise problem
        if any(failed):
            who = ", ".join(str(rank) for rank, count in enumerate(failed) if count)
            raise DistributedError(f"{purpose}: failed on rank {who}; see the error of that rank")

    @contextmanager
    def _together(self, purpose: str) -> Iterator[None]:
        try:
            yield
        # Gloo and NCCL raise nothing more special than this.
        except RuntimeError as error:
            raise DistributedError(
                f"rank {self.rank} of {self.size} lost the others ({purpose}): a rank has died or "
                f"has not responded for {self.timeout:g} s; see its last output"
            ) from error


@contextmanager
def joined(timeout: float = TIMEOUT, device: str = "cpu") -> Iterator[Ranks]:
    """The ranks of this run: of the existing process group, or of one made for torchrun.

    A process group that is created here is destroyed when all ranks have come to the end.

    Args:
        timeout: seconds that a rank waits for another; an existing group keeps its own limit.
        device: its type: "cpu" for gloo, "cuda" for NCCL and one GPU per rank.

    Raises:
        InvalidArgumentError: there is no process group, and torchrun has not started this process.
        DistributedError: not all ranks have connected.
    """
    if dist.is_initialized():
        device_of_messages = _message_device()
        yield Ranks(device_of_messages, _limit_of_group(device_of_messages, timeout))
        return
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR") if name not in os.environ]
    if missing:
        raise InvalidArgumentError(
            "distributed",
            f"a process without {missing[0]} in its environment",
            "one started by torchrun, or in which torch.distributed.init_process_group was called",
        )
    _start(timeout, device)
    try:
        ranks = Ranks(_message_device(), timeout)
        yield ranks
        # A rank that leaves while another still takes part may abort the process of that one. One
        # that leaves with an error waits for nobody: the others see that it is gone.
        ranks.wait("the end of the run")
    finally:
        dist.destroy_process_group()


def _start(timeout: float, device: str) -> None:
    backend = device_of(torch.device(device)).backend
    if backend:
        torch.get_device_module(device).set_device(int(os.environ.get("LOCAL_RANK", "0")))
        # Without it, NCCL aborts the other processes when a rank is lost instead of raising.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
    try:
        dist.init_process_group(backend or "gloo", timeout=timedelta(seconds=timeout))
    except RuntimeError as error:
        rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
        raise DistributedError(
            f"rank {rank} of {size}: not all ranks connected within {timeout:g} s"
        ) from error


def _limit_of_group(device: torch.device, otherwise: float) -> float:
    """Seconds that the existing group waits; versions of torch that do not say give the other."""
    group: Any = dist.group.WORLD
    options = getattr(group._get_backend(device), "options", None)
    limit = getattr(options, "_timeout", None)
    return otherwise if limit is None else float(limit.total_seconds())


def _message_device() -> torch.device:
    for name, row in DEVICES.items():
        if row.backend == dist.get_backend():
            return torch.device(name, torch.get_device_module(name).current_device())
    return torch.device("cpu")
