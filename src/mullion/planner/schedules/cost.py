"""What a schedule of tasks takes for each update, when nobody is late (golab 8.4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from mullion.planner.schedules.tasks import Task

FURTHEST = 1_000_000
"""Updates: what happens together more rarely than this does not count."""


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


def separate_cost(tasks: Sequence[Task]) -> float:
    """What they take when each runs by itself.

    >>> separate_cost([Task(("a",), 2, 9), Task(("b",), 4, 14)])
    8.0
    """
    return sum((task.access + task.finish) / task.period for task in tasks)
