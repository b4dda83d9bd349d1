"""The window tier: a state machine that takes partials in and gives answers out.

It holds the sub-windows that windows may still need and how far each query has been answered. It knows nothing of
Spark, files or threads; `snapshot` and `restore` are all that recovery needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.errors import CheckpointError
from mullion.expressions.arrays import Times
from mullion.instants import EVERYTHING, ORIGIN
from mullion.language.query import Period
from mullion.planner.plan import Grouping, Plan, states_of
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import distinct
from mullion.questions_first import give_way
from mullion.slices.due import NOT_SCHEDULED, Cursor, InstantRun, SeenEvents, due_windows, first_end
from mullion.slices.finalize import Answers, Work, finalize
from mullion.slices.kept import KeptWindows
from mullion.slices.rows import SubWindowRows
from mullion.slices.subwindow import PartialSubWindows, merge_sub_windows
from mullion.slices.window_runs import Due, WindowRuns

MOST_ENTRIES = 48
"""Sub-windows that are kept apart; more are merged."""
MOST_OF_A_GROUPING = 16
"""So many of each grouping are kept apart in any case. A large batch comes in portions, and most of them lie before all
windows that are due with the next one: merging them would be in vain."""

ENOUGH = 8
"""So many sub-windows of about one size are merged."""

MOST_OLD = 100_000
"""Rows that only windows without a start need; more are merged."""


class WindowTier:
    def __init__(self) -> None:
        self._entries: list[PartialSubWindows] = []
        self._kept = KeptWindows()
        self._unsaved: list[PartialSubWindows] = []
        self.cursors: dict[str, Cursor] = {}
        self.slices: Times = np.empty(0, np.int64)
        self.horizon: int | None = None
        """Nothing from this time on was dropped."""
        self.waiting: set[str] = set()
        """Queries that are not answered before their past is there."""
        self.inherited: dict[str, Times] = {}
        """Of queries that were in another cluster before, or read their past again: the slices that held an event
        there."""

    @property
    def entries(self) -> list[PartialSubWindows]:
        return self._entries

    @entries.setter
    def entries(self, entries: list[PartialSubWindows]) -> None:
        """Others in place of those that there were."""
        self._entries = entries
        self._kept.clear()

    @property
    def kept_size(self) -> int:
        """Bytes of the windows that are kept from batch to batch."""
        return self._kept.size

    def limit_kept(self, size: int) -> None:
        """Windows that are kept may take so many bytes from now on."""
        self._kept.limit = size

    @property
    def rows(self) -> int:
        """How many its sub-windows have together."""
        return sum(len(entry.slices) for entry in self._entries)

    def absorb(self, new: PartialSubWindows) -> None:
        """Add the sub-windows of a batch."""
        if len(new.slices):
            self._entries.append(new)
            self._kept.absorb(new)
            self._unsaved.append(new)

    def replace(self, entry: PartialSubWindows, same: PartialSubWindows) -> None:
        """Let other sub-windows that hold the same take the place of some."""
        self.entries = [same if held is entry else held for held in self.entries]
        self._unsaved = [same if held is entry else held for held in self._unsaved]

    def take_out(self, grouping: str) -> list[PartialSubWindows]:
        """Those of a grouping, which are kept elsewhere from now on."""
        own = [entry for entry in self._entries if entry.grouping == grouping]
        self.entries = [entry for entry in self._entries if entry.grouping != grouping]
        self._unsaved = [entry for entry in self._unsaved if entry.grouping != grouping]
        return own

    def add_slices(self, slices: Times) -> int:
        """Note slices that hold an event; returns how many are new."""
        before = len(self.slices)
        self.slices = distinct(np.concatenate([self.slices, slices]))
        return len(self.slices) - before

    def inherit_slices(self, name: str, slices: Times) -> None:
        """Note slices that held an event before a query was here. They are cut at its edges, perhaps not at those of
        others."""
        if len(slices):
            before = self.inherited.get(name, slices[:0])
            self.inherited[name] = distinct(np.concatenate([before, slices]))

    def due(
        self,
        grouping: Grouping,
        oldest: int,
        newest: int,
        watermark: int | None,
        most: int | None = None,
        scheduled: Mapping[str, Sequence[InstantRun]] = NOT_SCHEDULED,
    ) -> WindowRuns:
        """The windows of the grouping that are to be answered now, at most so many of each query; they are not due a
        second time. `scheduled`: the instants of those with SLIDE AT MOST."""
        for name in [name for name in grouping.queries.names if name not in self.cursors]:
            self.cursors[name] = Cursor()
        seen = SeenEvents(oldest, newest, self.slices, self.inherited)
        return due_windows(grouping.queries, self.cursors, seen, watermark, self.waiting, most, scheduled)

    def answer(
        self, grouping: Grouping, portions: Iterable[Due], work: Work, counting: Iterable[Grouping] = ()
    ) -> Iterator[Answers]:
        """Answer windows of the grouping, from the value counts of others where its aggregates need them."""
        counting = list(counting)
        for due in portions:
            if all(entry.readers is None for entry in self._entries):
                answers, due = self._kept.answer(self._entries, grouping, due, work, counting)
                yield from answers
                if not len(due):
                    continue
            give_way()
            for own, entries in by_readers(_reached(self._entries, due), grouping, due):
                counted = {other.name: SubWindowRows(entries, other) for other in counting}
                yield from finalize(SubWindowRows(entries, grouping), grouping, own, work, counted=counted)

    def forget(self, plan: Plan, watermark: int, scheduled: int | None = None) -> int:
        """Drop what no later window needs, and return the time before which nothing is kept. Those of queries with
        SLIDE AT MOST may lie behind the watermark: they have been `scheduled` up to here."""
        clock = watermark if scheduled is None else min(watermark, scheduled)
        asked = {
            # One with SLIDE AT MOST may still be answered at the last instant.
            (q.window, q.start, q.after, q.stop, q.name in self.waiting, clock - q.window.slide)
            if q.at_most is not None
            else (q.window, q.start, q.after, q.stop, q.name in self.waiting, watermark)
            for grouping in plan.answering
            for q in grouping.bounded
        }
        needed = [needed_from(*a) for a in asked]
        for grouping in plan.answering:
            needed += _earliest(grouping.unbounded_windows, watermark)
            needed += _earliest(grouping.at_most_windows, clock - grouping.at_most_windows[:, 1])
        return self.forget_before(plan, min(needed, default=watermark))

    def forget_before(self, plan: Plan, horizon: int) -> int:
        """Drop what lies before the horizon, but for queries whose windows have no start: there it becomes one."""
        self.horizon = horizon if self.horizon is None else max(horizon, self.horizon)
        self.slices = self.slices[self.slices >= horizon]
        names = {q.name for q in plan.queries}
        if not self.cursors.keys() <= names:
            self.cursors = {name: c for name, c in self.cursors.items() if name in names}
        left = {name: slices[slices >= horizon] for name, slices in self.inherited.items() if name in names}
        self.inherited = {name: slices for name, slices in left.items() if len(slices)}
        give_way()
        self._kept.forget(self._entries, plan, horizon)
        endless = is_endless(plan)
        if not endless:
            self._entries = [e for e in self._entries if e.newest >= horizon]
        old = sum(len(e.slices) for e in self._entries if e.newest < horizon) if endless else 0
        if old > MOST_OLD or len(self._entries) > max(MOST_ENTRIES, MOST_OF_A_GROUPING * len(plan.groupings)):
            self._entries = _fewer(self._entries, plan, horizon, everything=old > MOST_OLD)
        return horizon

    def forget_query(self, name: str) -> None:
        """Another query has taken the name: how far the one before was answered is not its own."""
        self.cursors.pop(name, None)
        self.inherited.pop(name, None)
        self.waiting.discard(name)
        self.entries = [e if e.readers is None else e.for_readers(e.readers - {name}) for e in self.entries]

    def inherit(self, other: WindowTier, names: frozenset[str]) -> None:
        """Take over queries of another tier: how far they are answered, and what is kept for them."""
        for name in sorted(names & other.cursors.keys()):
            self.cursors[name] = other.cursors[name]
        for name in names:
            self.inherit_slices(name, np.concatenate([other.slices, other.inherited.get(name, other.slices[:0])]))
        self.waiting |= other.waiting & names
        taken = [entry.for_readers(names) for entry in other.entries]
        taken = [entry for entry in taken if entry.readers]
        self.entries += taken
        self._unsaved += taken
        horizons = [h for h in (self.horizon, other.horizon) if h is not None]
        self.horizon = max(horizons, default=None)

    def saved(self) -> list[PartialSubWindows]:
        """What came since the last call: the part of the state that a commit has to add."""
        new, self._unsaved = self._unsaved, []
        return new

    def snapshot(self) -> dict[str, Any]:
        return {
            "cursors": {name: [c.next_end, c.begun] for name, c in self.cursors.items()},
            "slices": self.slices.tolist(),
            "inherited": {name: slices.tolist() for name, slices in self.inherited.items()},
            "horizon": self.horizon,
        }

    def restore(self, state: Mapping[str, Any], tables: Iterable[pa.Table]) -> None:
        self.cursors = {name: Cursor(*fields) for name, fields in state["cursors"].items()}
        self.slices = np.array(state["slices"], np.int64)
        self.inherited = {name: np.array(slices, np.int64) for name, slices in state["inherited"].items()}
        self.horizon = state["horizon"]
        self.entries = [PartialSubWindows(table) for table in tables]


def _reached(entries: Sequence[PartialSubWindows], due: Due) -> list[PartialSubWindows]:
    """What due windows reach of sub-windows, where it takes no copy: of those of earlier batches often the end."""
    if not len(due):
        return list(entries)
    low, high = int(due.start.min()), int(due.end.max())
    return [
        e if (low <= e.oldest and e.newest < high) or not e.stands_by_slice else e.within(low, high) for e in entries
    ]


def by_readers(
    entries: list[PartialSubWindows], grouping: Grouping, due: Due
) -> Iterator[tuple[Due, list[PartialSubWindows]]]:
    """The due windows by the sub-windows that their queries may read: all read all, but for queries that brought some
    along from another cluster."""
    if all(entry.readers is None for entry in entries):
        yield due, entries
        return
    by_entries: dict[tuple[int, ...], list[int]] = {}
    for query in distinct(due.query).tolist():
        name = grouping.queries[query].name
        read = tuple(i for i, entry in enumerate(entries) if entry.is_read_by(name))
        by_entries.setdefault(read, []).append(query)
    for read, queries in by_entries.items():
        yield due.of(queries), [entries[i] for i in read]


def _fewer(entries: list[PartialSubWindows], plan: Plan, horizon: int, *, everything: bool) -> list[PartialSubWindows]:
    """Sub-windows merged with others of about their size, so that a row is merged a few times and not whenever new ones
    come; all of them with `everything`. What no query of the plan needs is dropped."""
    fewer: list[PartialSubWindows] = []
    endless = is_endless(plan)
    for grouping in plan.groupings:
        own = [e for e in entries if e.grouping == grouping.name]
        merged = set(range(len(own))) if everything else _of_a_size([len(e.slices) for e in own])
        old = [own[i] for i in sorted(merged)]
        kept = [e.gathered(horizon, ORIGIN) if endless else e.since(horizon) for e in old]
        fewer += [e for i, e in enumerate(own) if i not in merged]
        fewer += [e for e in merge_sub_windows(kept, grouping.states) if len(e.slices)]
    return fewer


def _of_a_size(sizes: Sequence[int]) -> set[int]:
    """Those up to the least size of which there are enough: several of them are about as large as the next size.

    >>> sorted(_of_a_size([900, 90, 80, 1, 1, 2, 1, 3, 1, 2, 1]))
    [3, 4, 5, 6, 7, 8, 9, 10]
    """
    if len(sizes) < max(2, min(ENOUGH, MOST_ENTRIES)):
        return set()
    for size in sorted(_order_of(size) for size in sizes):
        chosen = {i for i, own in enumerate(sizes) if _order_of(own) <= size}
        if len(chosen) >= ENOUGH:
            return chosen
    return set(range(len(sizes)))


def _order_of(size: int) -> int:
    return size.bit_length() // ENOUGH.bit_length()


def is_endless(plan: Plan) -> bool:
    """Whether some query's windows have no start, so that they need all there ever was."""
    return any(grouping.queries.any_endless for grouping in plan.answering)


def check_complete(entries: Iterable[PartialSubWindows], plan: Plan) -> None:
    """Refuse sub-windows that lack what a query kept there: answers from them would be wrong without a sign."""
    groupings = {grouping.name: grouping for grouping in plan.groupings}
    for entry in entries:
        grouping = groupings.get(entry.grouping)
        if grouping is None or entry.is_private:
            continue
        for query in grouping.queries:
            since = query.start
            if query.after is not None:
                since = first_end(query.after, query.asked_window) - query.window.range
            if query.tag or (since is not None and since > entry.newest) or not entry.is_read_by(query.name):
                continue
            if not holds(entry, grouping, query):
                hint = "finish it with the version of Mullion that made it, or start with a new checkpoint directory"
                raise CheckpointError(f"the checkpoint does not hold what query '{query.name}' needs", hint=hint)


def holds(entry: PartialSubWindows, grouping: Grouping, query: SlicedAggregation) -> bool:
    """Whether the sub-windows kept what the query needs of their events."""
    own = () if grouping.counted else query.template.aggregates
    states = (state for aggregate in own for state in states_of(aggregate))
    return entry.knows(query.slot.name) and all(f"{s.name}.0" in entry.table.schema.names for s in states)


def _earliest(windows: Times, watermark: int | Times) -> list[int]:
    """`needed_from` of queries that answer for ever, all at once: the earliest of it, if there is any."""
    if not len(windows):
        return []
    range_, slide, offset = windows.T
    starts = offset + ((watermark - offset) // slide + 1) * slide - range_
    return [int(np.where(range_ == EVERYTHING, watermark, starts).min())]


def needed_from(
    window: Period, start: int | None, after: int | None, stop: int | None, waiting: bool, watermark: int
) -> int:
    """The start of the earliest window that is still to be answered."""
    if waiting and after is not None:
        return first_end(after, window) - window.range
    if waiting and start is not None:
        return start
    if window.range == EVERYTHING or (stop is not None and watermark >= stop):
        return watermark
    earliest = first_end(watermark, window) - window.range
    if after is not None:
        earliest = max(earliest, first_end(after, window) - window.range)
    return earliest if start is None else max(earliest, start)
