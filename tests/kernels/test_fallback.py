"""Where a GPU program cannot be started PyTorch answers, and says so once."""

import subprocess
import sys
import warnings

import pytest
import torch

from matcha_gnn.kernels.fallback import or_plain


def failing(error):
    def fast(number):
        raise error

    return fast


def test_what_does_not_compile_is_named_once_and_plain_code_answers():
    fast = failing(RuntimeError("\nPassManager::run failed"))
    with pytest.warns(UserWarning, match="program fast cannot be compiled.*PassManager::run"):
        assert or_plain(fast, abs)(-3) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert or_plain(fast, abs)(-4) == 4


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("no room"), RuntimeError("CUDA error: illegal address")]
)
def test_errors_of_the_device_come_through(error):
    with pytest.raises(type(error), match=str(error)):
        or_plain(failing(error), abs)(-3)


def test_a_missing_triton_is_named_once():
    code = """
import sys, warnings
sys.modules["triton"] = None
import torch
from matcha_gnn.kernels.devices import DEVICES
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert [DEVICES["cuda"].fast_code(torch.float32) for _ in range(2)] == [None, None]
print(*(str(each.message) for each in caught), sep="|")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("triton is not installed: PyTorch's own operations answer")
    assert "|" not in done.stdout
