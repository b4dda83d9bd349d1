"""The standing queries by the way that runs them. All of the service asks here; the planner decides
(`planner.physical`).

Every batch asks, so each list is made once until a query comes, goes or changes.
"""

from __future__ import annotations

from mullion.algebra.relation import Relation
from mullion.catalog.catalog import Catalog
from mullion.planner.physical import by_operators, sliced, sliced_of
from mullion.planner.sliced import SlicedAggregation


def plan_of(query: Relation, catalog: Catalog) -> SlicedAggregation | None:
    """The query as slices run it; None where operators do."""
    return sliced(query, catalog.streams)


def sliced_over(stream: str, catalog: Catalog) -> list[SlicedAggregation]:
    """What slices run of a stream's queries."""
    return catalog.made_of_queries(
        (sliced_over, stream), lambda: sliced_of(catalog.queries_over(stream), catalog.streams)
    )


def run_by_operators(catalog: Catalog) -> list[Relation]:
    """What operators run of all queries."""
    return catalog.made_of_queries(run_by_operators, lambda: by_operators(catalog.queries.values()))
