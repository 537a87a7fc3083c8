"""The table of devices: everything that depends on a device's type is a column of it.

A new accelerator is a row here and, where it has fast code, a module beside this one with any of
the functions of `reference`. Of a type that is not in the table nothing is assumed: the reference
implementation runs there, and data are copied plainly.
"""

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)


def _free_on_host(device: torch.device) -> int:
    """Bytes that can be taken without swapping, as Linux says it."""
    try:
        with open("/proc/meminfo") as file:
            line = next(line for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 0
    return 1024 * int(line.split()[1])


@dataclass(frozen=True)
class Device:
    """What is known of devices of one type.

    Attributes:
        module: name of the module in this package with its fast code; empty for none.
        reads: precisions of hops that its fast code reads.
        read_cost: multiplications in the time that reading one number takes.
        block_floats: numbers in a block of hops: what a CPU's cache holds; elsewhere, enough to
            hide the launches.
        generators: whether torch saves and restores the random numbers of each such device.
        free_bytes: of its memory, the host's by default; 0 where the system does not say.
        wait: returns when it has finished its work; None where it works at once.
        describe: its product name; None for the host's processor.
    """

    module: str = ""
    reads: tuple[torch.dtype, ...] = ()
    read_cost: int = 30
    block_floats: int = 1 << 27
    generators: bool = False
    free_bytes: Callable[[torch.device], int] = _free_on_host
    wait: Callable[[torch.device], None] | None = None
    describe: Callable[[torch.device], str] | None = None

    def fast_code(self, dtype: torch.dtype) -> ModuleType | None:
        """The module for hops of a precision; None where the reference implementation runs."""
        return _module(self.module) if dtype in self.reads else None


OTHER = Device()
"""Of types that are not in the table."""
DEVICES = {
    "cpu": Device("cpu", (torch.float32,), read_cost=10, block_floats=3 << 19),
    "cuda": Device(
        "gpu",
        (torch.float32, *HALF),
        generators=True,
        free_bytes=lambda device: torch.cuda.mem_get_info(device)[0],
        wait=torch.cuda.synchronize,
        describe=torch.cuda.get_device_name,
    ),
}


def device_of(place: Tensor | torch.device) -> Device:
    """The row of a tensor's device, or of a device.

    Example:
        >>> device_of(torch.device("mps")) is OTHER
        True
    """
    device = place.device if isinstance(place, Tensor) else place
    return DEVICES.get(device.type, OTHER)


def fast_code(tensor: Tensor) -> ModuleType | None:
    """The module for hops where a tensor is, in its precision."""
    return device_of(tensor).fast_code(tensor.dtype)


@cache
def _module(name: str) -> ModuleType | None:
    try:
        # Triton takes half a second, and `import matcha_gnn` should not.
        return importlib.import_module(f"matcha_gnn.kernels.{name}")
    except ImportError as error:
        warnings.warn(
            f"{error.name} is not installed: PyTorch's own operations answer in place of the "
            f"programs in kernels/{name}.py; pip install 'matcha-gnn[{name}]'",
            stacklevel=2,
        )
        return None
