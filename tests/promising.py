"""Promising joins and selections at work in steps, and random ones with their streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from mullion.algebra.column_names import names_in
from mullion.algebra.nodes import Filter, Join, Node, Promising, Scan
from mullion.algebra.nodes.promising import ESTIMATE
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.expressions.typing import resolve, resolve_predicate
from mullion.instants import THE_END
from mullion.language.parse import parse_expression
from mullion.language.query import Budget, Cast, Column, Expr, Window, rewrite
from mullion.language.types import BIGINT, DOUBLE, INT, TIMESTAMP
from mullion.operators.network import Network
from mullion.operators.promise_tally import PromiseTally
from mullion.operators.promising_network import promising_facts
from mullion.reference.rows import Row
from mullion.reference.world import World
from networks import Streams, columns_of

COLUMNS = (("k", INT), ("v", INT), ("ts", TIMESTAMP))


class Summary(NamedTuple):
    """What is asked of a summary where queries are bound."""

    stream: str
    column: str
    granularity: int = 10
    rate: int = 4
    depth: int = 3
    memory: int | None = None


STREAMS = {name: Stream(name, COLUMNS, "ts") for name in ("s1", "s2", "s3")}
ESTIMATED = Cast(Column(ESTIMATE), DOUBLE)
Told = list[tuple[tuple[int, ...], tuple[Any, ...], int, int]]
"""Rows by their ids, with values, start and end."""


def promise(text: str) -> Expr:
    """Over k, v, ts and `e`, the estimate."""
    types = {**dict(COLUMNS), "e": BIGINT}
    resolved = resolve(Cast(parse_expression(text), DOUBLE), types)[0]
    return rewrite(resolved, lambda n: Column(ESTIMATE) if isinstance(n, Column) and n.name == "e" else None)


def promising(
    order: str = "desc",
    *,
    range_: tuple[int | None, int | None] = (100, 100),
    by: str = "e",
    residual: str | None = None,
    fade: float = 1.0,
    ages: tuple[int, ...] = (),
    memory: int | None = None,
    **budget: int,
) -> Promising:
    windows = [Window(unbounded=True) if length is None else Window(range=length) for length in range_]
    parts = tuple(Scan(name, window, COLUMNS) for name, window in zip(STREAMS, windows, strict=False))
    join = Join(parts, ((Column("k"),), (Column("k"),)))
    if residual is not None:
        join = Join(parts, join.keys, resolve_predicate(parse_expression(residual), join.types))
    return Promising(join, order, (promise(by), promise(by)), Budget(**budget), fade, (ages, ages), memory)


def selection(
    order: str = "desc",
    *,
    range_: int | None = 100,
    by: str = "e",
    where: str | None = None,
    fade: float = 1.0,
    ages: tuple[int, ...] = (),
    memory: int | None = None,
    **budget: int,
) -> Promising:
    """Of s1, with estimates of k."""
    rows: Node = Scan("s1", Window(unbounded=True) if range_ is None else Window(range=range_), COLUMNS)
    if where is not None:
        rows = Filter(rows, resolve_predicate(parse_expression(where), rows.types))
    counted = Column("k") if ESTIMATE in names_in(promise(by)) else None
    return Promising(rows, order, (promise(by),), Budget(**budget), fade, (ages,), memory, counted)


def told(
    node: Promising, events: Streams, steps: Sequence[int], *, restarts: bool = False
) -> tuple[list[Told], list[Mapping[str, Any]]]:
    """What a network tells in each step, and the tally after it."""
    network = Network()
    network.set_roots([node])
    found, tallies, before = [], [], -(1 << 60)
    for now in steps:
        arrived = {name: columns_of(dict.fromkeys(STREAMS, COLUMNS), events, name, before, now) for name in STREAMS}
        fresh = network.advance(arrived, now)[node].fresh
        shown = [name for name in node.types if not name.endswith("ts")]
        values = zip(*(fresh.rows.column(name).to_pylist() for name in shown), strict=True)
        rows = zip(map(tuple, fresh.ids.tolist()), values, fresh.start.tolist(), fresh.end.tolist(), strict=True)
        found.append(sorted(rows, key=repr))
        facts = promising_facts({node: node}, {below: own.operator for below, own in network.working.items()})[node]
        tallies.append({name: facts[name] for name in PromiseTally().facts()})
        before = now
        if restarts:
            parts = network.parts()
            network = Network()
            network.set_roots([node])
            network.restore(parts)
    return found, tallies


def as_told(rows: Sequence[Row]) -> Told:
    """Without the times of events."""
    values = (tuple(value for i, value in enumerate(row.values) if i % len(COLUMNS) != 2) for row in rows)
    return sorted(((row.id, own, row.start, row.end) for row, own in zip(rows, values, strict=True)), key=repr)


def world_of(node: Promising, events: Streams) -> World:
    return World(Relation("q", "", node), STREAMS, events, {}, {})


def events_of(*rows: tuple[int, int | None]) -> list[dict[str, Any]]:
    """Events by time and key; v is the number of the event."""
    return [{"k": key, "v": number, "ts": at} for number, (at, key) in enumerate(rows)]


keys = st.sampled_from((0, 0, 0, 1, 1, 2, 3, None))
streams = st.lists(st.tuples(st.integers(0, 40), keys), max_size=24).map(
    lambda rows: events_of(*sorted(rows, key=lambda r: r[0]))
)
steps = st.lists(st.integers(1, 60), max_size=6).map(lambda nows: [*sorted(set(nows)), THE_END])
ranges = st.sampled_from((3, 10, 25, None))
