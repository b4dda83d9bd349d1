"""The standing queries by the way that runs them. All of the service asks here; the planner decides
(`planner.physical`).

Every batch asks, so each list is made once until a query comes, goes or changes.
"""

from __future__ import annotations

from mullion.algebra.nodes import tables_of
from mullion.algebra.relation import Relation
from mullion.catalog.catalog import Catalog
from mullion.planner.physical import ByWay, by_way, sliced
from mullion.planner.query_set import QuerySet
from mullion.planner.sliced import SlicedAggregation


def plan_of(query: Relation, catalog: Catalog) -> SlicedAggregation | None:
    """The query as slices run it; None where operators do."""
    return sliced(query, catalog.streams)


def _by_way(catalog: Catalog) -> ByWay:
    return catalog.made_of_queries(by_way, lambda: by_way(tuple(catalog.queries.values()), catalog.streams))


def sliced_over(stream: str, catalog: Catalog) -> QuerySet:
    """What slices run of a stream's queries."""
    return catalog.made_of_queries(
        (sliced_over, stream), lambda: QuerySet(plan for plan in _by_way(catalog).slices if plan.stream == stream)
    )


def run_by_operators(catalog: Catalog) -> list[Relation]:
    """What operators run of all queries."""
    return _by_way(catalog).operators


def asked_tables(catalog: Catalog) -> set[str]:
    """The tables that rows of queries are looked up in: slices have noted theirs, operators have theirs in plans."""
    slices, operators = _by_way(catalog)
    asked = {lookup.table for plan in slices for lookup in plan.lookups}
    return asked.union(*(tables_of(relation.plan) for relation in operators))
