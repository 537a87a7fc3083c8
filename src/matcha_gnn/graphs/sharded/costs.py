"""The cost model: bytes that one rank sends, by purpose."""

SUM = 8
"""Bytes of a number in a sum over nodes."""


def all_reduce_bytes(size: int, ranks: int) -> int:
    """Adding up a message of `size` bytes around a ring: twice all but one share of it.

    Example:
        >>> all_reduce_bytes(1000, 4)
        1500
    """
    return 2 * (ranks - 1) * size // ranks


def all_gather_bytes(size: int, ranks: int) -> int:
    """A message of `size` bytes from every rank to every other.

    Example:
        >>> all_gather_bytes(1000, 4)
        3000
    """
    return (ranks - 1) * size


def hop_bytes(rows: int, width: int, itemsize: int = 4) -> int:
    """A hop: each row that other ranks need, once for each of them.

    Args:
        rows: that this rank sends.
        width: D.
        itemsize: bytes of a number.

    Example:
        >>> hop_bytes(rows=1000, width=32)
        128000
    """
    return rows * width * itemsize


def round_bytes(classes: int, hops: int, width: int, ranks: int, whole_sums: bool = True) -> int:
    """A round of PIC around ERM: the class sums C × (K+1) × D and the mass C, added up once.

    Args:
        classes: C.
        hops: K.
        width: D.
        ranks: R.
        whole_sums: False where classes are many and two reads of the hops cost less than one
            (`kernels.whole_sums_pay`): then C × D and the mass, and after the second read K+1.

    Example:
        >>> round_bytes(classes=2, hops=9, width=32, ranks=2)
        5136
    """
    if whole_sums:
        return all_reduce_bytes(SUM * classes * ((hops + 1) * width + 1), ranks)
    first = all_reduce_bytes(SUM * classes * (width + 1), ranks)
    return first + all_reduce_bytes(SUM * (hops + 1), ranks)
