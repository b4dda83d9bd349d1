"""Queries whose windows do not lie over the event time: over numbers of events, or over another column.

They take events in their order (`order.ReorderBuffer`), give each its place on the axis, and are sliced, shared and
answered as windows over time are: `[ROWS n SLIDE m]` is the window W[n, m] over the numbers 0, 1, 2, .. of events.

    times     09:00:01  09:00:01  09:00:04  09:00:05  09:00:09
    numbers       0         1         2         3         4          [ROWS 4 SLIDE 2]
              [---------------)                                      after 2 events: 0..1
              [-----------------------------------)                  after 4 events: 0..3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.expressions.arrays import Times
from mullion.instants import ORIGIN
from mullion.kernels.arrival import ARRIVAL
from mullion.kernels.lookup import Prepared
from mullion.language.query import Axis
from mullion.language.render import render
from mullion.options import DEFAULTS, Options
from mullion.planner.observed import Observed
from mullion.planner.plan import Grouping, Plan
from mullion.planner.rules import make_plan
from mullion.planner.sliced import SlicedAggregation
from mullion.slices.finalize import Answers, Work
from mullion.slices.instants import Numbered, NumberedWindows, are_asked, instants_of, needed_from, rows_in_time
from mullion.slices.kernels.events import EVENT_TIME, TIME
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.kernels.slicing import slice_starts
from mullion.slices.limits import PORTION, Limits
from mullion.slices.order import times_of, values_on
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import Tally, selected_by, tally
from mullion.slices.tier import WindowTier
from mullion.slices.window_runs import Due, shown

NONE: Times = np.empty(0, np.int64)
MOST = 1 << 31
"""Windows that are made at once of a query without a limit."""


def axis_name(axis: Axis) -> str:
    """A name that stays the same while queries come and go."""
    parts = [axis.kind, *(["by", axis.order] if axis.order else [])]
    return " ".join(parts + (["of", ", ".join(map(render, axis.partition))] if axis.partition else []))


@dataclass
class Marks:
    """The times of the first and the last event of each slice of numbered events, to show when a window was."""

    starts: Times = field(default_factory=lambda: NONE)
    first: Times = field(default_factory=lambda: NONE)
    last: Times = field(default_factory=lambda: NONE)

    def add(self, number: int, starts: Times, first: Times, last: Times) -> None:
        """Slices after those that are known, from the event of this number on. The first may go on with the last known
        one; one that was cut otherwise before, as other queries asked, begins with the event."""
        if len(self.starts) and starts[0] == self.starts[-1]:
            self.last[-1] = last[0]
            starts, first, last = starts[1:], first[1:], last[1:]
        elif len(self.starts):
            starts = np.maximum(starts, number)
        self.starts = np.concatenate([self.starts, starts])
        self.first, self.last = np.concatenate([self.first, first]), np.concatenate([self.last, last])

    def opens(self, numbers: Times) -> Times:
        """The time of the first event from each number on."""
        at = np.searchsorted(self.starts, np.maximum(numbers, 0), "right") - 1
        return self.first[np.maximum(at, 0)]

    def closes(self, numbers: Times) -> Times:
        """The time of the last event before each number."""
        return self.last[np.searchsorted(self.starts, numbers) - 1]

    def forget(self, horizon: int) -> None:
        at = max(int(np.searchsorted(self.starts, horizon, "right")) - 1, 0)
        self.starts, self.first, self.last = self.starts[at:].copy(), self.first[at:].copy(), self.last[at:].copy()

    @property
    def size(self) -> int:
        return self.starts.nbytes + self.first.nbytes + self.last.nbytes

    def table(self) -> pa.Table:
        return pa.table({"starts": self.starts, "first": self.first, "last": self.last})

    @staticmethod
    def of(table: pa.Table) -> Marks:
        return Marks(*(np.array(table.column(n).combine_chunks(), np.int64) for n in ("starts", "first", "last")))


class AxisSet:
    """Queries over one axis that are answered from the same partials."""

    def __init__(self, axis: Axis, numbered: int = 0) -> None:
        self.axis = axis
        self.tier = WindowTier()
        self.plan: Plan | None = None
        self.numbered = numbered
        """How many events have their place."""
        self.marks = Marks()
        self.oldest: int | None = None
        self.newest: int | None = None
        """The extremes on an axis of values."""
        self.since: dict[str, int] = {}
        """How far queries are answered that are not answered periodically."""
        self.entered: dict[str, int] = {}
        """How many events had their place when a query entered: what it would need of them was not kept."""
        self.begun: set[str] = set()
        """Those of them that have answered a window that held an event."""
        self.late = 0
        """How many of the last events fell behind on an axis of values, which should only grow."""
        self.is_followed = True
        """Whether it is known that an event comes after those that have their place."""
        self._asked: dict[str, SlicedAggregation] = {}

    def set_queries(self, stream: Stream, queries: Sequence[SlicedAggregation], options: Options = DEFAULTS) -> None:
        """The queries from now on. Their START and STOP are times, so they are looked at when times are known."""
        self._asked = {query.name: query for query in queries}
        placed = queries if self.axis.kind == "column" else [_without_times(query) for query in queries]
        seen = Observed(events=max(1, self.numbered), span=max(1, self.numbered))
        self.plan = make_plan(stream, placed, options, seen=seen, axis=self.axis)
        fresh = {q.name: self.numbered if q.frame.slide_rows is not None else 2 * ORIGIN for q in queries}
        self.since = {name: self.since.get(name, since) for name, since in fresh.items()}
        self.entered = {q.name: self.entered.get(q.name, self.numbered) for q in queries}
        self.begun &= self._asked.keys()

    def forget_query(self, name: str) -> None:
        """Another query has taken the name."""
        self.since.pop(name, None)
        self.entered.pop(name, None)
        self.begun.discard(name)
        self.tier.forget_query(name)

    # Events

    def add_events(self, events: pa.Table, inputs: Input, tables: tuple[Prepared, ...]) -> list[Tally]:
        """Events that have their place in the order, after all before."""
        assert self.plan is not None
        events, places, self.late = self._placed(events)
        if not len(events):
            return []
        numbers = np.arange(self.numbered, self.numbered + len(events))
        times = times_of(events)
        self.numbered += len(events)
        if self.axis.kind != "column":
            places = numbers
            slices = slice_starts(places, self.plan.windows, slicing=self.plan.slicing)
            starts = np.flatnonzero(np.concatenate([[True], slices[1:] != slices[:-1]]))
            ends = np.append(starts[1:], len(slices)) - 1
            self.marks.add(int(numbers[0]), slices[starts], times[starts], times[ends])
        else:
            self.oldest = int(places.min()) if self.oldest is None else min(self.oldest, int(places.min()))
            self.newest = int(places.max()) if self.newest is None else max(self.newest, int(places.max()))
        tallies = []
        for grouping, table in self._partials(events, places, numbers, inputs, tables):
            counted = tally(table, grouping)
            if self.axis.kind in ("rows", "column"):  # elsewhere each event is a slice of its own
                self.tier.add_slices(counted.slices)
            self.tier.absorb(PartialSubWindows.of(table, grouping))
            tallies.append(counted)
        return tallies

    def missed(self, events: pa.Table, inputs: Input, tables: tuple[Prepared, ...]) -> dict[str, int]:
        """How many of events that came too late each query would have taken."""
        missed: dict[str, int] = {}
        numbers = np.arange(len(events))
        for grouping, table in self._partials(events, numbers, numbers, inputs, tables):
            if not grouping.counted:
                missed |= selected_by(table, grouping)
        return missed

    def _partials(
        self, events: pa.Table, places: Times, numbers: Times, inputs: Input, tables: tuple[Prepared, ...]
    ) -> Iterator[tuple[Grouping, pa.Table]]:
        assert self.plan is not None
        batch = events.drop_columns([n for n in (TIME, ARRIVAL) if n in events.schema.names])
        batch = batch.append_column(TIME, pa.array(places)).append_column(ARRIVAL, pa.array(numbers))
        if self.axis.kind != "column":
            batch = batch.append_column(EVENT_TIME, pa.array(times_of(events)))
        plan = self.plan
        windows = (plan.windows,) * len(plan.groupings)
        job = Job(plan.groupings, plan.methods, windows, inputs, plan.slicing, tables)
        yield from zip(plan.groupings, partials(batch, job), strict=True)

    def _placed(self, events: pa.Table) -> tuple[pa.Table, Times, int]:
        """The events with their values on the axis. Events that fall behind on it, or lie beyond its ends, are left out
        and counted."""
        if not self.axis.order:
            return events, NONE, 0
        assert self.plan is not None
        values, there, beyond = values_on(self.axis.order, self.plan.stream, events)
        kept = there if self.newest is None else there & (values >= self.newest)
        late = int((there & ~kept).sum()) + beyond
        index = np.flatnonzero(kept)
        index = index[np.argsort(values[index], kind="stable")]
        events, values = events.take(pa.array(index)), values[index]
        if self.axis.kind == "events" and len(values):
            self.newest = int(values[-1])
            events = events.set_column(events.schema.get_field_index(TIME), TIME, pa.array(values))
        return events, values, late

    # Memory

    @property
    def beside(self) -> int:
        """Bytes that are held beside sub-windows, always in memory."""
        return self.marks.size + self.tier.slices.nbytes

    def at_work(self, needed: int, together: Sequence[Grouping], room: int) -> int:
        """Bytes that are at work when windows of a grouping, the first of these, are answered, where `needed` are when
        it is done from all rows at once, and work may be cut into parts that fit into the room."""
        return needed + self.beside

    # Answers

    def answer(self, settled: int | None, work: Work, limits: Limits) -> Iterator[Answers]:
        """What is due once all events before the time `settled` have their place; None at the end of the input."""
        assert self.plan is not None
        for grouping in self.plan.answering:
            yield from self.tier.answer(
                grouping, self._due(grouping, settled, limits), work, self.plan.counting(grouping)
            )

    def _due(self, grouping: Grouping, settled: int | None, limits: Limits) -> Iterator[Due]:
        """The windows that are due, in portions."""
        if self.axis.kind == "events":
            due = self._at_instants(grouping, settled, limits)
        elif self.axis.kind == "column":
            if self.oldest is not None and self.newest is not None:
                until = None if settled is None else self.newest
                runs = self.tier.due(grouping, self.oldest, self.newest, until, limits.most_answers)
                yield from limits.portions(runs)
            return
        elif not len(self.marks.starts):
            return
        else:
            runs = self.tier.due(grouping, int(self.marks.starts[0]), self.numbered - 1, self.numbered)
            due = self._since_entered(grouping, shown(runs.whole(), grouping.queries))
            opens, closes = self.marks.opens(due.start), self.marks.closes(due.end)
            due = self._within(grouping, replace(due, opens=opens, closes=closes))
        for low in range(0, len(due), PORTION):
            yield due.part(low, low + PORTION)

    def _at_instants(self, grouping: Grouping, settled: int | None, limits: Limits) -> Due:
        events = Numbered(int(self.marks.starts[0]) if len(self.marks.starts) else self.numbered, self.marks.first)
        if self.axis.order and settled is not None:
            settled = self.newest if self.newest is not None else ORIGIN
        positions: list[npt.NDArray[np.intp]] = []
        parts: list[NumberedWindows] = []
        for i, query in enumerate(grouping.queries):
            asked = self._asked[query.name]
            if asked.frame.slide is None:
                instants = self._instants(asked, events, settled)
            else:
                instants = self._rows_in_time(asked, events, settled, limits)
            positions.append(np.full(len(instants.start), i, np.intp))
            parts.append(instants)
        start, end, opens, closes = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Due(np.concatenate(positions), start, end, opens, closes)

    def _instants(self, query: SlicedAggregation, events: Numbered, settled: int | None) -> NumberedWindows:
        """The windows of a query that are due. Without GROUP BY, from its first to its last that holds an event."""
        instants, until = instants_of(query.frame, events, self.since[query.name], settled)
        instants = instants.of(query)
        if not query.keys and query.frame.slide_rows is None:
            occupied = np.flatnonzero(instants.end > instants.start)
            first = 0 if query.name in self.begun or not len(occupied) else int(occupied[0])
            last = int(occupied[-1]) + 1 if len(occupied) else 0
            if query.name not in self.begun and not len(occupied):
                first = len(instants.end)
            if settled is None or query.stop is not None or not self.is_followed:
                if settled is not None and last:
                    until = int(instants.closes[last - 1])
                elif settled is not None and _goes_on(query, until) and query.name in self.begun:
                    # Windows without events wait: they are answered once one that holds an event follows.
                    until = self.since[query.name]
                instants = instants.part(first, max(first, last))
            else:
                instants = instants.part(first, len(instants.end))
        self.since[query.name] = until
        if len(instants.start):
            self.begun.add(query.name)
        return instants

    def _rows_in_time(
        self, query: SlicedAggregation, events: Numbered, settled: int | None, limits: Limits
    ) -> NumberedWindows:
        """The windows of [ROWS n SLIDE s] that are due."""
        until, since, most = self._due_until(query, events.times, settled), self.since[query.name], limits.most_answers
        instants, self.since[query.name] = rows_in_time(query.frame, events, since, until, min(most, MOST) + 1)
        if len(instants.start) > most:
            limits.stop_answering(query.name, query.text)
        return instants.of(query)

    def _due_until(self, query: SlicedAggregation, times: Times, settled: int | None) -> int | None:
        """The last instant that is due of a slide in time; None: the first after all events. Later ones wait until it
        is known that an event follows."""
        if settled is None or not len(times) or self.is_followed:
            return settled
        offset, slide = query.frame.offset, query.frame.slide or 1
        return min(settled, offset + ((int(times[-1]) - offset) // slide + 1) * slide)

    def _since_entered(self, grouping: Grouping, due: Due) -> Due:
        """Those windows that begin with an event that came after their query did."""
        entered = np.array([self.entered[query.name] for query in grouping.queries], np.int64)
        return due.where(np.maximum(due.start, 0) >= entered[due.query])

    def _within(self, grouping: Grouping, due: Due) -> Due:
        """Those windows that their queries answer."""
        assert due.opens is not None and due.closes is not None
        inside = np.ones(len(due), np.bool_)
        for i, query in enumerate(grouping.queries):
            inside &= (due.query != i) | are_asked(self._asked[query.name], due.opens, due.closes)
        return due.where(inside)

    def forget(self, settled: int) -> None:
        """Drop what no later window needs."""
        assert self.plan is not None
        if self.axis.kind == "column":
            if self.newest is not None:
                self.tier.forget(self.plan, self.newest)
        elif self.axis.kind == "rows":
            self.marks.forget(self.tier.forget(self.plan, self.numbered))
        else:
            events = Numbered(int(self.marks.starts[0]) if len(self.marks.starts) else self.numbered, self.marks.first)
            settled = settled if not self.axis.order or self.newest is None else self.newest
            needed = (
                needed_from(q.frame, events, min(settled, self.since.get(q.name, settled) + 1))
                if q.frame.slide_rows is None
                else needed_from(q.frame, events, settled)
                for q in self.plan.queries
            )
            horizon = min(needed, default=events.end)
            self.tier.forget_before(self.plan, horizon)
            self.marks.forget(horizon)

    # What a restart needs

    def state_table(self) -> pa.Table:
        return self.marks.table()

    def snapshot(self) -> dict[str, Any]:
        return {
            "tier": self.tier.snapshot(),
            "numbered": self.numbered,
            "oldest": self.oldest,
            "newest": self.newest,
            "since": self.since,
            "entered": self.entered,
            "begun": sorted(self.begun),
        }

    def restore(self, state: Mapping[str, Any], tables: Sequence[pa.Table], marks: pa.Table) -> None:
        self.tier.restore(state["tier"], tables)
        self.numbered, self.oldest, self.newest = state["numbered"], state["oldest"], state["newest"]
        self.since, self.begun = dict(state["since"]), set(state["begun"])
        self.entered = dict(state.get("entered") or dict.fromkeys(self.since, 0))
        self.marks = Marks.of(marks)


def _without_times(query: SlicedAggregation) -> SlicedAggregation:
    return replace(query, start=None, after=None, stop=None)


def _goes_on(query: SlicedAggregation, until: int) -> bool:
    return query.stop is None or until < query.stop


def by_axis(queries: Sequence[SlicedAggregation]) -> Iterator[tuple[Axis, list[SlicedAggregation]]]:
    """The queries of each axis other than time."""
    queries_of: dict[Axis, list[SlicedAggregation]] = {}
    for query in queries:
        if query.axis.kind != "time":
            queries_of.setdefault(query.axis, []).append(query)
    yield from queries_of.items()
