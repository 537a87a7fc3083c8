"""Dropout of a large dense matrix from random bits instead of random floats.

`torch.nn.functional.dropout` draws one float for each entry, which is most of the time of a
training epoch when the features are wide. Here one random 32-bit word decides 32 entries.
"""

import torch
from torch import Tensor

WORD = 32
MIN_ENTRIES = 1 << 16
"""Below this, drawing floats costs less than the 32 small bit operations."""


def masked_dropout(x: Tensor, rate: float, out: Tensor | None = None) -> Tensor:
    """Set each entry of `x` to zero with probability `rate`, independently; no rescaling.

    The kept entries are not divided by 1 − rate: the caller scales the (smaller) product
    instead. The law of the mask is that of `torch.nn.functional.dropout`, with the rate rounded
    to a multiple of 2⁻²⁴. Draws from torch's global generator.

    Args:
        x: dense features, [N, F], which need no gradient.
        rate: probability of zero, in [0, 1).
        out: where to write; a buffer kept over epochs saves the page faults of a new one.

    Returns:
        The masked features, [N, F].
    """
    if x.dtype != torch.float32 or x.numel() < MIN_ENTRIES or not x.is_contiguous():
        return torch.mul(x, torch.empty_like(x).bernoulli_(1 - rate), out=out)
    out = torch.empty_like(x) if out is None else out
    source, target = x.view(torch.int32).view(-1), out.view(torch.int32).view(-1)
    stripe = source.numel() // WORD
    words = _kept_words(stripe + 1, rate, x.device)
    mask = torch.empty_like(words[:stripe])
    for bit in range(WORD):
        # Shift the bit to the top and back down: all ones where it is set, zero elsewhere.
        torch.bitwise_left_shift(words[:stripe], bit, out=mask)
        torch.bitwise_right_shift(mask, WORD - 1, out=mask)
        entries = slice(bit * stripe, (bit + 1) * stripe)
        torch.bitwise_and(source[entries], mask, out=target[entries])
    rest = source[WORD * stripe :]
    bits = torch.arange(rest.numel(), dtype=torch.int32, device=x.device)
    last = (words[stripe] << bits) >> (WORD - 1)
    torch.bitwise_and(rest, last, out=target[WORD * stripe :])
    return out


def _kept_words(count: int, rate: float, device: torch.device) -> Tensor:
    """Words whose bits are independently one with probability 1 − rate.

    Reads the binary digits of 1 − rate from the last to the first: with a fresh random word r,
    digit 1 gives r | w and digit 0 gives r & w, which halves the probability and adds the digit.
    A rate of one half needs a single word.
    """
    digits = 24
    kept = round((1 - rate) * (1 << digits))
    if kept in (0, 1 << digits):
        return torch.full((count,), -(kept >> digits), dtype=torch.int32, device=device)
    trailing = (kept & -kept).bit_length() - 1
    words = torch.zeros(count, dtype=torch.int32, device=device)
    for position in range(trailing, digits):
        fresh = torch.randint(-(1 << 31), 1 << 31, (count,), dtype=torch.int32, device=device)
        words = fresh | words if kept >> position & 1 else fresh & words
    return words
