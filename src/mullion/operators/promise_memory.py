"""The rows that a promising join keeps within its MEMORY, and the pairs that it therefore misses.

    rows of both inputs, agenda                                   | sample | free
    full: the least promising rows of the oldest granularity go ->|        |

The paper keeps every tuple of every granularity (ali 3.5), so its memory grows with the window. Here rows go:

| order | which first |
|---|---|
| DESC | of the oldest granularity, those of the smallest promise: the keys with the fewest expected partners |
| ASC | of the oldest granularity, those of the largest: the most frequent keys |
| WEIGHTED | of all ages alike, by a hash of their numbers: or the sample would be one of young pairs |

Expected are as many partners as rows of the other input have the key now, those that are gone among them.

Of rows that are gone, the keys and lives are kept as a sample: one of so many in the order of their keys, and every
other one goes whenever the sample is full. A new row counts the rows in it that it would have met, and each stands for
as many (Horvitz-Thompson, by systematic sampling). So what is missed is estimated without bias.

Time: each row that comes is copied about PARTS times at the most, by the rows that go.
Space: MEMORY, and what a step brings.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import names_in
from mullion.algebra.nodes import Promising
from mullion.expressions.arrays import Array, Codes, Index, Mask, Real, numbers
from mullion.operators.agenda import Entries
from mullion.operators.base import Parts
from mullion.operators.construction import Construction
from mullion.operators.expressions import key_function
from mullion.operators.join_probe import Combinations, count_met, same_key
from mullion.operators.kernels.chosen_pairs import dice, pair_codes
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.promise_offers import NUMBER, numbers_of, promise_of
from mullion.operators.promise_orders import WEIGHTED, phases, promises
from mullion.operators.row_store import RowStore
from mullion.operators.timed_rows import TimedRows

PARTS: Final = 16
"""One of so many parts of the memory is the sample's. Two are free after rows went: they go many at a time."""
FEWEST = 30
"""So many rows stay, whatever the memory, where they are to stand for those that go."""
NUMBER_BYTES = 8
BESIDE = 3
"""Numbers that a sub-window has for each row beside its table and ids: the code of the key, and at most a run of it."""
NO_AGES = np.zeros(0, np.int64)


def key_stores(node: Promising, stores: Sequence[RowStore], construction: Construction) -> list[RowStore]:
    """Stores for the keys and lives of rows of each input, of which there are some for all columns."""
    made = []
    for part, keys, store in zip(node.parts, node.keys, stores, strict=True):
        schema = pa.schema([store.schema.field(name) for name in (*sorted(names_in(*keys)), NUMBER)])
        made.append(construction.store(part.kept_as, schema, store.width, key_function(keys, part.types)))
    return made


class Passed:
    """How large the hashes of rows had to be for them to stay, by how many rows had come of each input then.

    A row that is there has a larger one than all that it was asked for since it came, which is so with the chance of 1
    less the largest of these. That is how many it stands for: each of these depends on the other rows alone where the
    row stays (rank conditioning, Cohen and Kaplan 2008), so sums are without bias, and rows as if kept by themselves.

    >>> passed = Passed()
    >>> passed.add([4, 5], 0.5), passed.add([6, 9], 0.2), passed.add([8, 9], 0.3)
    (None, None, None)
    >>> passed.highest(0, np.array([3, 4, 7, 8])).tolist()
    [0.5, 0.3, 0.3, 0.0]
    """

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, float]] = []
        """Those that are not smaller than a later one, which was asked of the same rows too."""

    def add(self, came: Sequence[int], hashed: float) -> None:
        self.asked = [known for known in self.asked if known[2] > hashed]
        self.asked.append((came[0], came[1], hashed))

    def highest(self, i: int, number: Codes) -> Real:
        came = np.array([known[i] for known in self.asked], np.int64)
        largest = np.array([*(known[2] for known in self.asked), 0.0])
        return largest[np.searchsorted(came, number, "right")]

    def to_table(self) -> pa.Table:
        first, second, hashed = zip(*self.asked, strict=True) if self.asked else ((), (), ())
        types = pa.int64(), pa.int64(), pa.float64()
        columns = [pa.array(values, type_) for values, type_ in zip((first, second, hashed), types, strict=True)]
        return pa.Table.from_arrays(columns, names=["#first", "#second", "#hashed"])

    @staticmethod
    def from_table(table: pa.Table) -> Passed:
        passed = Passed()
        passed.asked = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return passed


class PromiseMemory:
    def __init__(self, node: Promising, gone: Sequence[RowStore]) -> None:
        """`gone`: for the keys and lives of rows of each input that were evicted."""
        self.node, self.gone = node, gone
        self.stores: Sequence[RowStore] = ()
        """What is kept of each input. Each step says where."""
        self.halvings = 0
        """How often the part of the rows was halved that the sample has."""
        self.passed = Passed()
        """How large the hashes were of rows that were evicted, where what stays is to stand for them."""

    # What is kept

    def size(self, agenda: Entries) -> int:
        """The bytes that are kept."""
        return self._rows_size(agenda) + _size(self.gone)

    def _rows_size(self, agenda: Entries) -> int:
        """Without the sample, which has a part of its own."""
        return _size(self.stores) + agenda.size

    def is_short(self, agenda: Entries) -> bool:
        memory = self.node.memory
        return memory is not None and self._rows_size(agenda) > memory - memory // PARTS

    def expire(self, now: int) -> None:
        for store in self.gone:
            store.expire(now)
        if not any(store.rows_held for store in self.gone):
            self.halvings = 0

    def missed(self, i: int, fresh: KeyedSubWindow | None) -> int:
        """About how many pairs new rows of input i would make with rows that are gone."""
        if fresh is None:
            return 0
        probing = Combinations.of(i, fresh)
        return sum(int(count_met(probing, gone, NO_AGES).sum()) for gone in self.gone[1 - i].windows) << self.halvings

    def weights(self, i: int, number: Codes) -> Real:
        """For how many rows of input i each of those with some numbers stands."""
        weight: Real = 1 / (1 - self.passed.highest(i, number))
        return weight

    def parts(self) -> Parts:
        return {"passed": [self.passed.to_table()]} if self.node.weighs else {}

    def restore(self, parts: Parts) -> None:
        for table in parts.get("passed", ()):
            self.passed = Passed.from_table(table)

    # What goes

    def shed(self, agenda: Entries, now: int, came: Sequence[int]) -> int:
        """Let rows go, so that what is kept fits. Returns how many went before their time. `came`: how many rows of
        each input have come."""
        memory, count = self.node.memory, 0
        assert memory is not None
        for store in (*self.stores, *self.gone):
            store.keep(lambda rows: _meets(rows) > now, exactly=True)
        while self._rows_size(agenda) > memory - 2 * memory // PARTS:
            side, number, size = self._all_rows(agenda)
            excess = self._rows_size(agenda) - (memory - 3 * memory // PARTS)
            order = self._least_first(side, number, now)
            stays = FEWEST if self.node.weighs else 0
            going = order[: 1 + int(np.searchsorted(np.cumsum(size[order]), excess))][: max(0, len(order) - stays)]
            if not len(going):
                break
            for i in (0, 1):
                evicted = number[going[side[going] == i]]
                self._evict(i, evicted)
                agenda = agenda.take(~((agenda.side == i) & np.isin(agenda.probe, evicted)))
            self._thin(memory // PARTS)
            count += len(going)
            if self.node.weighs:
                last = going[-1:]
                self.passed.add(came, float(self._thrown(side[last], number[last])[0]))
        return count

    def _all_rows(self, agenda: Entries) -> tuple[Codes, Codes, Real]:
        """Of all rows the input, the number, and the bytes that they and the entries with which they probe take."""
        sides, row_numbers, sizes = [], [], []
        for i, store in enumerate(self.stores):
            number = numbers_of(store.windows)
            own = [np.full(len(window), window_size(window) / len(window)) for window in store.windows]
            entries = np.sort(agenda.probe[agenda.side == i])
            probing = np.searchsorted(entries, number, "right") - np.searchsorted(entries, number)
            sides.append(np.full(len(number), i, np.int64))
            row_numbers.append(number)
            sizes.append(np.concatenate([np.zeros(0), *own]) + probing * Entries.ENTRY)
        return np.concatenate(sides), np.concatenate(row_numbers), np.concatenate(sizes)

    def _least_first(self, side: Codes, number: Codes, now: int) -> Index:
        """All rows in the order in which they go. Of equal ones those that came first."""
        if self.node.order == WEIGHTED:
            return np.argsort(self._thrown(side, number), kind="stable")
        ages, promise = [np.zeros(0, np.int64)], [np.zeros(0)]
        for i, store in enumerate(self.stores):
            for window in store.windows:
                gone = same_key(window, self.gone[1 - i]) << self.halvings
                partners = same_key(window, self.stores[1 - i]) + gone
                promise.append(promises(self.node.order, promise_of(self.node, i, window.table, partners)))
                passed = [window.start <= now - age for age in self.node.ages[i]]
                ages.append(np.sum([np.zeros(len(window)), *passed], axis=0, dtype=np.int64))
        return np.lexsort((number, np.concatenate(promise), -np.concatenate(ages)))

    def _thrown(self, side: Codes, number: Codes) -> Real:
        """Hashes of rows: other ones than those by which pairs are drawn."""
        return dice(pair_codes(~self.node.salt, number, side))

    def _evict(self, i: int, going: Codes) -> None:
        """Rows of input i by their numbers, of which the sample remembers some."""
        store, sample = self.stores[i], self.gone[i]
        rows = [window.timed.take(np.flatnonzero(np.isin(numbers_of([window]), going))) for window in store.windows]
        rows = [some for some in rows if len(some)]
        fresh = sample.sorted(TimedRows.concat(rows)) if rows else None
        if fresh is not None:
            some = np.flatnonzero(self._one_in(1 << self.halvings, fresh.timed))
            if len(some):
                sample.add(KeyedSubWindow.of(fresh.timed.take(some), fresh.keys.take(some)))
        store.keep(lambda own: ~np.isin(numbers(own.rows, NUMBER), going), exactly=True)

    def _thin(self, most: int) -> None:
        while _size(self.gone) > most:
            self.halvings += 1
            for store in self.gone:
                store.keep(partial(self._one_in, 2), exactly=True)

    def _one_in(self, so_many: int, rows: TimedRows) -> Mask:
        """Rows evenly spaced, from one on that is as if drawn: of rows in the order of their keys, each key has its
        share."""
        first = int(phases(numbers(rows.rows, NUMBER)[:1] + (self.halvings << 48))[0] * so_many)
        chosen: Mask = np.arange(len(rows)) % so_many == first
        return chosen


def _meets(rows: TimedRows) -> Array:
    return rows.end if rows.held_until is None else rows.held_until


def _size(stores: Sequence[RowStore]) -> int:
    return sum(map(size_of, stores))


def size_of(store: RowStore) -> int:
    """The bytes of a store."""
    return sum(map(window_size, store.windows))


def window_size(window: KeyedSubWindow) -> int:
    """The bytes of a sub-window. The same after a restart where all columns have one width."""
    columns = sum(map(_column_size, window.table.columns))
    keys = sum(int(column.values.nbytes) for column in window.keys.columns)
    beside: int = NUMBER_BYTES * (BESIDE + window.ids.shape[1]) * len(window)
    return columns + keys + beside


def _column_size(column: pa.ChunkedArray) -> int:
    """Without the bits that say which values are NULL, which may be there or not."""
    try:
        return -(-int(column.type.bit_width) // 8) * len(column)
    except ValueError:  # a type whose values differ in length
        return int(column.nbytes)
