"""Queries that stand on the order of events: their events come to the driver, few columns of them, and wait there until
the watermark has passed them.

    batch --the columns that these queries need--> ReorderBuffer --settled--> one AxisSet for each axis --> answers

The buffer is one line: whatever puts events into it sees all of them. Only the columns that the queries need are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mullion.algebra.lookups import READ
from mullion.algebra.streams import Stream
from mullion.catalog.summaries import StreamStructure
from mullion.expressions.vector import arrow_type
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.kernels.lookup import Prepared
from mullion.kernels.table_versions import read_before, with_batch
from mullion.language.query import Axis
from mullion.memory import Memory
from mullion.options import Options
from mullion.planner.plan import Grouping
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.column_structures import ColumnStructure, feed, new_structure
from mullion.runtime.lookup_tables import LookupTables
from mullion.runtime.state_memory import check_ordered
from mullion.slices.axis import AxisSet, axis_name, by_axis
from mullion.slices.bounds import Stretch
from mullion.slices.finalize import Answers, Work
from mullion.slices.inputs import columns_of, input_for
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input
from mullion.slices.limits import Limits
from mullion.slices.order import ReorderBuffer, times_of
from mullion.slices.partitions import PartitionSet
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import Tally

WAITING, MARKS, ENTRIES, FED, ADDED = "waiting", "marks ", "axis ", "fed ", "added "
"""What the tables of a commit are, by the start of their labels: parts of a synopsis are whole, or added."""


class Ordered:
    """The axes of a stream, and the events that have no place on them yet."""

    def __init__(self, stream: Stream, share: Callable[[], int | None] = lambda: None) -> None:
        """`share`: the bytes that a summary without MEMORY may have."""
        self.stream, self._share = stream, share
        self.order = ReorderBuffer()
        self.sets: dict[str, AxisSet] = {}
        self.synopses: dict[str, ColumnStructure] = {}
        self.input = Input({})
        """What is needed of events."""
        self.complete_from = EVER_BEFORE
        """All events from this time on have come here."""

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        return tuple(g for axis_set in self.sets.values() if axis_set.plan is not None for g in axis_set.plan.groupings)

    def __bool__(self) -> bool:
        """Whether anything stands on the order of events."""
        return bool(self.sets or self.synopses)

    def feed(self, synopses: Sequence[StreamStructure], newest: int | None) -> None:
        """The synopses from now on; events up to `newest` came earlier."""
        if not self:
            self.complete_from = EVER_BEFORE if newest is None else newest + 1
        before = self.synopses
        known = {s.name: before[s.name] for s in synopses if s.name in before and before[s.name].definition == s}
        self.synopses = {s.name: known.get(s.name) or new_structure(s, newest) for s in synopses}

    def set_queries(self, queries: Sequence[SlicedAggregation], options: Options, *, before: int) -> None:
        """The queries from now on; `before` events came earlier."""
        wanted: dict[str, tuple[Any, list[SlicedAggregation]]] = {}
        for axis, own in by_axis(queries):
            alone = [(f"{axis_name(axis)} for {q.name}", [q]) for q in own]
            parts = [(axis_name(axis), own)] if options.is_shared else alone
            wanted |= {name: (axis, part) for name, part in parts}
        placed = (axis_set.numbered for axis_set in self.sets.values() if not axis_set.axis.order)
        numbered = max(placed, default=before - len(self.order))
        for name, (axis, _) in wanted.items():
            if name not in self.sets:
                self.sets[name] = axis_set_for(axis, numbered)
        self.sets = {name: self.sets[name] for name in wanted}
        for name, (_, own) in wanted.items():
            self.sets[name].set_queries(self.stream, own, options)
        self.input = input_for(self.stream, self.groupings, sorted(self._placing()))
        if not self:
            self.order = ReorderBuffer()

    def holds(self, time: int) -> bool:
        """Whether `replace` may be called with events from a time on."""
        return (not self.sets or self.complete_from <= time) and self._has_own_columns(self.order.waiting)

    def restored_holds(self, state: Mapping[str, Any], tables: Sequence[tuple[str, pa.Table]], time: int) -> bool:
        """As `holds`, of what a commit knew."""
        is_complete = not state["sets"] or state.get("complete_from", FOREVER) <= time
        return is_complete and self._has_own_columns(dict(tables).get(WAITING))

    def _has_own_columns(self, waiting: pa.Table | None) -> bool:
        return waiting is None or {*waiting.column_names} <= {TIME, READ, *self.stream.types}

    def replace(self, since: int, events: pa.Table) -> None:
        """Let events take the place of those from a time on that wait: some of these may have come before anybody stood
        on their order, and others without what new queries need."""
        waiting = self.order.waiting
        if waiting is not None and READ in waiting.column_names:
            events = read_before(events, times_of(events), waiting, times_of(waiting))
        self.order = ReorderBuffer(None if waiting is None else Stretch(high=since).of(waiting))
        self.order.add(events)
        self.complete_from = min(self.complete_from, since)

    def forget_query(self, name: str) -> None:
        """How far a query was answered is of no use any more."""
        for axis_set in self.sets.values():
            axis_set.forget_query(name)

    # Events

    def _placing(self) -> set[str]:
        """The columns that place events on the axes."""
        columns = {axis_set.axis.order for axis_set in self.sets.values() if axis_set.axis.order}
        columns |= {synopsis.definition.column for synopsis in self.synopses.values()}
        return columns | {
            name for axis_set in self.sets.values() for key in axis_set.axis.partition for name in columns_of(key)
        }

    @property
    def looks_up(self) -> bool:
        """Whether events are looked up in tables."""
        return any(grouping.lookups for grouping in self.groupings)

    def add(self, events: pa.Table, batch: int) -> None:
        """Let events that count wait for their place. They find what tables have with this batch."""
        self.order.add(with_batch(events, batch) if self.looks_up else events)

    def missed(self, late: pa.Table, tables: tuple[Prepared, ...]) -> Iterator[dict[str, int]]:
        """How many of late events the queries of each axis would have taken."""
        for axis_set in self.sets.values():
            yield axis_set.missed(late.unify_dictionaries(), self.input, tables)

    def settle(self, watermark: int | None, memory: Memory) -> Iterator[pa.Table]:
        """The events before the watermark, which get their places now, in portions that fit into memory.
        What lies over another column is put in its order there: that takes all of them."""
        waiting = self.order.waiting
        if waiting is None:
            return
        rows = memory.settled_rows(waiting.nbytes // max(1, len(waiting)))
        over_columns = [axis_set for axis_set in self.sets.values() if axis_set.axis.order]
        for settled in self.order.settle_in_portions(watermark, None if over_columns else rows):
            for axis_set in over_columns:
                check_ordered(axis_set, settled, memory)
            yield settled

    def place(self, settled: pa.Table, lookups: LookupTables) -> Iterator[Tally]:
        """Give events their places."""
        settled = self._with_all_columns(settled.unify_dictionaries())
        self.synopses = {name: synopsis.copy() for name, synopsis in self.synopses.items()}
        for synopsis in self.synopses.values():
            feed(synopsis, settled, self.stream.types[synopsis.definition.column], self._share())
        tables, settled = lookups.read_with(self.groupings, settled)
        for axis_set in self.sets.values():
            yield from axis_set.add_events(settled, self.input, tables)

    def _with_all_columns(self, events: pa.Table) -> pa.Table:
        """Events that came before a query did lack what only it needs, and it needs none of them."""
        for name, type_ in self.input.columns.items():
            if name not in events.schema.names:
                events = events.append_column(name, pa.nulls(len(events), arrow_type(type_)))
        if self.looks_up and READ not in events.schema.names:
            events = events.append_column(READ, pa.nulls(len(events), pa.int64()))
        return events

    def newest_on(self, column: str) -> int | None:
        """The newest value of a column that windows go over, as far as events have their place."""
        return max(
            (s.newest for s in self.sets.values() if s.axis.order == column and s.newest is not None), default=None
        )

    @staticmethod
    def restored_newest(state: Mapping[str, Any], column: str) -> int | None:
        """The newest value of such a column that a commit knew."""
        names = {axis_name(Axis(kind, column)) for kind in ("column", "events")}
        known = (s["newest"] for s in state["sets"].values() if s["axis"] in names and s["newest"] is not None)
        return max(known, default=None)

    def answer(self, settled: int | None, work: Work, limits: Limits, *, is_followed: bool) -> Iterator[Answers]:
        """What is due once all events before the time `settled` have their place; whether more are known to follow."""
        for axis_set in self.sets.values():
            axis_set.is_followed = is_followed
            yield from axis_set.answer(settled, work, limits)

    def forget(self, settled: int) -> None:
        for axis_set in self.sets.values():
            axis_set.forget(settled)

    # What a restart needs

    def snapshot(self) -> dict[str, Any]:
        sets = {name: {"axis": axis_name(axis_set.axis), **axis_set.snapshot()} for name, axis_set in self.sets.items()}
        synopses = {name: synopsis.snapshot() for name, synopsis in self.synopses.items()}
        return {"sets": sets, "synopses": synopses, "complete_from": self.complete_from}

    def tables(self, new: Mapping[str, Sequence[PartialSubWindows]], *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        """Tables to commit, by their labels: sub-windows that are `new` or all, and all that waits."""
        for name, axis_set in self.sets.items():
            for entry in axis_set.tier.entries if whole else new[name]:
                yield f"{ENTRIES}{name}", entry.table
            yield f"{MARKS}{name}", axis_set.state_table()
        for name, synopsis in self.synopses.items():
            for part, is_whole, table in synopsis.tables(whole=whole):
                yield f"{FED if is_whole else ADDED}{part} {name}", table
        if self.order.waiting is not None:
            yield WAITING, self.order.waiting.unify_dictionaries()

    def restore(
        self, state: Mapping[str, Any], tables: Sequence[tuple[str, pa.Table]], queries: Sequence[SlicedAggregation]
    ) -> None:
        axes = {axis_name(axis): axis for axis, _ in by_axis(queries)}
        last = dict(tables)
        for synopsis in self.synopses.values():
            _restore_synopsis(synopsis, state, tables)
        for name, own in state["sets"].items():
            axis = axes.get(own["axis"])
            if axis is None:
                continue
            self.sets[name] = axis_set_for(axis)
            mine = [table for label, table in tables if label == f"{ENTRIES}{name}"]
            self.sets[name].restore(own, mine, last[f"{MARKS}{name}"])
        self.order = ReorderBuffer(last.get(WAITING))
        if state["sets"] or state["synopses"]:
            self.complete_from = state.get("complete_from", FOREVER)


def restored_synopses(
    synopses: Sequence[StreamStructure],
    state: Mapping[str, Any],
    tables: Sequence[tuple[str, pa.Table]],
    newest: int | None,
) -> tuple[dict[str, ColumnStructure], pa.Table | None]:
    """Synopses as a commit left them, and the events that waited then; those that are new to it know nothing."""
    last = dict(tables)
    restored = {synopsis.name: new_structure(synopsis, newest) for synopsis in synopses}
    for synopsis in restored.values():
        _restore_synopsis(synopsis, state, tables)
    return restored, last.get(WAITING)


def _restore_synopsis(
    synopsis: ColumnStructure, state: Mapping[str, Any], tables: Sequence[tuple[str, pa.Table]]
) -> None:
    """As commits left it, if it is the same one: another of its name knows nothing."""
    name = synopsis.definition.name
    if name not in state["synopses"] or not synopsis.is_same(state["synopses"][name]):
        return
    parts: dict[str, list[pa.Table]] = {}
    for label, table in tables:
        kind, _, rest = label.partition(" ")
        part, _, whose = rest.partition(" ")
        if whose == name and f"{kind} " == FED:
            parts[part] = [table]
        elif whose == name and f"{kind} " == ADDED:
            parts.setdefault(part, []).append(table)  # a version before may not have had this part
    synopsis.restore(state["synopses"][name], parts)


def axis_set_for(axis: Axis, numbered: int = 0) -> AxisSet:
    return PartitionSet(axis, numbered) if axis.partition else AxisSet(axis, numbered)
