"""What was decided for a batch: the instants of each query, and what --stats tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mullion.planner.schedules.lateness import WORST
from mullion.planner.schedules.schedulers import DueTask
from mullion.planner.schedules.tasks import often_together, sharing
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.timetable import Execution, Timetable
from mullion.slices.due import InstantRun

MOST_LAID_OUT = 1_000_000
"""Executions of a batch that are laid out to see which coincide."""

COUNTED = ("executions", "late", "late_updates", "lateness", WORST, "joint", "alone")
"""Of each query: how often it was executed, how often after its deadline, by how many updates and microseconds in all,
by how many at worst, how often together with another query and how often by itself."""


@dataclass
class Decided:
    runs: dict[str, list[InstantRun]] = field(default_factory=dict)
    """By query, in the order of time."""
    cost: float = 0.0
    joint: dict[str, list[int]] = field(default_factory=dict)
    """For each run, how many of its executions are joint."""
    is_laid_out: bool = True
    """Whether it is known which executions are joint."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    followers: dict[str, str] = field(default_factory=dict)
    """Queries that differ from another in a longer period alone, and that other one (CS8)."""

    def count(self, name: str, kept: Sequence[InstantRun], last: int | None, query: SlicedAggregation) -> None:
        """Count the executions of a query that was executed last at an instant."""
        assert query.at_most is not None
        number = sum(run.count for run in kept)
        late = updates = lateness = worst = 0
        for run in kept:
            over = 0 if last is None else run.first - last - query.at_most
            if over > 0:
                late, updates = late + 1, updates + -(-over // query.window.slide)
                lateness, worst = lateness + over, max(worst, over)
            last = run.first + (run.count - 1) * run.slide
        joint = min(number, sum(self.joint.get(name, ())))
        alone = number - joint if self.is_laid_out else 0
        self.counts[name] = dict(zip(COUNTED, (number, late, updates, lateness, worst, joint, alone), strict=True))


def counted_together(timetable: Timetable, executions: Sequence[Execution]) -> Decided:
    """What executions, one after the other, mean for each query."""
    decided = Decided()
    for instant, tasks in executions:
        decided.cost += timetable.cost(tasks)
        shared = sharing(timetable.tasks[i].task for i in tasks)
        for i in tasks:
            for name in timetable.tasks[i].task.queries:
                decided.runs.setdefault(name, []).append(InstantRun(instant, 1, timetable.tasks[i].step))
                decided.joint.setdefault(name, []).append(int(name in shared))
    return decided


def counted_apart(timetable: Timetable, runs: Sequence[tuple[int, int]]) -> Decided:
    """The same where every task runs at its deadlines: from the first on, so often."""
    decided = Decided(is_laid_out=sum(count for _, count in runs) <= MOST_LAID_OUT)
    executed = [i for i, (_, count) in enumerate(runs) if count]
    for tasks in _in_groups(timetable, executed, is_laid_out=decided.is_laid_out):
        at = [runs[i][0] + np.arange(runs[i][1]) * timetable.tasks[i].period for i in tasks]
        # Of one task, all executions are alike.
        found = often_together(at) if len(tasks) > 1 else [((0,), runs[tasks[0]][1])]
        for due, times in found:
            together = [tasks[i] for i in due]
            decided.cost += timetable.cost(together) * times
            for name in sharing(timetable.tasks[i].task for i in together):
                decided.joint.setdefault(name, [0])[0] += times
    for i in executed:
        own, (first, count) = timetable.tasks[i], runs[i]
        run = InstantRun(first, count, own.period)
        for name in own.task.queries:
            decided.runs[name] = [run]
    return decided


def _in_groups(timetable: Timetable, tasks: Sequence[int], *, is_laid_out: bool) -> list[list[int]]:
    """Which of these tasks have executions that are joint when they coincide. Too many of them are not laid out."""
    pair = [DueTask("", 0), DueTask("", 0)]
    if len(timetable.scheduler.together(pair)) == 1 or not is_laid_out:
        return [[i] for i in tasks]
    by_group: dict[object, list[int]] = {}
    for i in tasks:
        by_group.setdefault(timetable.tasks[i].group, []).append(i)
    return list(by_group.values())
