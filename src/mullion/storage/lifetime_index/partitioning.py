"""Which sub-index a row belongs to: by when it came and by when it goes (golab 4.3.1, Algorithm 1; 2.3.4).

Time is cut into slots, one for each update. Slot k holds the times after origin + k * interval, up to and with
origin + (k + 1) * interval. At its end comes the update: it inserts the rows that came in the slot, and deletes those
that go in it. Slots of coming are shared among G partitions, slots of going among E; there is a sub-index for every
pair.

                    goes in 0   goes in 1
    comes in 0         I1          I2          an update inserts into one line of sub-indices (E of them)
    comes in 1         I3          I4          and deletes from one column (G): G + E - 1 in all

Lifetimes of up to S, 16 minutes, updates every 2: 8 slots make a cycle, and slot k + 8 lies where slot k did.

    chronological   0 0 0 0 1 1 1 1 | 0 0 0 0 ..      consecutive slots together (Figure 4.1)
    round-robin     0 1 0 1 0 1 0 1 | 0 1 0 1 ..      in turn: all of similar size (Figure 4.2, Theorem 4.1)

A wave index has one of the two only (Figure 2.6). By insertion (G = n, E = 1) an update inserts into one sub-index and
deletes from all n; by expiry (G = 1, E = n) it deletes from one and inserts into all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Whole


@dataclass(frozen=True)
class DoublyPartitioned:
    """G partitions by insertion times E by expiry (golab 4.3). Sub-index g * E + e is the paper's I(g * E + e + 1).

    Of n sub-indices the fewest are touched when G and E are both the root of n (4.3.2).
    """

    insertions: int
    expiries: int
    round_robin: bool = True

    def __post_init__(self) -> None:
        if self.insertions < 1 or self.expiries < 1:
            raise ValueError(f"an index has at least one sub-index, not {self.insertions} x {self.expiries}")

    @property
    def count(self) -> int:
        return self.insertions * self.expiries

    def insertion_part(self, slots: Whole, cycle: int) -> Whole:
        return self._part(slots, self.insertions, cycle)

    def expiry_part(self, slots: Whole, cycle: int) -> Whole:
        return self._part(slots, self.expiries, cycle)

    def _part(self, slots: Whole, parts: int, cycle: int) -> Whole:
        return slots % parts if self.round_robin else slots % cycle * parts // cycle

    def to_json(self) -> dict[str, Any]:
        return {"insertions": self.insertions, "expiries": self.expiries, "round_robin": self.round_robin}


def wave_by_insertion(sub_indices: int) -> DoublyPartitioned:
    """The wave index of Figure 2.6, left."""
    return DoublyPartitioned(sub_indices, 1, round_robin=False)


def wave_by_expiry(sub_indices: int) -> DoublyPartitioned:
    """The wave index of Figure 2.6, right."""
    return DoublyPartitioned(1, sub_indices, round_robin=False)


class Touched(NamedTuple):
    """The sub-indices that an update must look into, ascending."""

    inserts: tuple[int, ...]
    deletes: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(sorted({*self.inserts, *self.deletes}))


@dataclass(frozen=True)
class Calendar:
    """Slots of time, and the sub-indices that they belong to.

    Figure 4.2: I1 and I2 take what comes until 18, from I1 and I3 goes what ends by then. The next update is at 20.

    >>> calendar = Calendar(DoublyPartitioned(2, 2), lifetime=16, interval=2)
    >>> calendar.touched(after=16, until=18)
    Touched(inserts=(0, 1), deletes=(0, 2))
    >>> calendar.touched(after=18, until=20)
    Touched(inserts=(2, 3), deletes=(1, 3))
    """

    partitioning: DoublyPartitioned
    lifetime: int
    """S: the longest life. Rows that live longer are found and deleted as all others; only the sizes of sub-indices
    are not as even as the paper promises."""
    interval: int
    """Delta: the time between updates. Others at other times touch as many sub-indices if they are within a slot."""
    origin: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.interval <= self.lifetime:
            raise ValueError(f"updates every {self.interval} are no interval of a lifetime of {self.lifetime}")

    @property
    def cycle(self) -> int:
        """How many slots the longest life has."""
        return -(-self.lifetime // self.interval)

    def slots(self, times: npt.NDArray[np.int64]) -> Whole:
        return (times - self.origin - 1) // self.interval

    def sub_indices(self, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where rows belong that come and go at these times."""
        come = self.partitioning.insertion_part(self.slots(start), self.cycle)
        go = self.partitioning.expiry_part(self.slots(end), self.cycle)
        return come * self.partitioning.expiries + go

    def touched(self, after: int, until: int) -> Touched:
        """What the update at `until` is about, if `after` was the one before."""
        first, last = self.slots(np.array([after + 1, until])).tolist()
        if last - first >= self.cycle:
            everything = tuple(range(self.partitioning.count))
            return Touched(everything, everything)
        passed = np.arange(first, last + 1)
        lines = self.partitioning.insertion_part(passed, self.cycle).tolist()
        columns = self.partitioning.expiry_part(passed, self.cycle).tolist()
        return Touched(self._where(lines, range(self.partitioning.expiries)), self._where_all_lines(columns))

    def _where_all_lines(self, columns: Iterable[int]) -> tuple[int, ...]:
        return self._where(range(self.partitioning.insertions), columns)

    def _where(self, lines: Iterable[int], columns: Iterable[int]) -> tuple[int, ...]:
        columns = set(columns)
        return tuple(sorted({g * self.partitioning.expiries + e for g in lines for e in columns}))
