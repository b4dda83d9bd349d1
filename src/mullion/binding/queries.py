"""A standing query checked against its sources: what it needs of every event, and what it makes of a window.

Binding splits a query in two. Below the aggregates stand expressions over events: the predicate, the group keys and
the arguments; queries share those that are equal. Above them stands the `Shape`: the items, HAVING, ORDER BY and LIMIT
over keys and aggregates; answers of all queries of one shape are made together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS, BoundAggregate, column_types
from mullion.algebra.lookups import Lookup
from mullion.algebra.streams import Stream, Table
from mullion.binding.frames import checked_window, laid_out
from mullion.binding.grouping import Grouping, item_name, known_functions, no_aggregate
from mullion.binding.joins import Joined, join
from mullion.errors import CheckError, NotSupported
from mullion.expressions.evaluate import is_event_only, is_fallible
from mullion.expressions.pool import Pool
from mullion.expressions.shared import shared
from mullion.expressions.typing import resolve, resolve_predicate
from mullion.expressions.vector import arrow_type
from mullion.language.query import (
    TIME_AXIS,
    Axis,
    Call,
    Column,
    Expr,
    Literal,
    Order,
    Period,
    Query,
    Window,
    walk,
)
from mullion.language.query import Aggregate as Written
from mullion.language.render import render
from mullion.language.types import BIGINT, TIMESTAMP, Type


@dataclass(frozen=True)
class Shape:
    """What is made of a window: columns #k0.. hold the keys, #a0.. the aggregates."""

    keys: tuple[Type, ...]
    aggregates: tuple[BoundAggregate, ...]
    names: tuple[str, ...]
    items: tuple[tuple[Expr, Type], ...]
    having: Expr | None
    order_by: tuple[Order, ...]
    limit: int | None
    bounds: Type = TIMESTAMP
    """The type of window_start and window_end: BIGINT for a window over whole numbers."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Remembered: plans ask for it for every query, and it walks all expressions."""
        above = self.items, self.having, self.order_by, self.limit
        return hash((self.keys, self.aggregates, self.names, above, self.bounds))

    @cached_property
    def types(self) -> dict[str, Type]:
        return column_types(self.keys, self.aggregates, self.bounds)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of an answer: the window's bounds, then the items."""
        fields = [(name, arrow_type(self.bounds)) for name in WINDOW_COLUMNS]
        fields += [(name, arrow_type(type_)) for name, (_, type_) in zip(self.names, self.items, strict=True)]
        return pa.schema(fields)

    @cached_property
    def fallible(self) -> tuple[Expr, ...]:
        """What can meet a bad value above the aggregates."""
        expressions = [expr for expr, _ in self.items] + ([] if self.having is None else [self.having])
        return tuple(expr for expr in expressions if is_fallible(expr, self.types))

    @property
    def is_plain(self) -> bool:
        """Neither HAVING nor ORDER BY nor LIMIT."""
        return self.having is None and not self.order_by and self.limit is None


NO_WINDOW = Window()


@dataclass(frozen=True, slots=True)
class StandingQuery:
    """A query as the engine runs it. Answers windows with window_start >= start and window_end <= stop.

    Its expressions are over the stream's columns and those that the lookups add, in their order.
    """

    name: str
    text: str
    stream: str
    window: Period
    predicate: Expr | None
    keys: tuple[Expr, ...]
    shape: Shape
    start: int | None = None
    stop: int | None = None
    backfill: bool = False
    after: int | None = None
    """With BACKFILL: answers windows with window_end > after."""
    tag: str = ""
    """Not empty for a query whose past was read once more: it must not be answered from what others keep."""
    joined: int | None = None
    """The last batch before such a query joined."""
    lookups: tuple[Lookup, ...] = ()
    axis: Axis = TIME_AXIS
    """What `window` is laid over."""
    frame: Window = NO_WINDOW
    """The window as it was written."""
    where: Expr | None = None
    """What it selects by whenever it starts; `predicate` may ask more."""

    def event_expressions(self) -> Iterator[Expr]:
        """What is evaluated on the events that the query selects."""
        yield from self.keys
        for aggregate in self.shape.aggregates:
            yield from aggregate.expressions()


def bind(query: Query, streams: Mapping[str, Stream], tables: Mapping[str, Table] | None = None) -> StandingQuery:
    """Check the query and prepare it. Raises CheckError or NotSupported with the place."""
    _refuse(query)
    joined = join(query, streams, tables or {})
    return _Binder(query, joined).bind(checked_window(joined.source.window, joined.stream, joined.source.place))


def _refuse(query: Query) -> None:
    """Refuses all that is not executed yet, but for sources."""
    refused = [
        (bool(query.union), "UNION ALL", query.union[0].place if query.union else None),
        (query.distinct, "SELECT DISTINCT", query.place),
        (query.approximate, "SELECT APPROX", query.place),
        (query.preference is not None, "WITH PREFERENCE", query.preference.place if query.preference else None),
    ]
    for there, feature, place in refused:
        if there:
            raise NotSupported(feature, place)
    if query.output is not None and (query.output.kind.upper() != "RSTREAM" or query.output.restore):
        feature = query.output.kind.upper() + (" RESTORE" if query.output.restore else "")
        raise NotSupported(feature, query.output.place)


def starting(query: StandingQuery, start: int | None, stream: Stream) -> StandingQuery:
    """The query as it joins at an event time, whatever it was before. A window over everything so far holds what comes
    from then on."""
    query = replace(query, start=start, predicate=query.where)
    if start is None or not query.frame.unbounded:
        return query
    place = Column(query.frame.attribute or stream.time_column)
    since = resolve_predicate(Call("ge", (place, Literal(start, query.shape.bounds))), dict(stream.types))
    both = since if query.where is None else Call("and", (since, query.where))
    return replace(query, predicate=shared(both), frame=replace(query.frame, since=start))


class _Binder:
    def __init__(self, query: Query, joined: Joined) -> None:
        self.query, self.joined = query, joined
        self.stream, self.event_types = joined.stream, joined.types
        self.bounds = TIMESTAMP

    def bind(self, frame: Window) -> StandingQuery:
        query = self.query
        if frame.attribute is not None and self.stream.types[frame.attribute].is_integer:
            self.bounds = BIGINT
            if query.start_at is not None or query.stop_at is not None:
                message = f"START AT and STOP AT are times, and the window goes over '{frame.attribute}'"
                raise CheckError(message, frame.place, hint="leave them out")
        self.grouping = Grouping(query, self.joined.scope, self.event_types, self.stream.name, self.bounds)
        window, axis = laid_out(frame, self._partition(frame))
        if not query.group_by and not any(isinstance(node, Written) for i in query.items for node in walk(i.expr)):
            known_functions(*(item.expr for item in query.items))
            hint = "take an aggregate such as count(*), or GROUP BY"
            raise NotSupported("a query without aggregates", query.items[0].place or query.place, hint=hint)
        predicate = self._predicate(frame)
        for key in query.group_by:
            self.grouping.add_key(key)
        items = self._items()
        having = None
        if query.having is not None:
            above = self.grouping.above(self.grouping.with_aliases(query.having))
            having = resolve_predicate(above, self.grouping.types)
        order_by = []
        for order in query.order_by:
            above = self.grouping.above(self.grouping.with_aliases(order.expr))
            term = shared(resolve(above, self.grouping.types)[0])
            order_by.append(Order(term, order.descending, order.nulls_first))
        names = [name for name, _, _ in items]
        taken = set(WINDOW_COLUMNS)
        for name in names:
            if name.startswith("#"):
                raise CheckError(f"a column of the answer cannot be called '{name}'", query.place)
            if name.lower() in taken:
                raise CheckError(f"two columns of the answer are called '{name}'", query.place, hint="give one an AS")
            taken.add(name.lower())
        self._refuse_what_spark_cannot_see(predicate)
        shape = Shape(
            keys=tuple(self.grouping.key_types),
            aggregates=tuple(self.grouping.aggregates),
            names=tuple(names),
            items=tuple((shared(expr), type_) for _, expr, type_ in items),
            having=None if having is None else shared(having),
            order_by=tuple(order_by),
            limit=query.limit,
            bounds=self.bounds,
        )
        shape = _SHAPES.one(shape)
        where = None if predicate is None else shared(predicate)
        bound = StandingQuery(
            name=query.name or "query",
            text=render(query),
            stream=self.stream.name,
            window=window,
            predicate=where,
            where=where,
            keys=tuple(map(shared, self.grouping.keys)),
            shape=shape,
            start=None if query.backfill else query.start_at,
            after=query.start_at if query.backfill else None,
            backfill=query.backfill,
            stop=query.stop_at,
            lookups=self.joined.lookups,
            axis=axis,
            frame=frame,
        )
        return starting(bound, bound.start, self.stream)

    def _predicate(self, frame: Window) -> Expr | None:
        """WHERE, and of a landmark window that events are not before it."""
        where = self.joined.where
        if frame.since is not None:
            column = frame.attribute or self.stream.time_column
            from_then = Call("ge", (Column(column), Literal(frame.since, self.bounds)), place=frame.place)
            where = from_then if where is None else Call("and", (from_then, where))
        return None if where is None else resolve_predicate(where, self.event_types)

    def _partition(self, frame: Window) -> tuple[Expr, ...]:
        own = dict(self.stream.types)
        found = []
        for key in frame.partition_by:
            no_aggregate(key, "PARTITION BY")
            found.append(shared(resolve(self.joined.scope.plain(key), own)[0]))
        return tuple(found)

    def _refuse_what_spark_cannot_see(self, predicate: Expr | None) -> None:
        """Some functions are Spark's alone, and Spark does not see the columns of tables."""
        if not self.joined.lookups:
            return
        added = {name for lookup in self.joined.lookups for name in lookup.types()}
        parts = [*self.grouping.keys, *(expr for a in self.grouping.aggregates for expr in a.expressions())]
        parts += [key for lookup in self.joined.lookups for key, _ in lookup.keys]
        parts += [] if predicate is None else _conditions(predicate)
        for part in parts:
            if is_event_only(part) and any(isinstance(n, Column) and n.name in added for n in walk(part)):
                only = [n for n in walk(part) if isinstance(n, Call) and is_event_only(n)][-1]
                raise NotSupported(f"{only.function} together with a table's columns", only.place or self.query.place)

    def _items(self) -> list[tuple[str, Expr, Type]]:
        bound = []
        for item in self.query.items:
            if item.name is None and isinstance(item.expr, Column) and item.expr.name.lower() in WINDOW_COLUMNS:
                continue
            if isinstance(item.expr, Column) and item.expr.name == "*":
                raise NotSupported("SELECT *", item.place or item.expr.place, hint="name the columns and aggregates")
            expr, type_ = resolve(self.grouping.above(item.expr), self.grouping.types)
            bound.append((item_name(item), expr, type_))
        return bound


_SHAPES: Pool[Shape] = Pool()
"""Queries of equal shape hold the same one: a thousand of them cost the memory of one, and compare at once."""


def _conditions(predicate: Expr) -> list[Expr]:
    """What AND, OR and NOT combine."""
    if isinstance(predicate, Call) and predicate.function in ("and", "or", "not"):
        return [condition for arg in predicate.args for condition in _conditions(arg)]
    return [predicate]


__all__ = ["Shape", "StandingQuery", "bind"]
