"""The contrast of cosines that GTrans minimises, and its slopes without a stored unit vector."""

import torch
from torch import Tensor

from matcha_gnn.typing import Repr


@torch.no_grad()
def contrast(clean_and_shuffled: Tensor, dropped: Repr) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """d(dropped, clean) − d(clean, shuffled), d the mean over nodes of 1 − cos, and its slopes.

    A row of zeros has no direction: its cosine counts as 0 and has no slope. Clean and shuffled
    representations lie side by side, [N, 2D].
    """
    clean, shuffled = clean_and_shuffled.chunk(2, dim=1)
    per_c, per_s, per_d = map(_per_length, (clean, shuffled, dropped))
    with_d, with_s = per_c * per_d, per_c * per_s
    same, other = _dots(clean, dropped) * with_d, _dots(clean, shuffled) * with_s
    value = (1 - same).mean() - (1 - other).mean()
    # The derivative of cos(u, v) in u is the part of v/|v| orthogonal to u, over |u|: a sum of the
    # two with one factor for each node, so that no unit vector is stored.
    share = 1 / len(clean)
    with_s, with_d, other = share * with_s, share * with_d, share * other
    of_both = torch.empty_like(clean_and_shuffled)
    of_clean, of_shuffled = of_both.chunk(2, dim=1)
    torch.mul(clean, per_c * per_c * (share * same - other), out=of_clean)
    of_clean.addcmul_(shuffled, with_s).addcmul_(dropped, with_d, value=-1)
    torch.mul(clean, with_s, out=of_shuffled)
    of_shuffled.addcmul_(shuffled, per_s * per_s * other, value=-1)
    of_dropped = (dropped * (share * per_d * per_d * same)).addcmul_(clean, with_d, value=-1)
    return value, (of_both, of_dropped)


def _per_length(z: Repr) -> Tensor:
    """One over the length of each row, [N, 1]; 0 for rows of zeros."""
    length: Tensor = z.norm(dim=1, keepdim=True)
    return torch.where(length > torch.finfo(z.dtype).eps * length.mean(), 1 / length, 0)


def _dots(u: Repr, v: Repr) -> Tensor:
    """Inner products of rows, [N, 1]."""
    return (u * v).sum(1, keepdim=True)
