"""Expressions over edges, in the SQL that DuckDB and Spark share."""

from torch import Tensor

from matcha_gnn.kernels.links import LEAST_LIFT
from matcha_gnn.tables.rows import columns

PRIME = 2**31 - 1
"""Modulus of the keys by which samples are drawn: their products fit into 64 bits."""


def listed(*expressions: str) -> str:
    """Expressions with commas between."""
    return ", ".join(expressions)


def of(table: str, prefix: str, number: int) -> str:
    """The columns of a matrix in a table that a query names."""
    return listed(*(f"{table}.{name}" for name in columns(prefix, number)))


def node_key(value: str) -> str:
    """A number that is as if drawn at random for an integer, the same in each engine."""
    x = f"(abs({value}) % {PRIME})"
    return f"(({x} * {x}) % {PRIME} + 48271 * {x}) % {PRIME}"


def link_key(sender: str, receiver: str) -> str:
    """The same for a pair of integers."""
    x, y = (f"(abs({each}) % {PRIME})" for each in (sender, receiver))
    return node_key(f"(({x} + 1009) * ({y} + 7919))")


def sums(links: str, state: str, number: int, *further: str) -> str:
    """Sums over incoming edges of what senders told all their neighbours."""
    told = (f"sum(x.s{k}) as m{k}" for k in range(number))
    return (
        f"select e.dst as id, {listed(*told, *further)} from {links} e "
        f"join {state} x on e.src = x.id group by e.dst"
    )


def ends(links: str, state: str, number: int) -> str:
    """For each edge its receiver, the sender's belief b, and what the receiver sent it, s."""
    beliefs = (f"x.n{k} + x.f{k} as b{k}" for k in range(number))
    return (
        f"select e.dst as id, {listed(*beliefs)}, {of('y', 's', number)} from {links} e "
        f"join {state} x on e.src = x.id join {state} y on e.dst = y.id"
    )


def messages(links: str, state: str, lift: Tensor) -> str:
    """Sums over incoming edges of messages that leave out what the receiver told the sender.

    Those of `BeliefMessage` but for a number that is the same for all classes of a node.
    """
    number = len(lift)
    left = (f"b{k} - s{k} as z{k}" for k in range(number))
    weights = (f"exp(z{k} - top) as w{k}" for k in range(number))
    heard = (
        " + ".join(f"{value:.17e} * w{k}" for k, value in enumerate(row)) for row in lift.tolist()
    )
    least = " + ".join(columns("w", number))
    logs = (f"sum(ln(greatest(q{k}, {LEAST_LIFT:.17e} * total))) as m{k}" for k in range(number))
    query = f"select id, {listed(*left)} from ({ends(links, state, number)}) a"
    query = f"select *, greatest({listed(*columns('z', number))}) as top from ({query}) b"
    query = f"select id, {listed(*weights)} from ({query}) c"
    heard = (f"{each} as q{k}" for k, each in enumerate(heard))
    query = f"select id, {listed(*heard)}, {least} as total from ({query}) d"
    return f"select id, {listed(*logs)} from ({query}) f group by id"


def reciprocity(links: str, mixed: str, back: str) -> str:
    """Zero if every edge has its reverse, as often; else only by a chance of about 2^-32."""
    return f"select sum({mixed}) - sum({back}) as other from {links}"
