"""The standing queries by the way that runs them. All of the service asks here; the planner decides
(`planner.physical`).

Every batch asks, so each list is made once until a query comes, goes or changes.
"""

from __future__ import annotations

from mullion.algebra.nodes import tables_of
from mullion.algebra.relation import Relation
from mullion.catalog.catalog import Catalog
from mullion.planner.physical import ByWay, by_way, sliced
from mullion.planner.query_set import NO_QUERIES, QuerySet
from mullion.planner.sliced import SlicedAggregation


def plan_of(query: Relation, catalog: Catalog) -> SlicedAggregation | None:
    """The query as slices run it; None where operators do."""
    return sliced(query, catalog.streams)


def _by_way(catalog: Catalog) -> ByWay:
    return catalog.made_of_queries(by_way, lambda: by_way(tuple(catalog.queries.values()), catalog.streams))


def _by_stream(catalog: Catalog) -> dict[str, QuerySet]:
    def sets() -> dict[str, QuerySet]:
        return {stream: QuerySet(plans) for stream, plans in _by_way(catalog).by_stream.items()}

    return catalog.made_of_queries(_by_stream, sets)


def sliced_over(stream: str, catalog: Catalog) -> QuerySet:
    """What slices run of a stream's queries."""
    return _by_stream(catalog).get(stream, NO_QUERIES)


def run_by_operators(catalog: Catalog) -> list[Relation]:
    """What operators run of all queries."""
    return _by_way(catalog).operators


def queried_streams(catalog: Catalog) -> set[str]:
    """The streams that queries read."""
    return set(_by_stream(catalog)).union(*(relation.streams for relation in run_by_operators(catalog)))


def asked_tables(catalog: Catalog) -> set[str]:
    """The tables that rows of queries are looked up in."""
    ways = _by_way(catalog)
    return ways.tables.union(*(tables_of(relation.plan) for relation in ways.operators))
