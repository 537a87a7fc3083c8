"""What a user wants to be high on the target: accuracy, F1 and others; and names of classes."""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from matcha_gnn.errors import InvalidArgumentError
from matcha_gnn.kernels.devices import device_of
from matcha_gnn.metrics import average_precision, f1, recall
from matcha_gnn.typing import Parameters, Probs


@dataclass(frozen=True)
class Goal(abc.ABC):
    """A metric of predictions between 0 and 1; higher is better.

    Attributes:
        name: what `metric=` calls it.
    """

    name: ClassVar[str]

    @property
    def title(self) -> str:
        """What sentences call it."""
        return self.name.replace("_", " ")

    @abc.abstractmethod
    def score(self, truth: Tensor, probs: Probs) -> float:
        """Of class probabilities [n, C] where the classes [n] are known."""

    def bias(self, known: Probs) -> tuple[float, ...] | None:
        """What to add to log-probabilities so that their largest class makes the goal high.

        Args:
            known: probabilities of the true classes, [N, C].

        Returns:
            One number for each class; None where the most probable class is used as it is.
        """
        return None

    def figures(self) -> Parameters:
        """What was chosen, as JSON values."""
        return {"metric": self.name, "positive": None}

    def text(self, value: float) -> str:
        """A value for a reader.

        Example:
            >>> Accuracy().text(0.869)
            '86.9%'
        """
        return f"{value:.1%}"

    def difference(self, value: float, *, digits: int = 1) -> str:
        """A difference in points for a reader, by `digits` after the point."""
        return f"{100 * value:+z.{digits}f}"


class Counted(Goal):
    """A goal that is a function of how many nodes of class b are given class a."""

    @abc.abstractmethod
    def value(self, confusion: Tensor) -> Tensor:
        """Of counts, expected or true, [..., C, C]: rows are given classes; differentiable."""

    def score(self, truth: Tensor, probs: Probs) -> float:
        """See `Goal`."""
        exact = torch.nn.functional.one_hot(truth, probs.shape[1]).double()
        return float(self.value(expected_confusion(probs.argmax(1), exact)))


@dataclass(frozen=True)
class Accuracy(Counted):
    """Share of labels that are true."""

    name = "accuracy"

    def value(self, confusion: Tensor) -> Tensor:
        """Of counts."""
        return _hits(confusion).sum(-1) / confusion.sum((-2, -1))


@dataclass(frozen=True)
class BalancedAccuracy(Counted):
    """Mean over classes of the share of their nodes that is found."""

    name = "balanced_accuracy"

    def value(self, confusion: Tensor) -> Tensor:
        """Of counts."""
        return recall(_hits(confusion), confusion.sum(-2)).nanmean(-1)

    def bias(self, known: Probs) -> tuple[float, ...]:
        """Every class counts alike, however rare it is: a node counts by one over its share."""
        return tuple((-known.double().mean(0).clamp_min(1e-12).log()).tolist())


@dataclass(frozen=True)
class MacroF1(Counted):
    """Mean over classes of F1."""

    name = "macro_f1"
    title = "macro F1"

    def value(self, confusion: Tensor) -> Tensor:
        """Of counts."""
        return _f1(confusion).nanmean(-1)


@dataclass(frozen=True)
class _OfClass(Goal):
    positive: int
    class_name: str

    def figures(self) -> Parameters:
        """See `Goal`."""
        return {"metric": self.name, "positive": self.positive}


@dataclass(frozen=True)
class F1(_OfClass, Counted):
    """F1 of one class."""

    name = "f1"

    @property
    def title(self) -> str:
        """What sentences call it."""
        return f"F1 of {self.class_name}"

    def value(self, confusion: Tensor) -> Tensor:
        """Of counts."""
        return _f1(confusion)[..., self.positive].nan_to_num(0.0)

    def bias(self, known: Probs) -> tuple[float, ...] | None:
        """The threshold on the probability of the class with the largest expected F1, of two."""
        if known.shape[1] != 2:
            return None
        ranked = known[:, self.positive].double().sort(descending=True).values
        found, places = ranked.cumsum(0), torch.arange(1, len(ranked) + 1).to(ranked)
        last = int((found / (places + found[-1])).argmax())
        threshold = float(ranked[last : last + 2].mean().clamp(1e-6, 1 - 1e-6))
        added = [0.0, 0.0]
        added[self.positive] = math.log((1 - threshold) / threshold)
        return tuple(added)


@dataclass(frozen=True)
class AveragePrecision(_OfClass):
    """Precision averaged over the recalls of one class, by the probability of that class."""

    name = "average_precision"

    @property
    def title(self) -> str:
        """What sentences call it."""
        return f"average precision of {self.class_name}"

    def score(self, truth: Tensor, probs: Probs) -> float:
        """See `Goal`."""
        return average_precision(probs[:, self.positive], truth == self.positive)


ACCURACY = Accuracy()
_PLAIN: dict[str, Goal] = {each.name: each for each in (ACCURACY, BalancedAccuracy(), MacroF1())}
_OF_CLASS: dict[str, type[_OfClass]] = {each.name: each for each in (F1, AveragePrecision)}
METRICS = (*_PLAIN, *_OF_CLASS)
"""What `metric=` may be by name."""


@dataclass(frozen=True)
class Wanted:
    """What a caller wants to be high, and what the classes are called.

    Args:
        metric: a name among `METRICS`.
        positive: the class that "f1" and "average_precision" are of, by number or name; the
            rarer of two classes by default.
        classes: their names; empty for none.

    Example:
        >>> wanted = Wanted("f1", classes=("licit", "fraud"))
        >>> wanted.goal(2, torch.tensor([0.95, 0.05])).title
        'F1 of fraud'
    """

    metric: str = ACCURACY.name
    positive: int | str | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise InvalidArgumentError("metric", repr(self.metric), ", ".join(METRICS))
        if self.positive is not None and self.metric not in _OF_CLASS:
            allowed = f"none, unless metric is {' or '.join(_OF_CLASS)}"
            raise InvalidArgumentError("positive", repr(self.positive), allowed)

    @property
    def is_default(self) -> bool:
        """Whether accuracy is wanted."""
        return self.metric == ACCURACY.name

    def goal(self, number: int, shares: Tensor | None) -> Goal:
        """The goal for a number of classes.

        Args:
            number: of classes.
            shares: of the classes on the source, [C], where they are known.

        Raises:
            InvalidArgumentError: names or the positive class do not fit.
        """
        checked_names(self.classes or None, number)
        if self.metric in _PLAIN:
            return _PLAIN[self.metric]
        positive = self._positive(number, shares)
        return _OF_CLASS[self.metric](positive, class_title(self.classes, positive))

    def _positive(self, number: int, shares: Tensor | None) -> int:
        names = numbered(self.classes, number)
        if self.positive is None and number == 2 and shares is not None:
            return int(shares.argmin())
        if isinstance(self.positive, str) and self.positive in names:
            return names.index(self.positive)
        # A command line has no numbers, only text.
        if str(self.positive) in map(str, range(number)):
            return int(self.positive)  # type: ignore[arg-type]
        known = ", ".join(names[:10]) + (", …" if number > 10 else "")
        allowed = f"the class that {self.metric} is of: {known}"
        raise InvalidArgumentError("positive", repr(self.positive), allowed)


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


def expected_confusion(labels: Tensor, posterior: Probs) -> Tensor:
    """Expected nodes of class b among those that are given class a, float64 [C, C].

    Args:
        labels: given classes, [N].
        posterior: probabilities of the true classes, [N, C].

    Example:
        >>> expected_confusion(torch.tensor([0, 1]), torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
        tensor([[0.9000, 0.1000],
                [0.2000, 0.8000]], dtype=torch.float64)
    """
    rows = posterior.double()
    return sums_by_label(labels.to(rows.device), rows, rows.shape[1])


def sums_by_label(labels: Tensor, values: Tensor, classes: int) -> Tensor:
    """Σ of the rows of values [N, M] with each label, [C, M], the same bits every time.

    Scattered additions on a GPU would change from run to run, and wait for each other where labels
    are few: there a product with ones and zeros takes the sums.

    Args:
        labels: [N].
        values: [N, M], where the labels are.
        classes: C.

    Example:
        >>> sums_by_label(torch.tensor([1, 0, 1]), torch.tensor([[1.0], [2.0], [4.0]]), 3)
        tensor([[2.],
                [5.],
                [0.]])
    """
    sums = values.new_zeros(classes, values.shape[1])
    if values.is_cpu:
        return sums.index_add_(0, labels, values)
    return by_products(labels, values, sums)


def by_products(labels: Tensor, values: Tensor, sums: Tensor) -> Tensor:
    """Add the sums to `sums`, on any device."""
    classes = torch.arange(len(sums), device=labels.device)[:, None]
    size = max(1, device_of(values).block_floats // len(sums))
    for some, rows in zip(torch.split(labels, size), torch.split(values, size), strict=True):
        sums += (classes == some).to(rows) @ rows
    return sums


def _hits(confusion: Tensor) -> Tensor:
    return confusion.diagonal(dim1=-2, dim2=-1)


def _f1(confusion: Tensor) -> Tensor:
    return f1(_hits(confusion), confusion.sum(-2), confusion.sum(-1))
