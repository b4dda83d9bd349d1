"""Which sub-groups of a group shorten their periods, so as to run together with others (golab 8.4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from mullion.planner.schedules.cost import shared_cost
from mullion.planner.schedules.tasks import Task, one_task

MOST_PARTITIONED = 7
"""Sub-groups of which every partition is looked at: 877 of seven."""
MOST_MERGED = 10
"""Tasks of several slots of which pairs are merged: what each merge takes is laid out update by update."""


@lru_cache(maxsize=256)
def shortened(subgroups: tuple[Task, ...]) -> tuple[Task, ...]:
    """The sub-groups of a group, merged into the tasks that take least.

    A task runs as often as the most frequent of its sub-groups. Up to `MOST_PARTITIONED` sub-groups every partition is
    looked at. Of more, those that are merged for nothing are merged first: a window no longer, as often or more rarely,
    comes along on the walk of another. What is left is a chain, more rarely the longer; it is divided by dynamic
    programming, blocks of neighbours each by itself, and then merged further while that takes less. Where some slots
    cover others, the tasks of each slot by itself are looked at as well, and merged further.

    Requires: the sub-groups of one group. Time: O(877) partitions, or O(n^2) blocks and O(n^3) merges of a chain of n.
    Guarantee: never dearer than conservative or aggressive scheduling, nor than slots that know nothing of covers; the
    least there is for up to seven sub-groups of one slot.
    Remembered, so that it is only redone when queries come or go. Paper: golab 8.4.4.

    >>> two, three, five = Task(("Q1",), 2, 9), Task(("Q4",), 3, 14), Task(("Q6",), 5, 29)
    >>> [str(task) for task in shortened((two, three, five))]
    ['Q1, Q4 every 2', 'Q6 every 5']
    """
    by_period = sorted(subgroups, key=lambda task: (task.period, -task.access))
    has_covers = any(task.slots for task in by_period)
    if len(by_period) <= MOST_PARTITIONED:
        candidates = [[one_task(block) for block in blocks] for blocks in _partitions(by_period)]
    elif has_covers:
        candidates = [by_period, [one_task(by_period)]]  # who comes along for nothing depends on who else runs
    else:
        chain = _without_dominated(by_period)
        if len(chain) <= MOST_PARTITIONED:
            candidates = [[one_task(block) for block in blocks] for blocks in _partitions(chain)]
        else:
            candidates = [_merged_further(_divided(chain)), _merged_further(chain)]
        candidates += [by_period, [one_task(by_period)]]
    if has_covers:
        apart = _slot_by_slot(by_period)
        candidates += [apart, *([_merged_further(apart)] if len(apart) <= MOST_MERGED else [])]
    best = min(candidates, key=shared_cost)
    return tuple(sorted(best, key=lambda task: (task.period, task.queries)))


def _partitions(tasks: Sequence[Task]) -> Iterator[list[list[Task]]]:
    """All ways to divide the tasks into blocks; the one that merges nothing comes first."""
    if not tasks:
        yield []
        return
    last = tasks[-1]
    for blocks in _partitions(tasks[:-1]):
        yield [*blocks, [last]]
        for i, block in enumerate(blocks):
            yield [*blocks[:i], [*block, last], *blocks[i + 1 :]]


def _slot_by_slot(by_period: Sequence[Task]) -> list[Task]:
    """The tasks of each slot, as if there were no others."""
    by_slot: dict[str, list[Task]] = {}
    for task in by_period:
        for own in task.slots:
            by_slot.setdefault(own.slot, []).append(Task(own.queries, task.period, own.cost, own.finish, (own,)))
    return [
        one_task(task for task in tasks if set(task.queries) <= set(block.queries))
        for tasks in by_slot.values()
        for block in shortened(tuple(replace(task, slots=()) for task in tasks))
    ]


def _without_dominated(by_period: Sequence[Task]) -> list[Task]:
    """Each task whose window is no longer than that of a more frequent one comes along with it."""
    chain: list[list[Task]] = []
    for task in by_period:
        longer = next((block for block in chain if block[0].access >= task.access), None)
        if longer is None:
            chain.append([task])
        else:
            longer.append(task)
    return [one_task(block) for block in chain]


def _divided(chain: Sequence[Task]) -> list[Task]:
    """The chain cut into blocks of neighbours that take least, if no two blocks ever ran together."""
    best: list[tuple[float, list[Task]]] = [(0.0, [])]
    for end in range(1, len(chain) + 1):
        options = []
        for start in range(end):
            block = one_task(chain[start:end])
            cost, blocks = best[start]
            options.append((cost + (block.access + block.finish) / block.period, [*blocks, block]))
        best.append(min(options, key=lambda option: option[0]))
    return best[-1][1]


def _merged_further(tasks: Sequence[Task]) -> list[Task]:
    """Merge two at a time, the pair that saves most, while one does."""
    now, cost = list(tasks), shared_cost(tasks)
    while len(now) > 1:
        pairs = [(i, j) for i in range(len(now)) for j in range(i + 1, len(now))]
        merges = [[*(t for k, t in enumerate(now) if k not in (i, j)), one_task((now[i], now[j]))] for i, j in pairs]
        found = min(((shared_cost(tasks), at) for at, tasks in enumerate(merges)), default=(cost, -1))
        if found[0] >= cost:
            break
        cost, now = found[0], merges[found[1]]
    return now
