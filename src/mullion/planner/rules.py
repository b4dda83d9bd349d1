"""Planning: one tuple of rules, applied in order. Each takes a plan, improves it and leaves its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from mullion.aggregates.count import Count
from mullion.catalog.lookups import Lookup, event_types
from mullion.catalog.queries import StandingQuery
from mullion.catalog.streams import Stream
from mullion.language.evaluate import is_fallible
from mullion.language.query import Expr
from mullion.language.types import BOOLEAN
from mullion.planner.cost import NOTHING_SEEN, Observed, choose
from mullion.planner.fragments import compared_in
from mullion.planner.plan import Asked, Grouping, Lane, Plan, Reason, StateColumn, lane_of, states_of
from mullion.planner.slices import common_grid, slices_of

T = TypeVar("T")

EVENTS = StateColumn("rows", Count(BOOLEAN), None)
"""How many events a partial holds; every grouping keeps it."""


def group_by_key_sets(plan: Plan, seen: Observed) -> Plan:
    """Queries that group by the same expressions share partials; each key set is one grouping of the same pass."""
    by_keys: dict[tuple[tuple[Expr, ...], tuple[Lookup, ...]], list[StandingQuery]] = {}
    for query in plan.queries:
        by_keys.setdefault((query.keys, query.lookups), []).append(query)
    groupings = tuple(
        Grouping(keys, q[0].shape.keys, tuple(q), event_types(plan.stream, lookups), lookups)
        for (keys, lookups), q in by_keys.items()
    )
    sets = _plural(len(groupings), "key set")
    text = f"{_plural(len(plan.queries), 'query', 'queries')} over {sets}, in one pass"
    tables = {lookup.name for g in groupings for lookup in g.lookups}
    if tables:
        text += f"; {_plural(len(tables), 'lookup')} of rows of tables, each done once for an event"
    return _because(replace(plan, groupings=groupings, native=not tables), "group_by_key_sets", text)


def share_predicates(plan: Plan, seen: Observed) -> Plan:
    """Each distinct WHERE is one bit of the signature (krishnamurthy 4.3.1)."""

    def lanes(grouping: Grouping) -> tuple[Lane, ...]:
        found = _distinct(map(lane_of, grouping.queries))
        return tuple(sorted(found, key=lambda lane: lane.condition is None))

    groupings = tuple(replace(g, lanes=lanes(g)) for g in plan.groupings)
    asked = sum(q.predicate is not None for q in plan.queries)
    bits = sum(len(g.bits) for g in groupings)
    text = f"{asked} with a WHERE, {bits} different: {_plural(bits, 'bit')} of the signature"
    return _because(replace(plan, groupings=groupings), "share_predicates", text)


def share_states(plan: Plan, seen: Observed) -> Plan:
    """Aggregates over the same expression share what is kept of a slice."""

    def states(grouping: Grouping) -> tuple[StateColumn, ...]:
        shapes = _distinct(q.shape for q in grouping.queries)
        aggregates = chain.from_iterable(shape.aggregates for shape in shapes)
        return _distinct(chain([EVENTS], chain.from_iterable(map(states_of, aggregates))))

    groupings = tuple(replace(g, states=states(g)) for g in plan.groupings)
    native = plan.native and all(state.partial.in_spark for g in groupings for state in g.states)
    aggregates = sum(len(q.shape.aggregates) for q in plan.queries)
    kept = sum(len(g.states) for g in groupings)
    text = f"{_plural(aggregates, 'aggregate')} from {_plural(kept, 'kept state')}"
    return _because(replace(plan, groupings=groupings, native=native), "share_states", text)


def count_bad_values(plan: Plan, seen: Observed) -> Plan:
    """Expressions that can meet a bad value (overflow, division by zero, bad cast) have it counted for their query."""

    def checked(grouping: Grouping) -> Grouping:
        shapes = _distinct(q.shape for q in grouping.queries)
        arguments = (expr for shape in shapes for aggregate in shape.aggregates for expr in aggregate.expressions())
        selected = _distinct(chain(grouping.keys, arguments))
        compared = _distinct(e for p in grouping.predicates for e in compared_in(p))
        first = tuple(e for e in selected if is_fallible(e, grouping.types))
        rest = tuple(e for e in compared if e not in first and is_fallible(e, grouping.types))
        return replace(grouping, checks=(*first, *rest), selected_checks=len(first))

    groupings = tuple(checked(g) for g in plan.groupings)
    number = sum(len(g.checks) for g in groupings)
    text = f"{_plural(number, 'expression')} can meet a bad value, which becomes NULL and is counted"
    return _because(replace(plan, groupings=groupings), "count_bad_values", text)


def compose_slices(plan: Plan, seen: Observed) -> Plan:
    """The edges of all windows, and the grid on which they all lie."""
    windows = _distinct(q.window for q in plan.queries)
    grid = common_grid(windows)
    hour = 3_600_000_000
    text = (
        f"{_plural(len(windows), 'different window')} cut an hour into {slices_of(windows, 0, hour, plan.slicing):,} "
        f"{plan.slicing} slices; all edges lie on steps of {grid.step / 1e6:g} s"
    )
    return _because(replace(plan, windows=windows, grid=grid), "compose_slices", text)


def choose_way(plan: Plan, seen: Observed) -> Plan:
    """Native, kernel or direct, by cost (design decision 2), and what the kernel does with predicates (decision 4)."""
    choice = choose(plan, seen)
    plan = replace(plan, way=choice.way, methods=choice.methods)
    return _because(plan, "choose_way", choice.text)


def choose_synopses(plan: Plan, seen: Observed) -> Plan:
    """Prefixes where the state can be inverted, a tree of intervals where it cannot (golab 2.3.4)."""
    counts = Counter(state.synopsis for grouping in plan.groupings for state in grouping.states)
    trees = counts["interval"] + counts["folded"]
    text = f"{counts['running']} of the states can be inverted and run as prefixes, {trees} need a tree"
    if counts["folded"]:
        text += f", of which {counts['folded']} are sketches and taken together at once"
    return _because(plan, "choose_synopses", text)


RULES: tuple[Callable[[Plan, Observed], Plan], ...] = (
    group_by_key_sets,
    share_predicates,
    share_states,
    count_bad_values,
    compose_slices,
    choose_way,
    choose_synopses,
)


def make_plan(
    stream: Stream,
    queries: Sequence[StandingQuery],
    *,
    slicing: str = "paired",
    way: str = "auto",
    method: str = "auto",
    seen: Observed = NOTHING_SEEN,
    files: bool = False,
) -> Plan:
    """The shared plan of the queries over a stream."""
    plan = Plan(stream, tuple(queries), slicing=slicing, asked=Asked(way, method), files=files)
    for rule in RULES:
        plan = rule(plan, seen)
    return plan


def reconsider(plan: Plan, seen: Observed) -> Plan:
    """The same plan with the way chosen anew, from what the last batch held."""
    reasons = tuple(r for r in plan.reasons if r.rule != choose_way.__name__)
    return choose_way(replace(plan, reasons=reasons), seen)


def _plural(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _distinct(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def _because(plan: Plan, rule: str, text: str) -> Plan:
    return replace(plan, reasons=(*plan.reasons, Reason(rule, text)))
