"""A standing query checked against its sources: what it needs of every event, and what it makes of a window.

Binding splits a query in two. Below the aggregates stand expressions over events: the predicate, the group keys and
the arguments; queries share those that are equal. Above them stands the `Shape`: the items, HAVING, ORDER BY and LIMIT
over keys and aggregates; answers of all queries of one shape are made together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from mullion.aggregates import DISTINCT, REGISTRY, Aggregate
from mullion.catalog.frames import checked_window, laid_out
from mullion.catalog.joins import Joined, join
from mullion.catalog.lookups import Lookup
from mullion.catalog.scope import WINDOW_COLUMNS
from mullion.catalog.streams import Stream, Table
from mullion.errors import CheckError, NotSupported, closest
from mullion.language.dialect import AGGREGATES
from mullion.language.evaluate import evaluate, is_event_only, is_fallible
from mullion.language.functions import NAMES
from mullion.language.pool import Pool
from mullion.language.query import (
    TIME_AXIS,
    Axis,
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Expr,
    Item,
    Literal,
    Order,
    Period,
    Query,
    Window,
    rewrite,
    walk,
)
from mullion.language.query import Aggregate as Written
from mullion.language.render import render
from mullion.language.shared import shared
from mullion.language.types import BIGINT, DOUBLE, INT, TIMESTAMP, Type
from mullion.language.typing import resolve, resolve_predicate
from mullion.language.vector import arrow_type


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate over a resolved argument; FILTER is already part of the argument. count(*) has none."""

    function: str
    argument: Expr | None
    argument_type: Type | None
    result: Type
    aggregate: Aggregate
    """The function itself, with its constants."""
    distinct: bool = False
    values: tuple[tuple[Expr, Type], ...] = ()
    """What is counted, for aggregates over values: the argument, or several of count(DISTINCT a, b)."""
    where: Expr | None = None
    """FILTER of an aggregate for which a NULL is a value like any other: first and last."""

    def expressions(self) -> Iterator[Expr]:
        """What is evaluated on events."""
        if self.argument is not None and not self.values:
            yield self.argument
        yield from (expr for expr, _ in self.values)
        if self.where is not None:
            yield self.where


def column_types(
    keys: Sequence[Type], aggregates: Sequence[BoundAggregate], bounds: Type = TIMESTAMP
) -> dict[str, Type]:
    types: dict[str, Type] = dict.fromkeys(WINDOW_COLUMNS, bounds)
    types.update({f"#k{i}": type_ for i, type_ in enumerate(keys)})
    types.update({f"#a{i}": aggregate.result for i, aggregate in enumerate(aggregates)})
    return types


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
    """The query as it joins at an event time. A window over everything so far holds what comes from then on."""
    query = replace(query, start=start)
    if start is None or not query.frame.unbounded:
        return query
    place = Column(query.frame.attribute or stream.time_column)
    since = resolve_predicate(Call("ge", (place, Literal(start, query.shape.bounds))), dict(stream.types))
    both = since if query.predicate is None else Call("and", (since, query.predicate))
    return replace(query, predicate=shared(both), frame=replace(query.frame, since=start))


class _Binder:
    def __init__(self, query: Query, joined: Joined) -> None:
        self.query, self.joined = query, joined
        self.stream, self.scope, self.event_types = joined.stream, joined.scope, joined.types
        self.aliases = {item.name.lower(): item.expr for item in query.items if item.name}
        self.keys: list[Expr] = []
        self.key_types: list[Type] = []
        self.raw_keys: dict[Expr, int] = {}
        self.aggregates: list[BoundAggregate] = []
        self.bounds = TIMESTAMP

    def bind(self, frame: Window) -> StandingQuery:
        query = self.query
        if frame.attribute is not None and self.stream.types[frame.attribute].is_integer:
            self.bounds = BIGINT
            if query.start_at is not None or query.stop_at is not None:
                message = f"START AT and STOP AT are times, and the window goes over '{frame.attribute}'"
                raise CheckError(message, frame.place, hint="leave them out")
        window, axis = laid_out(frame, self._partition(frame))
        if not query.group_by and not any(isinstance(node, Written) for i in query.items for node in walk(i.expr)):
            self._known_functions(*(item.expr for item in query.items))
            hint = "take an aggregate such as count(*), or GROUP BY"
            raise NotSupported("a query without aggregates", query.items[0].place or query.place, hint=hint)
        predicate = self._predicate(frame)
        for key in query.group_by:
            self._add_key(key)
        items = self._items()
        having = None
        if query.having is not None:
            having = resolve_predicate(self._above(self._with_aliases(query.having)), self._types())
        order_by = []
        for order in query.order_by:
            expr = self._with_aliases(order.expr)
            term = shared(resolve(self._above(expr), self._types())[0])
            order_by.append(Order(term, order.descending, order.nulls_first))
        names = [name for name, _, _ in items]
        for index, name in enumerate(names):
            if name.startswith("#"):
                raise CheckError(f"a column of the answer cannot be called '{name}'", query.place)
            if name.lower() in (*WINDOW_COLUMNS, *(n.lower() for n in names[:index])):
                raise CheckError(f"two columns of the answer are called '{name}'", query.place, hint="give one an AS")
        self._refuse_what_spark_cannot_see(predicate)
        shape = Shape(
            keys=tuple(self.key_types),
            aggregates=tuple(self.aggregates),
            names=tuple(names),
            items=tuple((shared(expr), type_) for _, expr, type_ in items),
            having=None if having is None else shared(having),
            order_by=tuple(order_by),
            limit=query.limit,
            bounds=self.bounds,
        )
        shape = _SHAPES.one(shape)
        bound = StandingQuery(
            name=query.name or "query",
            text=render(query),
            stream=self.stream.name,
            window=window,
            predicate=None if predicate is None else shared(predicate),
            keys=tuple(map(shared, self.keys)),
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
            self._no_aggregate(key, "PARTITION BY")
            found.append(shared(resolve(self._plain(key), own)[0]))
        return tuple(found)

    def _refuse_what_spark_cannot_see(self, predicate: Expr | None) -> None:
        """Some functions are Spark's alone, and Spark does not see the columns of tables."""
        if not self.joined.lookups:
            return
        added = {name for lookup in self.joined.lookups for name in lookup.types()}
        parts = [*self.keys, *(expr for a in self.aggregates for expr in a.expressions())]
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
            expr, type_ = resolve(self._above(item.expr), self._types())
            bound.append((self._name(item), expr, type_))
        return bound

    @staticmethod
    def _name(item: Item) -> str:
        if item.name is not None:
            return item.name
        return item.expr.name if isinstance(item.expr, Column) else render(item.expr)

    def _types(self) -> dict[str, Type]:
        return column_types(self.key_types, self.aggregates, self.bounds)

    def _plain(self, expr: Expr) -> Expr:
        """The expression over the columns of events, without qualifiers."""
        return self.scope.plain(expr)

    def _add_key(self, key: Expr) -> None:
        if isinstance(key, Column) and key.table is None and not self.scope.has(key.name):
            key = self.aliases.get(key.name.lower(), key)
        self._no_aggregate(key, "GROUP BY")
        raw = self._plain(key)
        if raw not in self.raw_keys:
            resolved, type_ = resolve(raw, self.event_types)
            self.raw_keys[raw] = len(self.keys)
            self.keys.append(resolved)
            self.key_types.append(type_)

    def _with_aliases(self, expr: Expr) -> Expr:
        """HAVING and ORDER BY see the answer's columns before the stream's."""

        def change(node: Expr) -> Expr | None:
            if isinstance(node, Written):
                return node
            if isinstance(node, Column) and node.table is None:
                return self.aliases.get(node.name.lower())
            return None

        return rewrite(expr, change)

    def _above(self, expr: Expr) -> Expr:
        """The expression with keys and aggregates replaced by the columns that will hold them."""

        def change(node: Expr) -> Expr | None:
            if not isinstance(node, Literal) and not isinstance(node, Written):
                at = self.raw_keys.get(self._plain(node)) if self.raw_keys else None
                if at is not None:
                    return Column(f"#k{at}", place=node.place)
            if isinstance(node, Written):
                return Column(f"#a{self._aggregate(node)}", place=node.place)
            if isinstance(node, Exists):
                raise NotSupported("EXISTS", node.place)
            if isinstance(node, Call):
                self._known_functions(node)
                if (function := NAMES.get(node.function)) is not None and function.event_only:
                    raise NotSupported(f"{node.function} over aggregates", node.place)
            if isinstance(node, Column):
                if node.table is None and node.name.lower() in WINDOW_COLUMNS:
                    return replace(node, name=node.name.lower())
                self._unknown(node)
            return None

        return rewrite(expr, change)

    @staticmethod
    def _known_functions(*expressions: Expr) -> None:
        """A misspelt aggregate looks like a scalar function: say so before complaining of what is in it."""
        for node in (node for expr in expressions for node in walk(expr)):
            if isinstance(node, Call) and node.function not in NAMES:
                hint = closest(node.function, [*NAMES, *AGGREGATES])
                raise CheckError(f"unknown function '{node.function}'", node.place, hint=hint)

    def _unknown(self, column: Column) -> None:
        plain = self._plain(column)
        assert isinstance(plain, Column)
        if plain.name not in self.event_types:
            known = [*self.scope.column_names(), *WINDOW_COLUMNS]
            hint = closest(column.name, known)
            raise CheckError(f"unknown column '{column.name}' in {self.stream.name}", column.place, hint=hint)
        written = render(column)
        hint = f"add {written} to GROUP BY, or take an aggregate of it such as max({written})"
        raise CheckError(f"column '{column.name}' is neither grouped nor aggregated", column.place, hint=hint)

    def _aggregate(self, node: Written) -> int:
        bound = self._bound(node)
        if bound not in self.aggregates:
            self.aggregates.append(bound)
        return self.aggregates.index(bound)

    def _bound(self, node: Written) -> BoundAggregate:
        for arg in (*node.args, *([node.where] if node.where is not None else [])):
            self._no_aggregate(arg, f"{node.function}()")
        aggregate, args = self._chosen(node)
        if aggregate.from_values:
            return self._over_values(node, aggregate, args)
        argument: Expr | None = args[0] if args else None
        if len(args) > 1:
            argument = Case(tuple((Call("is_null", (a,)), Literal(None, INT)) for a in args), Literal(1, INT))
        if isinstance(argument, Literal) and argument.value is not None and node.function == "count":
            argument = None
        where = self._filter(node)
        if where is not None and not aggregate.keeps_nulls:
            argument = Case(((where, Literal(1, INT) if argument is None else argument),), place=node.place)
            where = None
        resolved, type_ = self._argument(aggregate, argument)
        present = None if where is None else shared(resolve_predicate(where, self.event_types))
        result = self._result(node, aggregate, type_)
        return BoundAggregate(node.function, resolved, type_, result, aggregate, where=present)

    def _chosen(self, node: Written) -> tuple[Aggregate, list[Expr]]:
        """The aggregate with its constants, and the arguments before them."""
        aggregate = REGISTRY.get(node.function)
        if aggregate is None:
            raise NotSupported(f"the aggregate {node.function}", node.place)
        args = [self._plain(a) for a in node.args]
        if node.distinct and node.function not in ("min", "max"):
            if node.function not in DISTINCT:
                hint = f"{', '.join(DISTINCT)}, min and max take it"
                raise NotSupported(f"{node.function}(DISTINCT ...)", node.place, hint=hint)
            aggregate = DISTINCT[node.function]
        if node.function == "count":
            return aggregate, args
        try:
            return aggregate.with_parameters(tuple(self._constant(node, a) for a in args[1:])), args[:1]
        except TypeError as wrong:
            raise CheckError(f"{node.function} {wrong}", node.place) from None

    def _constant(self, node: Written, expr: Expr) -> Any:
        if any(isinstance(n, Column) for n in walk(expr)):
            message = f"{node.function} takes one argument; what comes after it must be constant"
            raise CheckError(message, expr.place or node.place)
        return evaluate(resolve(expr, {})[0], {}, 1).to_list()[0]

    def _over_values(self, node: Written, aggregate: Aggregate, args: list[Expr]) -> BoundAggregate:
        where = self._filter(node)
        if where is not None:
            args = [Case(((where, args[0]),), place=node.place), *args[1:]]
        values = []
        for arg in args:
            resolved, type_ = self._argument(aggregate, arg)
            assert resolved is not None and type_ is not None
            values.append((resolved, type_))
        result = self._result(node, aggregate, values[0][1])
        return BoundAggregate(
            node.function, *values[0], result, aggregate, distinct=node.distinct, values=tuple(values)
        )

    def _filter(self, node: Written) -> Expr | None:
        if node.where is None:
            return None
        where = self._plain(node.where)
        resolve_predicate(where, self.event_types)
        return where

    def _argument(self, aggregate: Aggregate, argument: Expr | None) -> tuple[Expr | None, Type | None]:
        if argument is None:
            return None, None
        resolved, type_ = resolve(argument, self.event_types)
        if type_.kind == "string" and aggregate.casts_text:
            resolved, type_ = Cast(resolved, DOUBLE), DOUBLE
        return shared(resolved), type_

    @staticmethod
    def _result(node: Written, aggregate: Aggregate, type_: Type | None) -> Type:
        try:
            return aggregate.result(type_)
        except TypeError as wrong:
            raise CheckError(f"{node.function} {wrong}", node.place) from None

    @staticmethod
    def _no_aggregate(expr: Expr, where: str) -> None:
        for node in walk(expr):
            if isinstance(node, Written):
                raise CheckError(f"an aggregate is not allowed in {where}", node.place)


_SHAPES: Pool[Shape] = Pool()
"""Queries of equal shape hold the same one: a thousand of them cost the memory of one, and compare at once."""


def _conditions(predicate: Expr) -> list[Expr]:
    """What AND, OR and NOT combine."""
    if isinstance(predicate, Call) and predicate.function in ("and", "or", "not"):
        return [condition for arg in predicate.args for condition in _conditions(arg)]
    return [predicate]


__all__ = ["WINDOW_COLUMNS", "BoundAggregate", "Shape", "StandingQuery", "bind"]
