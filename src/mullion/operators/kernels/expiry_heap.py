"""What ends when: a heap of (end, item) in two arrays, the next end on top.

    push(heap, size, 70, 3);  heap.items[0], the item that ends first;  pop(heap, size)

The arrays have room for `size` entries and more; whoever pushes makes sure of that and keeps the size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import loop


class Heap(NamedTuple):
    ends: Array
    items: Array


@loop
def push(heap: Heap, size: int, end: int, item: int) -> None:
    """Add an entry to a heap of `size`."""
    ends, items = heap
    at = Unsigned(size)
    while at > 0:
        up = (at - Unsigned(1)) >> Unsigned(1)
        if ends[up] <= end:
            break
        ends[at], items[at] = ends[up], items[up]
        at = up
    ends[at], items[at] = end, item


@loop
def replace_first(heap: Heap, size: int, end: int, item: int) -> None:
    """Put an entry into the place of the first one of a heap of `size`."""
    ends, items = heap
    at, behind, single = Unsigned(0), Unsigned(size), Unsigned(1)
    while True:
        down = (at << single) + single
        if down >= behind:
            break
        if down + single < behind and ends[down + single] < ends[down]:
            down += single
        if ends[down] >= end:
            break
        ends[at], items[at] = ends[down], items[down]
        at = down
    ends[at], items[at] = end, item


@loop
def pop(heap: Heap, size: int) -> None:
    """Take the first entry of a heap of `size` away."""
    last = Unsigned(size - 1)
    replace_first(heap, size - 1, heap.ends[last], heap.items[last])


@loop
def push_all(heap: Heap, size: int, new_ends: Array, new_items: Array) -> int:
    for i in range(len(new_ends)):
        push(heap, size, new_ends[i], new_items[i])
        size += 1
    return size


@loop
def pop_before(heap: Heap, size: int, now: int, out: Array) -> int:
    """Take away all that end before `now`, into `out` in the order of their ends; returns how many they are."""
    count = 0
    while size > 0 and heap.ends[0] < now:
        out[Unsigned(count)] = heap.items[0]
        count += 1
        pop(heap, size)
        size -= 1
    return count


class ExpiryHeap:
    """A heap that grows as it needs to.

    >>> expiries = ExpiryHeap()
    >>> expiries.add(np.array([70, 20, 50]), np.array([0, 1, 2]))
    >>> expiries.before(60)
    array([1, 2])
    >>> expiries.before(60)
    array([], dtype=int64)
    """

    def __init__(self) -> None:
        self.heap = Heap(np.empty(16, np.int64), np.empty(16, np.int64))
        self.size = 0

    def reserve(self, more: int) -> None:
        """Make room for so many more."""
        wanted = self.size + more
        present = len(self.heap.ends)
        if wanted > present:
            room = np.empty(max(wanted, 2 * present) - present, np.int64)
            self.heap = Heap(*(np.concatenate([column, room]) for column in self.heap))

    def add(self, ends: Array, items: Array) -> None:
        self.reserve(len(ends))
        self.size = push_all(self.heap, self.size, ends, items)

    def before(self, now: int) -> Array:
        """The items that end before `now`; they are forgotten."""
        out = np.empty(self.size, np.int64)
        count = pop_before(self.heap, self.size, now, out)
        self.size -= count
        return out[:count]
