"""Ways to choose the nodes to ask about, one after the other, and the candidate to take.

Ours, nodes at random among those on which candidates disagree, uncertainty sampling, ModelPicker
(Karimi et al., AISTATS 2021, as its authors use it on a pool of data) and CODA (Kay et al., ICCV
2025; its prior, its update and its expected information gain). The last three are adaptive: each
answer moves the next question. Nodes that all candidates label alike are never asked, except by
ours, which asks about one in ten.
"""

import abc
from collections.abc import Sequence

import numpy as np
import torch
from scipy.stats import beta

from matcha_gnn.candidates import surer
from matcha_gnn.questions.decision import Design, choose
from matcha_gnn.questions.sampling import IntArray
from matcha_gnn.questions.surest import margins
from matcha_gnn.typing import FloatArray
from matcha_paper.studies.ask_saved import SavedRun

EPSILON = 0.46
"""ModelPicker's assumed error rate; the default of its authors."""
PRIOR, LEARNING_RATE = 0.1, 0.01
"""CODA's weight of the consensus, and of an answer; the defaults of its authors."""
POINTS = np.linspace(1e-3, 1 - 1e-3, 100)
"""Where CODA's densities are integrated."""
PLAIN = 1.3
"""Standard deviations by which wins must exceed losses under the plain rule."""


class Selector(abc.ABC):
    """Asks about the nodes of one run and takes a candidate after any number of answers.

    Args:
        run: the candidates.
        rng: for draws and ties.
    """

    name: str

    def __init__(self, run: SavedRun, rng: np.random.Generator) -> None:
        self.run, self.rng = run, rng
        self.labels, self.accuracies = run.labels, run.accuracies
        self.nodes = list[int]()
        self.open = (self.labels != self.labels[0]).any(0)

    def ask(self, count: int) -> None:
        """Ask so many questions, as far as there are nodes."""
        while len(self.nodes) < count and self.open.any():
            node = self.next()
            self.open[node] = False
            self.nodes.append(node)
            self.learn(node, int(self.run.truth[node]))

    def next(self) -> int:
        """The next node: here, any that is open."""
        return int(self.rng.choice(np.flatnonzero(self.open)))

    def learn(self, node: int, label: int) -> None:  # noqa: B027 (optional)
        """Take an answer in."""

    def choice(self, count: int) -> int:
        """What it takes after so many answers: here, the candidate with the most right ones."""
        nodes = self.nodes[:count]
        return int((self.labels[:, nodes] == self.run.truth[nodes]).sum(1).argmax())

    def plain_choice(self, count: int) -> int:
        """The most right answers beyond the source, if wins clearly exceed losses."""
        nodes = self.nodes[:count]
        right = (self.labels[:, nodes] == self.run.truth[nodes]).astype(int)
        gains = right - right[0]
        best = int(gains.sum(1).argmax())
        won, told = gains[best].sum(), abs(gains[best]).sum()
        return best if won > 0 and won >= PLAIN * told**0.5 else 0

    def _best_of(self, scores: FloatArray) -> int:
        """An open node with the largest score; ties are broken at random."""
        scores = np.where(self.open, scores, -np.inf)
        return int(self.rng.choice(np.flatnonzero(scores >= scores.max() - 1e-12)))


class Random(Selector):
    """Nodes at random among disagreements."""

    name = "random"


class Uncertainty(Selector):
    """Where the mean prediction of the candidates has the largest entropy."""

    name = "uncertainty"

    def __init__(self, run: SavedRun, rng: np.random.Generator) -> None:
        super().__init__(run, rng)
        mean = run.probs.mean(0, dtype=np.float64)
        self.scores = -(mean * np.log(np.maximum(mean, 1e-12))).sum(1)

    def next(self) -> int:
        """The most uncertain node."""
        return self._best_of(self.scores)


class _Patterns:
    """Nodes that all candidates label alike share what an answer would tell."""

    def __init__(self, labels: IntArray) -> None:
        rows, inverse = np.unique(labels.T, axis=0, return_inverse=True)
        self.rows: IntArray = rows
        self.of_node: IntArray = inverse.ravel()


class ModelPicker(Selector):
    """The node after whose answer the posterior over candidates is expected to be surest."""

    name = "ModelPicker"

    def __init__(self, run: SavedRun, rng: np.random.Generator) -> None:
        super().__init__(run, rng)
        self.patterns = _Patterns(self.labels)
        self.factor = (1 - EPSILON) / EPSILON
        self.posteriors = [np.full(len(self.labels), 1 / len(self.labels))]

    def next(self) -> int:
        """The smallest expected entropy, over classes that are equally likely."""
        expected = np.zeros(len(self.patterns.rows))
        for label in range(self.run.probs.shape[2]):
            after = self.posteriors[-1] * self.factor ** (self.patterns.rows == label)
            after /= after.sum(1, keepdims=True)
            expected -= (after * np.log(after)).sum(1)
        return self._best_of(-expected[self.patterns.of_node])

    def learn(self, node: int, label: int) -> None:
        """Candidates that are right gain."""
        after = self.posteriors[-1] * self.factor ** (self.labels[:, node] == label)
        self.posteriors.append(after / after.sum())

    def choice(self, count: int) -> int:
        """The most probable candidate; ties go to the first, the source."""
        posterior = self.posteriors[min(count, len(self.nodes))]
        return int((posterior >= posterior.max() - 1e-12).argmax())


class Coda(Selector):
    """The node whose answer is expected to tell most about which candidate is best.

    Rates at which candidates find each class have Beta distributions that start from the consensus.
    """

    name = "CODA"

    def __init__(self, run: SavedRun, rng: np.random.Generator) -> None:
        super().__init__(run, rng)
        self.patterns = _Patterns(self.labels)
        self.classes = run.probs.shape[2]
        self.confusions = self._consensus()
        self.best = [self._probability_best()]

    def _consensus(self) -> FloatArray:
        """Dirichlet parameters of each candidate's confusion matrix, [M, C, C]."""
        guess = self.run.probs.mean(0).argmax(1)
        one_hot = np.eye(self.classes)[guess]
        soft = np.einsum("nc,mnj->mcj", one_hot, self.run.probs, dtype=np.float64)
        soft /= np.maximum(soft.sum(2, keepdims=True), 1e-6)
        base = np.full((self.classes, self.classes), 1 / max(1, self.classes - 1))
        np.fill_diagonal(base, 1.0)
        parameters: FloatArray = base + PRIOR * soft
        return parameters

    def _class_probabilities(self) -> FloatArray:
        """Of every node, by all confusions, [N, C]."""
        found = np.einsum("mcs,mns->nc", self.confusions, self.run.probs, dtype=np.float64)
        probabilities: FloatArray = found / found.sum(1, keepdims=True)
        return probabilities

    def _rates(self) -> tuple[FloatArray, FloatArray]:
        """Parameters of the Beta distributions, [C, M] each."""
        right = np.einsum("mcc->cm", self.confusions)
        return right, self.confusions.sum(2).T - right

    def _probability_best(self) -> FloatArray:
        """That each candidate is best, [M]."""
        shares = self._class_probabilities().mean(0)
        best: FloatArray = shares @ _best(*_curves(*self._rates()))
        return best

    def next(self) -> int:
        """The largest expected information gain."""
        probabilities = self._class_probabilities()
        shares, (right, wrong) = probabilities.mean(0), self._rates()
        now = _best(*_curves(right, wrong))
        mixture = shares @ now
        # A candidate is right or wrong: two curves for each class serve all patterns.
        found, missed = _curves(right + 1, wrong), _curves(right, wrong + 1)
        after = np.empty((len(self.patterns.rows), self.classes))
        for label in range(self.classes):
            hit = self.patterns.rows == label
            both = zip(found, missed, strict=True)
            density, below = (np.where(hit, a[:, [label]], b[:, [label]]) for a, b in both)
            then = _best(density, below)
            moved = np.maximum(mixture + shares[label] * (then - now[label]), 1e-12)
            after[:, label] = -(moved * np.log(moved)).sum(1)
        return self._best_of(-(probabilities * after[self.patterns.of_node]).sum(1))

    def learn(self, node: int, label: int) -> None:
        """Count the answer in every confusion matrix."""
        places = np.arange(len(self.labels))
        self.confusions[places, label, self.labels[:, node]] += LEARNING_RATE
        self.best.append(self._probability_best())

    def choice(self, count: int) -> int:
        """The candidate that is most probably best."""
        return int(self.best[min(count, len(self.nodes))].argmax())


def _curves(right: FloatArray, wrong: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Densities of Beta variables, and logarithms of their distributions, [points, C, M] each."""
    points = POINTS[:, None, None]
    below = np.log(np.maximum(beta.cdf(points, right, wrong), 1e-30))
    return np.asarray(beta.pdf(points, right, wrong)), below


def _best(density: FloatArray, below: FloatArray) -> FloatArray:
    """Probability that each of M independent variables is the largest, [..., M]."""
    found = (density * np.exp(below.sum(2, keepdims=True) - below)).sum(0)
    shares: FloatArray = found / np.maximum(found.sum(1, keepdims=True), 1e-30)
    return shares


class Ours(Selector):
    """The order of `Design`, and its test: the source unless a candidate is permitted.

    The surest changes of the pool are compared, too.
    """

    name, parts = "ours", True

    def __init__(self, run: SavedRun, rng: np.random.Generator) -> None:
        super().__init__(run, rng)
        if self.parts:
            self.labels = np.concatenate([run.labels, _surest(run)])
        self.design = Design(self.labels, run.prior, int(rng.integers(2**31)))

    def ask(self, count: int) -> None:
        """The first nodes of the order."""
        order = self.design.order(count)
        self.nodes = order.tolist()
        self.accuracies = 100 * (self.labels == self.run.truth).mean(1)

    def choice(self, count: int) -> int:
        """By the sequential test."""
        nodes = self.nodes[:count]
        known = {node: int(self.run.truth[node]) for node in nodes}
        return choose(self.design, np.array(nodes, dtype=np.int64), known)


def _surest(run: SavedRun) -> IntArray:
    """Labels of the candidates that make the surest changes of the pool alone, [parts, N]."""
    found = np.empty((0, len(run.truth)), dtype=np.int64)
    if run.prior is None or run.network is None:
        return found
    pool, network = (torch.from_numpy(e).double() for e in (run.prior, run.network))
    logs, before = pool.clamp_min(1e-30).log(), torch.from_numpy(run.labels[0])
    if not torch.equal(network.argmax(1), before):
        return found
    rows = [surer(logs, network, m).argmax(1).numpy() for m in margins(logs, network).values()]
    return np.stack(rows) if rows else found


class Whole(Ours):
    """The same without candidates that make the surest changes of the pool alone."""

    name, parts = "ours, whole candidates", False


class RandomTested(Ours):
    """Our test on nodes at random among disagreements, of the candidates that others have, too."""

    name, parts = "random, our test", False

    def __init__(self, run: SavedRun, rng: np.random.Generator) -> None:
        super().__init__(run, rng)
        self.design = _Even(self.labels, None, self.design.seed)


class _Even(Design):
    """All disputed nodes are drawn alike."""

    @property
    def weights(self) -> FloatArray:
        even: FloatArray = (self.labels != self.labels[0]).any(0).astype(float)
        return even


SELECTORS: Sequence[type[Selector]] = (
    *(Ours, Whole, RandomTested),
    *(Random, Uncertainty, ModelPicker, Coda),
)
