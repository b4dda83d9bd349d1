"""What is scheduled: queries that always run together, and what a run of them takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array

BITS = 31
"""Of a number that tells which of some things happen together."""


class Access(NamedTuple):
    """What a run asks of the synopses of one slot, where those of others may answer it (golab 8.3.3, CS6 and CS7)."""

    slot: str
    cost: float
    """Partials that are combined for its longest window."""
    covering: tuple[str, ...] = ()
    """The slots that cover it, if there are such."""
    combined: float = 0.0
    """What it takes from their answers."""
    queries: tuple[str, ...] = ()
    """Who asks."""
    finish: float = 0.0
    """What is made of it for all of them."""


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
    slots: tuple[Access, ...] = ()
    """What `access` is made of in a group of several slots, some of which cover others."""

    def __str__(self) -> str:
        return f"{', '.join(self.queries)} every {self.period}"


def one_task(tasks: Iterable[Task]) -> Task:
    """One task of several: as often as the most frequent of them.

    >>> one_task([Task(("a",), 2, 9), Task(("b",), 3, 14)])
    Task(queries=('a', 'b'), period=2, access=14, finish=0.0, slots=())
    """
    own = list(tasks)
    names = tuple(name for task in own for name in task.queries)
    slots = tuple(_by_slot(own).values())
    return Task(names, min(t.period for t in own), joint_access(own), sum(t.finish for t in own), slots)


def joint_access(tasks: Sequence[Task]) -> float:
    """What one joint execution probes: the longest window of each slot; of a slot that others cover, if they run as
    well, what combining their answers takes.

    >>> tcp, udp = Task(("q1",), 2, 9, slots=(Access("tcp", 9),)), Task(("q2",), 2, 9, slots=(Access("udp", 9),))
    >>> either = Task(("q3",), 2, 9, slots=(Access("either", 9, ("tcp", "udp"), 0.5),))
    >>> joint_access([tcp, either]), joint_access([tcp, udp, either])
    (18, 18.5)
    """
    slots = _by_slot(tasks)
    if not slots:
        return max(task.access for task in tasks)
    return sum(
        min(own.cost, own.combined) if own.covering and slots.keys() >= set(own.covering) else own.cost
        for own in slots.values()
    )


def _by_slot(tasks: Iterable[Task]) -> dict[str, Access]:
    slots: dict[str, Access] = {}
    for own in (own for task in tasks for own in task.slots):
        before = slots.get(own.slot, own)
        names = tuple(dict.fromkeys(before.queries + own.queries))
        finish = own.finish + (before.finish if own.slot in slots else 0.0)
        slots[own.slot] = (own if own.cost > before.cost else before)._replace(queries=names, finish=finish)
    return slots


def joint_cost(tasks: Iterable[Task]) -> float:
    """What one joint execution takes.

    >>> joint_cost([Task(("a",), 2, 9, 1.0), Task(("b",), 3, 14, 1.0)])
    16.0
    """
    own = list(tasks)
    return joint_access(own) + sum(task.finish for task in own)


def sharing(tasks: Iterable[Task]) -> set[str]:
    """The queries that share something in a joint execution: what is probed, or answers (CS6, CS7).

    >>> tcp = Task(("q1",), 2, 9, slots=(Access("tcp", 9, queries=("q1",)),))
    >>> udp = Task(("q2",), 2, 9, slots=(Access("udp", 9, queries=("q2",)),))
    >>> either = Task(("q3",), 2, 9, slots=(Access("either", 9, ("tcp", "udp"), 0.5, ("q3",)),))
    >>> sorted(sharing([tcp, udp])), sorted(sharing([tcp, udp, either]))
    ([], ['q1', 'q2', 'q3'])
    """
    own = list(tasks)
    if not any(task.slots for task in own):
        names = {name for task in own for name in task.queries}
        return names if len(names) > 1 else set()
    asking: dict[str, set[str]] = {}
    for access in (access for task in own for access in task.slots):
        asking.setdefault(access.slot, set()).update(access.queries)
    found = {name for names in asking.values() if len(names) > 1 for name in names}
    for access in _by_slot(own).values():
        if access.covering and asking.keys() >= set(access.covering):
            found = found.union(asking[access.slot], *(asking[slot] for slot in access.covering))
    return found


def often_together(at: Sequence[Array]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Which of several things happen together, given the instants of each, and how often.

    >>> list(often_together([np.array([2, 4, 6]), np.array([3, 6])]))
    [((0,), 2), ((1,), 1), ((0, 1), 1)]
    """
    instants, where = np.unique(np.concatenate(at), return_inverse=True)
    ends = np.cumsum([0, *map(len, at)])
    code, parts = np.zeros(len(instants), np.int64), []
    for low in range(0, len(at), BITS):
        part = np.zeros(len(instants), np.int64)
        for i in range(low, min(low + BITS, len(at))):
            part[where[ends[i] : ends[i + 1]]] |= np.int64(1) << (i - low)
        code = np.unique(code << BITS | part, return_inverse=True)[1]
        parts.append(part)
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    for example, times in zip(first.tolist(), counts.tolist(), strict=True):
        yield tuple(i for i in range(len(at)) if int(parts[i // BITS][example]) >> i % BITS & 1), times
