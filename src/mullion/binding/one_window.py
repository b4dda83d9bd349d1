"""Queries that group the events of one window, of a single stream.

They may say more than others: windows over a column or by a number of events, window_start and window_end in
expressions, and functions that Spark alone computes. Nothing of that can be joined, so all other queries refuse it.

This is decided from the query as written, since the bound tree depends on it: such a query's Scan keeps its SLIDE, and
its WHERE stays as written. The tree then has the form of `algebra.window_aggregate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.binding.joins import relation_named
from mullion.binding.selecting import is_aggregating
from mullion.language.query import Exists, Expr, Named, Query, walk
from mullion.language.sources import leaves


def groups_one_window(
    query: Query,
    streams: Mapping[str, Stream],
    tables: Mapping[str, Table],
    materialized: Mapping[str, Relation],
) -> bool:
    """Whether it groups the events of one stream and emits whole results. Tables may be joined, if not retroactive.
    `materialized` are results that can be read, by the lower case of their names."""
    if query.union or query.excepted or query.distinct or query.materialized or not is_aggregating(query):
        return False
    if query.output is not None and (query.output.kind != "rstream" or query.output.restore):
        return False
    if any(isinstance(node, Exists) for expr in _written(query) for node in walk(expr)):
        return False
    over = 0
    for source in leaves(query.source):
        relation = relation_named(source.name, streams, tables) if isinstance(source, Named) else None
        if isinstance(relation, Table) and relation.retroactive:
            return False
        if relation is None and (not isinstance(source, Named) or source.name.lower() in materialized):
            return False
        over += isinstance(relation, Stream)
    return over < 2


def _written(query: Query) -> Iterator[Expr]:
    yield from (item.expr for item in query.items)
    yield from query.group_by
    yield from (order.expr for order in query.order_by)
    yield from (expr for expr in (query.where, query.having) if expr is not None)
