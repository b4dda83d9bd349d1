"""The tasks of queries with SLIDE AT MOST, kept from batch to batch.

    groups --scheduler--> tasks, until queries or clusters are others --last executions--> deadlines, until the next one

In most batches most tasks are not due. Nothing is done for these, nor for their queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mullion.planner.schedules.groups import Group, GroupKey
from mullion.planner.schedules.schedulers import Scheduler
from mullion.planner.schedules.tasks import Task
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.timetable import Scheduled

FindDeadline = Callable[[str, int], int]
"""When a query that runs every period, in microseconds, is to run next."""


@dataclass
class KeptTask:
    group: GroupKey
    task: Task
    reach: int
    """Of the longest window of its queries."""
    deadline: int = 0

    @property
    def period(self) -> int:
        return self.task.period * self.group.step


class KeptTasks:
    """Invariant: the deadline of a task that is not to be found again is the earliest of its queries' deadlines."""

    def __init__(self, groups: Sequence[Group], scheduler: Scheduler, longest: Callable[[Sequence[str]], int]) -> None:
        """`longest`: of the windows of some queries."""
        self.followers = {name: leader for group in groups for name, leader in group.followers}
        """By CS8: a query, and the one whose period it takes."""
        self._tasks = [
            KeptTask(group.key, task, longest(task.queries))
            for group in groups
            for task in scheduler.tasks(group.subgroups)
        ]
        self._number_of = {name: i for i, own in enumerate(self._tasks) for name in own.task.queries}
        self._changed: set[int] = set()
        self._oldest: int | None = None

    def execute(self, names: Iterable[str]) -> None:
        """Queries have run, or might have: the deadlines of their tasks are to be found again."""
        self._changed.update(self._number_of[name] for name in names if name in self._number_of)

    def find_deadlines(self, oldest: int, find: FindDeadline) -> None:
        """Bring deadlines up to date. Those of queries that never ran count from the `oldest` event."""
        changed = range(len(self._tasks)) if oldest != self._oldest else sorted(self._changed)
        for own in [self._tasks[i] for i in changed]:
            own.deadline = min(find(name, own.period) for name in own.task.queries)
        self._oldest = oldest
        self._changed.clear()

    def scheduled(self, sets: Mapping[str, SharingSet], newest: int, until: int | None = None) -> list[Scheduled]:
        """The tasks whose next execution may have the newest event in a window, and of these those alone that should
        run up to a time, if one is given."""
        return [
            Scheduled(own.group, own.task, own.group.step, own.deadline, _weight(own.group, sets))
            for own in self._tasks
            if (until is None or own.deadline <= until) and own.deadline <= newest + own.reach
        ]


def _weight(group: GroupKey, sets: Mapping[str, SharingSet]) -> float:
    return float(max(1, sets[group.cluster].groups.get(group.grouping, 1)))
