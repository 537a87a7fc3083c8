"""Safetensors files of this package: each has a format, and a checksum over all that it says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import xxhash
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import existing_file, replacing, unwritten
from matcha_gnn.network.modules import first_non_finite

CHECKSUM = "checksum"


class TensorFile(NamedTuple):
    """What a file holds: its metadata, without the checksum, and its tensors in memory."""

    metadata: dict[str, str]
    tensors: dict[str, Tensor]


@dataclass(frozen=True)
class TensorFormat:
    """One kind of file.

    Attributes:
        argument: what errors call such a file.
        name: the format that is written, such as "matcha-gnn model 6".
        allowed: what errors say instead.
    """

    argument: str
    name: str
    allowed: str

    def write(
        self, path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
    ) -> None:
        """Write tensors and texts, whole or not at all.

        Raises:
            InvalidFileError: the file cannot be written.
        """
        # Copies, as tensors that share memory have no place in such a file.
        plain = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        }
        said = {"format": self.name, **metadata}
        with replacing(path) as beside:
            try:
                save_file(plain, str(beside), said | {CHECKSUM: checksum(said, plain)})
            except SafetensorError as error:
                raise unwritten(path, error) from error

    def read(self, path: str | Path) -> TensorFile:
        """Read what `write` wrote.

        Raises:
            InvalidFileError: no such file, another format, a checksum that is not that of the
                content, or numbers that are not finite.
        """
        path = existing_file(path, self.argument)
        try:
            with safe_open(str(path), framework="pt") as file:
                metadata = dict(file.metadata() or {})
                self._check_format(path, metadata)
                # In memory, as a mapped file could change or be cut short later.
                tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except InvalidFileError:
            raise
        # Besides its own errors, the library raises others for types that torch does not have.
        except Exception as error:
            raise self.refused(path, "not a safetensors file, or damaged") from error
        self._check_content(path, metadata, tensors)
        return TensorFile(metadata, tensors)

    def wrote(self, path: str | Path) -> bool:
        """Whether a file is of this kind, of whatever version; damage shows when it is read."""
        try:
            with safe_open(str(existing_file(path, self.argument)), framework="pt") as file:
                written = (file.metadata() or {}).get("format", "")
        # Whatever is no such file is of no such kind.
        except (SafetensorError, OSError, ValueError):
            return False
        return bool(written.rpartition(" ")[0] == self.name.rpartition(" ")[0])

    def _check_format(self, path: Path, metadata: dict[str, str]) -> None:
        given = metadata.get("format", "no format")
        if given == self.name:
            return
        kind, _, version = self.name.rpartition(" ")
        if given.startswith(f"{kind} ") and given.removeprefix(f"{kind} ").isdecimal():
            newer = int(given.removeprefix(f"{kind} ")) > int(version)
            why = "of a newer version of matcha-gnn: install it" if newer else "too old"
            raise self.refused(path, f"format {given!r}, {why}")
        raise self.refused(path, repr(given))

    def _check_content(
        self, path: Path, metadata: dict[str, str], tensors: dict[str, Tensor]
    ) -> None:
        given = metadata.pop(CHECKSUM, None)
        if given is None:
            raise self.refused(path, "no checksum: damaged")
        if given != checksum(metadata, tensors):
            raise self.refused(path, "its checksum is not that of its content: damaged")
        broken = first_non_finite(tensors)
        if broken is not None:
            raise self.refused(path, f"NaN or infinite entries in {broken}")

    def refused(self, path: str | Path, why: str) -> InvalidFileError:
        """The error for a file that cannot be used."""
        return InvalidFileError(self.argument, f"{path} ({why})", self.allowed)


def checksum(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """128-bit XXH3 of all texts, and of name, type, shape and bytes of all tensors.

    It shows damage; it is no signature, as anyone can compute it.

    Example:
        >>> checksum({}, {"a": torch.zeros(2)}) == checksum({}, {"a": torch.zeros(2, 1)})
        False
    """
    digest = xxhash.xxh3_128(json.dumps(sorted(metadata.items())).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def require_shapes(
    tensors: Mapping[str, Tensor], shapes: str, known: Mapping[str, int] | None = None
) -> None:
    """Raise ValueError for a tensor of another shape.

    Args:
        tensors: in the order of the shapes.
        shapes: with blanks between; a digit is a size, a letter stands for the same size
            everywhere, and _ is the shape of a number.
        known: sizes of some letters.

    Example:
        >>> require_shapes({"a": torch.ones(2), "b": torch.ones(2, 3)}, "C CC")
        Traceback (most recent call last):
        ...
        ValueError: b: shape [2, 3], where [2, 2] is needed
    """
    sizes = dict(known or {})
    for (name, tensor), letters in zip(tensors.items(), shapes.split(), strict=True):
        given, letters = list(tensor.shape), letters.replace("_", "")
        for letter, size in zip(letters, given, strict=False):
            sizes.setdefault(letter, int(letter) if letter.isdecimal() else size)
        needed = [sizes.get(letter, "any") for letter in letters]
        if given != needed:
            raise ValueError(f"{name}: shape {given}, where {needed} is needed")
