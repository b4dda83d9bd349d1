"""What the ways to partials cost, from what earlier batches showed.

Where do partials come from (design decision 2)? Spark makes them, or the kernel does (`kernel_cost`): from rows that
Spark hands over, or from the files. This is asked before every batch.

The constants are microseconds on 2 cores, from `python -m benchmarks windows` and `python -m benchmarks sharing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from mullion.language.dialect import SECOND
from mullion.language.query import Period
from mullion.planner.kernel_cost import Aggregation, aggregation, expected_fragments, expected_groups
from mullion.planner.observed import Observed
from mullion.planner.plan import FRAGMENTS, ROWS, Plan
from mullion.planner.slices import paired, slices_of

JOB = 90_000.0
"""A Spark job, whatever it does."""
NATIVE_EVENT, NATIVE_PARTIAL = 0.08, 1.2
MOVED_EVENT = 0.45
"""An event's way from the JVM to Python."""
READ_EVENT = 0.02
"""An event's way from a file to the kernel."""

MOST_NATIVE_PREDICATES = 16
"""Spark's generated code grows with every predicate, and past a limit it is interpreted (design decision 2)."""

MOST_NATIVE_SETS = 8
"""Spark copies every event for each grouping of a pass."""


@dataclass(frozen=True)
class Choice:
    way: str
    methods: tuple[str, ...]
    text: str


def choose_ways(plans: Sequence[Plan], seen: Sequence[Observed]) -> list[Choice]:
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
        partials = min(s.events, steps * expected_groups(grouping, s) * expected_fragments(grouping, s))
        cost += s.events * NATIVE_EVENT + partials * NATIVE_PARTIAL
    return cost


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
