"""Deadlines of queries with SLIDE AT MOST, as EXPLAIN tells them: instants while a run is at work, before it the
periods that they follow from.

    executed     |                |
    deadlines                 |                |       a period after each execution (golab 8.4.2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mullion.language.limits import moment
from mullion.language.render import duration_text
from mullion.planner.sliced import SlicedAggregation


class Deadline(NamedTuple):
    """By when a query should be executed next; `last` is the instant that it was executed for last, if it was."""

    due: int
    last: int | None = None
    is_late: bool = False
    """An update after it has come."""


def deadline_text(queries: Sequence[SlicedAggregation], deadlines: Mapping[str, Deadline]) -> str:
    """The deadlines of some queries, those that are the same together."""
    together: dict[str, list[str]] = {}
    for query in queries:
        together.setdefault(_when(query, deadlines.get(query.name)), []).append(query.name)
    return "; ".join(f"{', '.join(names)} {when}" for when, names in together.items())


def _when(query: SlicedAggregation, deadline: Deadline | None) -> str:
    assert query.at_most is not None
    period = duration_text(query.at_most)
    if deadline is None:
        return f"within {period} of the answer before"
    late = ", late" if deadline.is_late else ""
    after = "the first" if deadline.last is None else f"{period} after {_instant(deadline.last)}"
    return f"by {_instant(deadline.due)} UTC ({after}{late})"


def deadline_facts(query: SlicedAggregation, deadline: Deadline | None) -> dict[str, Any]:
    """The same for programs; instants are UTC."""
    assert query.at_most is not None
    facts: dict[str, Any] = {"period": duration_text(query.at_most)}
    if deadline is not None:
        last = None if deadline.last is None else _instant(deadline.last)
        facts |= {"due": _instant(deadline.due), "last": last, "late": deadline.is_late}
    return facts


def _instant(microseconds: int) -> str:
    return moment(microseconds).replace(tzinfo=None).isoformat(sep=" ")
