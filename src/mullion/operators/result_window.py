"""A window over the results of a query: WSTREAM, and sub-queries with a window (golab 3.3.3).

Every row is an event of a stream at the time at which it starts, in the order of starts, then ids. When a row ends does
not matter any more: it is the new window that it falls out of.

    rows of the input      1 [2, 9)   2 [3, 4)   3 [7, 8)   4 [7, 20)
    [RANGE 4]                [2, 6)     [3, 7)     [7, 11)    [7, 11)
    [ROWS 2]                 [2, 7)     [3, 7)     [7, ..)    [7, ..)     at 7 the third and the fourth push both out
    [ROWS 2 SLIDE 2]         [3, 7)     [3, 7)     [7, ..)    [7, ..)     they come and go in twos

An event is known by its number, and when number j must leave is known from j alone, so rows that are in the window need
not be kept here.

Requires: nothing.
Time: O(n log n) for n rows of a delta.
Space: none for windows of time; of rows those that wait for their SLIDE, fewer than m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import ResultWindow
from mullion.expressions.arrays import Times
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.registry import implements
from mullion.operators.timed_rows import Delta, Retractions, TimedRows
from mullion.operators.timed_tables import as_table, from_table


@implements(ResultWindow)
class ResultWindowOperator(Operator):
    width = 1

    def __init__(self, node: ResultWindow, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        (below,) = inputs
        self.node, self.schema = node, below.schema
        self._window = node.window
        self._count = 0
        """How many rows came so far."""
        self._waiting = TimedRows.empty(self.schema, 1)
        """Rows whose number has not come up to a multiple of the slide yet; their `start` is when they came."""

    def structures(self) -> dict[str, str]:
        waits = self._window.rows is not None and (self._window.slide_rows or 1) > 1
        return {"window": "rows that wait for the slide"} if waits else {}

    @property
    def rows_held(self) -> int:
        return len(self._waiting)

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        (delta,) = inputs
        fresh = self._numbered(delta.fresh)
        if self._window.rows is None:
            return Delta(self._timed(fresh), Retractions.none(1), now)
        return self._counted(fresh, now)

    def _numbered(self, rows: TimedRows) -> TimedRows:
        """The rows in their order, with their numbers from 1 on as ids."""
        living = np.flatnonzero(rows.end > rows.start)
        order = living[np.lexsort((*rows.ids[living].T[::-1], rows.start[living]))]
        numbers = self._count + 1 + np.arange(len(order))
        self._count += len(order)
        return replace(rows.take(order), ids=numbers[:, None], held_until=None)

    def _timed(self, fresh: TimedRows) -> TimedRows:
        window = self._window
        if window.since is not None:
            fresh = fresh.take(fresh.start >= window.since)
        if window.is_endless or window.internal:
            end = np.full(len(fresh), FOREVER)
        else:
            assert window.now or window.range is not None
            end = fresh.start + (window.range or 1)
        return replace(fresh, end=end)

    def _counted(self, fresh: TimedRows, now: int) -> Delta:
        rows, slide = self._window.rows, self._window.slide_rows or 1
        assert rows is not None
        known = TimedRows.concat([self._waiting, fresh])
        before = self._count - len(fresh)
        # The numbers that came with this delta and at which the window slides, and their times.
        slides = np.arange(before // slide + 1, self._count // slide + 1) * slide
        times = fresh.start[slides - before - 1]

        def when(number: Times) -> Times:
            """The time of the first slide at or after a number; FOREVER when it is to come, EVER_BEFORE when over."""
            place = np.searchsorted(slides, number)
            found = np.full(len(number), FOREVER)
            found[place < len(slides)] = times[place[place < len(slides)]]
            found[number <= before // slide * slide] = EVER_BEFORE
            return found

        number = known.ids[:, 0]
        come = number <= self._count // slide * slide
        self._waiting = known.take(~come)
        entering = known.take(come)
        number = number[come]
        entered = replace(entering, start=when(number), end=when(number + rows))
        leaving = self._leaving(slides, times, before // slide * slide, rows)
        entered = entered.take(entered.end > entered.start)
        if self._window.internal:
            entered = replace(entered, end=np.full(len(entered), FOREVER))
        return Delta(entered, leaving, now)

    def _leaving(self, slides: Times, times: Times, entered: int, rows: int) -> Retractions:
        """The rows that entered with earlier deltas and leave with this one: those of numbers j with j + rows up to the
        last slide. Those with j + rows up to the slide before left then."""
        if not len(slides) or self._window.internal:
            return Retractions.none(1)
        number = np.arange(max(1, entered - rows + 1), min(entered, int(slides[-1]) - rows) + 1)
        return Retractions(number[:, None], times[np.searchsorted(slides, number + rows)])

    def parts(self) -> Parts:
        return {"count": [pa.table({"count": [self._count]})], "waiting": [as_table(self._waiting)]}

    def restore(self, parts: Parts) -> None:
        if parts:
            self._count = parts["count"][0].column("count")[0].as_py()
            self._waiting = from_table(parts["waiting"][0])
