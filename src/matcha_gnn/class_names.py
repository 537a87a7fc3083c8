"""Names of classes: what a caller calls them, and their numbers otherwise."""

from collections.abc import Sequence

from matcha_gnn.errors import InvalidArgumentError


def checked_names(given: Sequence[str] | None, number: int = 0) -> tuple[str, ...]:
    """Names as a tuple; empty where none are given.

    Args:
        given: different names that are not empty.
        number: of classes; 0 where it is not known yet.

    Example:
        >>> checked_names(["licit", "fraud"], 2)
        ('licit', 'fraud')
    """
    if given is None:
        return ()
    one_text = isinstance(given, str) or not isinstance(given, Sequence)
    names = () if one_text else tuple(str(name).strip() for name in given)
    count = f"{number} different names" if number else "different names"
    if not names or "" in names or len(set(names)) != len(names) or number not in (0, len(names)):
        raise InvalidArgumentError("classes", repr(given), f"{count}, one for each class")
    return names


def numbered(names: Sequence[str], number: int) -> tuple[str, ...]:
    """The names, or the numbers of the classes where there are none.

    Example:
        >>> numbered((), 2)
        ('0', '1')
    """
    return tuple(names) or tuple(map(str, range(number)))


def class_title(names: Sequence[str], number: int) -> str:
    """How a sentence calls a class.

    Example:
        >>> class_title(("licit", "fraud"), 1), class_title((), 1)
        ('fraud', 'class 1')
    """
    return names[number] if names else f"class {number}"
