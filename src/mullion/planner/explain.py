"""EXPLAIN: the plans of all queries and their reasons, for people and for programs.

Sliced aggregation is one physical node that serves many queries; operators have a tree for each query. Both are told in
the same shape (`planner.explained`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from mullion.planner.drawing import svg
from mullion.planner.explain_operators import NO_OPERATORS, OperatorPlans
from mullion.planner.explain_slices import ExplainedSlices
from mullion.planner.explained import MOST_SHOWN, Explained
from mullion.planner.plan import Plan
from mullion.planner.schedules.deadlines import Deadline
from mullion.planner.schedules.lateness import lateness_text
from mullion.planner.statistics import Statistics

COUNTED_OF_SLICES = ("events", "slices", "fragments", "groups", "partial_operations", "final_operations")


@dataclass(frozen=True)
class Explanation:
    """Plans as a value: `str()` for people, `to_json()` for programs."""

    plans: tuple[Plan, ...]
    sharing: str
    query: str | None = None
    observed: Mapping[str, Any] = field(default_factory=dict)
    pasts: Mapping[str, str] = field(default_factory=dict)
    """How queries with BACKFILL came by their past."""
    operators: OperatorPlans = NO_OPERATORS
    held: Mapping[str, Statistics] = field(default_factory=dict)
    """What streams hold that were not read yet."""
    said: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What streams say of silence, overload and keys that end, a sentence each."""
    summaries: Mapping[str, str] = field(default_factory=dict)
    """What is told of each summary."""
    deadlines: Mapping[str, Deadline] = field(default_factory=dict)
    """Of the queries with SLIDE AT MOST that are at work."""

    @property
    def _parts(self) -> list[Explained]:
        slices = [ExplainedSlices(plan, self.query, self.pasts, self.deadlines) for plan in self.plans]
        return [*slices, *self.operators.explained(self.pasts, self.query)]

    @property
    def _shown(self) -> list[Explained]:
        """Plans that are written and drawn."""
        return self._parts[: len(self.plans) + MOST_SHOWN]

    def to_dict(self) -> dict[str, Any]:
        return {
            "sharing": self.sharing,
            "expiry": self.operators.expiry,
            "plans": [part.facts() for part in self._parts],
            "observed": dict(self.observed),
            "said": {name: list(sentences) for name, sentences in self.said.items()},
            "held": {name: known.facts() for name, known in self.held.items()},
            "summaries": dict(self.summaries),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def to_svg(self) -> str:
        return svg([part.box() for part in self._shown])

    def __repr__(self) -> str:
        """Short, as plans are long: print() shows them."""
        names = [name for part in self._parts for name in part.names]
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
        return f"<Explanation of {listed or 'no standing queries'}; print it to read it>"

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        if not self._parts and not self.summaries:
            return "no standing queries"
        blocks = ["\n".join(part.lines()) for part in self._shown]
        more = len(self._parts) - len(self._shown)
        blocks += [f"... and {more} more queries over relations"] if more else []
        blocks += [f"of {name}: {'; '.join(sentences)}" for name, sentences in self.said.items()]
        blocks += [f"summary {name}: {text}" for name, text in self.summaries.items()]
        blocks += [f"now in {name}: {known.text()}" for name, known in self.held.items()]
        blocks += [f"seen so far in {name}: {_counts_text(counts)}" for name, counts in self.observed.items()]
        blocks += [
            f"misjudged in {name}: {whose}: {what}"
            for name, counts in self.observed.items()
            for whose, what in counts.get("misjudged", {}).items()
        ]
        blocks += [text for name, counts in self.observed.items() if (text := _shed_text(name, counts))]
        blocks += [text for name, counts in self.observed.items() if (text := self._schedule_text(name, counts))]
        return "\n\n".join(blocks)

    def _schedule_text(self, stream: str, counts: Mapping[str, Any]) -> str:
        """What was counted of the executions of queries with SLIDE AT MOST."""
        scheduled = counts.get("scheduled", {}).items()
        shown = {name: facts for name, facts in scheduled if self.query in (None, name)}
        return f"schedule of {stream} so far: {lateness_text(shown)}" if shown else ""


def _counts_text(counts: Mapping[str, Any]) -> str:
    names = COUNTED_OF_SLICES if "slices" in counts else counts
    shown = ((name.replace("_", " "), counts[name]) for name in names if name in counts)
    return ", ".join(f"{value:,} {name}" for name, value in shown if isinstance(value, int))


def _shed_text(stream: str, counts: Mapping[str, Any]) -> str:
    shed, unprobed = counts.get("shed", 0), counts.get("unprobed", 0)
    parts = [f"{shed:,} of {shed + counts['events']:,} events"] if shed else []
    parts += [f"what joins would have found of {unprobed:,} of {counts['events']:,} events"] if unprobed else []
    return f"shed of {stream}: {' and '.join(parts)}, while the run was behind" if parts else ""
