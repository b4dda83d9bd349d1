"""EXPLAIN of sliced aggregation: one physical node that serves many queries, with its states, synopses and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mullion.aggregates import Invertible
from mullion.aggregates.base import FULL, PSEUDO
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.instants import EVERYTHING
from mullion.language.query import TIME_AXIS
from mullion.language.render import duration_text, render
from mullion.planner.answering_ways import kept_text
from mullion.planner.cost import least_rate_to_share
from mullion.planner.cuts import axis_text, cut_text, has_slices, paired_slices, window_text
from mullion.planner.drawing import Box
from mullion.planner.explained import MOST_SHOWN, Explained, branched
from mullion.planner.plan import Grouping, Plan
from mullion.planner.schedules.deadlines import Deadline
from mullion.planner.schedules.explained import covered_exactly, covered_lines, schedule_facts, schedule_lines
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import first_edges, paned_slices, slices_of
from mullion.planner.synopses import shared_synopses
from mullion.plural import plural

HOUR = 3_600_000_000
FIRST_EDGES = 8
"""Edges that the JSON lists."""


WITHOUT_CHOICE = "answered exactly, since partials that queries share cost less than a choice among rows would"


@dataclass(frozen=True)
class ExplainedSlices(Explained):
    """`only`: the query that is asked about; None for all. `pasts`: how queries with BACKFILL came by their past.
    `deadlines`: of queries with SLIDE AT MOST that are at work."""

    plan: Plan
    only: str | None = None
    pasts: Mapping[str, str] = field(default_factory=dict)
    deadlines: Mapping[str, Deadline] = field(default_factory=dict)

    @property
    def queries(self) -> list[SlicedAggregation]:
        """Those that are told of."""
        return [query for query in self.plan.queries if self.only in (None, query.name)]

    @property
    def names(self) -> list[str]:
        return [query.name for query in self.plan.queries]

    def lines(self) -> list[str]:
        plan, shown = self.plan, self.queries
        answered = f"{plural(len(plan.queries), 'query', 'queries')} in one pass"
        lines = [f"stream {plan.stream.name}{self._over}: {answered}, {self._way}"]
        lines += branched("  ", [f"{reason.rule}: {reason.text}" for reason in plan.reasons])
        for grouping in plan.groupings:
            lines.append(f"  {_grouping_text(grouping)}")
            shared = zip(grouping.states, shared_synopses(plan, grouping), strict=True)
            told = [f"{state.name}  {synopsis.text}" for state, synopsis in shared]
            kept = kept_text(plan, grouping)
            lines += branched("    ", told + covered_lines(plan, grouping) + ([] if kept is None else [kept]))
        lines += schedule_lines(plan, self.deadlines)
        rate = self._rate_to_share()
        if rate is not None:
            lines.append(f"  sharing slices takes fewer operations above {rate:.3g} events a second")
        for query in shown[:MOST_SHOWN]:
            lines += self._query_lines(query)
        if len(shown) > MOST_SHOWN:
            lines.append(f"  ... and {len(shown) - MOST_SHOWN} more queries")
        return lines

    def _query_lines(self, query: SlicedAggregation) -> list[str]:
        where = "" if query.predicate is None else f" WHERE {render(query.predicate)}"
        keys = f" GROUP BY {', '.join(render(k) for k in query.keys)}" if query.keys else ""
        lines = [f"  query {query.name}: {window_text(query)} {cut_text(query)}{where}{keys}"]
        aggregates = (f"{a.text}: {a.aggregate.algebra}, {_differential(a)}" for a in query.template.aggregates)
        if query.template.aggregates:
            lines.append(f"    {'; '.join(aggregates)}")
        if query.prefers:
            lines.append(f"    preference: {WITHOUT_CHOICE}")
        if query.backfill:
            past = self.pasts.get(query.name, "it will answer the windows that end after it enters")
            lines.append(f"    backfill: {past}")
        elif query.name in self.pasts:
            lines.append(f"    its first window: {self.pasts[query.name]}")
        return lines

    def facts(self) -> dict[str, Any]:
        plan, timed, rate = self.plan, self.plan.axis == TIME_AXIS, self._rate_to_share()
        return {
            "operator": "SlicedAggregation",
            "stream": plan.stream.name,
            "axis": axis_text(plan.axis),
            "cluster": plan.cluster or None,
            "way": plan.way,
            "from_rows": plan.from_rows,
            "on_driver": plan.on_driver,
            "methods": list(plan.methods),
            "slicing": plan.slicing,
            "grid_step": duration_text(plan.grid.step) if timed else None,
            "windows": len(plan.windows),
            "slices_an_hour": slices_of(plan.windows, 0, HOUR, plan.slicing) if timed else None,
            "next_edges": [duration_text(e) for e in first_edges(plan.windows, FIRST_EDGES)] if timed else [],
            "sharing_pays_above_events_a_second": None if rate is None else round(rate, 3),
            "groupings": [_grouping_facts(plan, grouping) for grouping in plan.groupings],
            "schedule": schedule_facts(plan, self.deadlines),
            "queries": [self._query_facts(query) for query in self.queries],
            "reasons": [{"rule": reason.rule, "text": reason.text} for reason in plan.reasons],
        }

    def _query_facts(self, query: SlicedAggregation) -> dict[str, Any]:
        past = self.pasts.get(query.name)
        return {
            "name": query.name,
            "stream": query.stream,
            "window": window_text(query)[1:-1],
            "axis": query.axis.kind,
            "predicate": None if query.predicate is None else render(query.predicate),
            "group_by": [render(key) for key in query.keys],
            "paired_slices": paired_slices(query),
            "paned_slices": paned_slices(query.window) if has_slices(query.axis) else None,
            "aggregates": [_aggregate_facts(aggregate) for aggregate in query.template.aggregates],
        } | ({} if past is None else {"backfill" if query.backfill else "first_window": past})

    def box(self) -> Box:
        """Of the stream the groupings, and of each grouping its states and its queries."""
        groupings = []
        for grouping in self.plan.groupings:
            shown = [query for query in grouping.queries if self.only in (None, query.name)]
            boxes = [Box((f"query {query.name}", window_text(query))) for query in shown[:MOST_SHOWN]]
            if len(shown) > MOST_SHOWN:
                boxes.append(Box((f"and {len(shown) - MOST_SHOWN} more queries",)))
            states = tuple(state.name for state in grouping.states)
            groupings.append(Box((_grouping_text(grouping), *states), children=tuple(boxes)))
        reasons = tuple(f"{reason.rule}: {reason.text}" for reason in self.plan.reasons)
        head = f"stream {self.plan.stream.name}{self._over}: {self._way}"
        return Box((head, *reasons), children=tuple(groupings))

    @property
    def _way(self) -> str:
        return "from rows on the driver" if self.plan.from_rows else f"{self.plan.way} way"

    @property
    def _over(self) -> str:
        cluster = f", {self.plan.cluster}" if self.plan.cluster else ""
        return cluster if self.plan.axis == TIME_AXIS else f" over {axis_text(self.plan.axis)}"

    def _rate_to_share(self) -> float | None:
        """Events a second from which sharing slices takes fewer operations; None where there is nothing to share, or no
        event is compared to a clock. Windows without a start have no number of slices and are left out."""
        plan = self.plan
        windows = [window for window in plan.windows if window.range != EVERYTHING]
        if plan.axis != TIME_AXIS or len(windows) < 2:
            return None
        return least_rate_to_share(windows, slices_of(plan.windows, 0, HOUR, plan.slicing), HOUR)


def _differential(aggregate: BoundAggregate) -> str:
    """How a window follows from the one before (li 3.2.2)."""
    how = aggregate.aggregate.differential(aggregate.argument_type)
    if how in (FULL, PSEUDO):
        return f"{how}-differential"
    partials = aggregate.aggregate.partials(aggregate.argument_type)
    kinds = ", ".join(p.kind for p in partials if not isinstance(p, Invertible))
    return f"not differential ({kinds} has no inverse)"


def _aggregate_facts(aggregate: BoundAggregate) -> dict[str, Any]:
    return {
        "aggregate": aggregate.text,
        "algebra": aggregate.aggregate.algebra,
        "differential": aggregate.aggregate.differential(aggregate.argument_type),
    }


def _grouping_facts(plan: Plan, grouping: Grouping) -> dict[str, Any]:
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
        "combined_from": {
            own.query.name: [candidate.name for candidate in own.candidates] for own in covered_exactly(plan, grouping)
        },
        "kept": kept_text(plan, grouping),
        "checked": [render(check) for check in grouping.checks],
    }


def _grouping_text(grouping: Grouping) -> str:
    keys = ", ".join(map(render, grouping.group_keys))
    tables = "".join(f" with {lookup.name}" for lookup in grouping.lookups)
    if grouping.counted:
        return f"value counts of {', '.join(map(render, grouping.values))} by {keys or 'slice only'}{tables}"
    return f"partials by {keys or 'slice only'}{tables}"
