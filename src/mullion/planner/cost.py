"""What the ways to partials cost, from what earlier batches showed.

Two questions are answered before every batch.

1. Where do partials come from (design decision 2)? Spark makes them, or the kernel does: from rows that Spark hands
   over, or from the files.
2. How does the kernel aggregate, once it knows which predicates events satisfy (decision 4)? It shares the work by
   fragments, |T| + k beta operations, or adds every event to every query that it satisfies, alpha |T| (krishnamurthy
   Table 5). The second takes less when fragments are nearly as many as events.

The constants are microseconds on 2 cores, from `python -m benchmarks windows` and `python -m benchmarks sharing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, inf, prod

from mullion.aggregates.base import Invertible
from mullion.language.dialect import SECOND
from mullion.language.query import Period
from mullion.planner.plan import FRAGMENTS, ROWS, Grouping, Plan
from mullion.planner.slices import paired, slices_of

JOB = 90_000.0
"""A Spark job, whatever it does."""
NATIVE_EVENT, NATIVE_PARTIAL = 0.08, 1.2
MOVED_EVENT = 0.45
"""An event's way from the JVM to Python."""
READ_EVENT = 0.02
"""An event's way from a file to the kernel."""
KERNEL_EVENT, KERNEL_PARTIAL = 0.03, 0.4
TESTED = 0.0012
"""One predicate that an event of a group is asked for."""
ATTRIBUTE = 0.03
"""The region of one attribute, for one event."""
MEMBER = 0.0003
"""One predicate of one event, by dense rows, for each field of its states."""
BOXED_EVENT, BOXED_CELL, BOX = 0.003, 0.001, 0.006
"""An event that goes to the cell of its regions, a cell of the prefixes where windows end, and the box of one predicate
there; for each field of its states."""
COMBINED = 0.02
"""One event of a group given to one query."""
GIVEN = 0.1
"""One partial of a fragment given to one query, up to its answer; or a row."""
FRAGMENT = 0.002
"""One predicate of one fragment."""

MOST_NATIVE_PREDICATES = 16
"""Spark's generated code grows with every predicate, and past a limit it is interpreted (design decision 2)."""

MOST_NATIVE_SETS = 8
"""Spark copies every event for each grouping of a pass."""

ASSUMED_RATE = 300.0
"""Events a second before anything was seen; krishnamurthy 3.2.2 measured 375 on the stock market."""

ASSUMED_SELECTIVITY = 0.3
"""The share of predicates that an event satisfies, before anything was seen; krishnamurthy 4.3.3 has 76 of 256."""


@dataclass(frozen=True)
class Observed:
    """What the last batch held: events, the event time that they span (microseconds), and groups. Of the last batch
    that was made into fragments, how many these were (k), and how many predicates an event (alpha) and a fragment
    (beta) satisfied."""

    events: int
    span: int
    groups: int = 1
    fragments: int | None = None
    alpha: float | None = None
    beta: float | None = None
    age: int = 0
    """Batches since fragments were counted."""
    source: str = "seen"
    """Where it is from, for EXPLAIN: seen in a batch, expected by statistics, or assumed."""


NOTHING_SEEN = Observed(events=int(ASSUMED_RATE * 3600), span=3_600_000_000, source="assumed")


@dataclass(frozen=True)
class Choice:
    way: str
    methods: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Aggregation:
    """How a grouping is aggregated in the kernel, what it costs and why."""

    method: str
    cost: float
    text: str


def choose(plans: Sequence[Plan], seen: Sequence[Observed]) -> list[Choice]:
    """The cheapest way to the partials of all plans in one pass, or the one that the user asked for."""
    slices = [slices_of(plan.windows, 0, max(s.span, 1), plan.slicing) for plan, s in zip(plans, seen, strict=True)]
    kernels = [
        [aggregation(g, s, n, plan.options.method) for g in plan.groupings]
        for plan, s, n in zip(plans, seen, slices, strict=True)
    ]
    work = sum(kernel.cost for own in kernels for kernel in own)
    events = max((s.events for s in seen), default=0)
    costs = {"native": native_cost(plans, seen), "kernel": JOB + events * MOVED_EVENT + work}
    if all(plan.files for plan in plans):
        costs["direct"] = events * READ_EVENT + work
    way = _way(plans[0].options.way, costs, only_kernel=any(plan.only_kernel for plan in plans))
    estimates = ", ".join(f"{cost / 1e6:.3f} s {name}" for name, cost in costs.items() if cost < inf)
    estimates += f" for all {len(plans):,} clusters" if len(plans) > 1 else ""
    return [
        Choice(way, tuple(kernel.method for kernel in own), _reason(plan, s, way, estimates, own, n))
        for plan, s, own, n in zip(plans, seen, kernels, slices, strict=True)
    ]


def _way(asked: str, costs: dict[str, float], *, only_kernel: bool) -> str:
    if asked == "auto":
        return min(costs, key=lambda name: costs[name])
    if (asked == "direct" and "direct" not in costs) or (asked == "native" and only_kernel):
        return "kernel"
    return asked


def native_cost(plans: Sequence[Plan], seen: Sequence[Observed]) -> float:
    """A partial for every step of the grid that holds an event, group and fragment, at most one an event."""
    groupings = [(g, plan, s) for plan, s in zip(plans, seen, strict=True) for g in plan.groupings]
    most = max((len(g.bits) for g, _, _ in groupings), default=0)
    if most > MOST_NATIVE_PREDICATES or len(groupings) > MOST_NATIVE_SETS or any(p.only_kernel for p in plans):
        return inf
    cost = JOB
    for grouping, plan, s in groupings:
        steps = s.span / plan.grid.step + 1
        partials = min(s.events, steps * groups_of(grouping, s) * fragments_of(grouping, s))
        cost += s.events * NATIVE_EVENT + partials * NATIVE_PARTIAL
    return cost


def groups_of(grouping: Grouping, seen: Observed) -> int:
    return seen.groups if grouping.keys else 1


def fragments_of(grouping: Grouping, seen: Observed) -> int:
    """How many fragments a batch has, or at most has as long as none was seen."""
    if seen.fragments is not None or not grouping.bits:
        return seen.fragments or 1
    regions = prod(min(a.regions, seen.events + 1) for a in grouping.index.attributes)
    return int(min(seen.events, regions, 2 ** min(len(grouping.bits), 40)))


def aggregation(grouping: Grouping, seen: Observed, slices: int, asked: str = "auto") -> Aggregation:
    """Fragments or dense rows."""
    bits, events = len(grouping.bits), seen.events
    if not bits:
        partials = min(events, slices * groups_of(grouping, seen))
        return Aggregation(FRAGMENTS, events * KERNEL_EVENT + partials * KERNEL_PARTIAL, "no predicates to tell apart")
    index = grouping.index
    k = fragments_of(grouping, seen)
    alpha = ASSUMED_SELECTIVITY * bits if seen.alpha is None else min(seen.alpha, bits)
    beta = alpha if seen.beta is None else min(seen.beta, bits)
    searches = events * (KERNEL_EVENT + ATTRIBUTE * len(index.attributes))
    shards = _cells(events, slices, k * groups_of(grouping, seen))
    shared = searches + events * KERNEL_EVENT + k * bits * FRAGMENT + shards * (KERNEL_PARTIAL + beta * GIVEN)
    rows = min(alpha * events, grouping.progressions.most(0, seen.span) * groups_of(grouping, seen))
    alone = searches + rows * GIVEN
    if grouping.keys:
        alone += events * (len(grouping.slots) * TESTED + KERNEL_EVENT + alpha * COMBINED)
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


def _dense(grouping: Grouping, seen: Observed, slices: int) -> float:
    """The rows of all predicates: those that read one or two attributes from cells that they share, where that takes
    less, and the others event by event."""
    fields = 1 + sum(len(s.partial.stored) for s in grouping.states)
    cost = seen.events * (len(grouping.slots) - len(grouping.bits)) * MEMBER
    summed = all(isinstance(s.partial, Invertible) for s in grouping.states)
    edges = grouping.progressions.most(0, seen.span) / max(1, len(grouping.slots))
    for read, predicates in grouping.index.reads.items():
        each = seen.events * predicates * MEMBER
        if summed and len(read) <= 2:
            # Every other region is a constant, and most values are one or lie between two.
            cells = prod(max(1, grouping.index.attributes[at].regions // 2) for at in read)
            each = min(each, seen.events * BOXED_EVENT + slices * cells * BOXED_CELL + predicates * edges * BOX)
        cost += each
    return cost * fields


def _cells(events: int, slices: int, kinds: int) -> float:
    """About how many cells hold an event, where so many kinds of events are as frequent in every slice.

    >>> round(_cells(1_000_000, 10, 5)), round(_cells(1_000, 1_000, 1_000_000))
    (50, 1000)
    """
    in_slice = events / max(1, slices)
    return min(events, slices * kinds * -expm1(-in_slice / max(1, kinds)))


def _reason(plan: Plan, seen: Observed, way: str, estimates: str, kernels: list[Aggregation], slices: int) -> str:
    why = "asked for" if plan.options.way != "auto" else f"estimated {estimates}"
    text = (
        f"{way}: {why}; {slices:,} slices or steps of "
        f"{plan.grid.step / 1e6:g} s, {seen.events:,} events over {seen.span / 1e6:g} s {seen.source}"
    )
    if "native" not in estimates and plan.options.way == "auto" and way != "native":
        text += (
            "; so many predicates would make Spark's generated code too large"
            if not plan.only_kernel
            else f"; {plan.only_kernel}"
        )
    if way != "native":
        names = {FRAGMENTS: "fragments by hash", ROWS: "dense rows"}
        for grouping, kernel in zip(plan.groupings, kernels, strict=True):
            text += f"; {names[kernel.method]} by {grouping.name}: {kernel.text}"
    return text


def least_rate_to_share(windows: Sequence[Period], slices: int, span: int) -> float:
    """Events a second above which sharing slices takes fewer operations (krishnamurthy 3.2.2, inequality 1).

    `slices` are those that all windows together have in `span`. The paper counts two slices a period for a window by
    itself. Where the slide divides the range there is one, as its paired windows have it (3.1).

    >>> windows = Period(18 * SECOND, 15 * SECOND), Period(12 * SECOND, 9 * SECOND)
    >>> round(least_rate_to_share(windows, slices=12, span=45 * SECOND), 3)
    0.219
    """
    if len(windows) < 2:
        return inf
    shared = (slices / span) * sum(w.range / w.slide for w in windows)
    own = sum(len(paired(w)) * w.range / w.slide**2 for w in windows)
    return max(0.0, (shared - own) * SECOND / (len(windows) - 1))
