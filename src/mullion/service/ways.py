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
    def divided() -> dict[str, QuerySet]:
        found: dict[str, list[SlicedAggregation]] = {}
        for plan in _by_way(catalog).slices:
            found.setdefault(plan.stream, []).append(plan)
        return {stream: QuerySet(plans) for stream, plans in found.items()}

    return catalog.made_of_queries(_by_stream, divided)


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
    """The tables that rows of queries are looked up in: slices have noted theirs, operators have theirs in plans."""
    slices, operators = _by_way(catalog)
    lookups = {id(plan.lookups): plan.lookups for plan in slices}  # most are one object
    asked = {lookup.table for own in lookups.values() for lookup in own}
    return asked.union(*(tables_of(relation.plan) for relation in operators))
