"""Shape-named aliases. They document; nothing checks them at run time."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Repr: TypeAlias = Tensor
"""Node representations, [N, D]."""
Probs: TypeAlias = Tensor
"""Class probabilities whose rows sum to one, [N, C]."""
HopStack: TypeAlias = Tensor
"""Hops of every node, node-major, [N, K+1, D]."""
HopWeights: TypeAlias = Tensor
"""One weight per hop, [K+1]."""
FloatArray: TypeAlias = NDArray[np.float64]
"""A few numbers on the host."""
ClassSums: TypeAlias = FloatArray
"""Weighted sums of hops per class, [C, K+1, D], on the host."""
HopForm: TypeAlias = FloatArray
"""A quadratic form in the hop weights, [K+1, K+1], on the host."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called as progress(done, total)."""
Parameters: TypeAlias = dict[str, object]
"""Hyperparameters by name, as JSON values."""
