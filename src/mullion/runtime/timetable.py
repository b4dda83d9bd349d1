"""From deadlines to executions: which tasks run at which instants, given what may be done between two updates.

    updates      |     |     |     |     |          an update: all slices up to it are complete
    deadlines    A     B     A,C   .     A,B
    unlimited    A     B     A C   .     A B        every task at its deadline
    too little   A     A     B     A C   .          late ones later; the next deadline counts from there (golab 8.4.2)

Decisions follow from what is given alone: the tasks with their deadlines, the updates, and a capacity. Nothing is
measured here, so a batch that is played again decides the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import NamedTuple

from mullion.planner.schedules.groups import GroupKey
from mullion.planner.schedules.schedulers import DueTask, Scheduler
from mullion.planner.schedules.tasks import Task, joint_cost


@dataclass
class Scheduled:
    """A task on the timetable. `step` is the time between two of its updates, `deadline` the last update by which it
    should run; both in microseconds."""

    group: GroupKey
    task: Task
    step: int
    deadline: int
    weight: float = 1.0
    """What one unit of its cost counts: the groups of GROUP BY that each partial is for."""

    @property
    def period(self) -> int:
        return self.task.period * self.step

    def latest(self, time: int) -> int:
        """The last of its updates up to a time."""
        return time - time % self.step

    def left(self, time: int) -> int:
        """How many updates are left until its deadline: d(T) of the thesis."""
        return (self.deadline - self.latest(time)) // self.step


class Execution(NamedTuple):
    """Tasks that run jointly; their answers are of this instant."""

    instant: int
    tasks: tuple[int, ...]


class PassedUpdates(NamedTuple):
    """Updates that have come: those after `since`, up to `until`. Without any, what was left over may run."""

    since: int
    until: int


class Timetable:
    """The tasks of a stream and their scheduler. `debt` is what the last stretch did beyond its capacity."""

    def __init__(self, scheduler: Scheduler, tasks: Sequence[Scheduled], debt: float = 0.0) -> None:
        self.scheduler, self.tasks, self.debt = scheduler, list(tasks), debt
        self._step = min((task.step for task in tasks), default=1)

    @property
    def load(self) -> float:
        """What all tasks take in the time of one microsecond when nobody is late."""
        by_group: dict[GroupKey, list[Scheduled]] = {}
        for own in self.tasks:
            by_group.setdefault(own.group, []).append(own)
        return sum(
            self.scheduler.cost([own.task for own in group]) * group[0].weight / group[0].step
            for group in by_group.values()
        )

    def cost(self, together: Sequence[int]) -> float:
        """What a joint execution takes."""
        own = [self.tasks[i] for i in together]
        return joint_cost([scheduled.task for scheduled in own]) * own[0].weight

    def is_ample(self, stretch: PassedUpdates, capacity: float) -> bool:
        """Whether all that may be due at an update can be done before the next one, so that everybody is in time."""
        if isinf(capacity):
            return True
        most = sum((own.task.access + own.task.finish) * own.weight for own in self.tasks)
        return self.debt == 0.0 and most * max(1, self._updates(stretch)) <= capacity

    def _updates(self, stretch: PassedUpdates) -> int:
        return stretch.until // self._step - stretch.since // self._step

    def on_time(self, stretch: PassedUpdates) -> list[tuple[int, int]]:
        """Without a limit to capacity: for each task its first execution in the stretch, and how many follow at its
        period. Deadlines move past them."""
        self.debt = 0.0
        runs = []
        for own in self.tasks:
            now = own.latest(stretch.until)
            first = max(own.deadline, self._first(own, stretch))
            count = max(0, (now - first) // own.period + 1)
            runs.append((first, count))
            if count:
                own.deadline = first + count * own.period
        return runs

    def _first(self, own: Scheduled, stretch: PassedUpdates) -> int:
        """The first of its updates in the stretch; the last before it when there is none."""
        return min(own.latest(stretch.since) + own.step, own.latest(stretch.until))

    def within(
        self, stretch: PassedUpdates, capacity: float, cost: Callable[[Sequence[int]], float] | None = None
    ) -> list[Execution]:
        """The executions of a stretch that has this capacity, spread evenly over its updates. What is due and not done
        at its end is left for the next one; at least one execution is always done, so that none waits for ever."""
        executions: list[Execution] = []
        before = stretch.since // self._step
        updates = self._updates(stretch)
        share = capacity / updates if updates else inf
        spent, price = min(self.debt, capacity), cost or self.cost
        at = 1
        while True:
            at = min(updates, max(at, 1 + int(min(spent / share, updates)))) if share else updates
            now = (before + at) * self._step if at < updates else stretch.until
            due = [i for i, own in enumerate(self.tasks) if own.deadline <= own.latest(now)]
            if not due:
                coming = min((own.deadline for own in self.tasks), default=stretch.until + 1)
                if coming > stretch.until or at >= updates:
                    break
                at = -(-coming // self._step) - before
                spent = max(spent, share * (at - 1))
                continue
            if spent >= capacity and executions:
                break
            waiting = [DueTask(self.tasks[i].group, self.tasks[i].left(now)) for i in due]
            together = [due[i] for i in self.scheduler.together(waiting)]
            instant = self.tasks[together[0]].latest(now)
            executions.append(Execution(instant, tuple(together)))
            spent += price(together)
            for i in together:
                self.tasks[i].deadline = instant + self.tasks[i].period
        self.debt = max(0.0, spent - capacity)
        return executions
