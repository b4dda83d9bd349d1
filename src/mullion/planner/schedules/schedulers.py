"""The schedulers: which sub-groups become tasks, and which tasks run next (golab 8.4.2 to 8.4.5).

| name | tasks | runs together |
|---|---|---|
| edf | sub-groups | nothing (Algorithm 9) |
| aggressive | whole groups, at their shortest period | the group |
| conservative | sub-groups | those of a group with the same deadline (Algorithm 10) |
| hybrid | sub-groups, some at shorter periods | as conservative |
| late-sharing | as hybrid | while some are late, all late ones of a group |
| late-pending | as hybrid | while some are late, all late and due ones of a group (Algorithm 11) |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import ClassVar, NamedTuple

from mullion.options import Schedule
from mullion.planner.schedules.cost import separate_cost, shared_cost
from mullion.planner.schedules.hybrid import shortened
from mullion.planner.schedules.tasks import Task, one_task


class DueTask(NamedTuple):
    """A task that is due: its group, and how many updates are left until its deadline; fewer than none when late."""

    group: Hashable
    left: int


class Scheduler(ABC):
    name: ClassVar[Schedule]

    @abstractmethod
    def tasks(self, subgroups: Sequence[Task]) -> tuple[Task, ...]:
        """The tasks of one group, given those with the same period."""

    @abstractmethod
    def together(self, waiting: Sequence[DueTask]) -> list[int]:
        """Which of the waiting tasks run now, jointly: at least one, and all of one group."""

    def cost(self, tasks: Sequence[Task]) -> float:
        """What tasks of one group take for each update, when nobody is late."""
        return shared_cost(tasks)


class EarliestDeadlineFirst(Scheduler):
    """Each sub-group by itself, the one with the earliest deadline first. A late one is not made up for: its next
    deadline counts from when it ran, so under overload all periods stretch (Algorithm 9)."""

    name = Schedule.EDF

    def tasks(self, subgroups: Sequence[Task]) -> tuple[Task, ...]:
        return tuple(subgroups)

    def together(self, waiting: Sequence[DueTask]) -> list[int]:
        return [_earliest(waiting)]

    def cost(self, tasks: Sequence[Task]) -> float:
        return separate_cost(tasks)


class Conservative(EarliestDeadlineFirst):
    """Sub-groups of a group run together when they have the same deadline (Algorithm 10).

    >>> Conservative().together([DueTask("G1", 0), DueTask("G2", 0), DueTask("G1", -1), DueTask("G1", 0)])
    [2]
    """

    name = Schedule.CONSERVATIVE

    def together(self, waiting: Sequence[DueTask]) -> list[int]:
        first = _earliest(waiting)
        latest = self.latest(waiting[first].left)
        return [i for i, w in enumerate(waiting) if w.group == waiting[first].group and w.left <= latest]

    def latest(self, left: int) -> int:
        """Tasks with at most so many updates left run with the first one, which has so many left."""
        return left

    def cost(self, tasks: Sequence[Task]) -> float:
        return shared_cost(tasks)


class Aggressive(Conservative):
    """All queries of a group, whenever one of them is due."""

    name = Schedule.AGGRESSIVE

    def tasks(self, subgroups: Sequence[Task]) -> tuple[Task, ...]:
        return (one_task(subgroups),) if subgroups else ()


class Hybrid(Conservative):
    """Sub-groups whose periods were shortened where that takes less, and then as conservative (8.4.4)."""

    name = Schedule.HYBRID

    def tasks(self, subgroups: Sequence[Task]) -> tuple[Task, ...]:
        return shortened(tuple(subgroups)) if subgroups else ()


class LateSharing(Hybrid):
    """Hybrid; while a task is late, with it all late ones of its group (8.4.5)."""

    name = Schedule.LATE_SHARING

    def latest(self, left: int) -> int:
        return -1 if left < 0 else left


class LatePending(Hybrid):
    """Hybrid; while a task is late, with it all of its group that are late or due (Algorithm 11).

    >>> LatePending().together([DueTask("G1", -1), DueTask("G1", -1), DueTask("G1", 0), DueTask("G2", 0)])
    [0, 1, 2]
    """

    name = Schedule.LATE_PENDING

    def latest(self, left: int) -> int:
        return 0 if left < 0 else left


def _earliest(waiting: Sequence[DueTask]) -> int:
    return min(range(len(waiting)), key=lambda i: waiting[i].left)


SCHEDULERS: dict[Schedule, type[Scheduler]] = {
    kind.name: kind for kind in (EarliestDeadlineFirst, Aggressive, Conservative, Hybrid, LateSharing, LatePending)
}
"""By the name that users give."""


def scheduler_of(schedule: Schedule) -> Scheduler:
    """The scheduler of a name. Auto is hybrid, with late-pending sharing while late."""
    return SCHEDULERS[Schedule.LATE_PENDING if schedule is Schedule.AUTO else schedule]()
