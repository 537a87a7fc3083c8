"""What is done row by row: the core's functions on batches of Arrow.

Each class here maps batches to batches and is sent to whoever holds the rows. A matrix [n, C] is in
C columns, `l0` to `l1` for two classes:

| columns | what |
|---|---|
| p | the network's class probabilities |
| l | centred logits of the probe |
| n | log-probabilities by features |
| f | log-odds by neighbours |
| s | the message that a node sent to all its neighbours |
| m | sums of messages that it received |
| e | log-probabilities by features and edges |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from matcha_gnn.candidates import surer
from matcha_gnn.evidence.gathering import NodeLaw, centred
from matcha_gnn.evidence.neighbours import DAMPING, DegreeLaw
from matcha_gnn.evidence.posterior import Posterior, network_logs
from matcha_gnn.evidence.probe import Probe
from matcha_gnn.evidence.weighing import EvidenceWeights, PoolWeights
from matcha_gnn.kernels.links import BeliefMessage
from matcha_gnn.tables.engines import Batches
from matcha_gnn.typing import FloatArray, Probs

CANDIDATES = ("source", "pool", "belief", "probe")
SUM_TO_ONE = 1e-3
"""How far the sum of a row's probabilities may be from one."""


def columns(prefix: str, number: int) -> list[str]:
    """Names of the columns of a matrix.

    Example:
        >>> columns("p", 2)
        ['p0', 'p1']
    """
    return [f"{prefix}{k}" for k in range(number)]


def matrix(rows: pa.RecordBatch | pa.Table, prefix: str, number: int) -> Tensor:
    """A matrix [n, C] from its columns, class by class in memory."""
    parts = [rows.column(name).to_numpy(zero_copy_only=False) for name in columns(prefix, number)]
    return torch.from_numpy(np.stack(parts)).T


def schema(id_type: pa.DataType, number: int, letters: str, degree: bool = False) -> pa.Schema:
    """Of a table with an id and matrices of C columns each; p is kept in single precision."""
    fields = [("id", id_type)] + [("degree", pa.int64())] * degree
    for letter in letters:
        kind = pa.float32() if letter == "p" else pa.float64()
        fields += [(name, kind) for name in columns(letter, number)]
    return pa.schema(fields)


def batch(
    rows: pa.RecordBatch, kept: Sequence[str], matrices: Mapping[str, Tensor]
) -> pa.RecordBatch:
    """Some columns as they are, and matrices [n, C]."""
    arrays = {name: rows.column(name) for name in kept}
    for prefix, values in matrices.items():
        for name, column in zip(columns(prefix, values.shape[1]), values.T, strict=True):
            arrays[name] = pa.array(column.contiguous().numpy())
    return pa.RecordBatch.from_pydict(arrays)


@dataclass(frozen=True)
class Score:
    """Reads features and probabilities: centred logits, and what is wrong with a row.

    Attributes:
        probe: of the source, of F features and C classes.
    """

    probe: Probe

    @staticmethod
    def schema(id_type: pa.DataType, number: int) -> pa.Schema:
        """Of the output."""
        return schema(id_type, number, "lp").append(pa.field("problem", pa.string()))

    def __call__(self, batches: Batches) -> Batches:
        """From id, x and probs, each a column of arrays or several columns of numbers."""
        features, classes = self.probe.weight.shape
        for rows in batches:
            x, wrong_x = values_of(rows, "x", features)
            probs, wrong_p = values_of(rows, "probs", classes)
            logits = centred(self.probe.logits(torch.from_numpy(x)))
            p = torch.from_numpy(probs)
            problems = [
                one or other or own
                for one, other, own in zip(wrong_x, wrong_p, improper(probs), strict=True)
            ]
            found = batch(rows, ["id"], {"l": logits, "p": p})
            yield found.append_column("problem", pa.array(problems, pa.string()))


def values_of(rows: pa.RecordBatch, name: str, width: int) -> tuple[FloatArray, Sequence[str]]:
    """A matrix [n, width] in float32, with zeros for rows that have none, and what is wrong."""
    if name not in rows.schema.names:
        parts = [rows.column(each).to_numpy(zero_copy_only=False) for each in columns(name, width)]
        values = np.stack(parts, 1).astype(np.float32)
        problems = np.full(len(values), "", dtype=object)
    else:
        column = rows.column(name)
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        fits = lengths == width
        whole = column if fits.all() else column.filter(pa.array(fits))
        flat = pc.list_flatten(whole).to_numpy(zero_copy_only=False)
        values = np.zeros((len(column), width), dtype=np.float32)
        values[fits] = flat.reshape(-1, width)
        problems = np.full(len(values), "", dtype=object)
        for place in np.flatnonzero(~fits):
            length = lengths[place]
            problems[place] = f"{name} null" if length < 0 else f"{length} numbers in {name}"
    for place in np.flatnonzero(~np.isfinite(values).all(1)):
        problems[place] = f"null, NaN or infinity in {name}"
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), problems.tolist()


def improper(probs: FloatArray) -> list[str | None]:
    """What is wrong with probabilities, row by row."""
    sums, least = probs.sum(1, dtype=np.float64), probs.min(1)
    found: list[str | None] = [None] * len(probs)
    for place in np.flatnonzero((abs(sums - 1) > SUM_TO_ONE) | (least < 0)):
        found[place] = (
            f"a probability of {least[place]:.4g}"
            if least[place] < 0
            else f"probs that sum to {sums[place]:.4g}"
        )
    return found


@dataclass(frozen=True)
class FirstMessages:
    """Evidence of each node, and what it tells all its neighbours in the first round."""

    law: NodeLaw
    message: BeliefMessage

    def __call__(self, batches: Batches) -> Batches:
        """From id, p, l to id, p, n, s."""
        number = len(self.message.lift)
        for rows in batches:
            node = self.law.log_probs(self.law.moved(matrix(rows, "l", number)))
            yield batch(rows, ["id", *columns("p", number)], {"n": node, "s": sent(self, node)})


def sent(law: "FirstMessages | Round", belief: Tensor) -> Tensor:
    """Messages of nodes with these log-probabilities, [N, C]."""
    return law.message.of(belief.T.contiguous()).T


@dataclass(frozen=True)
class Round:
    """The end of a round of belief propagation, as in `neighbour_evidence`.

    Attributes:
        message: what nodes tell their neighbours.
        reciprocal: s is what was sent before this round, which neighbours leave out of what they
            send next; else what is sent in the next round.
        first: whether this is the first round.
    """

    message: BeliefMessage
    reciprocal: bool
    first: bool

    def __call__(self, batches: Batches) -> Batches:
        """From id, degree, p, n, m, after the first round f; to id, degree, p, n, f, s."""
        number = len(self.message.lift)
        for rows in batches:
            node = matrix(rows, "n", number)
            found = self.found(rows)
            before = node if self.first else node + matrix(rows, "f", number)
            belief = before if self.reciprocal else node + found
            kept = ["id", "degree", *columns("p", number), *columns("n", number)]
            yield batch(rows, kept, {"f": found, "s": sent(self, belief)})

    def found(self, rows: pa.RecordBatch) -> Tensor:
        """Log-odds by neighbours after this round, [n, C]."""
        number = len(self.message.lift)
        new = matrix(rows, "m", number)
        # Sums by `links.messages` are those of the core's messages but for a number for each node.
        new = new - new.mean(1, keepdim=True)
        if self.first:
            return new
        return (1 - DAMPING) * new + DAMPING * matrix(rows, "f", number)


@dataclass(frozen=True)
class Messages:
    """Messages along edges, where there are too many classes for an expression of the engine."""

    message: BeliefMessage

    def __call__(self, batches: Batches) -> Batches:
        """From id, b and s, of the sender's belief and what the receiver sent, to id and m."""
        number = len(self.message.lift)
        for rows in batches:
            own, back = (matrix(rows, each, number).T.contiguous() for each in "bs")
            receivers = rows.column("id").dictionary_encode()
            place = torch.tensor(receivers.indices.to_numpy()).long()
            sums = torch.zeros(len(receivers.dictionary), number, dtype=torch.float64)
            sums.index_add_(0, place, self.message.of(own - back).T)
            yield batch(
                pa.RecordBatch.from_pydict({"id": receivers.dictionary}), ["id"], {"m": sums}
            )


@dataclass(frozen=True)
class Combine:
    """The last round, and all evidence of a node together."""

    last: Round
    degree_law: DegreeLaw
    weights: EvidenceWeights

    def __call__(self, batches: Batches) -> Batches:
        """From id, degree, p, n, f, m to id, p, n, e."""
        number = len(self.last.message.lift)
        for rows in batches:
            node = matrix(rows, "n", number)
            degrees = torch.tensor(rows.column("degree").to_numpy()).double()
            found = self.last.found(rows)
            together = self.weights.combined(node, found, self.degree_law.log_odds(degrees))
            kept = ["id", *columns("p", number), *columns("n", number)]
            yield batch(rows, kept, {"e": together})


@dataclass(frozen=True)
class Proposals:
    """Class probabilities by each candidate, from p, n and e."""

    pool: PoolWeights
    classes: int

    def of(self, rows: pa.RecordBatch | pa.Table) -> dict[str, Probs]:
        """By name, [n, C] each; the pool's are those of the posterior."""
        p, node, together = (matrix(rows, each, self.classes).double() for each in "pne")
        pooled = self.pool.pool(together, network_logs(p))
        return dict(zip(CANDIDATES, (p, pooled.exp(), together.exp(), node.exp()), strict=True))


@dataclass(frozen=True)
class Totals:
    """What estimates need of all nodes: sums for each candidate, one after the other.

    For each: labels that differ from the source's; of these the spread that `gain_of` needs; the
    probabilities of the labels by belief; the sums of `Posterior.hit_sums`, [2 + 2C]; and nodes of
    each class, [C]. At the end, once: the sums of the posterior, [C].
    """

    proposals: Proposals

    SCHEMA = pa.schema([("place", pa.int32()), ("value", pa.float64())])

    @property
    def length(self) -> int:
        """Sums for one candidate."""
        return 5 + 3 * self.proposals.classes

    def __call__(self, batches: Batches) -> Batches:
        """From p, n, e to places and their sums over a batch."""
        for rows in batches:
            probs = self.proposals.of(rows)
            posterior = probs["pool"]
            before, sums = probs["source"].argmax(1), []
            for each in CANDIDATES:
                labels = probs[each].argmax(1)
                differ = labels != before
                new, old = (
                    posterior[differ].gather(1, one[differ][:, None])[:, 0]
                    for one in (labels, before)
                )
                spread = (new + old - (new - old).square()).sum()
                counts = torch.bincount(labels, minlength=self.proposals.classes)
                believed = probs["belief"].gather(1, labels[:, None]).sum()
                sums += [each[None] for each in (differ.sum(), spread, believed)]
                sums += [Posterior.hit_sums(posterior, labels), counts]
            sums.append(posterior.sum(0))
            values = torch.cat([each.double() for each in sums]).numpy()
            places = np.arange(len(values), dtype=np.int32)
            yield pa.RecordBatch.from_arrays(
                [pa.array(places), pa.array(values)], schema=self.SCHEMA
            )


@dataclass(frozen=True)
class Contradicted:
    """How sure the probe is of a node, and whether belief names another class."""

    classes: int

    SCHEMA = pa.schema([("sure", pa.float64()), ("other", pa.float64())])

    def __call__(self, batches: Batches) -> Batches:
        """From n and e to sure and other."""
        for rows in batches:
            node, together = (matrix(rows, each, self.classes).double() for each in "ne")
            sure, label = node.max(1)
            other = (label != together.argmax(1)).double()
            arrays = [pa.array(each.numpy()) for each in (sure, other)]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.SCHEMA)


@dataclass(frozen=True)
class Choice:
    """The answer by one candidate, or by the surest changes of the pool.

    Attributes:
        proposals: of all candidates.
        name: of the one that answers.
        margin: by how much a class must be more probable than the network's to be given.
        part: of the pool's changes that are made with this margin.
    """

    proposals: Proposals
    name: str
    margin: float = 0.0
    part: str = ""

    @staticmethod
    def schema(id_type: pa.DataType) -> pa.Schema:
        """Of the output."""
        return pa.schema(
            [
                ("id", id_type),
                ("label", pa.int32()),
                ("probs", pa.list_(pa.float32())),
                ("changed", pa.bool_()),
            ]
        )

    def of(self, rows: pa.RecordBatch | pa.Table) -> Probs:
        """Class probabilities, [n, C]."""
        probs = self.proposals.of(rows)
        if not self.margin:
            return probs[self.name]
        logs, network = (probs[each].float() for each in (self.name, "source"))
        return surer(network_logs(logs), network_logs(network), self.margin).softmax(1)

    def __call__(self, batches: Batches) -> Batches:
        """From id, p, n, e to id, label, probs, changed."""
        number = self.proposals.classes
        for rows in batches:
            probs = self.of(rows)
            labels = probs.argmax(1)
            changed = labels != matrix(rows, "p", number).argmax(1)
            offsets = np.arange(0, number * len(labels) + 1, number, dtype=np.int32)
            flat = pa.array(probs.float().contiguous().flatten().numpy())
            yield pa.RecordBatch.from_arrays(
                [
                    rows.column("id"),
                    pa.array(labels.int().numpy()),
                    pa.ListArray.from_arrays(pa.array(offsets), flat),
                    pa.array(changed.numpy()),
                ],
                schema=self.schema(rows.column("id").type),
            )
