"""What the kernel takes for a grouping, and how it aggregates.

Once it knows which predicates events satisfy (design decision 4), it shares the work by fragments, |T| + k beta
operations, or adds every event to every query that it satisfies, alpha |T| (krishnamurthy Table 5). The second takes
less where fragments are many, and without groups predicates share that too (`slices.kernels.boxes`).

The constants are microseconds of one core, fitted to the processor time of whole batches over a grid of sets of queries
(decision 9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import expm1, prod

from mullion.aggregates.count import Count
from mullion.aggregates.extremes import Extreme
from mullion.expressions.coding.dictionary import is_sparse
from mullion.planner.observed import ASSUMED_SELECTIVITY, Observed
from mullion.planner.plan import FRAGMENTS, ROWS, Grouping, StateColumn

PLAIN_EVENT, PLAIN_PARTIAL = 0.03, 0.4
"""An event and a partial where there is no predicate."""
EVENT, ATTRIBUTE = 0.005, 0.009
"""An event, and the region of one attribute of it."""
HASHED, SORTED = 0.014, 0.15
"""An event that goes to its fragment by a table; and by a sort, where the combinations of regions are too many."""
FRAGMENT = 0.05
"""One predicate of one fragment."""
PARTIAL, GIVEN = 0.085, 0.007
"""A partial of a fragment; and what it takes to give it to one query."""
ROW = 0.015
"""A partial of one predicate."""
TESTED, ADDED = 0.003, 0.002
"""An event that one predicate is asked for; and each column of one that it selects. Predicate by predicate: with
groups, or where predicates are few."""
DENSE_EVENT, MEMBER = 0.028, 0.0002
"""An event by dense rows, however many predicates there are; and for each of them and each column."""
BOXED_EVENT, BOXED_CELL, BOX = 0.003, 0.001, 0.006
"""For each column: an event that goes to the cell of its regions, a cell of the prefixes where windows end, and the box
of one predicate there."""

LEAST_SLOTS = 16
"""So many predicates without groups are gone through together, and fewer one by one."""


@dataclass(frozen=True)
class Aggregation:
    """How a grouping is aggregated in the kernel, what it costs and why."""

    method: str
    cost: float
    text: str


def expected_groups(grouping: Grouping, seen: Observed) -> int:
    return seen.groups if grouping.keys else 1


def expected_fragments(grouping: Grouping, seen: Observed) -> int:
    """How many fragments a batch has, or at most has as long as none was seen."""
    if seen.fragments is not None or not grouping.bits:
        return seen.fragments or 1
    regions = prod(min(a.regions, seen.events + 1) for a in grouping.index.attributes)
    return int(min(seen.events, regions, 2 ** min(len(grouping.bits), 40)))


def satisfied(predicates: int, seen: Observed) -> float:
    """How many of so many predicates an event satisfies (alpha)."""
    return ASSUMED_SELECTIVITY * predicates if seen.alpha is None else min(seen.alpha, predicates)


def aggregation(grouping: Grouping, seen: Observed, slices: int, asked: str = "auto") -> Aggregation:
    """Fragments or dense rows."""
    bits, events = len(grouping.bits), seen.events
    if not bits:
        partials = min(events, slices * expected_groups(grouping, seen))
        return Aggregation(FRAGMENTS, events * PLAIN_EVENT + partials * PLAIN_PARTIAL, "no predicates to tell apart")
    index = grouping.index
    k = expected_fragments(grouping, seen)
    alpha = satisfied(bits, seen)
    beta = alpha if seen.beta is None else min(seen.beta, bits)
    searches = events * (EVENT + ATTRIBUTE * len(index.attributes))
    shards = cells(events, slices, k * expected_groups(grouping, seen))
    shared = searches + _hashed(grouping, events) + k * bits * FRAGMENT + shards * (PARTIAL + beta * GIVEN)
    rows = min(alpha * events, grouping.progressions.most(0, seen.span) * expected_groups(grouping, seen))
    alone = searches + rows * ROW
    if grouping.keys or len(grouping.slots) < LEAST_SLOTS:
        columns = columns_of(grouping.states)
        alone += events * (len(grouping.slots) * TESTED + alpha * columns * ADDED)
    else:
        alone += _dense(grouping, seen, slices)
    possible = all(s.partial.is_dense for s in grouping.states)
    if len(grouping.slots) == 1:
        alone = min(alone, shared)  # the same work, without looking for fragments
    method = FRAGMENTS if not possible or shared < alone else ROWS
    if asked != "auto" and (asked == FRAGMENTS or possible):
        method = asked
    known = "at most" if seen.fragments is None else seen.source
    text = (
        f"{bits} predicates over {len(index.attributes)} compared expressions, k {known} {k:,} fragments of {events:,} "
        f"events, alpha {alpha:.3g}, beta {beta:.3g}: sharing takes |T| + k beta = {events + shards * beta:,.0f} "
        f"operations ({shared / 1e6:.3f} s), adding to each query alpha |T| = {alpha * events:,.0f} "
        f"({f'{alone / 1e6:.3f} s' if possible else 'not possible for its aggregates'})"
    )
    return Aggregation(method, shared if method == FRAGMENTS else alone, text)


def columns_of(states: Iterable[StateColumn]) -> int:
    """Numbers of an event that are added up or compared: one for most states, and one that counts for all others."""
    return 1 + sum(not isinstance(state.partial, Count) for state in states)


def _hashed(grouping: Grouping, events: int) -> float:
    regions = prod(attribute.regions for attribute in grouping.index.attributes)
    return events * (SORTED if is_sparse(regions, events) else HASHED)


def _dense(grouping: Grouping, seen: Observed, slices: int) -> float:
    """The rows of all predicates: those that read one or two axes from cells that they share, where that takes less,
    and the others event by event."""
    events, slots, index = seen.events, len(grouping.slots), grouping.index
    columns = columns_of(grouping.states)
    edges = grouping.progressions.most(0, seen.span) / slots
    classes = Counter(index.classes)
    classes[frozenset()] += slots - len(grouping.bits)
    costs, members, others = [], [], 0.0
    for axes, predicates in classes.items():
        member = events * predicates * MEMBER * columns
        if len(axes) > 2 or any(isinstance(state.partial, Extreme) for state in grouping.states):
            others += member
            continue
        # Every other region is a constant, and most values are one or lie between two.
        cells = prod(max(1, index.attributes[at].regions // 2) for axis in axes for at in axis)
        costs.append(columns * (events * BOXED_EVENT + slices * cells * BOXED_CELL + predicates * edges * BOX))
        members.append(member)
    by_boxes = boxed(costs, members, events, others=bool(others))
    dense = others + sum(member for member, is_boxed in zip(members, by_boxes, strict=True) if not is_boxed)
    cost = dense + sum(cost for cost, is_boxed in zip(costs, by_boxes, strict=True) if is_boxed)
    return cost + events * DENSE_EVENT if dense else cost


def boxed(costs: Sequence[float], members: Sequence[float], events: int, *, others: bool) -> list[bool]:
    """Which classes of predicates go by boxes, given what each takes by them and by dense rows. Where no others go by
    dense rows, these begin with what they take whatever they hold.

    >>> boxed([9.0, 1.0], [5.0, 5.0], 1_000, others=True), boxed([9.0, 1.0], [5.0, 5.0], 1_000, others=False)
    ([False, True], [True, True])
    """
    worth = [cost <= member for cost, member in zip(costs, members, strict=True)]
    more = sum(cost - member for cost, member in zip(costs, members, strict=True) if cost > member)
    return [True] * len(worth) if not others and more <= events * DENSE_EVENT else worth


def cells(events: int, slices: int, kinds: int) -> float:
    """About how many cells hold an event, where so many kinds of events are as frequent in every slice.

    >>> round(cells(1_000_000, 10, 5)), round(cells(1_000, 1_000, 1_000_000))
    (50, 1000)
    """
    in_slice = events / max(1, slices)
    return min(events, slices * kinds * -expm1(-in_slice / max(1, kinds)))
