"""Zip archives of arrays: what they declare is checked before memory is taken."""

import math
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

from numpy.lib import format as npy
from numpy.typing import NDArray


class Arrays:
    """The arrays of an .npz file, read one by one; pickles are refused.

    Args:
        path: the file.

    Raises:
        Exception: of any kind, here and in `read`, for bytes that are no such file.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> path = Path(tempfile.mkdtemp()) / "a.npz"
        >>> np.savez(path, a=np.arange(3))
        >>> arrays = Arrays(path)
        >>> arrays.names, arrays.read("a")
        (['a'], array([0, 1, 2]))
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with ZipFile(path) as archive:
            self.names = [name.removesuffix(".npy") for name in archive.namelist()]

    def read(self, name: str) -> NDArray[Any]:
        """One array; its CRC-32 is compared.

        Raises:
            ValueError: its header declares another size than the archive has.
        """
        with ZipFile(self._path) as archive:
            member = archive.getinfo(f"{name}.npy")
            with archive.open(member) as file:
                first = npy.read_magic(file) == (1, 0)
                read_header = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
                shape, _, dtype = read_header(file)
                declared = file.tell() + dtype.itemsize * math.prod(shape)
            # Objects are pickled, and take another size.
            if dtype.hasobject or declared != member.file_size:
                raise ValueError(f"{name}: {declared:,} bytes declared, {member.file_size:,} given")
            with archive.open(member) as file:
                found: NDArray[Any] = npy.read_array(file, allow_pickle=False)
                return found


def require_whole(path: Path) -> None:
    """Check the archive of a file of torch's: no compressed member, and every CRC-32.

    Torch compares none of them, and would take memory for whatever a compressed member holds.

    Raises:
        Exception: of any kind, for bytes that are no such file.
    """
    with ZipFile(path) as archive:
        packed = [member for member in archive.infolist() if member.compress_type != ZIP_STORED]
        if packed:
            raise ValueError(f"{packed[0].filename} is compressed, as torch.save never does")
        broken = archive.testzip()
    if broken is not None:
        raise ValueError(f"{broken} is damaged")
