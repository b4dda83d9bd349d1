"""Questions that synopses answer: exactly by ordered sharing, within bounds by a timegram.

    SELECT max(price) - min(price) AS spread FROM trades [ROWS 5000]          ordered sharing
    SELECT APPROX avg(price), max(price) FROM trades [RANGE '4 min']          timegram

A window is the last rows, or all events later than some time: how many rows that are, the times of the rows tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS, BoundAggregate
from mullion.algebra.streams import Stream
from mullion.binding.grouping import item_name
from mullion.catalog.synopses import StreamSynopsis
from mullion.errors import CheckError, NotSupported, Place
from mullion.expressions.evaluate import evaluate
from mullion.expressions.vector import Vector, arrow_type
from mullion.language.query import AggregateCall, Call, Column, Expr, Item, Literal, Named, Query, Window
from mullion.language.types import BIGINT, DOUBLE, TIMESTAMP
from mullion.planner.sliced import AnswerTemplate, SlicedAggregation
from mullion.runtime.column_structures import ColumnStructure
from mullion.slices import intervals
from mullion.slices.column_synopses import ColumnSynopsis
from mullion.slices.intervals import NumberInterval
from mullion.slices.waiting_values import WaitingValues

if TYPE_CHECKING:
    from mullion.runtime.view import SourcedRows, View

INSTANT = arrow_type(TIMESTAMP)
BOUNDED = ("max", "min", "count", "sum", "avg")
"""What a timegram answers."""


class LastRows(NamedTuple):
    """How many of the newest rows a window holds, and the time that it is shown to begin with."""

    rows: int
    opens: int | None


def is_served(frame: Window) -> bool:
    """Whether a window ends now and holds rows of all keys: [ROWS n], [RANGE r] and [NOW]."""
    plain = frame.attribute is None and not frame.partition_by and frame.slide is None and not frame.internal
    if frame.rows is not None:
        return plain and frame.slide_rows in (1, None)
    return plain and frame.slide_rows is None and (frame.range is not None or frame.now)


def last_rows(frame: Window, synopsis: ColumnSynopsis, waiting: WaitingValues, now: int | None) -> LastRows | None:
    """The window as the synopsis holds it; None where it does not hold all of it."""
    if frame.rows is not None:
        if not synopsis.holds(frame.rows, waiting):
            return None
        return LastRows(frame.rows, synopsis.opens(frame.rows, waiting))
    if now is None:
        return LastRows(0, None)
    rows = synopsis.rows_later_than(now - (1 if frame.now else frame.range or 0), waiting)
    return None if rows is None else LastRows(rows, now if frame.now else now - (frame.range or 0))


# Exactly


def exact_answer(query: SlicedAggregation, view: View, frame: Window | None = None) -> SourcedRows | None:
    """From ordered sharing on the columns that the question asks about, over its window or another one; None where
    there is none, or it does not hold the window."""
    template, frame = query.template, frame or query.frame
    if not is_served(frame) or query.keys or query.lookups or query.predicate is not None:
        return None
    values: list[Any] = []
    used, window = dict[str, None](), None
    for aggregate in template.aggregates:
        column = _column_of(aggregate)
        for synopsis in _columns(view.synopses) if column is not None else ():
            waiting = view.waiting_values(synopsis.definition.column)
            if not synopsis.shared or synopsis.definition.column != column:
                continue
            window = last_rows(frame, synopsis, waiting, view.newest)
            if window is not None:
                values.append(_exactly(aggregate, synopsis, window.rows, waiting))
                used[synopsis.definition.name] = None
                break
        else:
            return None
    if window is None:
        return None
    table = _answered(template, [window.opens, view.newest], values)
    return table, f"the synopsis {', '.join(used)} (ordered sharing)", view.newest


def _column_of(aggregate: BoundAggregate) -> str | None:
    """The column of a max or min."""
    argument = aggregate.argument
    plain = aggregate.function in ("max", "min") and aggregate.where is None
    return argument.name if plain and isinstance(argument, Column) else None


def _exactly(aggregate: BoundAggregate, synopsis: ColumnSynopsis, rows: int, waiting: WaitingValues) -> Any:
    value = synopsis.exact(aggregate.function, rows, waiting)
    return int(value) if value is not None and aggregate.result.is_integer else value


def _answered(template: AnswerTemplate, window: Sequence[int | None], values: list[Any]) -> pa.Table:
    """One row of the items, or none where HAVING says so."""
    plain = [isinstance(expr, Column) and expr.name.startswith("#a") for expr, _ in template.items]
    columns: dict[str, Vector] = {}
    if template.having is not None or not all(plain):
        of = zip(values, template.aggregates, strict=True)
        columns = {f"#a{i}": Vector.of(aggregate.result, [value]) for i, (value, aggregate) in enumerate(of)}
        columns |= {n: Vector.of(TIMESTAMP, [at]) for n, at in zip(WINDOW_COLUMNS, window, strict=True)}
    arrays = [pa.array([instant], INSTANT) for instant in window]
    for is_plain, (expr, type_) in zip(plain, template.items, strict=True):
        if is_plain and isinstance(expr, Column):
            arrays.append(pa.array([values[int(expr.name[2:])]], arrow_type(type_)))
        else:
            arrays.append(evaluate(expr, columns, 1).to_arrow())
    table = pa.Table.from_arrays(arrays, schema=template.schema)
    if template.having is not None:
        passes = evaluate(template.having, columns, 1)
        if not (passes.valid[0] and np.bool_(passes.values[0])):
            return table.slice(0, 0)
    return table


# Within bounds


def check_bounds(query: Query, stream: Stream, defined: Sequence[StreamSynopsis]) -> None:
    """Refuse a SELECT APPROX that no timegram can answer, whatever comes: before anything is read."""
    frame = _window_of(query)
    _approximate_schema(query.items)
    for call in [call for item in query.items for call in _bounded_in(item.expr, query)]:
        place, column = call.place or query.place, _asked_column(call, stream, query)
        most = max((synopsis.rows for synopsis in _timegrams(defined, column)), default=None)
        if most is None:
            using = f"USING timegram (buckets 64, rows {frame.rows or 100_000})"
            hint = f"CREATE SYNOPSIS name ON {stream.name}({column}) {using}"
            raise CheckError(f"there is no timegram on {stream.name}({column})", place, hint=hint)
        if frame.rows is not None and frame.rows > most:
            raise _holds_less(stream, column, most, frame.rows, place)


def bounds_of(
    query: Query, stream: Stream, view: View | None, defined: Sequence[StreamSynopsis], frame: Window | None = None
) -> SourcedRows:
    """SELECT APPROX max(price) FROM trades [ROWS 3], checked: two columns for each item, between which the answer lies,
    over its window or another one."""
    asked = _Approximately(query, stream, _window_of(query, frame), view, _known(defined, view))
    schema = _approximate_schema(query.items)
    found = [bound for item in query.items for bound in asked.of(item.expr)]
    now = None if view is None else view.newest
    arrays = [pa.array([value], type_) for value, type_ in zip((asked.opens, now, *found), schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema), asked.source, now


def _window_of(query: Query, other: Window | None = None) -> Window:
    """The window that is asked for, its own or another one."""
    source = query.source
    plain = not (query.where or query.group_by or query.having or query.order_by or query.distinct or query.union)
    if not isinstance(source, Named) or source.window is None or not plain:
        hint = "write SELECT APPROX max(column) FROM stream [ROWS n], without WHERE or GROUP BY"
        raise NotSupported("this form of SELECT APPROX", query.place, hint=hint)
    frame = other or source.window
    if not is_served(frame):
        hint = "write [ROWS n] or [RANGE r]: the last rows, or those of the last minutes"
        raise NotSupported("SELECT APPROX over such a window", frame.place or query.place, hint=hint)
    return frame


def _bounded_in(expr: Expr, query: Query) -> Iterator[AggregateCall]:
    """The aggregates of an item, which is made of them and of numbers."""
    match expr:
        case AggregateCall():
            if expr.function not in BOUNDED or expr.distinct or expr.where:
                hint = f"a timegram answers {', '.join(BOUNDED)} of a column, without DISTINCT and FILTER"
                raise NotSupported("this item of SELECT APPROX", expr.place or query.place, hint=hint)
            yield expr
        case Literal(value=value) if value is not None and not isinstance(value, (str, bytes, bool)):
            pass
        case Call(function=name, args=args) if name in ("negative", "positive") or name in intervals.OPERATIONS:
            for arg in args:
                yield from _bounded_in(arg, query)
        case _:
            hint = f"a timegram answers {', '.join(BOUNDED)} of a column, and +, -, * and / of these and of numbers"
            raise NotSupported("this item of SELECT APPROX", expr.place or query.place, hint=hint)


def _asked_column(call: AggregateCall, stream: Stream, query: Query) -> str:
    argument = call.args[0] if call.args else None
    if not isinstance(argument, Column):
        hint = "name a column of the stream that has a timegram"
        raise CheckError(f"SELECT APPROX {call.function} needs a column", call.place or query.place, hint=hint)
    return stream.column(argument.name, argument.place or call.place or query.place)


def _timegrams(defined: Sequence[StreamSynopsis], column: str) -> list[StreamSynopsis]:
    return [synopsis for synopsis in defined if synopsis.kind == "timegram" and synopsis.column == column]


def _holds_less(stream: Stream, column: str, most: int, rows: int, place: Place | None) -> CheckError:
    return CheckError(f"the timegram on {stream.name}({column}) holds {most:,} rows, not {rows:,}", place)


@lru_cache(maxsize=1024)
def _approximate_schema(items: tuple[Item, ...]) -> pa.Schema:
    """Two columns for each item; names must differ."""
    fields = [(name, INSTANT) for name in WINDOW_COLUMNS]
    for item in items:
        expr = item.expr
        name = expr.function if item.name is None and isinstance(expr, AggregateCall) else item_name(item)
        type_ = arrow_type(BIGINT if isinstance(expr, AggregateCall) and expr.function == "count" else DOUBLE)
        if any(f"{name}_low".lower() == other.lower() for other, _ in fields):
            raise CheckError(f"two columns of the answer are called '{name}_low'", item.place, hint="give one an AS")
        fields += [(f"{name}_low", type_), (f"{name}_high", type_)]
    return pa.schema(fields)


@dataclass
class _Approximately:
    query: Query
    stream: Stream
    window: Window
    view: View | None
    synopses: Mapping[str, ColumnSynopsis]
    used: dict[str, None] = field(default_factory=dict)
    opens: int | None = None

    @property
    def source(self) -> str:
        return f"the synopsis {', '.join(self.used)} (timegram)"

    def of(self, expr: Expr) -> NumberInterval:
        """Bounds of an item, which is made of aggregates and numbers."""
        match expr:
            case AggregateCall():
                return self._of_aggregate(expr)
            case Call(function="negative", args=(argument,)):
                return intervals.negative(self.of(argument))
            case Call(function="positive", args=(argument,)):
                return self.of(argument)
            case Call(function=name, args=(left, right)):
                return intervals.OPERATIONS[name](self.of(left), self.of(right))
        assert isinstance(expr, Literal)
        return intervals.of_number(expr.value)

    def _of_aggregate(self, call: AggregateCall) -> NumberInterval:
        timegram, waiting, window = self._timegram_for(call)
        self.opens = window.opens
        self.used[timegram.definition.name] = None
        return timegram.bounds(call.function, window.rows, waiting)

    def _timegram_for(self, call: AggregateCall) -> tuple[ColumnSynopsis, WaitingValues, LastRows]:
        stream, place, rows = self.stream, call.place or self.query.place, self.window.rows
        column = _asked_column(call, stream, self.query)
        on_it = [s for s in self.synopses.values() if s.gram is not None and s.definition.column == column]
        now, waiting = None, WaitingValues(None, column, stream.types[column])
        if self.view is not None:
            now, waiting = self.view.newest, self.view.waiting_values(column)
        for timegram in on_it:
            window = last_rows(self.window, timegram, waiting, now)
            if window is not None:
                return timegram, waiting, window
        most = max(timegram.definition.rows for timegram in on_it)
        named = f"the timegram on {stream.name}({column})"
        if rows is None:
            raise CheckError(f"{named} does not hold all events of this window: it has the last {most:,} rows", place)
        if rows <= most:
            raise CheckError(f"{named} has not seen {rows:,} rows yet", place)
        raise _holds_less(stream, column, most, rows, place)


def _columns(structures: Mapping[str, ColumnStructure]) -> list[ColumnSynopsis]:
    return [structure for structure in structures.values() if isinstance(structure, ColumnSynopsis)]


def _known(defined: Sequence[StreamSynopsis], view: View | None) -> dict[str, ColumnSynopsis]:
    """The synopses that there are: what was shown of them, or that they have seen nothing yet."""
    shown, newest = ([], None) if view is None else (_columns(view.synopses), view.newest)
    known = {synopsis.definition.name: synopsis for synopsis in shown if synopsis.definition in defined}
    return {synopsis.name: known.get(synopsis.name) or ColumnSynopsis(synopsis, since=newest) for synopsis in defined}
