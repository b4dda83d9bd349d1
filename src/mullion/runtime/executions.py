"""What was decided for a batch: the instants of each query, and what --stats tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mullion.planner.schedules.schedulers import Waiting
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.timetable import Execution, Timetable
from mullion.slices.due import InstantRun

MOST_LAID_OUT = 1_000_000
"""Executions of a batch that are laid out to see which coincide."""

COUNTED = ("executions", "late", "late_updates", "joint")
"""Of each query: how often it was executed, how often after its deadline, by how many updates in all, and how often
together with another query."""


@dataclass
class Decided:
    runs: dict[str, list[InstantRun]] = field(default_factory=dict)
    """By query, in the order of time."""
    cost: float = 0.0
    joint: dict[str, list[int]] = field(default_factory=dict)
    """For each run, how many of its executions are joint."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    followers: dict[str, str] = field(default_factory=dict)
    """Queries that differ from another in a longer period alone, and that other one (CS8)."""

    def count(self, name: str, kept: Sequence[InstantRun], last: int | None, query: SlicedAggregation) -> None:
        """Count the executions of a query that was executed last at an instant."""
        assert query.at_most is not None
        number = sum(run.count for run in kept)
        late = updates = 0
        for run in kept:
            over = 0 if last is None else run.first - last - query.at_most
            if over > 0:
                late, updates = late + 1, updates + -(-over // query.window.slide)
            last = run.first + (run.count - 1) * run.slide
        joint = min(number, sum(self.joint.get(name, ())))
        self.counts[name] = dict(zip(COUNTED, (number, late, updates, joint), strict=True))


def counted_together(timetable: Timetable, executions: Sequence[Execution]) -> Decided:
    """What executions, one after the other, mean for each query."""
    decided = Decided()
    for instant, tasks in executions:
        decided.cost += timetable.cost(tasks)
        names = [name for i in tasks for name in timetable.tasks[i].task.queries]
        for i in tasks:
            for name in timetable.tasks[i].task.queries:
                decided.runs.setdefault(name, []).append(InstantRun(instant, 1, timetable.tasks[i].step))
                decided.joint.setdefault(name, []).append(int(len(names) > 1))
    return decided


def counted_apart(timetable: Timetable, runs: Sequence[tuple[int, int]]) -> Decided:
    """The same where every task runs at its deadlines: from the first on, so often."""
    decided = Decided()
    together, saved = _coincident(timetable, runs)
    decided.cost = -saved
    for own, (first, count), coinciding in zip(timetable.tasks, runs, together, strict=True):
        decided.cost += (own.task.access + own.task.finish) * own.weight * count
        for name in own.task.queries if count else ():
            decided.runs[name] = [InstantRun(first, count, own.period)]
            decided.joint[name] = [count if len(own.task.queries) > 1 else coinciding]
    return decided


def _coincident(timetable: Timetable, runs: Sequence[tuple[int, int]]) -> tuple[list[int], float]:
    """How many executions of each task coincide with one of another task of its group, and what that saves."""
    found, saved = [0] * len(runs), 0.0
    pair = [Waiting("", 0), Waiting("", 0)]
    if len(timetable.scheduler.together(pair)) == 1 or sum(count for _, count in runs) > MOST_LAID_OUT:
        return found, saved
    by_group: dict[object, list[int]] = {}
    for i, own in enumerate(timetable.tasks):
        by_group.setdefault(own.group, []).append(i)
    for tasks in by_group.values():
        if len(tasks) < 2:
            continue
        laid_out = [runs[i][0] + np.arange(runs[i][1]) * timetable.tasks[i].period for i in tasks]
        instants, at, times = np.unique(np.concatenate(laid_out), return_inverse=True, return_counts=True)
        access = np.repeat([timetable.tasks[i].task.access for i in tasks], [runs[i][1] for i in tasks])
        longest = np.zeros(len(instants))
        np.maximum.at(longest, at, access)
        saved += float(access.sum() - longest.sum()) * timetable.tasks[tasks[0]].weight
        is_shared = times[at] > 1
        ends = np.cumsum([runs[i][1] for i in tasks])
        for i, end in zip(tasks, ends.tolist(), strict=True):
            found[i] = int(is_shared[end - runs[i][1] : end].sum())
    return found, saved
