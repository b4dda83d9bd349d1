"""[PARTITION BY k ROWS n SLIDE m]: after every m-th event, the last n events of each k.

    number      0   1   2   3   4   5          [PARTITION BY k ROWS 2 SLIDE 3]
    k           a   a   b   a   b   a
                [-------]                      after 3 events: a 0, 1  b 2
                            [-------]          after 6 events: a 3, 5  b 2, 4

What leaves such a window is no range of the order: a slow k keeps old events while a fast one moves on. So every event
is a slice of its own, and what a window holds is gathered for each answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Index, Times
from mullion.expressions.coding.canonical import canonical_floats
from mullion.expressions.coding.dictionary import codes_of, combine
from mullion.kernels.columns import BatchColumns
from mullion.kernels.lookup import Prepared
from mullion.planner.plan import Grouping
from mullion.planner.sliced import SlicedAggregation
from mullion.slices.axis import MOST, AxisSet, Marks
from mullion.slices.finalize import Answers, Work, finalize
from mullion.slices.instants import slides_after
from mullion.slices.kernels.partial import Input
from mullion.slices.limits import Limits
from mullion.slices.order import times_of
from mullion.slices.rows import SubWindowRows
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import Tally
from mullion.slices.window_runs import Due

MOST_GATHERED = 2_000_000
"""Events that are gathered at once, over all answers; more are taken in turns."""


class Members(NamedTuple):
    """Events that a window may still hold, by partition, then number."""

    partition: Times
    number: Times
    time: Times

    def take(self, index: Any) -> Members:
        return Members(*(column[index] for column in self))


class WindowMembers(NamedTuple):
    """What windows hold: event numbers, with the window of each."""

    window: Index
    number: Times
    oldest: Times
    """The time of the oldest event of each window."""


class PartitionSet(AxisSet):
    """Queries over the last events of each partition.

    Requires: events in their order. Time: O(n k) an answer for n events of each of k partitions. Space: the last n
    events of each partition, n the largest that is asked for.
    """

    def __init__(self, axis: Any, numbered: int = 0) -> None:
        super().__init__(axis, numbered)
        self._known: pa.Table | None = None
        """The keys of each partition that was seen, in the order of their codes."""
        self._members = Members(*(np.empty(0, np.int64) for _ in range(3)))

    def add_events(self, events: pa.Table, inputs: Input, tables: tuple[Prepared, ...]) -> list[Tally]:
        first = self.numbered
        tallies = super().add_events(events, inputs, tables)
        number = np.arange(first, first + len(events))
        codes = self._codes(BatchColumns.of(events, inputs.columns, inputs.evaluated))
        together = Members(*map(np.append, self._members, Members(codes, number, times_of(events))))
        self._members = together.take(np.lexsort((together.number, together.partition)))
        self.marks = Marks()
        return tallies

    def _codes(self, columns: BatchColumns) -> Times:
        """The partition of each event, by codes that stay."""
        arrays = [canonical_key(columns.array(key)) for key in self.axis.partition]
        new = pa.table(arrays, names=[str(i) for i in range(len(arrays))])
        known = new.slice(0, 0) if self._known is None else self._known
        whole = pa.concat_tables([known, new], promote_options="permissive")
        codes = combine([codes_of(whole.column(i)) for i in range(len(arrays))], len(whole))[0]
        distinct, first, dense = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(distinct), np.int64)
        rank[order] = np.arange(len(distinct))
        self._known = whole.take(pa.array(first[order])).combine_chunks()
        return rank[dense][len(known) :]

    # Answers

    def answer(self, settled: int | None, work: Work, limits: Limits) -> Iterator[Answers]:
        assert self.plan is not None
        for grouping in self.plan.answering:
            for i, query in enumerate(grouping.queries):
                for closes, inside in self._windows(self._asked[query.name], settled, limits):
                    yield from self._finalize(grouping, i, closes, inside, work)

    def _windows(
        self, query: SlicedAggregation, settled: int | None, limits: Limits
    ) -> Iterator[tuple[Times, WindowMembers]]:
        """The windows that are due: when, and what they hold."""
        rows = query.frame.rows or 1
        after, closes = self._by_tuples(query) if query.frame.slide is None else self._in_time(query, settled, limits)
        partitions = int(self._members.partition.max()) + 1 if len(self._members.partition) else 1
        at_once = max(1, MOST_GATHERED // (partitions * min(rows, 1 + len(self._members.number) // partitions)))
        for at in range(0, len(after), at_once):
            part = after[at : at + at_once]
            yield closes[at : at + at_once], self._members_of(part, rows, partitions, query.start)

    def _by_tuples(self, query: SlicedAggregation) -> tuple[Times, Times]:
        """After every n-th event."""
        slide, since = query.frame.slide_rows or 1, self.since[query.name]
        after = np.arange(since // slide * slide + slide, self.numbered + 1, slide, dtype=np.int64)
        self.since[query.name] = self.numbered
        numbers, times = self._in_order()
        return after, times[np.searchsorted(numbers, after - 1)]

    def _in_time(self, query: SlicedAggregation, settled: int | None, limits: Limits) -> tuple[Times, Times]:
        """At every instant of a slide in time."""
        numbers, times = self._in_order()
        until, most = self._due_until(query, times, settled), limits.most_answers
        closes = slides_after(query.frame, times, self.since[query.name], until, min(most, MOST) + 1)
        if len(closes):
            self.since[query.name] = int(closes[-1])
        if len(closes) > most:
            limits.stop_answering(query.name, query.text)
        return numbers[np.searchsorted(times, closes) - 1] + 1, closes

    def _in_order(self) -> tuple[Times, Times]:
        """The numbers of the members in their order, and their times."""
        by_number = np.argsort(self._members.number)
        return self._members.number[by_number], self._members.time[by_number]

    def _members_of(self, after: Times, rows: int, partitions: int, since: int | None) -> WindowMembers:
        """The last `rows` events of each partition since a time, after so many events."""
        members = self._members
        span = self.numbered + 1
        keys = members.partition * span + members.number
        counted = members.number if since is None else members.number[members.time >= since]
        first = np.searchsorted(keys, np.arange(partitions) * span + int(counted.min(initial=span)))
        wanted = np.arange(partitions)[None, :] * span + after[:, None]
        high = np.searchsorted(keys, wanted)
        low = np.minimum(np.maximum(high - rows, first[None, :]), high)
        count = (high - low).ravel()
        index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low.ravel(), count)
        latest = np.iinfo(np.int64).max
        opens = np.where(high > low, members.time[np.minimum(low, len(members.time) - 1)], latest)
        window = np.repeat(np.arange(len(after)), count.reshape(low.shape).sum(axis=1))
        begins = np.where((high > low).any(axis=1), opens.min(axis=1), np.iinfo(np.int64).min)
        return WindowMembers(window, members.number[index], begins)

    def _finalize(
        self, grouping: Grouping, query: int, closes: Times, in_windows: WindowMembers, work: Work
    ) -> Iterator[Answers]:
        assert self.plan is not None
        windows = np.arange(len(closes))
        due = Due(np.full(len(closes), query, np.intp), windows, windows + 1, in_windows.oldest, closes)
        due = self._within(grouping, due)
        if not len(due):
            return
        entries = [_gathered(entry, in_windows) for entry in self.tier.entries]
        counted = {other.name: SubWindowRows(entries, other) for other in self.plan.counting(grouping)}
        yield from finalize(SubWindowRows(entries, grouping), grouping, due, work, counted=counted)

    def forget(self, settled: int) -> None:
        """Keep the last events of each partition."""
        assert self.plan is not None
        members = self._members
        if not len(members.number):
            return
        most = max((q.frame.rows or 1 for q in self.plan.queries), default=1)
        ends = np.searchsorted(members.partition, members.partition, "right")
        self._members = members.take(ends - np.arange(len(ends)) <= most)
        needed = np.sort(self._members.number)
        entries = [entry.among(needed) for entry in self.tier.entries]
        self.tier.entries = [entry for entry in entries if len(entry.slices)]
        self.tier.forget_before(self.plan, int(needed[0]))

    # What a restart needs

    def state_table(self) -> pa.Table:
        """The keys of each member, its number and its time."""
        members = self._members
        keys = [] if self._known is None else self._known.take(pa.array(members.partition)).columns
        names = [str(i) for i in range(len(keys))]
        return pa.table([*keys, members.number, members.time], names=[*names, "number", "time"])

    def restore(self, state: Mapping[str, Any], tables: Sequence[pa.Table], marks: pa.Table) -> None:
        self.tier.restore(state["tier"], tables)
        self.numbered, self.since = state["numbered"], dict(state["since"])
        keys = marks.select([n for n in marks.schema.names if n.isdigit()])
        number, time = (np.array(marks.column(n).combine_chunks(), np.int64) for n in ("number", "time"))
        codes = combine([codes_of(column) for column in keys.columns], len(marks))[0]
        distinct, first = np.unique(codes, return_index=True)
        self._known = keys.take(pa.array(first)).combine_chunks()
        restored = Members(np.searchsorted(distinct, codes), number, time)
        self._members = restored.take(np.lexsort((restored.number, restored.partition)))


def _gathered(entry: PartialSubWindows, in_windows: WindowMembers) -> PartialSubWindows:
    """The rows of the events that windows hold, under the number of the window."""
    order = np.argsort(entry.slices, kind="stable")
    slices = entry.slices[order]
    low, high = np.searchsorted(slices, in_windows.number), np.searchsorted(slices, in_windows.number, "right")
    count = high - low
    index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return entry.relabelled(order[index], np.repeat(in_windows.window, count))


def canonical_key(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    return canonical_floats(array) if pa.types.is_floating(array.type) else array
