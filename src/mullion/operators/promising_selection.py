"""The promising selection: all rows if the budget of a step suffices, otherwise the most promising first (ali 5.2).

    new rows, selected --how many are like each?--> entries, with promises --order--> told, as far as the budget
                                                                                      the rest waits or is shed

The paper asks summaries which regions of a stream hold rows that a predicate selects. Here the predicate is evaluated
on every row: that costs less than asking (figures 15 and 16 in `benchmarks/README.md`). What may be too much is to tell
them all. So a row that was selected is an entry of the `PromisingSet`, whole.

Estimates are exact counts of the rows that are equal in a column, of those that were in the window when the step began
and those that it brings: only the values are kept. What waits fades with its age: rows that wait pass from one
granularity into the next.

Requires: an input whose rows end when they promised to.
Time: O(n log n) for n rows that are new or wait; without shortage nothing, but for what estimates count.
Space: the rows that wait, and for estimates a column of the window; MEMORY at most, and what a step brings.
Guarantee: every row that is told is one of the selection, once; without shortage it is the selection.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import names_in
from mullion.algebra.nodes import Promising
from mullion.algebra.update_pattern import Pattern
from mullion.expressions.arrays import Codes, Counts, Mask, Real, numbers
from mullion.instants import FOREVER
from mullion.operators.agenda import Entries
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import key_function
from mullion.operators.join_probe import Combinations, count_same
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.promise_memory import size_of
from mullion.operators.promise_offers import NUMBER, numbered, numbered_rows, numbers_of, promise_of
from mullion.operators.promise_orders import faded, promises
from mullion.operators.promise_tally import PromiseTally
from mullion.operators.promising_set import PromisingSet
from mullion.operators.row_store import RowStore, restore_stores, saved_stores
from mullion.operators.timed_rows import Delta, Retractions, TimedRows

VALUES = 4
"""One of so many parts of the memory is that of values that are counted."""
FREE = 8
"""One of so many parts of the rest is free after rows went: they go many at a time."""


class PromisingSelectionOperator(Operator):
    def __init__(self, node: Promising, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        (source,) = inputs
        self.node = node
        self.schema, self.width = pa.schema([f for f in source.schema if construction.reads(f.name)]), source.width
        waiting = self.schema.append(pa.field(NUMBER, pa.int64()))
        self.waiting = construction.store(Pattern.WEAK, waiting, self.width)
        """The rows of entries, and perhaps some that nobody waits for."""
        self.like = _values(node, source, construction)
        """The values that are counted of the rows of the window; None where no estimate is asked for."""
        self.promises = PromisingSet(node, self)
        self.came = 0
        """How many rows have come."""

    # A step

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        began = time.perf_counter()
        assert not len(inputs[0].retracted), "rows end when they promised to"
        budget = self.promises.begin(began, self.most_rows)
        fresh = inputs[0].fresh
        if fresh.end.min(initial=FOREVER) <= self.promises.before:  # of a question, which is asked after they ended
            fresh = fresh.take(fresh.end > self.promises.before)
        fresh = numbered(fresh, self.came)
        self.came += len(fresh)
        like = None if self.like is None else self.like.insert(fresh)
        if not len(self.promises.agenda) and budget.fits(len(fresh), len(fresh)):
            told = [fresh.with_rows(fresh.rows.select(self.schema.names))]
            self.tally.offered += len(fresh)
            self.tally.told += len(fresh)
        else:
            told = self.promises.tell([self._offers(fresh, like)], budget, self.came)
        self._leave(now)
        rows = TimedRows.concat(told) if told else TimedRows.empty(self.schema, self.width)
        self.promises.end(began, len(fresh), budget)
        return Delta(rows, Retractions.none(self.width), now)

    def _offers(self, fresh: TimedRows, like: KeyedSubWindow | None) -> Entries:
        """An entry for each row that is new."""
        if not len(fresh):
            return Entries.none()
        number = numbers(fresh.rows, NUMBER)
        promise = promises(self.node.order, promise_of(self.node, 0, fresh.rows, self._estimates(number, like)))
        self.waiting.insert(fresh)
        nothing = np.zeros(len(fresh), np.int64)
        offers = Entries(nothing, number, nothing, nothing, promise, nothing + 1, fresh.start, fresh.end, nothing)
        return offers.take(np.argsort(number))

    def _estimates(self, number: Codes, like: KeyedSubWindow | None) -> Counts:
        """For new rows, by their numbers, how many rows of the window have their value; themselves among them."""
        by_number, first = np.zeros(len(number), np.int64), self.came - len(number)
        if self.like is not None and like is not None:
            probing, found = Combinations.of(0, like), np.zeros(len(like), np.int64)
            for window in self.like.windows:
                found += count_same(probing, window, self.promises.before)
            by_number[numbers_of([like]) - first] = found
        return by_number[number - first]

    # The rows of entries

    def promise(self, entries: Entries) -> Real:
        """What waits is as old as it was when the step began."""
        ages = np.array(self.node.fading_ages(0), np.int64)
        grain = np.searchsorted(ages, self.promises.before - entries.start, "right")
        return faded(entries.promise, self.node.fade, grain)

    def alive(self, entries: Entries) -> Counts:
        """Those that have ended have left."""
        return entries.pairs

    def split(self, entry: Entries, most: int) -> tuple[Entries, int, int]:
        raise AssertionError("a row is told as a whole")

    def rows(self, entries: Entries, drawn: Counts) -> tuple[list[TimedRows], Counts]:
        chosen = []
        for window in self.waiting.windows:
            rows, _ = numbered_rows(window, entries.probe)
            if len(rows):
                told = window.timed.take(rows)
                chosen.append(told.with_rows(told.rows.select(self.schema.names)))
        self.tally.told += len(entries)
        late = [np.maximum(self.promises.before - rows.start, 0) for rows in chosen]
        self.tally.apart += float(sum(int(waited.sum()) for waited in late))
        return chosen, entries.pairs

    def _leave(self, now: int) -> None:
        self.promises.expire(now)
        for store in self._stores().values():
            store.expire(now)
        self._keep_waiting(exactly=False)
        if self.node.memory is not None:
            self._save_memory(self.node.memory)
        self.tally.waiting = len(self.promises.agenda)
        self.tally.bytes = self.promises.agenda.size + sum(map(size_of, self._stores().values()))

    def _keep_waiting(self, *, exactly: bool) -> None:
        waiting = np.append(np.sort(self.promises.agenda.probe), -1)

        def is_waiting(rows: TimedRows) -> Mask:
            number = numbers(rows.rows, NUMBER)
            found: Mask = waiting[np.searchsorted(waiting[:-1], number)] == number
            return found

        self.waiting.keep(is_waiting, exactly=exactly)

    def _save_memory(self, memory: int) -> None:
        """Values of the oldest rows are let go, so that estimates are of a shorter past; and of rows that wait the
        least promising of the oldest granularity."""
        while self.like is not None and size_of(self.like) > memory // VALUES:
            start = np.sort(np.concatenate([window.start for window in self.like.windows]))
            self.like.keep(partial(_after, int(start[len(start) // 2])), exactly=True)
        most, agenda = memory - memory // VALUES, self.promises.agenda
        if size_of(self.waiting) + agenda.size <= most:
            return
        self._keep_waiting(exactly=True)
        row = size_of(self.waiting) / max(len(agenda), 1) + Entries.ENTRY
        going = len(agenda) - int((most - most // FREE) / row)
        if going > 0:
            grain = np.searchsorted(np.array(self.node.ages[0], np.int64), self.promises.before - agenda.start, "right")
            order = np.lexsort((agenda.probe, self.promise(agenda), -grain))
            self.promises.agenda = agenda.take(np.sort(order[going:]))
            self._keep_waiting(exactly=True)
            self.tally.lose(going)
            self.tally.rows_shed += going

    # State

    @property
    def tally(self) -> PromiseTally:
        return self.promises.tally

    @property
    def rows_held(self) -> int:
        return self.waiting.rows_held + (0 if self.like is None else self.like.rows_held)

    def structures(self) -> dict[str, str]:
        counted = {} if self.like is None else {"values": self.like.kept_in}
        return {**counted, "waiting": self.waiting.kept_in, "agenda": "entries by promise"}

    def parts(self) -> Parts:
        at = pa.table({"#came": [self.came], "#before": [self.promises.before]})
        return {**saved_stores(self._stores()), **self.promises.parts(), "at": [at]}

    def restore(self, parts: Parts) -> None:
        restore_stores(self._stores(), parts)
        for table in parts.get("at", ()):
            self.came = table["#came"][0].as_py()
            self.promises.restore(parts, table["#before"][0].as_py())
        for store in self._stores().values():
            store.expire(self.promises.before)

    def _stores(self) -> dict[str, RowStore]:
        return {"waiting": self.waiting} | ({} if self.like is None else {"values": self.like})


def _after(time: int, rows: TimedRows) -> Mask:
    return rows.start > time


def _values(node: Promising, source: Operator, construction: Construction) -> RowStore | None:
    (keys,) = node.keys
    if not keys:
        return None
    columns = [source.schema.field(name) for name in sorted(names_in(*keys))]
    schema = pa.schema([*columns, pa.field(NUMBER, pa.int64())])
    return construction.store(node.input.kept_as, schema, source.width, key_function(keys, node.input.types))
