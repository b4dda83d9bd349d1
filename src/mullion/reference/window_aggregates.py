"""Aggregates over the window of one stream: every window by itself, from all events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mullion.algebra.bound_aggregate import SHED, WINDOW_COLUMNS
from mullion.algebra.nodes import Aggregated
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.algebra.window_aggregate import WindowAggregate, type_of_bounds, window_aggregate
from mullion.expressions.vector import Vector
from mullion.language.limits import FURTHEST
from mullion.language.query import Column
from mullion.language.types import BIGINT, DATE
from mullion.reference.aggregates import aggregate, canonical_value, sort_key
from mullion.reference.answer import DAY, Answer, Rows, TablesWithRows
from mullion.reference.expressions import TIME, contribution, passes, value
from mullion.reference.lookups import TableRows
from mullion.reference.windows import WindowContent


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
    is_lost: bool = False
    """Whether it was shed: it makes windows due and counts as lost there, and no more."""


def answer_windows(
    relation: Relation,
    stream: Stream,
    events: Rows,
    tables: TablesWithRows,
    windows: Callable[..., list[WindowContent]],
    shed: Sequence[int] = (),
) -> Answer:
    """The answer at all windows that are asked about, each by itself. `shed` are the times of events that are lost."""
    parts = window_aggregate(relation.root)
    assert parts is not None, "not an aggregate over the window of one stream"
    lookups = [TableRows(lookup, tables[lookup.table][1]) for lookup in parts.lookups]
    axis = parts.scan.window.attribute or stream.time_column
    timed = [event for event in events if event[stream.time_column] is not None and event[axis] is not None]
    timed = [event for event in timed if abs(_place(stream, event, axis)) <= FURTHEST]
    # Stable: events of one time stay as they arrived.
    ordered = sorted(timed, key=lambda event: (event[axis], event[stream.time_column]))
    seen = [_event(parts, stream, event, axis, lookups) for event in ordered]
    frame = parts.scan.window
    if frame.slide is not None and frame.rows is None and frame.attribute is None:
        seen = sorted([*seen, *(_Event(time, (), [], is_lost=True) for time in shed)], key=lambda event: event.time)
    rows = []
    for view in windows(relation, [event.time for event in seen], [event.partition for event in seen]):
        held = [seen[place] for place in view.places]
        lost = sum(event.is_lost for event in held)
        rows += _answer_window(relation, parts, view, [row for event in held for row in event.rows], lost)
    bounds = type_of_bounds(parts.scan)
    shown = parts.project.items[: len(relation.names)]
    return Answer((*WINDOW_COLUMNS, *relation.names), (bounds, bounds, *(type_ for _, _, type_ in shown)), rows)


def _joined(stream: Stream, event: Mapping[str, Any], lookups: list[TableRows], time: int) -> list[dict[str, Vector]]:
    """The columns of the event with each combination of rows that it finds."""
    rows = [{name: Vector.of(type_, [event[name]]) for name, type_ in stream.columns}]
    rows[0][TIME] = Vector.of(BIGINT, [time])
    for lookup in lookups:
        rows = [joined for columns in rows for joined in lookup.of(columns)]
    return rows


def _place(stream: Stream, event: Mapping[str, Any], axis: str) -> int:
    return int(event[axis] * (DAY if stream.types[axis] == DATE else 1))


def _event(
    parts: WindowAggregate, stream: Stream, event: Mapping[str, Any], axis: str, lookups: list[TableRows]
) -> _Event:
    joined = _joined(stream, event, lookups, _place(stream, event, axis))
    return _Event(
        time=_place(stream, event, axis),
        partition=tuple(canonical_value(value(key, joined[0])) for key in parts.scan.partition),
        rows=[_row(parts.aggregated, columns) for columns in joined if passes(parts.where, columns)],
    )


def _row(grouped: Aggregated, columns: Mapping[str, Vector]) -> _Row:
    keys = tuple(canonical_value(value(key, columns)) for key, _ in grouped.keys)
    return _Row(keys, tuple(contribution(bound, columns) for bound in grouped.aggregates))


def _answer_window(
    relation: Relation, parts: WindowAggregate, view: WindowContent, held: list[_Row], lost: int
) -> list[tuple[Any, ...]]:
    grouped, bounds, items = parts.aggregated, (view.start, view.end), parts.project.items
    groups: dict[tuple[Any, ...], list[_Row]] = {} if grouped.keys else {(): held}
    if grouped.keys:
        for event in held:
            groups.setdefault(event.keys, []).append(event)
    answers = []
    for keys, events in groups.items():
        columns = {n: Vector.of(type_of_bounds(parts.scan), [at]) for n, at in zip(WINDOW_COLUMNS, bounds, strict=True)}
        columns[SHED] = Vector.of(BIGINT, [lost])
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
