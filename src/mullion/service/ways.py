"""The standing queries by the way that runs them. All of the service asks here; the planner decides
(`planner.physical`).

Every batch asks, so each list is made once until a query comes, goes or changes; the way of a query is found when it
comes.
"""

from __future__ import annotations

from mullion.algebra.relation import Relation
from mullion.catalog.catalog import Catalog
from mullion.planner.physical import runs_by_operators, sliced
from mullion.planner.sliced import SlicedAggregation


def plan_of(query: Relation, catalog: Catalog) -> SlicedAggregation | None:
    """The query as slices run it; None where operators do."""
    return sliced(query, catalog.streams)


def _for_operators(query: Relation, catalog: Catalog) -> Relation | None:
    return query if runs_by_operators(query) else None


def follow_queries(catalog: Catalog) -> None:
    """From now on the way of each query is found when it comes."""
    catalog.of_each_query(plan_of)
    catalog.of_each_query(_for_operators)


def sliced_over(stream: str, catalog: Catalog) -> list[SlicedAggregation]:
    """What slices run of a stream's queries."""
    return catalog.made_of_queries(
        (sliced_over, stream),
        lambda: [plan for plan in list(catalog.of_each_query(plan_of).values()) if plan.stream == stream],
    )


def run_by_operators(catalog: Catalog) -> list[Relation]:
    """What operators run of all queries."""
    return catalog.made_of_queries(run_by_operators, lambda: list(catalog.of_each_query(_for_operators).values()))
