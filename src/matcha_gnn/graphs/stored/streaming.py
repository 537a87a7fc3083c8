"""Hops that are read in blocks, from files or from host memory to a GPU."""

import abc
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from matcha_gnn import kernels
from matcha_gnn.errors import IncompatibleError
from matcha_gnn.gamma.hops import Hops, HopsKey
from matcha_gnn.graphs.shards import WHOLE
from matcha_gnn.graphs.stored.mapped import MappedArray
from matcha_gnn.kernels.devices import device_of
from matcha_gnn.typing import ClassSums, FloatArray, HopForm, HopStack, HopWeights, Probs, Repr

FILE_BLOCK = 8 << 20
"""Bytes of a hop's file that are summed at a time."""


class StreamedHops(Hops, abc.ABC):
    """Hops of which one block at a time is in memory.

    Args:
        shape: N, K+1 and D.
        key: what they were made from.
        logit_bytes: hop logits of a linear head are kept where they take no more than this.
        device: of the blocks.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        key: HopsKey | None,
        logit_bytes: int,
        device: torch.device,
    ) -> None:
        fields: dict[str, Any] = {"key": key, "shard": WHOLE, "_kept": {}, "_logits": []}
        self.__dict__.update(fields, _shape=shape, _logit_bytes=logit_bytes, _device=device)

    @abc.abstractmethod
    def blocks(self) -> Iterator[tuple[slice, HopStack]]:
        """Rows and their hops."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """N, K+1 and D."""
        shape: tuple[int, int, int] = self.__dict__["_shape"]
        return shape

    @property
    def device(self) -> torch.device:
        """Of the blocks."""
        device: torch.device = self.__dict__["_device"]
        return device

    @property
    def one_block(self) -> bool:
        """Never."""
        return False

    @property
    def stack(self) -> HopStack:
        """Refused: it does not fit memory."""
        raise IncompatibleError("hops: these are read in blocks and have no stack; use blocks()")

    @cached_property
    def gram(self) -> HopForm:
        """See `Hops.gram`; summed in float64."""
        return self._wide_gram()

    @property
    def summed_in(self) -> torch.dtype:
        """See `Hops.summed_in`."""
        return torch.float32

    def mix(self, hop_weights: HopWeights) -> Repr:
        """Refused, as `stack` is; use `View.blocks`."""
        return self.stack

    def _keeps_logits(self, num_classes: int) -> bool:
        nodes, hops, _ = self.shape
        fits = 4 * nodes * hops * (num_classes - 1) <= self.__dict__["_logit_bytes"]
        return fits and super()._keeps_logits(num_classes)

    def _new_classifier(self, head: nn.Linear, over: Hops) -> kernels.Classifier | None:
        if over is not self or not self._keeps_logits(head.out_features):
            return None
        return _StreamedClassifier(self, *self._head_logits(head))


class _StreamedClassifier:
    """`kernels.classifier`: predictions from kept hop logits, then one read for the class sums."""

    def __init__(self, hops: StreamedHops, logits: Tensor, bias: Tensor) -> None:
        self.hops, self.logits, self.bias = hops, logits, bias

    def __call__(self, hop_weights: HopWeights) -> tuple[Probs, ClassSums, FloatArray]:
        probs = kernels.hop_predictions(self.logits, self.bias, hop_weights)
        first = self.hops._own_class_sums(probs[:, :-1])
        sums = np.concatenate([first, (self.hops._own_node_sums - first.sum(0))[None]])
        return probs, sums, np.asarray(probs.sum(0, dtype=torch.float64).cpu())


class StoredHops(StreamedHops):
    """Hops in files, one for each hop and block of columns, [N, d] each.

    Args:
        files: by hop, then column block.
        key: what they were made from.
        block_bytes: of a block in float32.
        logit_bytes: see `StreamedHops`.
        device: of the blocks.
    """

    def __init__(
        self,
        files: list[list[MappedArray]],
        key: HopsKey | None,
        block_bytes: int,
        logit_bytes: int,
        device: torch.device,
    ) -> None:
        width = sum(file.shape[1] for file in files[0])
        super().__init__((files[0][0].shape[0], len(files), width), key, logit_bytes, device)
        rows = max(1, block_bytes // (4 * len(files) * width))
        self.__dict__.update(_files=files, _rows=rows)

    def blocks(self) -> Iterator[tuple[slice, HopStack]]:
        """Rows and their hops side by side, in float32."""
        return on_device(self._host_blocks(), self.device)

    def _host_blocks(self) -> Iterator[tuple[slice, HopStack]]:
        """The next block is read in another thread while one is in use."""
        nodes, hops, width = self.shape
        size = min(self.__dict__["_rows"], nodes)
        places = [slice(at, min(at + size, nodes)) for at in range(0, nodes, size)]
        # A third one is being copied to the device while two are on the host.
        pinned = device_of(self.device).streams
        buffers = [torch.empty(size, hops, width, pin_memory=pinned) for _ in range(2 + pinned)]
        with ThreadPoolExecutor(1, "matcha-read") as reader:
            coming = reader.submit(self._fill, buffers[0], places[0])
            for number, rows in enumerate(places, 1):
                block = coming.result()
                if number < len(places):
                    buffer = buffers[number % len(buffers)]
                    coming = reader.submit(self._fill, buffer, places[number])
                yield rows, block

    def _fill(self, buffer: Tensor, rows: slice) -> HopStack:
        size = rows.stop - rows.start
        block = buffer[:size]
        for k, first, file in self._column_blocks():
            file.ahead(rows.stop, rows.stop + 4 * size)
            stored = torch.from_numpy(file.rows(rows.start, rows.stop))
            block[:, k, first : first + file.shape[1]] = stored
            file.drop(rows.start, rows.stop)
        return block

    def _column_blocks(self) -> Iterator[tuple[int, int, MappedArray]]:
        """Hop, first column and file."""
        for k, blocks in enumerate(self.__dict__["_files"]):
            first = 0
            for file in blocks:
                yield k, first, file
                first += file.shape[1]

    def _own_class_sums(self, weights: Tensor) -> ClassSums:
        """On the CPU each hop is summed from its mapped file, without a copy."""
        if self.device.type != "cpu":
            return super()._own_class_sums(weights)
        sums = np.zeros((weights.shape[1], *self.shape[1:]))
        for k, first, file in self._column_blocks():
            width = file.shape[1]
            for rows, block in file.blocks(max(1, FILE_BLOCK // (4 * width))):
                hop = torch.from_numpy(block)[:, None]
                sums[:, k, first : first + width] += kernels.class_sums(hop, weights[rows])[:, 0]
        return sums


class HostHops(StreamedHops):
    """Hops in host memory for a model on a GPU that has no room for them.

    Args:
        stack: [N, K+1, D] in pinned host memory.
        key: what they were made from.
        block_bytes: of a block on the GPU; there are two at a time.
        logit_bytes: see `StreamedHops`.
        device: the GPU.
    """

    def __init__(
        self,
        stack: HopStack,
        key: HopsKey | None,
        block_bytes: int,
        logit_bytes: int,
        device: torch.device,
    ) -> None:
        nodes, hops, width = stack.shape
        super().__init__((nodes, hops, width), key, logit_bytes, device)
        size = max(1, block_bytes // (stack.element_size() * hops * width))
        self.__dict__.update(_stack=stack, _rows=size)

    def blocks(self) -> Iterator[tuple[slice, HopStack]]:
        """Rows and their hops on the device."""
        stack, size = self.__dict__["_stack"], self.__dict__["_rows"]
        places = (slice(at, min(at + size, len(stack))) for at in range(0, len(stack), size))
        return on_device(((rows, stack[rows]) for rows in places), self.device)


def on_device(
    blocks: Iterator[tuple[slice, HopStack]], device: torch.device
) -> Iterator[tuple[slice, HopStack]]:
    """Blocks of pinned host memory on a device, each copied while the one before is in use.

    A host block must not change until the second next one has been requested.
    """
    if not device_of(device).streams:
        for rows, host in blocks:
            yield rows, host.to(device)
        return
    copier = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    sent = deque[tuple[slice, Tensor, torch.cuda.Event]]()
    for rows, host in blocks:
        with torch.cuda.stream(copier):
            there = host.to(device, non_blocking=True)
            copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied.record(copier)
        sent.append((rows, there, copied))
        if len(sent) == 2:
            yield _received(*sent.popleft())
            sent[0][2].synchronize()
    yield from (_received(*each) for each in sent)


def _received(rows: slice, there: Tensor, copied: torch.cuda.Event) -> tuple[slice, HopStack]:
    """A block that the computation's stream may read, and that is not freed before it has."""
    now = torch.cuda.current_stream(there.device)
    now.wait_event(copied)
    there.record_stream(now)
    return rows, there
