"""Queries over streams that may shed, written so that they are answered from the events that were kept.

    SELECT APPROX count(*) AS n, avg(x) AS a FROM s [...]        s WHEN BEHIND SHED RANDOM

    n           sum(w)                                           w: how many events that came an event stands for
    a           sum(w x) / sum(w)
    n_error     sqrt(sum(w (w - 1)))                             its standard error
    a_error     sqrt(sum(w (w - 1) (x - a)^2)) / sum(w)
    kept_share  count(*) / sum(w)

Each event is kept by itself with probability 1 / w, so sums over w estimate without bias what they would be of all
events, and w (w - 1) x^2 estimates what an event adds to the variance (Horvitz and Thompson 1952; the average is the
ratio of two such sums). The rewriting is all there is: below it `w` is a column like any other, so every way to
partials, every operator and the reference agree. Without APPROX, or with SHED BY, nothing is scaled: the answer is that
of the kept events, and kept_share tells how many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from mullion.algebra.streams import WEIGHT, Stream
from mullion.binding.grouping import item_name
from mullion.binding.scope import called
from mullion.binding.selecting import is_aggregating
from mullion.errors import CheckError, NotSupported
from mullion.language.query import (
    Aggregate,
    Call,
    Case,
    Cast,
    Column,
    Derived,
    Exists,
    Expr,
    Item,
    Literal,
    Named,
    Query,
    Window,
    rewrite,
    walk,
)
from mullion.language.sources import leaves
from mullion.language.types import BIGINT, DOUBLE

KEPT_SHARE = "kept_share"
ERROR = "_error"
"""What the name of an estimate gets for the column of its standard error."""
OF_THE_SAMPLE = ("min", "max", "first", "last", "median", "percentile", "approx_percentile")
"""Aggregates that are those of the kept events, also in an estimate."""
ONE = Literal(1.0, DOUBLE)


@dataclass(frozen=True)
class _Source:
    """A stream that may shed, where a query reads it."""

    named: Named
    stream: Stream

    @property
    def is_random(self) -> bool:
        return self.stream.shedding is not None and self.stream.shedding.by is None

    @property
    def marks(self) -> bool:
        return self.stream.shedding is not None and self.stream.shedding.marks


def reads_shed_streams(query: Query, streams: Mapping[str, Stream]) -> bool:
    return any(_sources(query, streams))


def answered_from_kept(query: Query, streams: Mapping[str, Stream]) -> Query:
    """The query over the events that were kept. Raises where it cannot be answered from them."""
    shed = list(_sources(query, streams))
    if not shed:
        if query.approximate:
            hint = "it is for one-time questions, and for streams with WHEN BEHIND SHED"
            raise NotSupported("SELECT APPROX", query.place, hint=hint)
        return query
    name = shed[0].stream.name
    if not query.approximate and not all(source.marks for source in shed):
        hint = "write SELECT APPROX to have them estimated, or let the stream say WHEN BEHIND SHED ... MARK EXACT"
        place = shed[0].named.place or query.place
        raise CheckError(f"stream '{name}' may shed events, and this query asks for exact answers", place, hint=hint)
    own = [source for source in leaves(query.source) if isinstance(source, Named)]
    nested = len(own) < len(leaves(query.source)) or any(source.named not in own for source in shed)
    if nested or query.distinct or query.union or query.excepted or query.materialized or _has_exists(query):
        what = f"this form of query over '{name}', which may shed events"
        hint = "take aggregates, or rows of streams and joins, without DISTINCT, UNION, EXCEPT, EXISTS, sub-queries"
        raise NotSupported(what, query.place, hint=hint)
    return _Rewriting(query, shed, alone=len(own) == 1).query()


class _Rewriting:
    def __init__(self, query: Query, shed: list[_Source], *, alone: bool) -> None:
        self._query, self._shed = query, shed
        weights = [Column(WEIGHT, None if alone else called(source.named)) for source in shed]
        self._weight: Expr = weights[0]
        for weight in weights[1:]:
            self._weight = Call("multiply", (self._weight, weight))
        self._is_estimate = query.approximate and all(source.is_random for source in shed)

    def query(self) -> Query:
        query = replace(self._query, approximate=False)
        if not is_aggregating(query):
            return replace(query, items=(*query.items, Item(Call("divide", (ONE, self._weight)), KEPT_SHARE)))
        share = Item(Call("divide", (Aggregate("count", ()), Aggregate("sum", (self._weight,)))), KEPT_SHARE)
        if not self._is_estimate:
            return replace(query, items=(*query.items, share))
        self._check_windows()
        items = tuple(self._item(item) for item in query.items)
        return replace(
            query,
            items=(*items, *self._errors(), share),
            having=None if query.having is None else self._estimated(query.having),
            order_by=tuple(replace(order, expr=self._estimated(order.expr)) for order in query.order_by),
        )

    def _check_windows(self) -> None:
        for source in self._shed:
            window = source.named.window
            if window is not None and _counts_events(window):
                hint = "take a window in time, such as [RANGE '1 min' SLIDE '1 min']"
                what = f"SELECT APPROX over so many events of '{source.stream.name}', some of which may have been shed"
                raise NotSupported(what, window.place or self._query.place, hint=hint)

    def _item(self, item: Item) -> Item:
        estimated = self._estimated(item.expr)
        return item if estimated is item.expr else replace(item, expr=estimated, name=item_name(item))

    def _errors(self) -> Iterator[Item]:
        """The standard errors of items that are a count, a sum or an average. The pairs of a join depend on each
        other, so theirs are not known."""
        if len(self._shed) > 1 or len(leaves(self._query.source)) > 1:
            return
        for item in self._query.items:
            if isinstance(item.expr, Aggregate) and item.expr.function in _ERRORS and not item.expr.distinct:
                yield Item(_ERRORS[item.expr.function](_Sums(self._weight, item.expr)), item_name(item) + ERROR)

    def _estimated(self, expr: Expr) -> Expr:
        def change(node: Expr) -> Expr | None:
            return self._estimate(node) if isinstance(node, Aggregate) else None

        return rewrite(expr, change)

    def _estimate(self, node: Aggregate) -> Expr:
        if node.function in _ESTIMATES and not node.distinct:
            return _ESTIMATES[node.function](_Sums(self._weight, node))
        if node.function in OF_THE_SAMPLE and not (node.distinct and node.function not in ("min", "max")):
            return node
        written = f"{node.function}(DISTINCT ...)" if node.distinct else node.function
        hint = "of the kept events alone it can be had by MARK EXACT on the stream"
        raise NotSupported(f"{written} in SELECT APPROX over a stream that may shed", node.place, hint=hint)


@dataclass(frozen=True)
class _Sums:
    """Sums over the events that an aggregate looks at."""

    weight: Expr
    node: Aggregate

    def weights(self) -> Expr:
        return self._sum(self.weight, 0)

    def values(self) -> Expr:
        return self._sum(self.weight, 1)

    def variance(self, power: int) -> Expr:
        """The sum of w (w - 1) x^power."""
        return self._sum(Call("multiply", (self.weight, Call("subtract", (self.weight, ONE)))), power)

    def _sum(self, term: Expr, power: int) -> Expr:
        for _ in range(power):
            term = Call("multiply", (term, Cast(self.node.args[0], DOUBLE)))
        counted = [arg for arg in self.node.args if not isinstance(arg, Literal) or arg.value is None]
        if counted and not power:
            missing = tuple((Call("is_null", (arg,)), Literal(None, DOUBLE)) for arg in counted)
            term = Case(missing, term)
        return Aggregate("sum", (term,), where=self.node.where)


def _count(sums: _Sums) -> Expr:
    return Cast(Call("round", (Call("coalesce", (sums.weights(), Literal(0.0, DOUBLE))),)), BIGINT)


def _average(sums: _Sums) -> Expr:
    return Call("divide", (sums.values(), sums.weights()))


def _count_error(sums: _Sums) -> Expr:
    return Call("sqrt", (Call("coalesce", (sums.variance(0), Literal(0.0, DOUBLE))),))


def _sum_error(sums: _Sums) -> Expr:
    return Call("sqrt", (sums.variance(2),))


def _average_error(sums: _Sums) -> Expr:
    """Of a ratio, to the first order: that of the sum of w (x - average)."""
    average = _average(sums)
    crossed = Call("multiply", (Literal(2.0, DOUBLE), Call("multiply", (average, sums.variance(1)))))
    squared = Call("multiply", (Call("multiply", (average, average)), sums.variance(0)))
    spread = Call("add", (Call("subtract", (sums.variance(2), crossed)), squared))
    return Call("divide", (Call("sqrt", (Call("greatest", (spread, Literal(0.0, DOUBLE))),)), sums.weights()))


_ESTIMATES: dict[str, Callable[[_Sums], Expr]] = {"count": _count, "sum": _Sums.values, "avg": _average}
_ERRORS: dict[str, Callable[[_Sums], Expr]] = {"count": _count_error, "sum": _sum_error, "avg": _average_error}


def _counts_events(window: Window) -> bool:
    return window.rows is not None or window.slide_rows is not None


def _has_exists(query: Query) -> bool:
    return query.where is not None and any(isinstance(node, Exists) for node in walk(query.where))


def _sources(query: Query, streams: Mapping[str, Stream]) -> Iterator[_Source]:
    """Where the query and the queries within it read streams that may shed."""
    by_lower = {name.lower(): stream for name, stream in streams.items() if stream.shedding is not None}
    if not by_lower:
        return
    for source in leaves(query.source):
        if isinstance(source, Derived):
            yield from _sources(source.query, streams)
        elif source.name.lower() in by_lower:
            yield _Source(source, by_lower[source.name.lower()])
    within = [node.query for node in walk(query.where) if isinstance(node, Exists)] if query.where is not None else []
    for part in (*query.union, *query.excepted, *within):
        yield from _sources(part, streams)
