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
>>> def ask(text):
...     for row in answer(parse_query(text), trades, events).rows:
...         print(row)

Windows of 4 us end at 3, 6, 9, 12, 15; the one that ends at 9 reaches back to 5 and is empty, and so is the one that
ends at 12, for an event at 12 is not before it:

>>> ask("SELECT count(*) AS n, sum(price) AS total FROM trades [RANGE 4 us SLIDE 3 us]")
(-1, 3, 1, 10.0)
(2, 6, 1, 20.0)
(5, 9, 0, None)
(8, 12, 0, None)
(11, 15, 1, 40.0)

With GROUP BY, the groups that are present:

>>> ask("SELECT symbol, max(price) AS top FROM trades [RANGE 5 us SLIDE 5 us] GROUP BY symbol")
(0, 5, 'A', 10.0)
(0, 5, 'B', 20.0)
(10, 15, 'A', 40.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from mullion.catalog.lookups import Lookup
from mullion.catalog.queries import WINDOW_COLUMNS, BoundAggregate, StandingQuery, bind
from mullion.catalog.streams import Stream, Table
from mullion.language.evaluate import evaluate
from mullion.language.query import Expr, Query
from mullion.language.types import BOOLEAN, DATE, TIMESTAMP, Type
from mullion.language.vector import Vector

DAY = 86_400_000_000
EXACT = Context(prec=200)


@dataclass(frozen=True)
class Answer:
    """All rows that a query gives, by window and then in its order; times are microseconds, dates days."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class _Event:
    """What the query makes of an event: when it was, whether WHERE lets it pass, its keys, its arguments."""

    time: int
    selected: bool
    keys: tuple[Any, ...]
    arguments: tuple[Any, ...]


Rows = Sequence[Mapping[str, Any]]
Tables = Mapping[str, tuple[Table, Rows]]


def answer(query: Query, stream: Stream, events: Rows, tables: Tables | None = None) -> Answer:
    """The answer over a bounded input, with tables as (table, rows) by name.

    Values are as in `Vector`: times in microseconds, dates in days.
    """
    tables = tables or {}
    bound = bind(query, {stream.name: stream}, {name: table for name, (table, _) in tables.items()})
    found = [_Rows(lookup, tables[lookup.table][1]) for lookup in bound.lookups]
    timed = [event for event in events if event[stream.time_column] is not None]
    seen = [_event(bound, stream, event, columns) for event in timed for columns in _joined(stream, event, found)]
    rows = []
    for end in _instants(bound, [event.time for event in seen]):
        start = end - bound.window.range
        held = [event for event in seen if start <= event.time < end and event.selected]
        rows += _answer_window(bound, start, end, held)
    types = (TIMESTAMP, TIMESTAMP, *(type_ for _, type_ in bound.shape.items))
    return Answer((*WINDOW_COLUMNS, *bound.shape.names), types, rows)


class _Rows:
    """The rows of a table that a lookup may find, each with its keys and the columns that it gives to an event."""

    def __init__(self, lookup: Lookup, rows: Rows) -> None:
        self.lookup = lookup
        types = lookup.types()
        self.missing = {name: Vector.of(type_, [None]) for name, type_ in types.items()}
        self.missing[lookup.matched] = Vector.of(BOOLEAN, [False])
        self.rows: list[tuple[list[Any], dict[str, Vector]]] = []
        for row in rows:
            own = {name: Vector.of(type_, [row[name]]) for name, type_ in lookup.columns}
            if lookup.where is None or _value(lookup.where, own) is True:
                given = {lookup.column(name): vector for name, vector in own.items()}
                given[lookup.matched] = Vector.of(BOOLEAN, [True])
                self.rows.append(([_value(key, own) for _, key in lookup.keys], given))

    def of(self, columns: Mapping[str, Vector]) -> list[dict[str, Vector]]:
        """What an event becomes: once for every row that it finds, or once without one."""
        keys = [_value(key, columns) for key, _ in self.lookup.keys]
        found = [given for own, given in self.rows if all(map(_equal, keys, own))]
        return [{**columns, **given} for given in found or [self.missing]]


def _equal(a: Any, b: Any) -> bool:
    """NULL equals nothing, NaN equals NaN."""
    return a is not None and b is not None and bool(a == b or (a != a and b != b))


def _joined(stream: Stream, event: Mapping[str, Any], lookups: list[_Rows]) -> list[dict[str, Vector]]:
    """The columns of the event with each combination of rows that it finds."""
    found = [{name: Vector.of(type_, [event[name]]) for name, type_ in stream.columns}]
    for lookup in lookups:
        found = [joined for columns in found for joined in lookup.of(columns)]
    return found


def _event(query: StandingQuery, stream: Stream, event: Mapping[str, Any], columns: Mapping[str, Vector]) -> _Event:
    time = event[stream.time_column] * (DAY if stream.types[stream.time_column] == DATE else 1)
    selected = query.predicate is None or _value(query.predicate, columns) is True
    keys = tuple(_canonical(_value(key, columns)) for key in query.keys)
    arguments = tuple(1 if a.argument is None else _value(a.argument, columns) for a in query.shape.aggregates)
    return _Event(time, selected, keys, arguments)


def _value(expr: Expr, columns: Mapping[str, Vector]) -> Any:
    """The value of an expression over one row."""
    return evaluate(expr, columns, 1).to_list()[0]


def _canonical(value: Any) -> Any:
    """All NaNs are one group, and so are -0.0 and 0.0."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value


def _instants(query: StandingQuery, times: Iterable[int]) -> Iterable[int]:
    """The ends of the windows that are answered."""
    range_, slide, offset = query.window
    ends = set()
    for time in times:
        end = offset + ((time - offset) // slide + 1) * slide
        while end - range_ <= time:
            begun = query.start is None or end - range_ >= query.start
            if begun and (query.after is None or end > query.after) and (query.stop is None or end <= query.stop):
                ends.add(end)
            end += slide
    if query.keys or not ends:
        return sorted(ends)
    return range(min(ends), max(ends) + 1, slide)


def _answer_window(query: StandingQuery, start: int, end: int, held: list[_Event]) -> list[tuple[Any, ...]]:
    shape = query.shape
    groups: dict[tuple[Any, ...], list[_Event]] = {} if query.keys else {(): held}
    if query.keys:
        for event in held:
            groups.setdefault(event.keys, []).append(event)
    found = []
    for keys, events in groups.items():
        columns = {"window_start": Vector.of(TIMESTAMP, [start]), "window_end": Vector.of(TIMESTAMP, [end])}
        for i, (type_, key) in enumerate(zip(shape.keys, keys, strict=True)):
            columns[f"#k{i}"] = Vector.of(type_, [key])
        for i, aggregate in enumerate(shape.aggregates):
            values = [e.arguments[i] for e in events if e.arguments[i] is not None]
            columns[f"#a{i}"] = Vector.of(aggregate.result, [_aggregate(aggregate, values)])
        if shape.having is None or _value(shape.having, columns) is True:
            row = (start, end, *(_value(expr, columns) for expr, _ in shape.items))
            found.append((row, [_value(order.expr, columns) for order in shape.order_by], keys))
    for i in reversed(range(len(shape.keys))):
        found.sort(key=lambda f: _sort_key(f[2][i], nulls_low=True))
    for i, order in reversed(list(enumerate(shape.order_by))):
        nulls_low = order.nulls_first != order.descending
        found.sort(key=lambda f: _sort_key(f[1][i], nulls_low=nulls_low), reverse=order.descending)
    return [row for row, _, _ in found[: shape.limit]]


def _sort_key(value: Any, *, nulls_low: bool) -> tuple[Any, ...]:
    """NaN is larger than any number; NULL is below or above everything."""
    if value is None:
        return (0 if nulls_low else 2,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (1, value)


def _aggregate(aggregate: BoundAggregate, values: list[Any]) -> Any:
    """One aggregate of the values of a group that are not NULL."""
    function, count = aggregate.function, len(values)
    if function == "count":
        return count
    if not values:
        return None
    if function in ("min", "max"):
        pick = min if function == "min" else max
        return _canonical(pick(values, key=lambda v: _sort_key(v, nulls_low=True)))
    if function == "sum":
        return _fitting(_sum(values), aggregate.result)
    if function == "avg":
        total = _sum(values)
        if _overflows(total, aggregate.argument_type):
            return None
        return _fitting(_divided(total, count), aggregate.result)
    assert function in ("var_pop", "var_samp", "stddev_pop", "stddev_samp"), function
    numbers = [float(v) for v in values]
    mean = _sum(numbers) / count
    divisor = count - 1 if function.endswith("samp") else count
    if not divisor:
        return None
    spread = _sum([(number - mean) * (number - mean) for number in numbers]) / divisor
    return math.sqrt(spread) if function.startswith("stddev") else spread


def _sum(values: list[Any]) -> Any:
    """Whole numbers and decimals exactly, doubles with one rounding."""
    if isinstance(values[0], Decimal):
        return sum((Fraction(v) for v in values), Fraction(0))
    if isinstance(values[0], float) and all(map(math.isfinite, values)):
        try:
            return math.fsum(values)
        except OverflowError:
            return sum(values)
    return sum(values)


def _divided(total: Any, count: int) -> Any:
    return total / count if isinstance(total, float) else Fraction(total) / count


def _overflows(total: Any, argument: Type | None) -> bool:
    """Whether the sum behind an average of decimals leaves its type, which makes the average NULL."""
    if argument is None or argument.kind != "decimal":
        return False
    return bool(abs(total) >= 10 ** (min(38, argument.precision + 10) - argument.scale))


def _fitting(value: Any, type_: Type) -> Any:
    """The value in the type of the answer, or None when it does not fit."""
    if type_.kind == "decimal":
        exact = EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))
        rounded = exact.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, EXACT)
        return rounded if rounded.copy_abs() < 10 ** (type_.precision - type_.scale) else None
    if type_.kind == "bigint":
        return value if -(2**63) <= value < 2**63 else None
    return float(value)


__all__ = ["Answer", "answer"]
