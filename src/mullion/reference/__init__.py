"""The meaning of a query, computed the slow way: every window by itself, from all events, in plain Python.

No slices, no partials, no synopses, no sharing. Whatever the engine does must give these rows.

>>> from mullion.language.parse import parse_query
>>> from mullion.language.types import DOUBLE, STRING, TIMESTAMP
>>> trades = Stream("trades", (("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE)), "ts")
>>> events = [
...     {"ts": 1, "symbol": "A", "price": 10.0},
...     {"ts": 4, "symbol": "B", "price": 20.0},
...     {"ts": 12, "symbol": "A", "price": 40.0},
... ]
>>> def show(text):
...     for row in answer(parse_query(text), trades, events).rows:
...         print(row)

Windows of 4 us end at 3, 6, 9, 12, 15; the one that ends at 9 reaches back to 5 and is empty, and so is the one that
ends at 12, for an event at 12 is not before it:

>>> show("SELECT count(*) AS n, sum(price) AS total FROM trades [RANGE 4 us SLIDE 3 us]")
(-1, 3, 1, 10.0)
(2, 6, 1, 20.0)
(5, 9, 0, None)
(8, 12, 0, None)
(11, 15, 1, 40.0)

With GROUP BY, the groups that are present:

>>> show("SELECT symbol, max(price) AS top FROM trades [RANGE 5 us SLIDE 5 us] GROUP BY symbol")
(0, 5, 'A', 10.0)
(0, 5, 'B', 20.0)
(10, 15, 'A', 40.0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS
from mullion.algebra.nodes import Aggregated
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.algebra.window_aggregate import WindowAggregate, bounds_of, window_aggregate
from mullion.binding.relations import bind
from mullion.expressions.vector import Vector
from mullion.language.limits import FURTHEST
from mullion.language.query import Column, Query
from mullion.language.types import DATE, Type
from mullion.reference.aggregates import aggregate, canonical, sort_key
from mullion.reference.expressions import contribution, passes, value
from mullion.reference.lookups import TableRows
from mullion.reference.windows import View, answered, newest

DAY = 86_400_000_000


@dataclass(frozen=True)
class Answer:
    """All rows that a query gives, by window and then in its order; times are microseconds, dates days."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    rows: list[tuple[Any, ...]]


class _Row(NamedTuple):
    """What the query makes of an event, joined to a row of each table: its keys, and for each aggregate no value when
    FILTER drops it, otherwise one."""

    keys: tuple[Any, ...]
    arguments: tuple[tuple[Any, ...], ...]


class _Event(NamedTuple):
    """An event: its place on the axis of the window, its partition, and the rows of it that WHERE lets pass."""

    time: int
    partition: tuple[Any, ...]
    rows: list[_Row]


Rows = Sequence[Mapping[str, Any]]
Tables = Mapping[str, tuple[Table, Rows]]


def answer(query: Query, stream: Stream, events: Rows, tables: Tables | None = None) -> Answer:
    """The answer of a standing query over a bounded input, with tables as (table, rows) by name.

    Values are as in `Vector`: times in microseconds, dates in days.
    """
    return _answer(query, stream, events, tables or {}, answered)


def ask(query: Query, stream: Stream, events: Rows, tables: Tables | None = None) -> Answer:
    """The answer of a question that is asked once, at the end of the input: now is the time of the newest event."""

    def only_newest(*given: Any) -> list[View]:
        view = newest(*given)
        return [] if view is None else [view]

    return _answer(query, stream, events, tables or {}, only_newest)


def _answer(query: Query, stream: Stream, events: Rows, tables: Tables, windows: Callable[..., list[View]]) -> Answer:
    relation = bind(query, {stream.name: stream}, {name: table for name, (table, _) in tables.items()})
    parts = window_aggregate(relation.root)
    assert parts is not None, "not an aggregate over the window of one stream"
    lookups = [TableRows(lookup, tables[lookup.table][1]) for lookup in parts.lookups]
    axis = parts.scan.window.attribute or stream.time_column
    timed = [event for event in events if event[stream.time_column] is not None and event[axis] is not None]
    timed = [event for event in timed if abs(_place(stream, event, axis)) <= FURTHEST]
    # Stable: events of one time stay as they arrived.
    ordered = sorted(timed, key=lambda event: (event[axis], event[stream.time_column]))
    seen = [_event(parts, stream, event, axis, lookups) for event in ordered]
    rows = []
    for view in windows(relation, [event.time for event in seen], [event.partition for event in seen]):
        rows += _answer_window(relation, parts, view, [row for place in view.places for row in seen[place].rows])
    bounds = bounds_of(parts.scan)
    shown = parts.project.items[: len(relation.names)]
    return Answer((*WINDOW_COLUMNS, *relation.names), (bounds, bounds, *(type_ for _, _, type_ in shown)), rows)


def _joined(stream: Stream, event: Mapping[str, Any], lookups: list[TableRows]) -> list[dict[str, Vector]]:
    """The columns of the event with each combination of rows that it finds."""
    rows = [{name: Vector.of(type_, [event[name]]) for name, type_ in stream.columns}]
    for lookup in lookups:
        rows = [joined for columns in rows for joined in lookup.of(columns)]
    return rows


def _place(stream: Stream, event: Mapping[str, Any], axis: str) -> int:
    return int(event[axis] * (DAY if stream.types[axis] == DATE else 1))


def _event(
    parts: WindowAggregate, stream: Stream, event: Mapping[str, Any], axis: str, lookups: list[TableRows]
) -> _Event:
    joined = _joined(stream, event, lookups)
    return _Event(
        time=_place(stream, event, axis),
        partition=tuple(canonical(value(key, joined[0])) for key in parts.scan.partition),
        rows=[_row(parts.aggregated, columns) for columns in joined if passes(parts.where, columns)],
    )


def _row(grouped: Aggregated, columns: Mapping[str, Vector]) -> _Row:
    keys = tuple(canonical(value(key, columns)) for key, _ in grouped.keys)
    return _Row(keys, tuple(contribution(bound, columns) for bound in grouped.aggregates))


def _answer_window(relation: Relation, parts: WindowAggregate, view: View, held: list[_Row]) -> list[tuple[Any, ...]]:
    grouped, bounds, items = parts.aggregated, (view.start, view.end), parts.project.items
    groups: dict[tuple[Any, ...], list[_Row]] = {} if grouped.keys else {(): held}
    if grouped.keys:
        for event in held:
            groups.setdefault(event.keys, []).append(event)
    answers = []
    for keys, events in groups.items():
        columns = {n: Vector.of(bounds_of(parts.scan), [at]) for n, at in zip(WINDOW_COLUMNS, bounds, strict=True)}
        for i, ((_, type_), key) in enumerate(zip(grouped.keys, keys, strict=True)):
            columns[f"#k{i}"] = Vector.of(type_, [key])
        for i, bound in enumerate(grouped.aggregates):
            values = [argument for event in events for argument in event.arguments[i]]
            columns[f"#a{i}"] = Vector.of(bound.result, [aggregate(bound, values)])
        if passes(parts.having, columns):
            row = {name: value(expr, columns) for name, expr, _ in items}
            answers.append(((*bounds, *list(row.values())[: len(relation.names)]), row, keys))
    for i in reversed(range(len(grouped.keys))):
        answers.sort(key=lambda f: sort_key(f[2][i], nulls_low=True))
    for expr, descending, nulls_first in reversed(relation.order_by):
        assert isinstance(expr, Column)
        nulls_low = nulls_first != descending
        answers.sort(key=lambda f: sort_key(f[1][expr.name], nulls_low=nulls_low), reverse=descending)
    return [row for row, _, _ in answers[: relation.limit]]


__all__ = ["Answer", "answer", "ask"]
