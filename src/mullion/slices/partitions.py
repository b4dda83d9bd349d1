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
from mullion.slices.answering_room import gathered_at_once, held_by_grouping, of_groupings
from mullion.slices.axis import MOST, AxisSet, Marks
from mullion.slices.finalize import Answers, Work, finalize, taken_in_turns
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
GATHERED = 64
"""Bytes of such an event beside its partials: its number, its window, its place among the rows."""


class Members(NamedTuple):
    """Events that a window may still hold, by partition, then number."""

    partition: Times
    number: Times
    time: Times

    def take(self, index: Any) -> Members:
        return Members(*(column[index] for column in self))


class Ranges(NamedTuple):
    """What windows hold of each partition: members from low to high, in a row for each window."""

    low: Index
    high: Index

    def of(self, windows: Any, partitions: slice) -> Ranges:
        return Ranges(self.low[windows, partitions], self.high[windows, partitions])


class WindowMembers(NamedTuple):
    """What windows hold: event numbers in their order, with the window of each."""

    window: Index
    number: Times


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
        new = Members(codes, number, times_of(events)).take(np.argsort(codes, kind="stable"))
        places = np.searchsorted(self._members.partition, new.partition, "right")
        joined = (np.insert(old, places, added) for old, added in zip(self._members, new, strict=True))
        self._members = Members(*joined)
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

    # Memory

    @property
    def beside(self) -> int:
        """What is known of members is copied when others come."""
        known = 0 if self._known is None else self._known.nbytes
        return super().beside + 2 * (known + sum(column.nbytes for column in self._members))

    def at_work(self, needed: int, together: Sequence[Grouping], room: int) -> int:
        """Groups of one partition do not meet those of another, so they may be answered part by part."""
        return super().at_work(min(needed, room) if self._is_cut(together[0]) else needed, together, room)

    def _is_cut(self, grouping: Grouping) -> bool:
        """Whether the answers of one window may be made partition by partition."""
        templates = grouping.templates[1]
        in_order = any(template.order_by or template.limit is not None for template in templates)
        return not in_order and set(self.axis.partition) <= set(grouping.group_keys)

    def _at_once(self, grouping: Grouping, room: int | None) -> int:
        """How many events may be gathered at once."""
        assert self.plan is not None
        together = [grouping, *self.plan.counting(grouping)]
        _, work = of_groupings(held_by_grouping(self.tier.entries), together)
        return gathered_at_once(MOST_GATHERED, room, GATHERED + work // max(1, len(self._members.number)))

    # Answers

    def answer(self, settled: int | None, work: Work, limits: Limits) -> Iterator[Answers]:
        assert self.plan is not None
        for grouping in self.plan.answering:
            at_once = self._at_once(grouping, work.room)
            for i, query in enumerate(grouping.queries):
                asked = self._asked[query.name]
                due = self._by_tuples(asked) if asked.frame.slide is None else self._in_time(asked, settled, limits)
                yield from self._answer(grouping, i, *due, at_once, work)

    def _answer(
        self, grouping: Grouping, query: int, after: Times, closes: Times, at_once: int, work: Work
    ) -> Iterator[Answers]:
        """Answer a query for the windows after so many events, some at a time: of one window perhaps not all
        partitions."""
        asked = self._asked[grouping.queries[query].name]
        rows, members = asked.frame.rows or 1, len(self._members.number)
        partitions = int(self._members.partition.max()) + 1 if members else 1
        windows = max(1, at_once // (partitions * min(rows, 1 + members // partitions)))
        for at in range(0, len(after), windows):
            if asked.name in work.over:
                return
            ranges, oldest = self._ranges(after[at : at + windows], rows, partitions, asked.start)
            shown = closes[at : at + windows]
            number = np.arange(len(shown))
            due = self._within(grouping, Due(np.full(len(shown), query, np.intp), number, number + 1, oldest, shown))
            if not len(due):
                continue
            held = (ranges.high - ranges.low).sum(axis=0)
            for part in taken_in_turns(held, at_once) if self._is_cut(grouping) else [slice(0, partitions)]:
                yield from self._finalize(grouping, due, self._members_of(ranges.of(due.start, part), due.start), work)

    def _by_tuples(self, query: SlicedAggregation) -> tuple[Times, Times]:
        """After every n-th event."""
        slide, since = query.frame.slide_rows or 1, self.since[query.name]
        after = np.arange(since // slide * slide + slide, self.numbered + 1, slide, dtype=np.int64)
        self.since[query.name] = self.numbered
        numbers, times = self._in_order(since)
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

    def _in_order(self, since: int = 0) -> tuple[Times, Times]:
        """The numbers of the members in their order, from one on, and their times."""
        new = np.flatnonzero(self._members.number >= since)
        by_number = new[np.argsort(self._members.number[new])]
        return self._members.number[by_number], self._members.time[by_number]

    def _ranges(self, after: Times, rows: int, partitions: int, since: int | None) -> tuple[Ranges, Times]:
        """The last `rows` events of each partition since a time, after so many events, and the time of the oldest."""
        members = self._members
        span = self.numbered + 1
        keys = members.partition * span + members.number
        counted = members.number if since is None else members.number[members.time >= since]
        first = np.searchsorted(keys, np.arange(partitions) * span + int(counted.min(initial=span)))
        high = np.searchsorted(keys, np.arange(partitions)[None, :] * span + after[:, None])
        low = np.minimum(np.maximum(high - rows, first[None, :]), high)
        latest = np.iinfo(np.int64).max
        opens = np.where(high > low, members.time[np.minimum(low, len(members.time) - 1)], latest)
        oldest = np.where((high > low).any(axis=1), opens.min(axis=1), np.iinfo(np.int64).min)
        return Ranges(low, high), oldest

    def _members_of(self, ranges: Ranges, windows: Index) -> WindowMembers:
        count = (ranges.high - ranges.low).ravel()
        index = (
            np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(ranges.low.ravel(), count)
        )
        number = self._members.number[index]
        window = np.repeat(windows, count.reshape(ranges.low.shape).sum(axis=1))
        order = np.argsort(number, kind="stable")
        return WindowMembers(window[order], number[order])

    def _finalize(self, grouping: Grouping, due: Due, in_windows: WindowMembers, work: Work) -> Iterator[Answers]:
        assert self.plan is not None
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
        last = np.ones(len(members.number), np.bool_)
        last[:-most] = members.partition[most:] != members.partition[:-most]
        if not last.all():
            self._members = members.take(last)
        kept = np.sort(self._members.number)
        self.tier.entries = list(_of_use(self.tier.entries, kept))
        self.tier.forget_before(self.plan, int(kept[0]))

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


def _of_use(entries: Sequence[PartialSubWindows], kept: Times) -> Iterator[PartialSubWindows]:
    """What these events need of sub-windows. Rows of others stay until most are such, so that a row is copied a few
    times and not with every batch."""
    for entry in entries:
        slices = entry.slices
        there = kept[np.minimum(np.searchsorted(kept, slices), len(kept) - 1)] == slices
        number = int(np.count_nonzero(there))
        if number:
            yield entry if 2 * number > len(slices) else entry.only(there)


def _gathered(entry: PartialSubWindows, in_windows: WindowMembers) -> PartialSubWindows:
    """The rows of the events that windows hold, under the number of the window."""
    order, slices = entry.by_slice
    first, last = np.searchsorted(in_windows.number, (entry.oldest, entry.newest + 1)).tolist()
    number, window = in_windows.number[first:last], in_windows.window[first:last]
    low, high = np.searchsorted(slices, number), np.searchsorted(slices, number, "right")
    count = high - low
    index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return entry.relabelled(index if order is None else order[index], np.repeat(window, count))


def canonical_key(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    return canonical_floats(array) if pa.types.is_floating(array.type) else array
