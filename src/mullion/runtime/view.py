"""What a commit left of a stream, and how questions about the stream are answered from it.

    a synopsis on the column      max and min, bounds of SELECT APPROX (`synopsis_answers`)
    sub-windows                   what standing queries keep, where it was cut at the question's bounds
    kept events                   KEEP '1 hour' or KEEP 1000000 ROWS

Batches go on meanwhile: a question reads what the last commit left, which never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.errors import MullionError
from mullion.kernels.lookup import Prepared, prepare
from mullion.language.query import Axis, Window
from mullion.operators.answering import TableByName
from mullion.operators.network import StepEvents
from mullion.planner.plan import Grouping
from mullion.planner.rules import make_plan
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.column_structures import ColumnStructure
from mullion.runtime.isolation import StateScan
from mullion.runtime.kept_events import KeptEvents
from mullion.runtime.synopsis_answers import exact_answer
from mullion.slices.inputs import kernel_columns
from mullion.slices.kept_stretches import KeptStretches
from mullion.slices.kernels.partial import Input
from mullion.slices.once import (
    ShownBounds,
    are_enough,
    events_needed,
    from_events,
    from_sub_windows,
    kept_window,
    newest_end,
    pieces_of,
    reaches_back,
)
from mullion.slices.order import times_of
from mullion.slices.pieces import Piece
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.waiting_values import WaitingValues

SourcedRows = tuple[pa.Table, str, int | None]
"""Rows, what they are from, and up to which event time."""


SharedSubWindows = tuple[tuple[PartialSubWindows, ...], KeptStretches]
"""The sub-windows of queries that share them, and what they cover."""

Evaluate = Callable[[Stream, pa.Table, Sequence[Grouping]], tuple[pa.Table, Input]]
"""Events of a stream with what only the source can evaluate of some groupings, and what they arrive as."""


@dataclass(frozen=True)
class View:
    """What a commit left of a stream: all of it belongs together, and nothing of it changes."""

    stream: Stream
    newest: int
    events: int
    sets: tuple[SharedSubWindows, ...]
    kept: KeptEvents | None
    waiting: pa.Table | None
    """Events that have no place in the order yet, and so are not in the synopses."""
    synopses: Mapping[str, ColumnStructure]
    tables: Mapping[str, pa.Table]
    """Tables that events were looked up in, as the batch found them."""
    _in_order: dict[str, WaitingValues] = field(default_factory=dict, compare=False, repr=False)

    def ask(self, query: SlicedAggregation, evaluate: Evaluate, table: TableByName) -> SourcedRows:
        """Answer a question over the stream. `evaluate` computes what the kernel cannot, `table` gives the rows of
        tables that no query has looked at."""
        return exact_answer(query, self) or StreamQuestion(query, self.stream, self, evaluate, table).answer()

    def scan(self, query: SlicedAggregation) -> StateScan[SourcedRows] | None:
        """How to read the sub-windows that answer a question, one by one; None where something else answers it."""
        if exact_answer(query, self) is not None:
            return None
        held = QuestionSubWindows.holding(query, self, exact=True)
        if held is None and not self.keeps_enough(query.frame):
            held = QuestionSubWindows.holding(query, self, exact=False)
        return None if held is None else StateScan(held.pieces(), held.answer)

    def keeps_enough(self, frame: Window) -> bool:
        return self.kept is not None and are_enough(frame, self.kept.past, self.kept.rows, self.newest)

    def waiting_values(self, column: str) -> WaitingValues:
        """A column of the events that wait, put in order for the first question that asks about it."""
        if column not in self._in_order:
            self._in_order[column] = WaitingValues(self.waiting, column, self.stream.types[column])
        return self._in_order[column]

    def kept_events(self, windows: Sequence[Window], now: int) -> StepEvents:
        """The events that a question over relations needs, of those that the stream keeps."""
        kept = self.kept
        if kept is None or not all(are_enough(window, kept.past, kept.rows, now) for window in windows):
            raise not_kept(self.stream, kept is None)
        rows = kept.read(None)
        return StepEvents(rows, times_of(rows), np.arange(self.events - len(rows), self.events))


def not_kept(stream: Stream, keeps_none: bool, either: str = "") -> MullionError:
    """What to say to a question whose events are gone."""
    kept = "keeps no events" if keeps_none else "no longer has all the events"
    hint = f"add KEEP '1 hour' or KEEP 1000000 ROWS to CREATE STREAM {stream.name}"
    return MullionError(f"stream '{stream.name}' {kept} that this question needs{either}", hint=hint)


@dataclass(frozen=True)
class QuestionSubWindows:
    """The sub-windows that hold a question's window."""

    query: SlicedAggregation
    stream: Stream
    entries: Sequence[PartialSubWindows]
    window: tuple[int, int]
    shown: ShownBounds
    up_to: int

    @staticmethod
    def holding(query: SlicedAggregation, view: View, *, exact: bool) -> QuestionSubWindows | None:
        for entries, kept_stretches in view.sets:
            kept = kept_window(query, kept_stretches, view.newest, exact=exact)
            if kept is not None:
                window, shown = kept
                # A window cut at an edge holds the events before the edge, also when the newest event is on it.
                up_to = min(shown.closes, view.newest) if exact else window[1] - 1
                return QuestionSubWindows(query, view.stream, entries, window, shown, up_to)
        return None

    def pieces(self) -> dict[Piece, Callable[[], PartialSubWindows]]:
        return pieces_of(self.query, self.stream, self.entries, self.window)

    def answer(self, read: Sequence[PartialSubWindows]) -> SourcedRows:
        """From the sub-windows themselves, or from what was read of each."""
        table = from_sub_windows(self.query, self.stream, read, self.shown, self.window)
        return table, "the sub-windows that standing queries keep", self.up_to


@dataclass(frozen=True)
class StreamQuestion:
    query: SlicedAggregation
    stream: Stream
    view: View
    evaluate: Evaluate
    table: TableByName

    def answer(self) -> SourcedRows:
        """From sub-windows up to the newest event, or kept events, or sub-windows up to an earlier time."""
        answer = self._from_sub_windows(exact=True) or self._from_kept() or self._from_sub_windows(exact=False)
        if answer is not None:
            return answer
        raise not_kept(self.stream, self.view.kept is None, ", and no standing query has them either")

    def _from_sub_windows(self, *, exact: bool) -> SourcedRows | None:
        held = QuestionSubWindows.holding(self.query, self.view, exact=exact)
        return None if held is None else held.answer(held.entries)

    def _from_kept(self) -> SourcedRows | None:
        kept, frame, now = self.view.kept, self.query.frame, self.view.newest
        if kept is None or not self.view.keeps_enough(frame):
            return None
        since = events_needed(frame, now)
        events = kept.read(since)
        before = self.view.events - len(events)
        if not reaches_back(frame, times_of(events), kept.past, before, now):
            return None
        plan = make_plan(self.stream, [self.query], axis=Axis("events"))
        inputs = Input({n: t for n, t in self.stream.columns if n in events.schema.names})
        if kernel_columns(plan.groupings) is None:
            events, inputs = self.evaluate(self.stream, events, plan.groupings)
        table = from_events(self.query, self.stream, events, inputs, self._look_up(plan.groupings), before, now)
        closes = now if frame.slide is None else newest_end(frame, now)
        return table, "the events that the stream keeps", min(closes, now)

    def _look_up(self, groupings: Sequence[Grouping]) -> tuple[Prepared, ...]:
        lookups = dict.fromkeys(lookup for grouping in groupings for lookup in grouping.lookups)
        prepared = []
        for lookup in lookups:
            rows = self.view.tables.get(lookup.table)
            prepared.append(prepare(lookup, self.table(lookup.table) if rows is None else rows))
        return tuple(prepared)
