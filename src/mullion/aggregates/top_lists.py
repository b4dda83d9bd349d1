"""Frequent values from short lists: what each sub-window keeps is its k most frequent values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mullion.aggregates.base import Partial, Places, State, add_runs
from mullion.aggregates.integer_states import always
from mullion.aggregates.keys import CountedValues, text_of
from mullion.aggregates.sketched import OPENED, runs_of
from mullion.expressions.arrays import Array, Index, objects
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, BINARY, Type

MOST = 10_000
"""The longest list."""

TextCounts = dict[str, int]


@dataclass(frozen=True)
class TopLists(Partial):
    """Of each sub-window the k most frequent values with their counts, and delta, the count of the k-th; of several
    sub-windows the sums of both (golab 6.2.1, Algorithm 6).

        sub-window      | a 5, b 3, c 3, d 1 |  a 4, c 4, b 2 |  d 6, a 1 |
        its list, k = 2 | a 5, b 3           |  a 4, c 4      |  d 6, a 1 |
        its delta       |          3         |         4      |        0  |  a 10, d 6, c 4, b 3; delta 7: only a > 7

    A value that is on no list of a sub-window occurs there at most as often as the k-th one of its list. So delta
    bounds what a value on no list at all can have, and a listed count that exceeds delta belongs to a value more
    frequent than any of those. A sub-window of at most k different values has dropped none: what is on its list is all
    there is, the others occur 0 times, and its delta is 0. A smaller delta lets more values through, and their counts
    are lower bounds all the same.

    What is kept of several sub-windows is a sum of lists, never cut again: then it does not matter in what order they
    come together.

    Requires: counts that are added. They could be subtracted as well, but all prefixes would hold all values that were
    ever listed.
    Time: O(b log b) for a sub-window of b events, O(k) for taking its list into a window.
    Space: k values a sub-window, at most k n for a window of n sub-windows.
    Guarantee: no value is given that is not frequent: its true count is at least the count given, which exceeds delta.
    Frequent values may be missed, the fewer the larger k. Depends on where sub-windows were cut.
    """

    kind = "top_lists"
    in_spark = False
    is_heavy = True
    most: int = 1

    @property
    def label(self) -> str:
        return f"top{self.most}"

    @property
    def stored(self) -> tuple[Type, ...]:
        """The listed counts as JSON, delta, and how many values there were."""
        return BINARY, BIGINT, BIGINT

    @property
    def opened_bytes(self) -> int:
        return OPENED

    def spark(self, text: str) -> tuple[str, ...]:
        raise AssertionError("Spark does not keep lists of the most frequent values")

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        return self.gather(events, np.arange(len(events)))

    def gather(self, events: Vector, starts: Index, places: Places | None = None) -> tuple[Vector, ...]:
        counted = CountedValues.of(events, starts)
        runs = len(starts)
        order = np.lexsort((counted.code, -counted.times, counted.run))
        different = np.bincount(counted.run, minlength=runs)
        first = np.cumsum(different) - different
        cut = different > self.most
        delta = np.zeros(runs, np.int64)
        delta[cut] = counted.times[order][first[cut] + self.most - 1]
        values = np.bincount(counted.run, counted.times, runs).astype(np.int64)
        listed = order[np.arange(len(order)) - first[counted.run[order]] < self.most]
        lists: list[TextCounts | None] = [{} if size else None for size in different]
        text = text_of(self.argument)
        columns = (counted.run[listed].tolist(), counted.code[listed].tolist(), counted.times[listed].tolist())
        for run, code, count in zip(*columns, strict=True):
            counts = lists[run]
            assert counts is not None
            counts[text(counted.distinct[code])] = count
        return self.store((objects(lists), delta, values), ())

    def load(self, stored: Sequence[Vector]) -> State:
        whole = (np.where(column.valid, column.values, 0).astype(np.int64) for column in stored[1:])
        return self.opened(stored[0]), *whole

    def opened(self, column: Vector) -> Array:
        """The lists of a column, be they kept ones or finished ones."""
        known = zip(column.values, column.valid, strict=True)
        return objects([(json.loads(v) if isinstance(v, bytes) else v) if valid else None for v, valid in known])

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        lists = [None if counts is None else json.dumps(counts).encode() for counts in state[0]]
        return Vector.of(BINARY, lists), always(state[1], BIGINT), always(state[2], BIGINT)

    def finish(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return Vector.of(BINARY, state[0].tolist()), always(state[1], BIGINT), always(state[2], BIGINT)

    def identity(self, length: int) -> State:
        return np.full(length, None, np.object_), np.zeros(length, np.int64), np.zeros(length, np.int64)

    def combine(self, a: State, b: State) -> State:
        lists = objects([_sum((x, y)) for x, y in zip(a[0], b[0], strict=True)])
        return lists, a[1] + b[1], a[2] + b[2]

    def reduce(self, state: State, starts: Index) -> State:
        lists = objects([_sum(state[0][low:high]) for low, high in runs_of(starts, len(state[0]))])
        return lists, add_runs(state[1], starts), add_runs(state[2], starts)


def _sum(lists: Sequence[TextCounts | None] | Array) -> TextCounts | None:
    """The summed counts; a list that stands alone stays the same object, for none is ever changed."""
    present: list[Any] = [counts for counts in lists if counts is not None]
    if len(present) < 2:
        return present[0] if present else None
    present.sort(key=len, reverse=True)
    total: TextCounts = dict(present[0])
    get = total.get
    for counts in present[1:]:
        for value, count in counts.items():
            total[value] = get(value, 0) + count
    return total
