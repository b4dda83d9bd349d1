"""EXPLAIN: the shared plan and its reasons, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mullion.catalog.queries import StandingQuery
from mullion.language.literals import largest_unit
from mullion.language.query import Period
from mullion.language.render import render
from mullion.planner.cost import least_rate_to_share
from mullion.planner.plan import Grouping, Plan
from mullion.planner.slices import SliceManager, paired, paned, slices_of

HOUR = 3_600_000_000


def duration_text(microseconds: int) -> str:
    amount, unit, _ = largest_unit(microseconds)
    return f"{amount} {unit}"


def window_text(window: Period) -> str:
    offset = f" OFFSET {duration_text(window.offset)}" if window.offset else ""
    return f"RANGE {duration_text(window.range)} SLIDE {duration_text(window.slide)}{offset}"


def describe_query(query: StandingQuery) -> dict[str, Any]:
    cut = paired(query.window)
    return {
        "name": query.name,
        "stream": query.stream,
        "window": window_text(query.window),
        "predicate": None if query.predicate is None else render(query.predicate),
        "group_by": [render(key) for key in query.keys],
        "paired_slices": [duration_text(s) for s in cut],
        "paned_slices": len(paned(query.window)),
    }


def describe_grouping(grouping: Grouping) -> dict[str, Any]:
    return {
        "group_by": [render(key) for key in grouping.keys],
        "queries": len(grouping.queries),
        "predicates": [name for name in grouping.lane_names if name],
        "states": [{"name": s.name, "synopsis": s.synopsis} for s in grouping.states],
        "checked": [render(check) for check in grouping.checks],
    }


def describe_plan(plan: Plan) -> dict[str, Any]:
    windows = [(w.range, w.slide) for w in plan.windows]
    slices = slices_of(plan.windows, 0, HOUR, plan.slicing)
    return {
        "stream": plan.stream.name,
        "way": plan.way,
        "methods": list(plan.methods),
        "slicing": plan.slicing,
        "grid_step": duration_text(plan.grid.step),
        "windows": len(plan.windows),
        "slices_an_hour": slices,
        "next_edges": [duration_text(e) for e in _first_edges(plan.windows)],
        "sharing_pays_above_events_a_second": round(least_rate_to_share(windows, slices, HOUR), 3)
        if len(windows) > 1
        else None,
        "groupings": [describe_grouping(g) for g in plan.groupings],
        "queries": [describe_query(q) for q in plan.queries],
        "reasons": [{"rule": r.rule, "text": r.text} for r in plan.reasons],
    }


def _first_edges(windows: Sequence[Period], most: int = 8) -> list[int]:
    slices = SliceManager()
    for window in windows:
        slices.add(window)
    edges = (slices.advance() for _ in range(most))
    return [edge for edge in edges if edge is not None]


@dataclass(frozen=True)
class Explanation:
    """Plans as a value: `str()` for people, `to_json()` for programs."""

    plans: tuple[Plan, ...]
    sharing: str
    query: str | None = None
    observed: Mapping[str, Any] = field(default_factory=dict)
    pasts: Mapping[str, str] = field(default_factory=dict)
    """How queries with BACKFILL came by their past."""

    def to_dict(self) -> dict[str, Any]:
        plans = [describe_plan(plan) for plan in self.plans]
        for query in (query for plan in plans for query in plan["queries"]):
            if query["name"] in self.pasts:
                query["backfill"] = self.pasts[query["name"]]
        if self.query is not None:
            for plan in plans:
                plan["queries"] = [q for q in plan["queries"] if q["name"] == self.query]
        return {"sharing": self.sharing, "plans": plans, "observed": dict(self.observed)}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        if not self.plans:
            return "no standing queries"
        parts = [_plan_text(plan, self.query, self.pasts) for plan in self.plans]
        parts += [f"seen so far in {name}: {_counts_text(counts)}" for name, counts in self.observed.items()]
        return "\n\n".join(parts)


def _plan_text(plan: Plan, only: str | None, pasts: Mapping[str, str]) -> str:
    shown = [q for q in plan.queries if only is None or q.name == only]
    count = len(plan.queries)
    lines = [f"stream {plan.stream.name}: {count} {'query' if count == 1 else 'queries'} in one pass, {plan.way} way"]
    lines += [f"  {_branch(i, len(plan.reasons))} {r.rule}: {r.text}" for i, r in enumerate(plan.reasons)]
    for grouping in plan.groupings:
        lines.append(f"  partials by {grouping.name if grouping.keys else 'slice only'}")
        for i, state in enumerate(grouping.states):
            lines.append(f"    {_branch(i, len(grouping.states))} {state.name}  ({state.synopsis} synopsis)")
    if len(plan.windows) > 1:
        windows = [(w.range, w.slide) for w in plan.windows]
        rate = least_rate_to_share(windows, slices_of(plan.windows, 0, HOUR, plan.slicing), HOUR)
        lines.append(f"  sharing slices takes fewer operations above {rate:.3g} events a second")
    for query in shown[:20]:
        lines.append(_query_text(query))
        if query.backfill:
            lines.append(f"    backfill: {pasts.get(query.name, 'it will answer the windows that end after it joins')}")
    if len(shown) > 20:
        lines.append(f"  ... and {len(shown) - 20} more queries")
    return "\n".join(lines)


def _query_text(query: StandingQuery) -> str:
    cut = " + ".join(duration_text(s) for s in paired(query.window))
    where = "" if query.predicate is None else f" WHERE {render(query.predicate)}"
    keys = f" GROUP BY {', '.join(render(k) for k in query.keys)}" if query.keys else ""
    return f"  query {query.name}: [{window_text(query.window)}] cut into {cut}{where}{keys}"


def _counts_text(counts: Mapping[str, Any]) -> str:
    names = ("events", "slices", "fragments", "groups", "partial_operations", "final_operations")
    return ", ".join(f"{counts[n]:,} {n.replace('_', ' ')}" for n in names if n in counts)


def _branch(index: int, length: int) -> str:
    return "└─" if index == length - 1 else "├─"
