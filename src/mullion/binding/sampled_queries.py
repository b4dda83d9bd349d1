"""Queries with estimates in the place of their aggregates, and with what is told beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from mullion.binding.estimates import SampledUnits
from mullion.binding.grouping import item_name
from mullion.language.query import AggregateCall, Call, Case, Expr, Item, Query, rewrite

KEPT_SHARE = "kept_share"
KEPT = AggregateCall("count", ())
ERROR = "_error"
"""What the name of an estimate gets for the column of its standard error."""


def with_aggregates(query: Query, change: Callable[[AggregateCall], Expr]) -> Query:
    """The query with other expressions for its aggregates. Items keep their names."""

    def changed(expr: Expr) -> Expr:
        return rewrite(expr, lambda node: change(node) if isinstance(node, AggregateCall) else None)

    def item(own: Item) -> Item:
        other = changed(own.expr)
        return own if other is own.expr else replace(own, expr=other, name=item_name(own))

    return replace(
        query,
        items=tuple(map(item, query.items)),
        having=None if query.having is None else changed(query.having),
        order_by=tuple(replace(order, expr=changed(order.expr)) for order in query.order_by),
    )


def standard_errors(query: Query, sample: SampledUnits, known: Expr | None = None) -> Iterator[Item]:
    """The standard errors of items that are a count, a sum or an average; NULL where they are not `known`."""
    for item in query.items:
        if isinstance(item.expr, AggregateCall) and (error := sample.error(item.expr)) is not None:
            yield Item(error if known is None else Case(((known, error),)), item_name(item) + ERROR)


def kept_share(weight: Expr) -> Item:
    """The part of the rows that is in the sample, if that was drawn at random."""
    return Item(Call("divide", (KEPT, AggregateCall("sum", (weight,)))), KEPT_SHARE)
