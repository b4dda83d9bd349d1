"""Planning: one tuple of rules, applied in order. Each takes a plan, improves it and leaves its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from mullion.algebra.lookups import event_types
from mullion.algebra.streams import Stream
from mullion.expressions.evaluate import is_fallible, is_kernel_only
from mullion.instants import EVERYTHING
from mullion.language.query import TIME_AXIS, Axis, Expr
from mullion.language.types import Type
from mullion.options import DEFAULTS, Options
from mullion.planner.comparisons import compared_in
from mullion.planner.cost import Choice, choose_ways
from mullion.planner.cuts import amount_text
from mullion.planner.few import are_few
from mullion.planner.kernel_cost import aggregation
from mullion.planner.observed import NOTHING_SEEN, Observed
from mullion.planner.physical import why_slices
from mullion.planner.plan import (
    EVENTS,
    FRAGMENTS,
    Grouping,
    Plan,
    Reason,
    StateColumn,
    states_of,
)
from mullion.planner.query_set import QuerySet
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import common_grid, edge_at, slices_of
from mullion.planner.synopses import synopses_text
from mullion.plural import plural

T = TypeVar("T")


def choose_slices(plan: Plan, seen: Observed) -> Plan:
    """Says why slices run these queries, which was decided for each of them before (`physical`)."""
    return _because(plan, "choose_slices", why_slices(plan.axis))


def group_by_key_sets(plan: Plan, seen: Observed) -> Plan:
    """Queries that group by the same expressions share partials; each key set is one grouping of the same pass."""
    groupings = tuple(
        Grouping(one.keys, one.template.keys, own, event_types(plan.stream, one.lookups), one.lookups)
        for own in plan.queries.key_sets
        for one in own[:1]
    )
    sets = plural(len(groupings), "key set")
    text = f"{plural(len(plan.queries), 'query', 'queries')} over {sets}, in one pass"
    tables = {lookup.name for g in groupings for lookup in g.lookups}
    if tables:
        text += f"; {plural(len(tables), 'lookup')} of rows of tables, each done once for an event"
    only_kernel = "the kernel looks tables up" if tables else ""
    return _because(plan, "group_by_key_sets", text, groupings=groupings, only_kernel=only_kernel)


def count_values(plan: Plan, seen: Observed) -> Plan:
    """One table of value counts serves all holistic aggregates over an expression (li 3.2.1; golab 8.3.1, rule SS1).

    It is a grouping of its own, whose last keys are the values that are counted.
    """
    counting = []
    served = 0
    for grouping in plan.groupings:
        by_values: dict[tuple[tuple[Expr, Type], ...], list[SlicedAggregation]] = {}
        numbers, templates = grouping.templates
        wanted = [[a.values for a in template.aggregates if a.values] for template in templates]
        counted = list(zip(grouping.queries, numbers.tolist(), strict=True)) if any(wanted) else ()
        for query, number in counted:
            served += len(wanted[number])
            for values in _distinct(wanted[number]):
                by_values.setdefault(values, []).append(query)
        for values, queries in by_values.items():
            keys, types = (*grouping.keys, *(e for e, _ in values)), (*grouping.key_types, *(t for _, t in values))
            counting.append(
                replace(grouping, keys=keys, key_types=types, queries=QuerySet(queries), counted=len(values))
            )
    if not counting:
        return plan
    text = f"{plural(served, 'holistic aggregate')} from {plural(len(counting), 'table')} of value counts"
    return _because(plan, "count_values", text, groupings=(*plan.groupings, *counting))


def share_predicates(plan: Plan, seen: Observed) -> Plan:
    """Each distinct WHERE is one bit of the signature (krishnamurthy 4.3.1)."""

    groupings = tuple(replace(g, slots=g.queries.slots[1]) for g in plan.groupings)

    def text() -> str:
        asked = sum(q.predicate is not None for q in plan.queries)
        bits = sum(len(g.bits) for g in groupings)
        return f"{asked} with a WHERE, {bits} different: {plural(bits, 'bit')} of the signature"

    return _because(plan, "share_predicates", text, groupings=groupings)


def share_states(plan: Plan, seen: Observed) -> Plan:
    """Aggregates over the same expression share what is kept of a slice."""

    def states(grouping: Grouping) -> tuple[StateColumn, ...]:
        if grouping.counted:
            return (EVENTS,)
        templates = grouping.templates[1]
        aggregates = chain.from_iterable(template.aggregates for template in templates)
        return _distinct(chain([EVENTS], chain.from_iterable(map(states_of, aggregates))))

    groupings = tuple(replace(g, states=states(g)) for g in plan.groupings)
    if not plan.only_kernel:
        own = next((s.partial.kind for g in groupings for s in g.states if not s.partial.in_spark), None)
        plan = plan if own is None else replace(plan, only_kernel=f"only the kernel makes the state {own}")
    if not plan.only_kernel and any(map(_has_kernels_own, groupings)):
        plan = replace(plan, only_kernel="only the kernel matches regular expressions in linear time")

    def text() -> str:
        aggregates = sum(len(q.template.aggregates) for q in plan.queries)
        kept = sum(len(g.states) for g in groupings)
        return f"{plural(aggregates, 'aggregate')} from {plural(kept, 'kept state')}"

    return _because(plan, "share_states", text, groupings=groupings)


def _has_kernels_own(grouping: Grouping) -> bool:
    states = (expr for state in grouping.states for expr in state.expressions())
    return any(map(is_kernel_only, chain(grouping.keys, grouping.predicates, states)))


def count_bad_values(plan: Plan, seen: Observed) -> Plan:
    """Expressions that can meet a bad value (overflow, division by zero, bad cast) have it counted for their query."""

    def checked(grouping: Grouping) -> Grouping:
        if grouping.counted:
            return grouping
        templates = grouping.templates[1]
        arguments = (
            expr for template in templates for aggregate in template.aggregates for expr in aggregate.expressions()
        )
        selected = _distinct(chain(grouping.keys, arguments))
        same = {id(e): e for p in grouping.predicates for e in compared_in(p)}  # many predicates compare one object
        compared = _distinct(same.values())
        first = tuple(e for e in selected if is_fallible(e, grouping.types))
        rest = tuple(e for e in compared if e not in first and is_fallible(e, grouping.types))
        return replace(grouping, checks=(*first, *rest), selected_checks=len(first))

    groupings = tuple(checked(g) for g in plan.groupings)
    number = sum(len(g.checks) for g in groupings)
    text = f"{plural(number, 'expression')} can meet a bad value, which becomes NULL and is counted"
    return _because(plan, "count_bad_values", text, groupings=groupings)


def compose_slices(plan: Plan, seen: Observed) -> Plan:
    """The edges of all windows, and the grid on which they all lie."""
    landmarks = (edge_at(q.frame.since) for q in plan.queries if q.frame.since is not None)
    windows = _distinct(chain((q.window for q in plan.queries), landmarks))
    plan = replace(plan, windows=windows, grid=common_grid(windows))
    return _because(plan, "compose_slices", lambda: _slices_text(plan))


def _slices_text(plan: Plan) -> str:
    if plan.axis.kind == "events":
        return "answered at events, so there are no panes (li 1): any event may begin a window, each is its own slice"
    if plan.axis.kind == "partitions":
        return "the last events of each partition are no range of the order: each event is its own slice, and gathered"
    windows = plural(len(plan.windows), "different window")
    if plan.axis.kind in ("rows", "column"):
        longest = max(w.slide if w.range == EVERYTHING else w.range for w in (q.window for q in plan.queries))
        stretch = amount_text(longest, plan.axis, plan.queries[0].frame)
        stretch += f" of {plan.axis.order}" if plan.axis.order else ""
        cut = plural(slices_of(plan.windows, 0, longest, plan.slicing), f"{plan.slicing} slice")
        return f"{windows} cut {stretch} into {cut}"
    hour = 3_600_000_000
    return (
        f"{windows} cut an hour into {slices_of(plan.windows, 0, hour, plan.slicing):,} "
        f"{plan.slicing} slices; all edges lie on steps of {plan.grid.step / 1e6:g} s"
    )


def choose_way(plan: Plan, seen: Observed) -> Plan:
    """Native, kernel or direct, by cost (design decision 2), and what the kernel does with predicates (decision 4)."""
    if plan.axis.kind != "time":
        return _keep_order(plan, seen)
    (choice,) = choose_ways([plan], [seen])
    return _chosen(plan, choice)


def _chosen(plan: Plan, choice: Choice) -> Plan:
    """With the reason in the place of the one before, if there was a choice before."""
    plan = replace(plan, way=choice.way, methods=choice.methods, from_rows=False, on_driver=False)
    reason = Reason.of(choose_way.__name__, choice.text)
    if not any(before.rule == reason.rule for before in plan.reasons):
        return replace(plan, reasons=(*plan.reasons, reason))
    return replace(plan, reasons=_by_way(plan, choice.text))


def _leave_way_open(plan: Plan, seen: Observed) -> Plan:
    return _because(plan, choose_way.__name__, "it is chosen for all plans of a pass")


def _keep_order(plan: Plan, seen: Observed) -> Plan:
    """Events get their place on the axis in their order, so one process takes them all."""
    alone = plan.axis.kind in ("events", "partitions")
    slices = seen.events if alone else slices_of(plan.windows, 0, seen.span, plan.slicing)
    asked = FRAGMENTS if alone else plan.options.method
    kernels = [aggregation(g, seen, slices, asked) for g in plan.groupings]
    text = "ordered: the driver puts events in order, by time and arrival, and runs the kernel over them"
    return _because(plan, "choose_way", text, way="ordered", methods=tuple(kernel.method for kernel in kernels))


def choose_synopses(plan: Plan, seen: Observed) -> Plan:
    """Prefixes where the state can be inverted; a tree of intervals where it cannot, or one walk for all windows of an
    end where enough of them end together (golab 2.3.4, 8.3.1)."""
    return _because(plan, "choose_synopses", lambda: synopses_text(plan))


PlanningRule = Callable[[Plan, Observed], Plan]
SHARING: tuple[PlanningRule, ...] = (group_by_key_sets, count_values, share_predicates, share_states, count_bad_values)
"""What says what the queries of each key set need."""
RULES: tuple[PlanningRule, ...] = (choose_slices, *SHARING, compose_slices, choose_way, choose_synopses)


def groupings_of(stream: Stream, queries: Sequence[SlicedAggregation]) -> tuple[Grouping, ...]:
    """What the queries need, without a plan to compute it."""
    plan = Plan(stream, QuerySet.of(queries))
    for rule in SHARING:
        plan = rule(plan, NOTHING_SEEN)
    return plan.groupings


def make_plan(
    stream: Stream,
    queries: Sequence[SlicedAggregation],
    options: Options = DEFAULTS,
    *,
    seen: Observed = NOTHING_SEEN,
    files: bool = False,
    axis: Axis = TIME_AXIS,
    with_way: bool = True,
) -> Plan:
    """The shared plan of the queries over a stream whose windows lie over one axis. Without a way it is for who
    chooses one for all plans of a pass (`reconsider`)."""
    plan = Plan(stream, QuerySet.of(queries), options, axis=axis, files=files)
    for rule in RULES:
        plan = (_leave_way_open if rule is choose_way and not with_way else rule)(plan, seen)
    return plan


def taken_from_rows(plan: Plan) -> Plan:
    """The plan for a batch whose rows the driver has for others: their partials need no pass of their own."""
    if plan.stream.punctuation is not None:
        text = "rows, by the driver: it looks at all of them for the ends of keys"
    else:
        text = f"rows that are read for others, by the driver: they are few; those of many are made the {plan.way} way"
    return replace(plan, from_rows=True, on_driver=True, reasons=_by_way(plan, text))


def for_batch(plan: Plan, events: int | None) -> Plan:
    """The plan for a batch of about so many events. Few are taken by the driver, unless Spark makes the partials."""
    if plan.way == "native" or not are_few(events):
        return plan
    (way,) = (reason.text for reason in plan.reasons if reason.rule == choose_way.__name__)
    return replace(
        plan, on_driver=True, reasons=_by_way(plan, f"{way}; {events:,} events are few: no tasks, the driver")
    )


def _by_way(plan: Plan, text: str) -> tuple[Reason, ...]:
    """The reasons, with another one for the way to partials."""
    return tuple(Reason.of(r.rule, text) if r.rule == choose_way.__name__ else r for r in plan.reasons)


def of_cluster(plan: Plan, name: str, why: str) -> Plan:
    """The plan, which tells that its queries are one of several clusters, and why they share slices."""
    reasons = (Reason.of("choose_clusters", why), *plan.reasons) if why else plan.reasons
    return replace(plan, cluster=name, reasons=reasons)


def reconsider(plans: Sequence[Plan], seen: Sequence[Observed]) -> list[Plan]:
    """The same plans with one way for all chosen anew, from what the last batch held."""
    choices = choose_ways(plans, seen) if plans else []
    return [_chosen(plan, choice) for plan, choice in zip(plans, choices, strict=True)]


def _distinct(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def _because(plan: Plan, rule: str, text: str | Callable[[], str], **changes: Any) -> Plan:
    """The plan with what a rule changes, and why."""
    reason = Reason.of(rule, text) if isinstance(text, str) else Reason(rule, text)
    return replace(plan, reasons=(*plan.reasons, reason), **changes)
