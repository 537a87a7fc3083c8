"""The core's default on tables: source, pool, belief and probe, estimated and compared.

What is fitted is fitted by the core to samples that are taken home: the shift and the noise of
features to `shift_kinds.SAMPLE` nodes, class-to-class edges to `neighbours.SAMPLE` edges. What is
done row by row are the core's functions on batches (`rows`). Between them are joins and sums over
edges (`links`). Graphs of up to so many nodes and edges get the answers that they get in memory.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import torch
from torch import Tensor

from matcha_gnn.candidates import NO_ESTIMATE
from matcha_gnn.errors import (
    InvalidGraphError,
    require_kind,
)
from matcha_gnn.evidence.features import MOST_NODES, MOST_PAIRS, compare
from matcha_gnn.evidence.gathering import NodeLaw, fit_linked_classes
from matcha_gnn.evidence.neighbours import ROUNDS, DegreeLaw, belief_message, degree_law
from matcha_gnn.evidence.neighbours import SAMPLE as LINK_SAMPLE
from matcha_gnn.evidence.posterior import accuracy_of, gain_of, rejection
from matcha_gnn.evidence.shift_kinds import SAMPLE as NODE_SAMPLE
from matcha_gnn.evidence.summary import SourceEvidence, SourceSummary
from matcha_gnn.evidence.trust import SUREST, trust_of
from matcha_gnn.graphs import memory
from matcha_gnn.kernels.links import BeliefMessage
from matcha_gnn.tables import links
from matcha_gnn.tables.decision import Candidate, Decision
from matcha_gnn.tables.reading import Graph
from matcha_gnn.tables.rows import (
    CANDIDATES,
    Combine,
    Contradicted,
    FirstMessages,
    Messages,
    Proposals,
    Round,
    Score,
    Totals,
    columns,
    matrix,
    schema,
    values_of,
)
from matcha_gnn.typing import FloatArray

EXPRESSED_CLASSES = 10
"""Messages of more classes are made by the core on batches of edges, not by C² terms of SQL."""
SAMPLE_ENTRIES = 1 << 25
"""Numbers of features that are taken home, at most."""
STAGES = 6 + ROUNDS
"""Steps of the progress bar."""


class Evidence(NamedTuple):
    """What is known of every node, in a table of the engine: id, p, n, e.

    Attributes:
        graph: the target.
        table: its name.
        proposals: what turns its rows into answers.
        decision: the candidates and the one that was chosen.
    """

    graph: Graph
    table: str
    proposals: Proposals
    decision: Decision


@dataclass(frozen=True)
class Program:
    """One run.

    Attributes:
        graph: the target.
        summary: of the source.
        tell: called with its name at the end of every stage.
    """

    graph: Graph
    summary: SourceSummary
    tell: Callable[[str], None]

    @property
    def source(self) -> SourceEvidence:
        """What the source has measured."""
        return self.summary.evidence

    @property
    def classes(self) -> int:
        """C."""
        return len(self.summary.class_prior)

    @torch.no_grad()
    def run(self) -> Evidence:
        """Evidence of every node, candidates, and the choice among them."""
        engine, scored = self.graph.engine, self._scored()
        self.tell("rows")
        sampled = self._sampled_links()
        broken = self._broken(sampled)
        self.tell("features")
        law = self._node_law(scored)
        shares = law.shift.shares
        edge_shares = self._edge_shares(scored, sampled, law)
        message = belief_message(edge_shares, shares)
        engine.drop(sampled)
        self.tell("samples")
        table = self._propagated(scored, law, message, edge_shares)
        proposals = Proposals(self.source.pool_weights, self.classes)
        decision = self._decision(
            *self._totals(table, proposals), self._contradicted(table), broken
        )
        return Evidence(self.graph, table, proposals, decision)

    def _scored(self) -> str:
        """Id, p and l of every node."""
        engine, number = self.graph.engine, self.classes
        features = len(self.source.probe_weight)
        rows = engine.mapped(
            "scored",
            f"select * from {self.graph.nodes}",
            Score(self.source.probe),
            Score.schema(self.graph.id_type, number),
            features + number,
        )
        scored = engine.table("scored", f"select * from {rows}")
        wrong = engine.fetch(
            f"select id, problem from {scored} where problem is not null order by id limit 1"
        ).to_pylist()
        if wrong:
            got = f"{wrong[0]['problem']} of id {wrong[0]['id']!r}"
            allowed = f"{features} finite features and {number} probabilities that sum to one"
            raise InvalidGraphError("nodes", got, f"{allowed} in every row")
        return scored

    def _sampled_links(self) -> str:
        """Some edges, with the key by which they were drawn."""
        key = self.graph.link_key
        return self.graph.engine.table(
            "sampled",
            f"select src, dst, {key} as place from {self.graph.links} "
            f"order by place, src, dst limit {max(LINK_SAMPLE, 2 * MOST_PAIRS)}",
        )

    def _broken(self, sampled: str) -> str:
        """Why the features cannot be what the source's are, or empty."""
        profile = self.summary.features
        engine, nodes, width = self.graph.engine, self.graph.nodes, len(profile.mean)
        most = SAMPLE_ENTRIES // width
        pairs = engine.fetch(
            f"select src, dst from {sampled} order by place, src, dst "
            f"limit {min(2 * MOST_PAIRS, most // 2)}"
        )
        drawn = f"select id from {nodes} order by {self.graph.node_key}, id"
        wanted = engine.table(
            "wanted",
            f"select id, max(alone) as alone from (select id, 1 as alone from "
            f"({drawn} limit {min(MOST_NODES, most)}) a union all "
            f"select src as id, 0 as alone from ({_first(sampled, len(pairs))}) b union all "
            f"select dst as id, 0 as alone from ({_first(sampled, len(pairs))}) c) d group by id",
        )
        rows = engine.fetch(
            f"select w.alone, n.* from {nodes} n join {wanted} w on n.id = w.id"
        ).sort_by("id")
        engine.drop(wanted)
        whole = rows.combine_chunks().to_batches()[0]
        x = torch.from_numpy(values_of(whole, "x", width)[0])
        ends = [pc.index_in(pairs.column(end), whole.column("id")) for end in ("src", "dst")]
        edge_index = torch.tensor([each.to_pylist() for each in ends]).long().view(2, -1)
        alone = torch.from_numpy(whole.column("alone").to_numpy() == 1)
        links = engine.fetch(f"select count(*) as number from {self.graph.links}")
        degree = links.to_pylist()[0]["number"] / self.graph.number
        return compare(profile, memory.Graph(x, edge_index), x[alone], degree).problem

    def _node_law(self, scored: str) -> NodeLaw:
        """How features moved, fitted to a sample."""
        key = self.graph.node_key
        points = self.graph.engine.fetch(
            f"select id, {links.of('t', 'l', self.classes)} from {scored} t "
            f"order by {key}, id limit {NODE_SAMPLE}"
        ).sort_by("id")
        return NodeLaw.fitted(self.source, matrix(points, "l", self.classes), self.graph.number)

    def _edge_shares(self, scored: str, sampled: str, law: NodeLaw) -> Tensor:
        """Class-to-class shares of edges, fitted to a sample, [C, C]."""
        number = self.classes
        ends = self.graph.engine.fetch(
            f"select e.*, {_renamed('x', 'l', 'a', number)}, {_renamed('y', 'l', 'b', number)} "
            f"from ({_first(sampled, LINK_SAMPLE)}) e join {scored} x on e.src = x.id "
            f"join {scored} y on e.dst = y.id order by e.place, e.src, e.dst"
        )
        moved = law.moved(torch.cat([matrix(ends, each, number) for each in "ab"]))
        return fit_linked_classes(self.source, law.log_probs(moved), moved, law.shift.shares)

    def _propagated(
        self, scored: str, law: NodeLaw, message: BeliefMessage, edge_shares: Tensor
    ) -> str:
        """Id, p, n and e of every node, after all rounds of belief propagation."""
        engine, number, id_type = self.graph.engine, self.classes, self.graph.id_type
        reciprocal = self.graph.undirected or self._reciprocal()
        rows = engine.mapped(
            "round0",
            f"select * from {scored}",
            FirstMessages(law, message),
            schema(id_type, number, "pns"),
            4 * number,
        )
        state = engine.table("round0", f"select * from {rows}")
        engine.drop(scored)
        degrees = DegreeLaw(torch.ones(number), 0.0)
        for done in range(1, ROUNDS + 1):
            received = self._received(state, message, reciprocal, first=done == 1)
            if done == 1:
                degrees = self._degree_law(received, edge_shares, law)
            end = Round(message, reciprocal, first=done == 1)
            last = done == ROUNDS
            rows = engine.mapped(
                f"round{done}",
                self._joined(state, received, first=done == 1),
                Combine(end, degrees, self.source.evidence_weights) if last else end,
                schema(id_type, number, "pne" if last else "pnfs", degree=not last),
                6 * number,
            )
            before, state = state, engine.table(f"round{done}", f"select * from {rows}")
            engine.drop(before, received)
            self.tell(f"round {done}")
        return state

    def _reciprocal(self) -> bool:
        query = links.reciprocity(self.graph.links, *self.graph.reciprocal)
        # No edge at all has no sum.
        return not self.graph.engine.row(query)["other"]

    def _received(self, state: str, message: BeliefMessage, leave_out: bool, first: bool) -> str:
        """Id and m, sums of messages of those that received any; in the first round degrees too."""
        engine, number, edges = self.graph.engine, self.classes, self.graph.links
        if first:
            return engine.table("m1", links.sums(edges, state, number, "count(*) as degree"))
        name = f"m_{state.rpartition('.')[2]}"
        if not leave_out:
            return engine.table(name, links.sums(edges, state, number))
        if number <= EXPRESSED_CLASSES:
            return engine.table(name, links.messages(edges, state, message.lift))
        rows = engine.mapped(
            f"messages_{name}",
            links.ends(edges, state, number),
            Messages(message),
            schema(self.graph.id_type, number, "m"),
            2 * number,
        )
        sums = (f"sum({each}) as {each}" for each in columns("m", number))
        return engine.table(name, f"select id, {links.listed(*sums)} from {rows} group by id")

    def _joined(self, state: str, received: str, first: bool) -> str:
        """Every node's state with the sums that it received."""
        number = self.classes
        new = (f"coalesce(r.{each}, 0) as {each}" for each in columns("m", number))
        kept = links.listed(*(links.of("t", each, number) for each in ("pn" if first else "pnf")))
        degree = "coalesce(r.degree, 0)" if first else "t.degree"
        return (
            f"select t.id, {degree} as degree, {kept}, {links.listed(*new)} "
            f"from {state} t left join {received} r on t.id = r.id"
        )

    def _degree_law(self, received: str, edge_shares: Tensor, law: NodeLaw) -> DegreeLaw:
        sums = self.graph.engine.row(
            "select coalesce(sum(cast(degree as double)), 0) as total, "
            "coalesce(sum(cast(degree as double) * degree), 0) as squares "
            f"from {received}"
        )
        shares = law.shift.shares
        return degree_law(edge_shares, shares, self.graph.number, sums["total"], sums["squares"])

    def _contradicted(self, table: str) -> float:
        """See `trust.contradiction`."""
        most = max(1, round(SUREST * self.graph.number))
        surest = f"select sure from {self._agreements(table)} order by sure desc limit {most}"
        least = float(self.graph.engine.row(f"select min(sure) as sure from ({surest})")["sure"])
        counts = self.graph.engine.row(
            f"select sum(case when sure > {least!r} then 1.0 else 0.0 end) as above, "
            f"sum(case when sure > {least!r} then other else 0.0 end) as differ, "
            f"avg(case when sure = {least!r} then other end) as tied "
            f"from {self._agreements(table)}"
        )
        above, differ, tied = (float(counts[name]) for name in ("above", "differ", "tied"))
        return (differ + (most - above) * tied) / most

    def _agreements(self, table: str) -> str:
        """How sure the probe is of each node, and whether belief differs; to be read once."""
        rows = f"select * from {table}"
        kept = Contradicted(self.classes), Contradicted.SCHEMA, 2 * self.classes
        return self.graph.engine.mapped("contradicted", rows, *kept)

    def _totals(self, table: str, proposals: Proposals) -> tuple[FloatArray, FloatArray]:
        """See `Totals`: one row for each candidate, and the sums of the posterior."""
        engine, totals = self.graph.engine, Totals(proposals)
        rows = engine.mapped(
            "totals", f"select * from {table}", totals, Totals.SCHEMA, 3 * self.classes
        )
        found = engine.fetch(f"select place, sum(value) as value from {rows} group by place")
        values: FloatArray = found.sort_by("place").column("value").to_numpy()
        self.tell("estimates")
        each, likely = values[: -self.classes], values[-self.classes :]
        return each.reshape(len(CANDIDATES), totals.length), likely

    def _decision(
        self, totals: FloatArray, likely: FloatArray, contradicted: float, broken: str
    ) -> Decision:
        """What is expected of each candidate, and the one with the largest lower bound above 0."""
        number, classes = self.graph.number, self.classes
        mean = torch.from_numpy(likely / number)
        sure = float(totals[CANDIDATES.index("pool"), 3]) / number
        trust = trust_of(self.source, mean, sure, contradicted)
        obstacle = broken or rejection(self.source) or trust.obstacle
        if not obstacle:
            obstacle = self.summary.without_label(totals[0, -classes:], ())
        before = totals[0, 3:-classes]
        candidates = []
        for name, (changed, spread, believed, *sums) in zip(CANDIDATES, totals, strict=True):
            accuracy = gain = NO_ESTIMATE
            if not obstacle:
                hits = np.array(sums[:-classes])
                more = hits - before
                accuracy = accuracy_of(hits, float(believed), number, self.source, trust)
                parts = float(more[0]), float(spread), more[2:], int(changed)
                gain = gain_of(*parts, number, trust)
            candidates.append(Candidate(name, accuracy, gain, float(changed) / number))
        return Decision.among(tuple(candidates), obstacle, bool(broken), trust.assumption)


def _first(sampled: str, most: int) -> str:
    """The first edges of a sample."""
    return f"select * from {sampled} order by place, src, dst limit {most}"


def _renamed(table: str, prefix: str, new: str, number: int) -> str:
    names = zip(columns(prefix, number), columns(new, number), strict=True)
    return links.listed(*(f"{table}.{one} as {other}" for one, other in names))


def known_source(source: object) -> SourceSummary:
    """A source summary, or the path of one."""
    if isinstance(source, str | os.PathLike):
        source = SourceSummary.load(Path(source))
    require_kind("source", source, SourceSummary, "what mg.summarise_source made, or its path")
    assert isinstance(source, SourceSummary)
    return source
