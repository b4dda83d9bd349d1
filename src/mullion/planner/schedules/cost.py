"""What a schedule of tasks takes for each update, when nobody is late (golab 8.4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

import numpy as np

from mullion.planner.schedules.tasks import Task, joint_access, often_together

FURTHEST = 1_000_000
"""Updates: what happens together more rarely than this does not count."""


FURTHEST_LAID_OUT = 2520
"""Updates that are laid out one by one: a multiple of all periods up to ten."""


def shared_cost(tasks: Sequence[Task]) -> float:
    """What the tasks of a group take for each update when those that are due at one update run jointly.

    Each task runs at the multiples of its period. Of the tasks that are due at an update the one with the longest
    window pays for the walk; so it pays at its multiples that are multiples of no longer one's. Their share follows by
    inclusion and exclusion over common multiples, without laying out all updates up to the least of them.

    Time: O(tasks x different common multiples). Guarantee: exact, but for what coincides less than once in `FURTHEST`
    updates.

    >>> one, two, three = Task(("a",), 2, 9), Task(("b",), 3, 14), Task(("c",), 5, 29)
    >>> shared_cost([one, two]) * 6, round(shared_cost([one, two, three]) * 30)
    (46.0, 358)
    """
    total = sum(task.finish / task.period for task in tasks)
    if any(task.slots for task in tasks):
        return total + _laid_out(tasks)
    covered: dict[int, int] = {}
    """The multiples of these, added or taken away so often, are the updates at which a longer one ran."""
    for task in sorted(tasks, key=lambda task: (-task.access, task.period)):
        common: dict[int, int] = {task.period: 1}
        for multiple, times in covered.items():
            both = lcm(multiple, task.period)
            if both <= FURTHEST:
                common[both] = common.get(both, 0) - times
        total += task.access * sum(times / multiple for multiple, times in common.items())
        for multiple, times in common.items():
            covered[multiple] = covered.get(multiple, 0) + times
        covered = {multiple: times for multiple, times in covered.items() if times}
    return total


def _laid_out(tasks: Sequence[Task]) -> float:
    """What tasks of several slots, some of which cover others, take for each update. They are laid out up to their
    least common multiple, if that is not too far, since who pays depends on all that run."""
    until = min(lcm(*(task.period for task in tasks)), FURTHEST_LAID_OUT)
    runs = [np.arange(task.period, until + 1, task.period) for task in tasks]
    return sum(joint_access([tasks[i] for i in due]) * times for due, times in often_together(runs)) / until


def separate_cost(tasks: Sequence[Task]) -> float:
    """What they take when each runs by itself.

    >>> separate_cost([Task(("a",), 2, 9), Task(("b",), 4, 14)])
    8.0
    """
    return sum((task.access + task.finish) / task.period for task in tasks)
