"""What is counted of the executions of queries with SLIDE AT MOST, and how it is told.

A deadline is met by an execution no more than a period after the one before it, otherwise it is missed, by so many
updates and so much time (golab 8.5: latency).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mullion.language.render import duration_text
from mullion.planner.explained import MOST_SHOWN
from mullion.plural import plural

SECOND = 1_000_000
WORST = "worst_lateness"


def add_executions(total: dict[str, int], more: Mapping[str, int]) -> None:
    """Add what was counted of a query in a batch: `executions`, of these `late`, `joint` and `alone`, by how many
    updates and microseconds late in all, and the worst of these.

    >>> total = {"late": 1, "worst_lateness": 3}
    >>> add_executions(total, {"late": 2, "worst_lateness": 2}); total
    {'late': 3, 'worst_lateness': 3}
    """
    for name, number in more.items():
        before = total.get(name, 0)
        total[name] = max(before, number) if name == WORST else before + number


def execution_facts(counted: Mapping[str, int]) -> dict[str, Any]:
    """What is told of a query. Lateness is told in seconds; those in time have none, and count for the mean."""
    executions, late = counted.get("executions", 0), counted.get("late", 0)
    return {
        "executions": executions,
        "met": executions - late,
        "late": late,
        "late_updates": counted.get("late_updates", 0),
        "mean_lateness": counted.get("lateness", 0) / SECOND / max(1, executions),
        WORST: counted.get(WORST, 0) / SECOND,
        "joint": counted.get("joint", 0),
        "alone": counted.get("alone", 0),
    }


def lateness_text(scheduled: Mapping[str, Mapping[str, Any]]) -> str:
    """The facts of queries, for people; those that were late first."""
    latest_first = sorted(scheduled.items(), key=lambda own: -own[1].get("late", own[1].get("put_off", 0)))
    texts = [f"{name} {_query_text(facts)}" for name, facts in latest_first[:MOST_SHOWN]]
    more = [f"and {len(scheduled) - MOST_SHOWN} more queries"] if len(scheduled) > MOST_SHOWN else []
    return "; ".join(texts + more)


def put_off_text(facts: Mapping[str, Any]) -> str:
    """Of a relation, how many instants were put off.

    >>> put_off_text({"executions": 1_500, "put_off": 500})
    '500 of 2,000 instants put off'
    """
    return f"{facts['put_off']:,} of {facts['executions'] + facts['put_off']:,} instants put off"


def _query_text(facts: Mapping[str, Any]) -> str:
    if "put_off" in facts:
        return put_off_text(facts)
    met = f"met {facts['met']:,} of {facts['executions']:,} deadlines"
    shared = f"{plural(facts['joint'], 'execution')} joint, {facts['alone']:,} alone"
    if not facts["late"]:
        return f"{met}, {shared}"
    mean, worst = seconds_text(facts["mean_lateness"]), seconds_text(facts[WORST])
    return f"{met}, late by {mean} in the mean and {worst} at worst, {shared}"


def seconds_text(number: float) -> str:
    """In seconds, or in microseconds where they are less than one.

    >>> seconds_text(90.25), seconds_text(0.002)
    ('90.2 s', '2 ms')
    """
    return f"{number:.3g} s" if number >= 1 else duration_text(round(number * SECOND))
