"""A question asked once: one window, now.

It is answered from the sub-windows that standing queries keep, where they were cut where the question's window begins
and ends, or else from the events that the stream keeps for questions. `now` is the time of the newest event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.expressions.arrays import Times
from mullion.expressions.coding.dictionary import codes_of, combine, decoded
from mullion.instants import NO_START
from mullion.kernels.arrival import ARRIVAL
from mullion.kernels.columns import BatchColumns
from mullion.kernels.lookup import Prepared
from mullion.language.query import Axis, Expr, Period, Window
from mullion.planner.plan import Grouping, Plan
from mullion.planner.rules import make_plan
from mullion.planner.sliced import SlicedAggregation
from mullion.slices.answer_table import AnswerTable, Windows
from mullion.slices.finalize import Work, finalize
from mullion.slices.kept_stretches import KeptStretches
from mullion.slices.kernels.events import EVENT_TIME, TIME
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.one_window import OneWindow
from mullion.slices.order import times_of, values_on
from mullion.slices.partitions import canonical_key
from mullion.slices.pieces import Piece, pieces
from mullion.slices.rows import SubWindowRows
from mullion.slices.subwindow import PartialSubWindows, as_one
from mullion.slices.window_runs import Due


class ShownBounds(NamedTuple):
    """The bounds of a window as they are shown."""

    opens: int
    closes: int


@dataclass(frozen=True)
class EventsBefore:
    """How many events came before those that are at hand, and how far back in time they are complete."""

    events: int = 0
    since: int | None = None
    """None: from the first event on."""


# From events


def events_needed(frame: Window, now: int) -> int | None:
    """The time from which on events are needed, or None when that depends on their number or is the beginning."""
    if frame.attribute is not None:
        return None
    if frame.now:
        return now
    if frame.since is not None:
        return frame.since
    if frame.range is None or frame.slide_rows is not None:
        return None
    end = now if frame.slide is None else newest_end(frame, now)
    return end - frame.range


def are_enough(frame: Window, past: EventsBefore, events: int, now: int) -> bool:
    """Whether the newest `events` events, all that came since some time, hold the window. For one that slides by tuples
    ask `reaches_back` too."""
    if not past.events:
        return True
    if frame.range is not None and frame.slide_rows is not None and frame.attribute is None:
        return past.since is not None and now - frame.range >= past.since
    if frame.rows is not None and not frame.partition_by:
        return events >= frame.rows + (frame.slide_rows or 0)
    needed = events_needed(frame, now)
    return needed is not None and past.since is not None and needed >= past.since


def reaches_back(frame: Window, times: Times, past: EventsBefore, before: int, now: int) -> bool:
    """Whether events, the newest of all, go back to the start of a window that ends with the last n-th of them, or that
    holds the last rows before an instant."""
    if past.events and frame.rows is not None and frame.slide is not None:
        return int((times < newest_end(frame, now)).sum()) >= frame.rows
    if not past.events or frame.range is None or frame.slide_rows is None:
        return True
    last = len(times) - 1 - (before + len(times)) % frame.slide_rows
    return last >= 0 and past.since is not None and int(times[last]) - frame.range >= past.since


def from_events(
    query: SlicedAggregation,
    stream: Stream,
    events: pa.Table,
    inputs: Input,
    tables: tuple[Prepared, ...],
    before: int,
    now: int | None = None,
) -> pa.Table:
    """The answer over events in their order, of which `before` more came earlier. `now` is the time of the newest event
    of all, where no event may be at hand: those that lie before a landmark are not."""
    frame = query.frame
    alone = replace(query, window=Period(1, 1), axis=Axis("events"), start=None, stop=None)
    plan = make_plan(stream, [alone], axis=Axis("events"))
    events, places = _placed(frame, stream, events)
    if frame.attribute is not None or now is None:
        now = int(places[-1]) if len(places) else None
    window = None if now is None else _in_window(query, events, places, inputs, before, now)
    if window is None:
        return query.template.schema.empty_table()
    index, shown = window
    inside = events.take(pa.array(index))
    batch = inside.drop_columns([n for n in (TIME, ARRIVAL) if n in inside.schema.names])
    batch = batch.append_column(TIME, pa.array(np.zeros(len(inside), np.int64)))
    batch = batch.append_column(ARRIVAL, pa.array(np.arange(len(inside))))
    batch = batch.append_column(EVENT_TIME, pa.array(places[index]))
    windows = (plan.windows,) * len(plan.groupings)
    job = Job(plan.groupings, plan.methods, windows, inputs, plan.slicing, tables)
    entries = [PartialSubWindows.of(t, g) for g, t in zip(plan.groupings, partials(batch, job), strict=True)]
    return _finalized(query, plan.answering[0], plan.counting(plan.answering[0]), entries, 0, 1, shown)


def _placed(frame: Window, stream: Stream, events: pa.Table) -> tuple[pa.Table, Times]:
    """The events in the order of the window's column, and their values of it."""
    if frame.attribute is None:
        return events, times_of(events)
    values, there, _ = values_on(frame.attribute, stream, events)
    index = np.flatnonzero(there)
    index = index[np.argsort(values[index], kind="stable")]
    return events.take(pa.array(index)), values[index]


def _in_window(
    query: SlicedAggregation, events: pa.Table, places: Times, inputs: Input, before: int, now: int
) -> tuple[npt.NDArray[np.intp], ShownBounds] | None:
    """The events of the window, and its bounds; None before the first n-th event of one that slides by tuples."""
    frame = query.frame
    index = np.arange(len(places))
    last = len(places) - 1
    if frame.slide_rows is not None:
        last -= (before + len(places)) % frame.slide_rows
        if last < 0 or (frame.since is not None and places[last] < frame.since):
            return None
        index, now = index[: last + 1], int(places[last])
    if frame.rows is not None and frame.slide is not None:
        now = newest_end(frame, now)
        index = index[places[index] < now]
        if not len(index):
            return index, ShownBounds(NO_START, now)
    if frame.rows is not None:
        if frame.partition_by:
            index = _last_of_each(query.axis.partition, frame.rows, events, inputs, index)
        else:
            index = index[-frame.rows :]
        return index, ShownBounds(int(places[index[0]]), now)
    own_places = places[index]
    if frame.slide is not None:
        end = newest_end(frame, now)
        low = NO_START if frame.range is None else end - frame.range
        low = low if frame.since is None else frame.since
        return index[(own_places < end) & (own_places >= low)], ShownBounds(low, end)
    if frame.now:
        return index[own_places == now], ShownBounds(now, now)
    if frame.range is not None:
        return index[own_places > now - frame.range], ShownBounds(now - frame.range, now)
    low = NO_START if frame.since is None else frame.since
    return index[own_places >= low], ShownBounds(low, now)


def _last_of_each(
    keys: Sequence[Expr], rows: int, events: pa.Table, inputs: Input, index: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    columns = BatchColumns.of(events, inputs.columns, inputs.evaluated)
    codes = combine([codes_of(canonical_key(columns.array(key))) for key in keys], len(events))[0][index]
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], codes[order], "right")
    return np.sort(index[order[ends - np.arange(len(order)) <= rows]])


def newest_end(frame: Window, now: int) -> int:
    """The newest end of a periodic window."""
    assert frame.slide is not None
    return frame.offset + (now - frame.offset) // frame.slide * frame.slide


# From sub-windows


def from_sub_windows(
    query: SlicedAggregation,
    stream: Stream,
    entries: Sequence[PartialSubWindows],
    shown: ShownBounds,
    window: tuple[int, int],
) -> pa.Table:
    plan = _planned(query, stream)
    grouping = plan.answering[0]
    start, end = window
    counting = plan.counting(grouping)
    states = {own.name: own.states for own in (grouping, *counting)}
    inside = [e for e in entries if e.grouping in states and e.oldest < end and e.newest >= start]
    return _finalized(query, grouping, counting, as_one(inside, states), start, end, shown)


def _planned(query: SlicedAggregation, stream: Stream) -> Plan:
    """The plan of a question by itself. Monitors ask the same over and over: it is found by which object that is, since
    to compare questions takes as long as a part of the answer."""
    known = _PLANS.get(id(query))
    if known is None or known[0] is not query or known[1] is not stream:
        if len(_PLANS) >= MOST_PLANS:
            _PLANS.clear()
        known = _PLANS[id(query)] = query, stream, make_plan(stream, [query])
    return known[2]


MOST_PLANS = 256
_PLANS: dict[int, tuple[SlicedAggregation, Stream, Plan]] = {}


def pieces_of(
    query: SlicedAggregation, stream: Stream, entries: Sequence[PartialSubWindows], window: tuple[int, int]
) -> dict[Piece, Callable[[], PartialSubWindows]]:
    """The sub-windows of a window, the oldest first, and how each is read. `from_sub_windows` takes what was read."""
    plan = _planned(query, stream)
    answering = plan.answering[0]
    by_name = {grouping.name: grouping for grouping in (answering, *plan.counting(answering))}
    return {
        piece: partial(piece.read, query, by_name[piece.entry.grouping])
        for piece in pieces(entries, list(by_name), *window)
    }


def kept_window(
    query: SlicedAggregation, kept_stretches: KeptStretches, now: int, *, exact: bool
) -> tuple[tuple[int, int], ShownBounds] | None:
    """The newest window of the question that sub-windows hold: what it begins and ends with, and what is shown. With
    `exact`, one that ends with the newest event, or where the question says that it ends."""
    frame = query.frame
    if frame.range is None or frame.attribute is not None or frame.slide_rows is not None:
        return None
    if frame.slide is not None:
        ends = [newest_end(frame, now)]
    else:
        ends = [now + 1] if exact else kept_stretches.edges(now - frame.range, now + 1)
    for end in ends:
        if kept_stretches.holds_window(query, end - frame.range, end, now):
            closes = now if end == now + 1 and frame.slide is None else end
            return (end - frame.range, end), ShownBounds(closes - frame.range, closes)
    return None


def _finalized(
    query: SlicedAggregation,
    grouping: Grouping,
    counting: Sequence[Grouping],
    entries: Sequence[PartialSubWindows],
    start: int,
    end: int,
    shown: ShownBounds,
) -> pa.Table:
    schema, rows = query.template.schema, SubWindowRows(entries, grouping)
    if not counting:
        found = OneWindow(rows, grouping, start, end)
        if not len(found.pairs):
            return schema.empty_table()
        windows = Windows(np.zeros(1, np.intp), np.array([shown.opens]), np.array([shown.closes]), None)
        table = AnswerTable(query.template, len(grouping.keys), windows, found)
        table.choose()
        return _in_schema(table.answers(), schema)
    zero = np.zeros(1, np.int64)
    due = Due(np.zeros(1, np.intp), zero + start, zero + end, zero + shown.opens, zero + shown.closes)
    counted = {g.name: SubWindowRows(entries, g) for g in counting}
    tables = [_in_schema(own.table, schema) for own in finalize(rows, grouping, due, Work(), counted=counted)]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same answers without codes, in the types that are shown."""
    plain = decoded(table)
    return plain if plain.schema.equals(schema) else plain.cast(schema)
