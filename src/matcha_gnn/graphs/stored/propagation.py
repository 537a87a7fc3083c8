"""Computing hops on disk; a run can be resumed after every finished file.

P acts on each column separately. A block of columns of one hop is held in memory, P is read in
blocks of rows, and the next hop is written row by row. It is then read back in place of the one
before: each hop is computed from the stored one, so a resumed run gives the same numbers.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.graphs.stored.mapped import ArrayWriter, MappedArray
from matcha_gnn.graphs.stored.matrix import StoredMatrix
from matcha_gnn.graphs.stored.plan import HOP_BYTES
from matcha_gnn.io.files import holding, output_folder, replacing, sweep
from matcha_gnn.typing import Progress

if TYPE_CHECKING:
    from matcha_gnn.gamma.models import FilterBackbone
    from matcha_gnn.graphs.stored.target import StoredGraph

LOCK = ".lock"
READ_ROWS = 1 << 16


class HopFiles:
    """The files of one model's hops on one store.

    Args:
        folder: `hops/<key>` in the store.
        shape: N, K+1 and D.
        block_width: columns of a file.
    """

    def __init__(self, folder: Path, shape: tuple[int, int, int], block_width: int) -> None:
        self.folder, self.shape = folder, shape
        self.widths = [min(block_width, shape[2] - at) for at in range(0, shape[2], block_width)]

    def path(self, hop: int, column_block: int) -> Path:
        """The file of some columns of a hop; their number is in the name, as it may change."""
        return self.folder / f"hop-{hop:02d}-{self.widths[0]}-{column_block:02d}.npy"

    @staticmethod
    def widths_in(folder: Path) -> list[int]:
        """Widths of the column blocks that a folder has files of."""
        first = (path.name.split("-")[2] for path in folder.glob("hop-00-*-00.npy"))
        return sorted((int(width) for width in first if width.isdigit()), reverse=True)

    def bytes_of(self, hop: int, column_block: int) -> int:
        """Bytes of a file."""
        return self.shape[0] * self.widths[column_block] * HOP_BYTES

    def opened(self, hop: int, column_block: int) -> MappedArray:
        """The file, checked."""
        shape = (self.shape[0], self.widths[column_block])
        return MappedArray(self.path(hop, column_block), shape, "float32")

    def missing(self) -> list[tuple[int, int]]:
        """Hop and column block of every missing file."""
        every = (
            (hop, column_block)
            for column_block in range(len(self.widths))
            for hop in range(self.shape[1])
        )
        return [each for each in every if not self.path(*each).is_file()]

    def all(self) -> list[list[MappedArray]]:
        """All files, by hop, then column block."""
        return [[self.opened(k, s) for s in range(len(self.widths))] for k in range(self.shape[1])]

    @contextmanager
    def writing(self, hop: int, column_block: int) -> Iterator[ArrayWriter]:
        """Write a temporary file, and rename it when it is complete."""
        path, shape = self.path(hop, column_block), (self.shape[0], self.widths[column_block])
        try:
            with (
                replacing(path, durable=False) as beside,
                ArrayWriter(beside, shape, "float32") as file,
            ):
                yield file
        except OSError as error:
            raise InvalidFileError(
                "store", f"{path} ({error.strerror})", "room to write"
            ) from error

    @staticmethod
    def stored(rows: Tensor) -> Tensor:
        """Rows as they are stored."""
        return rows.detach().to("cpu", torch.float32)


def make_hops(
    model: "FilterBackbone", graph: "StoredGraph", files: HopFiles, progress: Progress
) -> None:
    """Compute the missing files.

    Args:
        model: a filter, in evaluation mode.
        graph: the target.
        files: where they are written; finished ones are kept.
        progress: called with the number of finished files and of all files.
    """
    output_folder(files.folder)
    with alone(files.folder):
        sweep(files.folder, "hop-*.npy")
        total = files.shape[1] * len(files.widths)
        if any(hop == 0 for hop, _ in files.missing()):
            _write_encoded(model, graph, files)
        for column_block in range(len(files.widths)):
            todo = [hop for hop, of_block in files.missing() if of_block == column_block]
            progress(total - len(files.missing()), total)
            if not todo:
                continue
            h = _read(files, todo[0] - 1, column_block, graph.device)
            for hop in todo:
                _write_next(graph.adjacency, h, files, hop, column_block)
                progress(total - len(files.missing()), total)
                if hop != todo[-1]:
                    _read(files, hop, column_block, graph.device, into=h)


def alone(folder: Path) -> AbstractContextManager[None]:
    """Lock the folder for this process; the system releases the lock when it ends."""
    got = f"{folder} (another process is computing these hops)"
    return holding(folder / LOCK, InvalidFileError("store", got, "one process at a time"))


@torch.no_grad()
def _write_encoded(model: "FilterBackbone", graph: "StoredGraph", files: HopFiles) -> None:
    """H_0, all column blocks in one read of the features."""
    with _all_column_blocks(files) as writers:
        for _, block in graph.blocks():
            h0 = files.stored(model.encode(model.accept(block.x)))
            for writer, columns in zip(writers, torch.split(h0, files.widths, 1), strict=True):
                writer.write(columns.numpy())


@contextmanager
def _all_column_blocks(files: HopFiles) -> Iterator[list[ArrayWriter]]:
    with ExitStack() as stack:
        yield [stack.enter_context(files.writing(0, s)) for s in range(len(files.widths))]


def _write_next(
    matrix: StoredMatrix, h: Tensor, files: HopFiles, hop: int, column_block: int
) -> None:
    with files.writing(hop, column_block) as file:
        for _, rows in matrix.products(h):
            file.write(files.stored(rows).numpy())


def _read(
    files: HopFiles, hop: int, column_block: int, device: torch.device, into: Tensor | None = None
) -> Tensor:
    """One column block of a hop in memory, in float32."""
    source = files.opened(hop, column_block)
    h = torch.empty(source.shape, device=device) if into is None else into
    for rows, block in source.blocks(READ_ROWS):
        h[rows] = torch.from_numpy(block).to(h)
    return h
