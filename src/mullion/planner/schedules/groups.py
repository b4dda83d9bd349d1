"""Which queries may be executed together, and what that takes (golab 8.3.1, the rules CS1 to CS3; CS8 of 8.4.3).

| rule | here |
|---|---|
| CS2 | states without an inverse are folded along one walk, from young slices to old: all lengths of one state |
| CS1 | prefixes are subtracted, for each length anew: windows of one length together |
| CS3 | sum, count and avg over one length are among these |
| CS8 | a query that differs from another in a longer period alone takes the other's period, and with it its answers |

CS4 and CS5 are about synopses over joins, which slices do not have. CS6 and CS7 answer a query from those whose
predicates cover its own; slices share the events of such queries, but not yet their execution (decision 45).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import NamedTuple

from mullion.aggregates.base import has_prefixes
from mullion.language.render import render
from mullion.planner.plan import Grouping, Plan, slot_of, states_of
from mullion.planner.schedules.tasks import Task
from mullion.planner.sliced import SlicedAggregation

SORTED = 2.0
"""What ORDER BY or value counts add to finishing a query, in combined partials of a group."""


class GroupKey(NamedTuple):
    """What queries that run together have in common."""

    cluster: str
    grouping: str
    slot: str
    step: int
    synopsis: str
    """What is walked; empty where prefixes are subtracted."""
    length: int | None
    """Of their windows, where the rule asks for one; None where all lengths run together."""
    tag: str = ""


@dataclass(frozen=True)
class Group:
    """Queries that may be executed together, by their periods."""

    key: GroupKey
    rule: str
    subgroups: tuple[Task, ...]
    followers: tuple[tuple[str, str], ...] = ()
    """By CS8: a query, and the one whose period it takes."""


def walked_states(query: SlicedAggregation) -> list[str]:
    """What is folded from slices for a window of the query: states without prefixes, and counts of values."""
    found: set[str] = set()
    for aggregate in query.template.aggregates:
        if aggregate.values:
            found.add(f"counts of {', '.join(render(value) for value, _ in aggregate.values)}")
        else:
            found |= {state.name for state in states_of(aggregate) if not has_prefixes(state.partial)}
    return sorted(found)


def is_walked(query: SlicedAggregation) -> bool:
    """Whether a window of the query is folded from its slices."""
    return bool(walked_states(query))


def groups_of(plans: Sequence[tuple[str, Plan]], active: frozenset[str] | None = None) -> list[Group]:
    """The groups of the queries with SLIDE AT MOST of some plans, by the names of their clusters. `active`: of these
    queries alone."""
    members: dict[GroupKey, list[SlicedAggregation]] = {}
    for cluster, plan in plans:
        for grouping in plan.answering:
            for query in grouping.queries:
                if query.at_most is not None and (active is None or query.name in active):
                    members.setdefault(_key(cluster, grouping, query), []).append(query)
    return [_group(key, queries) for key, queries in members.items()]


def _key(cluster: str, grouping: Grouping, query: SlicedAggregation) -> GroupKey:
    walked = ", ".join(walked_states(query))
    length = None if walked else query.window.range
    return GroupKey(cluster, grouping.name, slot_of(query).name, query.window.slide, walked, length)


def _group(key: GroupKey, queries: Sequence[SlicedAggregation]) -> Group:
    leaders: dict[object, SlicedAggregation] = {}
    for query in sorted(queries, key=lambda query: (query.at_most, query.name)):
        leaders.setdefault((query.window, query.template), query)
    followers = []
    by_period: dict[int, list[SlicedAggregation]] = {}
    led: set[str] = set()
    for query in queries:
        leader = leaders[query.window, query.template]
        assert leader.at_most is not None
        if leader is not query:
            followers.append((query.name, leader.name))
            led.add(query.name)
        by_period.setdefault(leader.at_most // key.step, []).append(query)
    subgroups = tuple(_subgroup(period, own, led) for period, own in sorted(by_period.items()))
    return Group(key, _rule(key, queries), subgroups, tuple(followers))


def _subgroup(period: int, queries: Sequence[SlicedAggregation], led: set[str]) -> Task:
    access = max(access_cost(query) for query in queries)
    finish = sum(finish_cost(query) for query in queries if query.name not in led)
    return Task(tuple(query.name for query in queries), period, access, finish)


def access_cost(query: SlicedAggregation) -> float:
    """Partials that are combined for a window of the query: its intervals less one on a walk, a subtraction of
    prefixes otherwise."""
    return float(max(1, query.window.range // query.window.slide - 1)) if is_walked(query) else 1.0


def finish_cost(query: SlicedAggregation) -> float:
    """What is made of a window: a row for each group, sorted where the query asks for it."""
    template = query.template
    is_sorted = bool(template.order_by) or any(aggregate.values for aggregate in template.aggregates)
    return 1.0 + (SORTED * log2(2 + len(template.order_by)) if is_sorted else 0.0)


def _rule(key: GroupKey, queries: Sequence[SlicedAggregation]) -> str:
    if key.length is None:
        return "CS2"
    functions = {a.function for query in queries for a in query.template.aggregates}
    return "CS3" if "avg" in functions and functions & {"sum", "count"} else "CS1"
