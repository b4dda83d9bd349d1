"""EXPLAIN: the shared plan and its reasons, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Protocol

from mullion.aggregates import Invertible
from mullion.aggregates.base import FULL, PSEUDO
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.instants import EVERYTHING
from mullion.language.query import TIME_AXIS
from mullion.language.render import duration_text, render
from mullion.planner.cost import least_rate_to_share
from mullion.planner.cuts import axis_text, cut_text, has_slices, paired_slices, window_text
from mullion.planner.drawing import Box, svg
from mullion.planner.plan import Grouping, Plan
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import first_edges, paned, slices_of
from mullion.planner.synopses import shared_synopses

HOUR = 3_600_000_000
MOST_DRAWN = 20
FIRST_EDGES = 8
"""Edges that the JSON lists."""
"""Queries of a grouping that get a box of their own."""


def differential_text(aggregate: BoundAggregate) -> str:
    """How a window follows from the one before (li 3.2.2)."""
    how = aggregate.aggregate.differential(aggregate.argument_type)
    if how in (FULL, PSEUDO):
        return f"{how}-differential"
    partials = aggregate.aggregate.partials(aggregate.argument_type)
    kinds = ", ".join(p.kind for p in partials if not isinstance(p, Invertible))
    return f"not differential ({kinds} has no inverse)"


def describe_aggregate(aggregate: BoundAggregate) -> dict[str, Any]:
    return {
        "aggregate": aggregate.text,
        "algebra": aggregate.aggregate.algebra,
        "differential": aggregate.aggregate.differential(aggregate.argument_type),
    }


def describe_query(query: SlicedAggregation) -> dict[str, Any]:
    return {
        "name": query.name,
        "stream": query.stream,
        "window": window_text(query)[1:-1],
        "axis": query.axis.kind,
        "predicate": None if query.predicate is None else render(query.predicate),
        "group_by": [render(key) for key in query.keys],
        "paired_slices": paired_slices(query),
        "paned_slices": len(paned(query.window)) if has_slices(query.axis) else None,
        "aggregates": [describe_aggregate(a) for a in query.template.aggregates],
    }


def describe_grouping(plan: Plan, grouping: Grouping) -> dict[str, Any]:
    shared = shared_synopses(plan, grouping)
    return {
        "group_by": [render(key) for key in grouping.group_keys],
        "counted": [render(value) for value in grouping.values],
        "queries": len(grouping.queries),
        "predicates": [name for name in grouping.slot_names if name],
        "states": [
            {"name": state.name, "synopsis": synopsis.synopsis, "rules": list(synopsis.rules), "text": synopsis.text}
            for state, synopsis in zip(grouping.states, shared, strict=True)
        ],
        "checked": [render(check) for check in grouping.checks],
    }


def describe_plan(plan: Plan) -> dict[str, Any]:
    timed = plan.axis == TIME_AXIS
    rate = _rate_to_share(plan)
    return {
        "stream": plan.stream.name,
        "axis": axis_text(plan.axis),
        "way": plan.way,
        "methods": list(plan.methods),
        "slicing": plan.slicing,
        "grid_step": duration_text(plan.grid.step) if timed else None,
        "windows": len(plan.windows),
        "slices_an_hour": slices_of(plan.windows, 0, HOUR, plan.slicing) if timed else None,
        "next_edges": [duration_text(e) for e in first_edges(plan.windows, FIRST_EDGES)] if timed else [],
        "sharing_pays_above_events_a_second": None if rate is None else round(rate, 3),
        "groupings": [describe_grouping(plan, g) for g in plan.groupings],
        "queries": [describe_query(q) for q in plan.queries],
        "reasons": [{"rule": r.rule, "text": r.text} for r in plan.reasons],
    }


def _rate_to_share(plan: Plan) -> float | None:
    """Events a second from which sharing slices takes fewer operations; None where there is nothing to share, or no
    event is compared to a clock. Windows without a start have no number of slices and are left out."""
    windows = [window for window in plan.windows if window.range != EVERYTHING]
    if plan.axis != TIME_AXIS or len(windows) < 2:
        return None
    return least_rate_to_share(windows, slices_of(plan.windows, 0, HOUR, plan.slicing), HOUR)


class Explained(Protocol):
    """Another part of an explanation: the plans of relations."""

    @property
    def text(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...
    def boxes(self) -> list[Box]: ...


@dataclass(frozen=True)
class Explanation:
    """Plans as a value: `str()` for people, `to_json()` for programs."""

    plans: tuple[Plan, ...]
    sharing: str
    query: str | None = None
    observed: Mapping[str, Any] = field(default_factory=dict)
    pasts: Mapping[str, str] = field(default_factory=dict)
    """How queries with BACKFILL came by their past."""
    relations: Explained | None = None
    """The queries over relations, if there are any."""

    def to_dict(self) -> dict[str, Any]:
        plans = [describe_plan(plan) for plan in self.plans]
        for query in (query for plan in plans for query in plan["queries"]):
            if query["name"] in self.pasts:
                query["backfill"] = self.pasts[query["name"]]
        if self.query is not None:
            for plan in plans:
                plan["queries"] = [q for q in plan["queries"] if q["name"] == self.query]
        explained = {"sharing": self.sharing, "plans": plans, "observed": dict(self.observed)}
        if self.relations is None:
            return explained
        relations = self.relations.to_dict()
        return explained | relations | {"observed": {**self.observed, **relations["observed"]}}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def to_svg(self) -> str:
        return svg(self.boxes())

    def boxes(self) -> list[Box]:
        """Of each stream the groupings, and of each grouping its states and its queries."""
        relations = [] if self.relations is None else self.relations.boxes()
        return [*(_plan_box(plan, self.query) for plan in self.plans), *relations]

    def __repr__(self) -> str:
        """Short, as plans are long: print() shows them."""
        names = [query.name for plan in self.plans for query in plan.queries]
        names += [] if self.relations is None else [query["name"] for query in self.relations.to_dict()["relations"]]
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
        return f"<Explanation of {listed or 'no standing queries'}; print it to read it>"

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        if not self.plans and self.relations is None:
            return "no standing queries"
        parts = [_plan_text(plan, self.query, self.pasts) for plan in self.plans]
        parts += [] if self.relations is None else [self.relations.text]
        parts += [f"seen so far in {name}: {_counts_text(counts)}" for name, counts in self.observed.items()]
        return "\n\n".join(parts)


def _plan_box(plan: Plan, only: str | None) -> Box:
    over = "" if plan.axis == TIME_AXIS else f" over {axis_text(plan.axis)}"
    groupings = []
    for grouping in plan.groupings:
        shown = [q for q in grouping.queries if only is None or q.name == only]
        boxes = [Box((f"query {q.name}", window_text(q))) for q in shown[:MOST_DRAWN]]
        if len(shown) > MOST_DRAWN:
            boxes.append(Box((f"and {len(shown) - MOST_DRAWN} more queries",)))
        states = tuple(state.name for state in grouping.states)
        groupings.append(Box((_grouping_text(grouping), *states), children=tuple(boxes)))
    reasons = tuple(f"{reason.rule}: {reason.text}" for reason in plan.reasons)
    return Box((f"stream {plan.stream.name}{over}: {plan.way} way", *reasons), children=tuple(groupings))


def _plan_text(plan: Plan, only: str | None, pasts: Mapping[str, str]) -> str:
    shown = [q for q in plan.queries if only is None or q.name == only]
    count = len(plan.queries)
    over = "" if plan.axis == TIME_AXIS else f" over {axis_text(plan.axis)}"
    answered = f"{count} {'query' if count == 1 else 'queries'} in one pass"
    lines = [f"stream {plan.stream.name}{over}: {answered}, {plan.way} way"]
    lines += [f"  {_branch(i, len(plan.reasons))} {r.rule}: {r.text}" for i, r in enumerate(plan.reasons)]
    for grouping in plan.groupings:
        lines.append(f"  {_grouping_text(grouping)}")
        for i, shared in enumerate(shared_synopses(plan, grouping)):
            lines.append(f"    {_branch(i, len(grouping.states))} {grouping.states[i].name}  {shared.text}")
    rate = _rate_to_share(plan)
    if rate is not None:
        lines.append(f"  sharing slices takes fewer operations above {rate:.3g} events a second")
    for query in shown[:20]:
        lines += _query_lines(query)
        if query.backfill:
            lines.append(f"    backfill: {pasts.get(query.name, 'it will answer the windows that end after it joins')}")
    if len(shown) > 20:
        lines.append(f"  ... and {len(shown) - 20} more queries")
    return "\n".join(lines)


def _grouping_text(grouping: Grouping) -> str:
    keys = ", ".join(map(render, grouping.group_keys))
    tables = "".join(f" with {lookup.name}" for lookup in grouping.lookups)
    if grouping.counted:
        return f"value counts of {', '.join(map(render, grouping.values))} by {keys or 'slice only'}{tables}"
    return f"partials by {keys or 'slice only'}{tables}"


def _query_lines(query: SlicedAggregation) -> list[str]:
    where = "" if query.predicate is None else f" WHERE {render(query.predicate)}"
    keys = f" GROUP BY {', '.join(render(k) for k in query.keys)}" if query.keys else ""
    lines = [f"  query {query.name}: {window_text(query)} {cut_text(query)}{where}{keys}"]
    aggregates = (f"{a.text}: {a.aggregate.algebra}, {differential_text(a)}" for a in query.template.aggregates)
    if query.template.aggregates:
        lines.append(f"    {'; '.join(aggregates)}")
    return lines


def _counts_text(counts: Mapping[str, Any]) -> str:
    names = ("events", "slices", "fragments", "groups", "partial_operations", "final_operations")
    return ", ".join(f"{counts[n]:,} {n.replace('_', ' ')}" for n in names if n in counts)


def _branch(index: int, length: int) -> str:
    return "└─" if index == length - 1 else "├─"
