"""What is scheduled: queries that always run together, and what a run of them takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """Queries of one group that always run together. A sub-group (one period) is a task, and so are several that
    were merged.

    Joint execution walks a synopsis once, as far as the longest window asks: probing costs the most of what any of
    them needs, finishing the sum of what each makes of it (golab 8.3.1, CS1 to CS3).
    """

    queries: tuple[str, ...]
    period: int
    """No more updates than these lie between two executions."""
    access: float
    """Partials that are combined for the longest window."""
    finish: float = 0.0
    """What is made of them for each query: HAVING, sorting, the rows of the answer."""

    def __str__(self) -> str:
        return f"{', '.join(self.queries)} every {self.period}"


def merged(tasks: Iterable[Task]) -> Task:
    """One task of several: as often as the most frequent of them.

    >>> merged([Task(("a",), 2, 9), Task(("b",), 3, 14)])
    Task(queries=('a', 'b'), period=2, access=14, finish=0.0)
    """
    own = list(tasks)
    names = tuple(name for task in own for name in task.queries)
    return Task(names, min(t.period for t in own), max(t.access for t in own), sum(t.finish for t in own))


def joint_cost(tasks: Iterable[Task]) -> float:
    """What one joint execution takes.

    >>> joint_cost([Task(("a",), 2, 9, 1.0), Task(("b",), 3, 14, 1.0)])
    16.0
    """
    own = list(tasks)
    return max(task.access for task in own) + sum(task.finish for task in own)
