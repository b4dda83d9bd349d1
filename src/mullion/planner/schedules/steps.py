"""The instants at which queries with SLIDE AT MOST may be answered: the multiples of a step that they have in common.

The thesis has synopses that are updated every s, and periods that are multiples of s (golab 8.4.1). Here slices are cut
wherever a window may start or end, so s is chosen: the greatest common divisor of the periods of queries that may run
together. Queries whose periods have so little in common that slices would become very fine have a step of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from mullion.planner.query_set import QuerySet
from mullion.planner.sliced import SlicedAggregation

FINEST = 16
"""A step is at least this part of the shortest period that it serves."""


def common_steps(periods: Sequence[int]) -> dict[int, int]:
    """The step of each period.

    >>> common_steps([2, 3, 5])
    {2: 1, 3: 1, 5: 1}
    >>> common_steps([60, 90, 61])
    {60: 30, 61: 61, 90: 30}
    """
    classes: list[list[int]] = []
    for period in sorted(set(periods)):
        fitting = (own for own in classes if gcd(*own, period) * FINEST >= own[0])
        own = next(fitting, None)
        if own is None:
            classes.append([period])
        else:
            own.append(period)
    return {period: gcd(*own) for period in sorted(set(periods)) for own in classes if period in own}


def stepped(queries: Sequence[SlicedAggregation], *, shared: bool = True) -> QuerySet:
    """The queries, those with SLIDE AT MOST with the step that they have in common. Without sharing each keeps its
    period as its step."""
    periods = [query.at_most for query in queries if query.at_most is not None]
    if not periods:
        return QuerySet.of(queries)
    steps = common_steps(periods) if shared else {period: period for period in periods}
    return QuerySet(
        query
        if query.at_most is None or query.window.slide == steps[query.at_most]
        else replace(query, window=query.window._replace(slide=steps[query.at_most]))
        for query in queries
    )
