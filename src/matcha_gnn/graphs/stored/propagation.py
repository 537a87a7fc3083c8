"""Making hops on disk: every finished file is a point to go on from.

P acts on each column alone. As many columns of one hop as fit are held in memory, P is streamed by
blocks of rows, and the next hop is written from its first row to its last. It is then read back in
place of the one before: what is stored is what the hop after is made from, so a run that was broken
off ends with the same numbers.
"""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.graphs.stored.mapped import ArrayWriter, MappedArray
from matcha_gnn.graphs.stored.matrix import StoredMatrix
from matcha_gnn.graphs.stored.streaming import FILE_TYPES, TORCH_TYPES
from matcha_gnn.io.files import output_folder, replacing
from matcha_gnn.typing import Progress

if TYPE_CHECKING:
    from matcha_gnn.backbones import FilterBackbone
    from matcha_gnn.graphs.stored.target import StoredGraph

LOCK = ".lock"
READ_ROWS = 1 << 16


class HopFiles:
    """The files of one model's hops on one store.

    Args:
        folder: `hops/<key>` in the store.
        shape: N, K+1 and D.
        dtype: what hops are stored in.
        slab: columns of a file.
    """

    def __init__(self, folder: Path, shape: tuple[int, int, int], dtype: str, slab: int) -> None:
        self.folder, self.shape, self.dtype = folder, shape, dtype
        self.widths = [min(slab, shape[2] - at) for at in range(0, shape[2], slab)]

    def path(self, hop: int, slab: int) -> Path:
        """Where columns of a hop lie; the width of slabs is in the name, as it may change."""
        return self.folder / f"hop-{hop:02d}-{self.widths[0]}-{slab:02d}.npy"

    @staticmethod
    def widths_in(folder: Path) -> list[int]:
        """Widths of the slabs that a folder has files of."""
        first = (path.name.split("-")[2] for path in folder.glob("hop-00-*-00.npy"))
        return sorted((int(width) for width in first if width.isdigit()), reverse=True)

    def bytes_of(self, hop: int, slab: int) -> int:
        """Bytes of a file."""
        itemsize = TORCH_TYPES[self.dtype].itemsize
        return self.shape[0] * self.widths[slab] * itemsize

    def opened(self, hop: int, slab: int) -> MappedArray:
        """The file, checked."""
        shape = (self.shape[0], self.widths[slab])
        return MappedArray(self.path(hop, slab), shape, FILE_TYPES[self.dtype])

    def missing(self) -> list[tuple[int, int]]:
        """Hop and slab of what is not there yet."""
        every = ((hop, slab) for slab in range(len(self.widths)) for hop in range(self.shape[1]))
        return [each for each in every if not self.path(*each).is_file()]

    def all(self) -> list[list[MappedArray]]:
        """All files, by hop, then slab."""
        return [[self.opened(k, s) for s in range(len(self.widths))] for k in range(self.shape[1])]

    @contextmanager
    def writing(self, hop: int, slab: int) -> Iterator[ArrayWriter]:
        """Write a file beside, and put it in its place when it is whole."""
        path, shape = self.path(hop, slab), (self.shape[0], self.widths[slab])
        try:
            kind = FILE_TYPES[self.dtype]
            with replacing(path) as beside, ArrayWriter(beside, shape, kind) as file:
                yield file
        except OSError as error:
            raise InvalidFileError(
                "store", f"{path} ({error.strerror})", "room to write"
            ) from error

    def stored(self, rows: Tensor) -> Tensor:
        """Numbers as they are stored, in a type that NumPy knows."""
        kept = rows.detach().to("cpu", TORCH_TYPES[self.dtype])
        return kept.view(torch.uint16) if self.dtype == "bfloat16" else kept


def make_hops(
    model: "FilterBackbone", graph: "StoredGraph", files: HopFiles, progress: Progress
) -> None:
    """Make what is missing.

    Args:
        model: a filter, in evaluation mode.
        graph: the target.
        files: where to; finished ones are kept.
        progress: called with the files that are done and their number.
    """
    output_folder(files.folder)
    with alone(files.folder):
        for left in files.folder.glob(".hop-*"):
            left.unlink()
        total = files.shape[1] * len(files.widths)
        if any(hop == 0 for hop, _ in files.missing()):
            _write_encoded(model, graph, files)
        for slab in range(len(files.widths)):
            todo = [hop for hop, of_slab in files.missing() if of_slab == slab]
            progress(total - len(files.missing()), total)
            if not todo:
                continue
            h = _read(files, todo[0] - 1, slab, graph.device)
            for hop in todo:
                _write_next(graph.adjacency, h, files, hop, slab)
                progress(total - len(files.missing()), total)
                if hop != todo[-1]:
                    _read(files, hop, slab, graph.device, into=h)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go when it ends, however it ends."""
    with open(folder / LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            got = f"{folder} (another process is making these hops)"
            raise InvalidFileError("store", got, "one process at a time") from error
        yield


@torch.no_grad()
def _write_encoded(model: "FilterBackbone", graph: "StoredGraph", files: HopFiles) -> None:
    """H_0, all slabs in one read of the features."""
    with _all_slabs(files) as writers:
        for _, piece in graph.pieces():
            h0 = files.stored(model.encode(model.accept(piece.x)))
            for writer, columns in zip(writers, torch.split(h0, files.widths, 1), strict=True):
                writer.write(columns.numpy())


@contextmanager
def _all_slabs(files: HopFiles) -> Iterator[list[ArrayWriter]]:
    with ExitStack() as stack:
        yield [stack.enter_context(files.writing(0, s)) for s in range(len(files.widths))]


def _write_next(matrix: StoredMatrix, h: Tensor, files: HopFiles, hop: int, slab: int) -> None:
    with files.writing(hop, slab) as file:
        for _, rows in matrix.products(h):
            file.write(files.stored(rows).numpy())


def _read(
    files: HopFiles, hop: int, slab: int, device: torch.device, into: Tensor | None = None
) -> Tensor:
    """One slab of a hop in memory, in float32."""
    source = files.opened(hop, slab)
    h = torch.empty(source.shape, device=device) if into is None else into
    for rows, block in source.blocks(READ_ROWS):
        h[rows] = torch.from_numpy(block).view(TORCH_TYPES[files.dtype]).to(h)
    return h
