"""An aggregate query over the window of one stream, checked against its sources."""

from __future__ import annotations

from collections.abc import Mapping

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS
from mullion.algebra.sliced import TEMPLATES, AnswerTemplate, SlicedAggregation, entering_at
from mullion.algebra.streams import Stream, Table
from mullion.binding.frames import checked_window, laid_out
from mullion.binding.grouping import Grouping, item_name, known_functions, no_aggregate
from mullion.binding.joins import Joined, join
from mullion.errors import CheckError, NotSupported
from mullion.expressions.evaluate import is_event_only
from mullion.expressions.shared import shared
from mullion.expressions.typing import resolve, resolve_predicate
from mullion.language.query import Aggregate as Written
from mullion.language.query import (
    Call,
    Column,
    Expr,
    Literal,
    Order,
    Query,
    Window,
    walk,
)
from mullion.language.render import render
from mullion.language.types import BIGINT, TIMESTAMP, Type


def bind(query: Query, streams: Mapping[str, Stream], tables: Mapping[str, Table] | None = None) -> SlicedAggregation:
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


class _Binder:
    def __init__(self, query: Query, joined: Joined) -> None:
        self.query, self.joined = query, joined
        self.stream, self.event_types = joined.stream, joined.types
        self.bounds = TIMESTAMP

    def bind(self, frame: Window) -> SlicedAggregation:
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
        template = AnswerTemplate(
            keys=tuple(self.grouping.key_types),
            aggregates=tuple(self.grouping.aggregates),
            names=tuple(names),
            items=tuple((shared(expr), type_) for _, expr, type_ in items),
            having=None if having is None else shared(having),
            order_by=tuple(order_by),
            limit=query.limit,
            bounds=self.bounds,
        )
        template = TEMPLATES.one(template)
        where = None if predicate is None else shared(predicate)
        bound = SlicedAggregation(
            name=query.name or "query",
            text=render(query),
            stream=self.stream.name,
            window=window,
            predicate=where,
            where=where,
            keys=tuple(map(shared, self.grouping.keys)),
            template=template,
            start=None if query.backfill else query.start_at,
            after=query.start_at if query.backfill else None,
            backfill=query.backfill,
            stop=query.stop_at,
            lookups=self.joined.lookups,
            axis=axis,
            frame=frame,
        )
        return entering_at(bound, bound.start, self.stream)

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


def _conditions(predicate: Expr) -> list[Expr]:
    """What AND, OR and NOT combine."""
    if isinstance(predicate, Call) and predicate.function in ("and", "or", "not"):
        return [condition for arg in predicate.args for condition in _conditions(arg)]
    return [predicate]


__all__ = ["bind"]
