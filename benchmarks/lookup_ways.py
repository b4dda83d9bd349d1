"""Ways to answer many row windows on demand, all behind one step: a batch comes in, windows are asked within it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from mullion.aggregates.extremes import Largest, float_from_order, float_order
from mullion.expressions.arrays import Real, Whole
from mullion.language.types import DOUBLE
from mullion.slices.interval import Interval
from mullion.slices.ordered_sharing import OrderedSharing
from mullion.slices.timegram import TimeGram

Bounds = tuple[Real, Real]
"""Between what the answers asked within one batch lie; both are the same where the way is exact."""


class Step(NamedTuple):
    """A batch of rows, and the windows asked within it."""

    values: Real
    at: Whole
    """After how many rows of the batch, in order."""
    which: Whole
    """Which registered window is asked then, by its place in `sizes`."""


@dataclass(frozen=True)
class Course:
    sizes: Whole
    """Of the registered windows."""
    before: Real
    """Rows that fill the largest window before time is taken."""
    steps: Sequence[Step]
    told: int = 1
    """The answers of every so many-th step are handed out, to be checked."""

    @property
    def rows(self) -> int:
        return sum(len(step.values) for step in self.steps)


class Way(ABC):
    name: ClassVar[str]

    def __init__(self, course: Course) -> None:
        """Register the windows and take in the rows before; this is not timed."""
        self.course, self.sizes = course, course.sizes

    def run(self) -> list[Bounds]:
        told = []
        for i, step in enumerate(self.course.steps):
            found = self.take(*step)
            if i % self.course.told == 0:
                told.append(found)
        return told

    @abstractmethod
    def take(self, values: Real, at: Whole, which: Whole) -> Bounds:
        """Take in a batch, and answer the windows asked within it."""


class EveryRow(Way):
    """Evaluates every query upon every row; who asks reads the answer off."""

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.found: list[float] = [0.0] * len(course.sizes)

    def take(self, values: Real, at: Whole, which: Whole) -> Bounds:
        answers, asked, i = [], at.tolist(), 0
        for row, value in enumerate(values.tolist(), 1):
            self.evaluate(value)
            while i < len(asked) and asked[i] == row:
                answers.append(self.found[which[i]])
                i += 1
        found = np.array(answers)
        return found, found

    @abstractmethod
    def evaluate(self, value: float) -> None: ...


class Naive(EveryRow):
    """Every query has its own queue and is evaluated upon every row (wang-freschl 2, Figure 1).

    A query by itself can do no better than this: its queue keeps only what may still become the largest, in falling
    order, so a row costs it O(1), amortised, where storing all and searching would cost O(size).
    """

    name = "naive"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self._row = len(course.before)
        self._queries = [(size, _queue(course.before, size)) for size in course.sizes.tolist()]

    def evaluate(self, value: float) -> None:
        found, row = self.found, self._row + 1
        entry = (value, row)
        for i, (size, queue) in enumerate(self._queries):
            while queue and queue[-1][0] <= value:
                queue.pop()
            queue.append(entry)
            if queue[0][1] <= row - size:
                queue.popleft()
            found[i] = queue[0][0]
        self._row = row


def _queue(before: Real, size: int) -> deque[tuple[float, int]]:
    """What the queue of a window of this size keeps after these rows."""
    newest = before[::-1][:size]
    falling = np.flatnonzero(newest > np.concatenate(([-np.inf], np.maximum.accumulate(newest)[:-1])))
    return deque((float(newest[age]), len(before) - int(age)) for age in falling[::-1])


class NaiveSum(EveryRow):
    """The naive way for sums: the queue keeps every row, and the oldest is subtracted."""

    name = "naive, sum"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self._queues = [deque(course.before[-size:].tolist(), size) for size in course.sizes.tolist()]
        self.found = [sum(queue) for queue in self._queues]

    def evaluate(self, value: float) -> None:
        found = self.found
        for i, queue in enumerate(self._queues):
            found[i] += value - queue[0]
            queue.append(value)


class CompiledNaive(Way):
    """The naive way in compiled code: what is left of the difference when the price of Python is taken away."""

    name = "naive, compiled"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self._row = np.array([0], np.int64)
        first = np.concatenate(([0], np.cumsum(course.sizes)))
        self._queues = first, np.empty(first[-1]), np.empty(first[-1], np.int64)
        self._heads = np.zeros((2, len(course.sizes)), np.int64)
        self._found = np.empty(len(course.sizes))
        none = np.empty(0, np.int64)
        self.take(course.before, none, none)

    def take(self, values: Real, at: Whole, which: Whole) -> Bounds:
        found = np.empty(len(which))
        _evaluate_all(values, self.sizes, *self._queues, self._heads, self._row, self._found, at, which, found)
        return found, found


@njit(cache=True, nogil=True)
def _evaluate_all(
    values: Real,
    sizes: Whole,
    first: Whole,
    queued: Real,
    rows: Whole,
    heads: Whole,
    seen: Whole,
    found: Real,
    at: Whole,
    which: Whole,
    out: Real,
) -> None:
    """Queue q is a ring of its own at first[q]; heads are its newest entry and how many it keeps."""
    asked = 0
    for i in range(len(values)):
        value, row = values[i], seen[0] + 1
        for q in range(len(sizes)):
            size, base, newest, length = sizes[q], first[q], heads[0, q], heads[1, q]
            while length and queued[base + newest] <= value:
                length -= 1
                newest = newest - 1 if newest else size - 1
            oldest = newest - length + 1
            if length and rows[base + (oldest if oldest >= 0 else oldest + size)] <= row - size:
                length -= 1
            newest = newest + 1 if newest + 1 < size else 0
            queued[base + newest], rows[base + newest] = value, row
            heads[0, q], heads[1, q] = newest, length + 1
            oldest = newest - length
            found[q] = queued[base + (oldest if oldest >= 0 else oldest + size)]
        seen[0] = row
        while asked < len(at) and at[asked] == i + 1:
            out[asked] = found[which[asked]]
            asked += 1


class ByTimeGram(Way):
    name = "TimeGram"

    def __init__(self, course: Course, function: str = "max") -> None:
        super().__init__(course)
        self._function = function
        self._gram = TimeGram(int(course.sizes.max()))
        self._gram.extend(course.before)

    def take(self, values: Real, at: Whole, which: Whole) -> Bounds:
        after = self._gram.seen + at
        low, high, _ = self._gram.extend_and_lookup(values, self._function, self.sizes[which], after)
        return low, high


class ByOrderedSharing(Way):
    name = "OrderedSharing"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self._shared = OrderedSharing(int(course.sizes.max()))
        self._shared.extend(course.before)

    def take(self, values: Real, at: Whole, which: Whole) -> Bounds:
        if len(values) == 1:
            self._shared.extend(values)
            found, _ = self._shared.lookup(self.sizes[which])
        else:
            found, _ = self._shared.extend_and_lookup(values, self.sizes[which], self._shared.seen + at)
        return found, found


class ByInterval(Way):
    """The interval synopsis, which Mullion builds for a batch, made to grow: a row completes one interval at most of
    each length, and the rows of the largest window move to a new tree when the old one is full."""

    name = "interval synopsis"

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self._tree = GrowingInterval(int(course.sizes.max()), max(len(step.values) for step in course.steps))
        self._tree.append(float_order(course.before[-self._tree.rows :]))

    def take(self, values: Real, at: Whole, which: Whole) -> Bounds:
        self._tree.append(float_order(values))
        end = self._tree.held - len(values) + at
        (order,) = self._tree.between(end - self.sizes[which], end)
        found = float_from_order(order, np.float64)
        return found, found


class GrowingInterval(Interval):
    """Room for several times the largest window; `between` never reads an interval that is not complete."""

    def __init__(self, rows: int, batch: int) -> None:
        self.rows, self.held, self.operations = rows, 0, 0
        self._partial = Largest(DOUBLE)
        self.room = 1 << (4 * rows + batch).bit_length()
        self._levels = [(np.empty(self.room >> level, np.int64),) for level in range(self.room.bit_length())]

    @property
    def _operation(self) -> int | None:
        """None: compiled loops go over a copy of the levels, which would not grow with them."""
        return None

    def append(self, orders: Whole) -> None:
        if self.held + len(orders) > self.room:
            newest = self._levels[0][0][self.held - self.rows : self.held].copy()
            self.held = 0
            self.append(newest)
        begin, end = self.held, self.held + len(orders)
        self._levels[0][0][begin:end] = orders
        for (below,), (level,) in zip(self._levels, self._levels[1:], strict=False):
            begin, end = begin >> 1, end >> 1
            if begin == end:
                break
            level[begin:end] = np.maximum(below[2 * begin : 2 * end : 2], below[2 * begin + 1 : 2 * end : 2])
        self.held += len(orders)
