"""Which queries may be executed together, and what that takes (golab 8.3.1, the rules CS1 to CS3; CS6 and CS7 of 8.3.3;
CS8 of 8.4.3).

| rule | here |
|---|---|
| CS2 | states without an inverse are folded along one walk, from young slices to old: all lengths of one state |
| CS1 | prefixes are subtracted, for each length anew: windows of one length together |
| CS3 | sum, count and avg over one length are among these |
| CS6 | a query from the answers of others whose predicates cover its own, over windows of its length |
| CS7 | the same where windows are walked over |
| CS8 | a query that differs from another in a longer period alone takes the other's period, and with it its answers |

By CS6 and CS7 the groups of several slots become one, and its costs are told by slot. CS7 goes by equal lengths too: a
window that slides has no answer at a shorter one (decision 45). CS4 and CS5 are about synopses over joins, which slices
do not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import NamedTuple

from mullion.aggregates.base import has_prefixes
from mullion.language.query import Period
from mullion.language.render import render
from mullion.planner.covers import combining
from mullion.planner.plan import Grouping, Plan, states_of
from mullion.planner.schedules.tasks import Access, Task, joint_access
from mullion.planner.sliced import SlicedAggregation

BESIDE = " | "
"""Between the slots of a group."""
SORTED = 2.0
"""What ORDER BY or value counts add to finishing a query, in combined partials of a group."""


COMBINED = 0.25
"""What combining an answer of a candidate takes, for each group, against combining a partial."""


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


class Covered(NamedTuple):
    """A query, the others whose answers it is combined from, and what that takes against probing for itself."""

    query: SlicedAggregation
    candidates: tuple[SlicedAggregation, ...]

    @property
    def rule(self) -> str:
        return "CS7" if is_walked(self.query) else "CS6"

    @property
    def cost(self) -> float:
        return COMBINED * len(self.candidates)


@dataclass(frozen=True)
class Group:
    """Queries that may be executed together, by their periods."""

    key: GroupKey
    rule: str
    subgroups: tuple[Task, ...]
    followers: tuple[tuple[str, str], ...] = ()
    """By CS8: a query, and the one whose period it takes."""
    covered: tuple[Covered, ...] = ()
    """By CS6 and CS7."""


def walked_states(query: SlicedAggregation) -> list[str]:
    """What is folded from slices for a window of the query: states without prefixes, and counts of values."""
    names: set[str] = set()
    for aggregate in query.template.aggregates:
        if aggregate.values:
            names.add(f"counts of {', '.join(render(value) for value, _ in aggregate.values)}")
        else:
            names |= {state.name for state in states_of(aggregate) if not has_prefixes(state.partial)}
    return sorted(names)


def is_walked(query: SlicedAggregation) -> bool:
    """Whether a window of the query is folded from its slices."""
    return bool(walked_states(query))


def groups_of(plans: Sequence[tuple[str, Plan]], active: frozenset[str] | None = None) -> list[Group]:
    """The groups of the queries with SLIDE AT MOST of some plans, by the names of their clusters. `active`: of these
    queries alone."""
    members: dict[GroupKey, list[SlicedAggregation]] = {}
    covered: list[tuple[Covered, list[GroupKey]]] = []
    for cluster, plan in plans:
        for grouping in plan.answering:
            own = [q for q in grouping.queries if q.at_most is not None and (active is None or q.name in active)]
            for query in own:
                members.setdefault(_key(cluster, grouping, query), []).append(query)
            covered += [
                (found, [_key(cluster, grouping, query) for query in (*found.candidates, found.query)])
                for found in covered_queries(grouping, own)
            ]
    return _joined(members, covered)


def _joined(
    members: Mapping[GroupKey, Sequence[SlicedAggregation]], covered: Sequence[tuple[Covered, Sequence[GroupKey]]]
) -> list[Group]:
    """The groups of these members; those of a covered query and its candidates are one."""
    blocks = {key: [key] for key in members}
    for _, keys in covered:
        block = list(dict.fromkeys(key for one in keys for key in blocks[one]))
        blocks |= dict.fromkeys(block, block)
    groups = []
    for block in {id(block): block for block in blocks.values()}.values():
        queries = [query for key in block for query in members[key]]
        own = [found for found, keys in covered if keys[0] in block]
        key = block[0]
        if own:
            slots = BESIDE.join(dict.fromkeys(key.slot for key in block))
            walked = ", ".join(sorted({key.synopsis for key in block if key.synopsis}))
            lengths = {key.length for key in block}
            key = key._replace(slot=slots, synopsis=walked, length=lengths.pop() if len(lengths) == 1 else None)
        groups.append(_group(key, queries, own))
    return groups


def covered_queries(grouping: Grouping, queries: Sequence[SlicedAggregation]) -> list[Covered]:
    """The queries that others of these cover, with windows of one length and all states that are asked for, if that
    takes less than probing."""
    by_slot: dict[tuple[str, Period], list[SlicedAggregation]] = {}
    for query in sorted(queries, key=lambda query: (query.at_most, query.name)):
        by_slot.setdefault((query.slot.name, query.window), []).append(query)
    numbers = {name: i for i, name in enumerate(grouping.slot_names)}
    covered: dict[str, Covered] = {}
    for query in queries if len(by_slot) > 1 else ():
        cover = grouping.covers.of(combining(query.template.aggregates)).get(numbers[query.slot.name])
        names = [grouping.slot_names[slot] for slot in cover.slots] if cover is not None else []
        asking = [by_slot.get((name, query.window), []) for name in names]
        candidates = [next((c for c in own if _states(query) <= _states(c)), None) for own in asking]
        whole = tuple(candidate for candidate in candidates if candidate is not None)
        if names and len(whole) == len(names) and Covered(query, whole).cost < access_cost(query):
            covered[query.name] = Covered(query, whole)
    return [own for own in covered.values() if not any(candidate.name in covered for candidate in own.candidates)]


def _states(query: SlicedAggregation) -> set[str]:
    return {state.name for aggregate in query.template.aggregates for state in states_of(aggregate)}


def _key(cluster: str, grouping: Grouping, query: SlicedAggregation) -> GroupKey:
    walked = ", ".join(walked_states(query))
    length = None if walked else query.window.range
    return GroupKey(cluster, grouping.name, query.slot.name, query.window.slide, walked, length)


def _group(key: GroupKey, queries: Sequence[SlicedAggregation], covered: Sequence[Covered]) -> Group:
    leaders: dict[object, SlicedAggregation] = {}
    for query in sorted(queries, key=lambda query: (query.at_most, query.name)):
        leaders.setdefault((query.slot, query.window, query.template), query)
    followers = []
    by_period: dict[int, list[SlicedAggregation]] = {}
    led: set[str] = set()
    for query in queries:
        leader = leaders[query.slot, query.window, query.template]
        assert leader.at_most is not None
        if leader is not query:
            followers.append((query.name, leader.name))
            led.add(query.name)
        by_period.setdefault(leader.at_most // key.step, []).append(query)
    subgroups = tuple(_subgroup(period, own, led, covered) for period, own in sorted(by_period.items()))
    rule = ", ".join(sorted({own.rule for own in covered})) or _rule(key, queries)
    return Group(key, rule, subgroups, tuple(followers), tuple(covered))


def _subgroup(
    period: int, queries: Sequence[SlicedAggregation], led: set[str], covered: Sequence[Covered] = ()
) -> Task:
    access = max(access_cost(query) for query in queries)
    if covered:
        slots = _accesses(queries, led, {own.query.name: own for own in covered})
        alone = Task((), period, access, slots=slots)
        finish = sum(own.finish for own in slots)
        return Task(tuple(query.name for query in queries), period, joint_access([alone]), finish, slots)
    finish = sum(finish_cost(query) for query in queries if query.name not in led)
    return Task(tuple(query.name for query in queries), period, access, finish)


def _accesses(
    queries: Sequence[SlicedAggregation], led: set[str], covered: Mapping[str, Covered]
) -> tuple[Access, ...]:
    """What the queries ask of each slot. One is covered if all of its queries are."""
    by_slot: dict[str, list[SlicedAggregation]] = {}
    for query in queries:
        by_slot.setdefault(query.slot.name, []).append(query)
    accesses = []
    for slot, own in by_slot.items():
        names, cost = tuple(query.name for query in own), max(access_cost(query) for query in own)
        finish = sum(finish_cost(query) for query in own if query.name not in led)
        wholes = [covered[name] for name in names if name in covered]
        if len(wholes) == len(own):
            covering = tuple(candidate.slot.name for candidate in wholes[0].candidates)
            accesses.append(Access(slot, cost, covering, wholes[0].cost, names, finish))
        else:
            accesses.append(Access(slot, cost, queries=names, finish=finish))
    return tuple(accesses)


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
