"""Questions asked once of a running stream, and where their answers come from.

    a synopsis on the column      max and min of [ROWS n], bounds of SELECT APPROX
    sub-windows                   what standing queries keep, where it was cut at the question's bounds
    kept events                   KEEP '1 hour' or KEEP 1000000 ROWS

Batches go on meanwhile: a question reads what the last commit left, which never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS
from mullion.algebra.streams import Stream
from mullion.catalog.synopses import Synopsis
from mullion.errors import CheckError, MullionError, NotSupported
from mullion.expressions.vector import Vector, arrow_type
from mullion.kernels.lookup import Prepared, prepare
from mullion.language.query import Aggregate, Axis, Column, Named, Query, Window
from mullion.language.types import BIGINT, DOUBLE, TIMESTAMP
from mullion.operators.network import Events as Relational
from mullion.planner.plan import Grouping
from mullion.planner.rules import make_plan
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.kept_events import KeptEvents
from mullion.slices.column_synopses import ColumnSynopsis
from mullion.slices.coverage import Coverage
from mullion.slices.inputs import kernel_columns
from mullion.slices.kernels.partial import Input
from mullion.slices.once import (
    are_enough,
    events_needed,
    from_events,
    from_sub_windows,
    kept_window,
    last_instant,
    reaches_back,
)
from mullion.slices.order import times_of
from mullion.slices.subwindow import PartialSubWindows

SourcedRows = tuple[pa.Table, str, int | None]
"""Rows, what they are from, and up to which event time."""


Sharing = tuple[tuple[PartialSubWindows, ...], Coverage]
"""The sub-windows of queries that share them, and what they cover."""

Evaluate = Callable[[Stream, pa.Table, Sequence[Grouping]], tuple[pa.Table, Input]]
"""Events of a stream with what only the source can evaluate of some groupings, and what they arrive as."""

Tables = Callable[[str], pa.Table]
"""The rows of a table by its name."""


@dataclass(frozen=True)
class View:
    """What a commit left of a stream: all of it belongs together, and nothing of it changes."""

    stream: Stream
    newest: int
    events: int
    sets: tuple[Sharing, ...]
    kept: KeptEvents | None
    waiting: pa.Table | None
    """Events that have no place in the order yet, and so are not in the synopses."""
    synopses: Mapping[str, ColumnSynopsis]
    tables: Mapping[str, pa.Table]
    """Tables that events were looked up in, as the batch found them."""

    def ask(self, query: SlicedAggregation, evaluate: Evaluate, table: Tables) -> SourcedRows:
        """Answer a question over the stream. `evaluate` computes what the kernel cannot, `table` gives the rows of
        tables that no query has looked at."""
        asked = Asked(query, self.stream, self, evaluate, table)
        return asked.from_synopsis() or asked.answer()

    def kept_events(self, windows: Sequence[Window], now: int) -> Relational:
        """The events that a question over relations needs, of those that the stream keeps."""
        kept = self.kept
        if kept is None or not all(are_enough(window, kept.past, kept.rows, now) for window in windows):
            raise not_kept(self.stream, kept is None)
        rows = kept.read(None)
        return Relational(rows, times_of(rows), np.arange(kept.past.events, kept.past.events + len(rows)))


def not_kept(stream: Stream, keeps_none: bool, either: str = "") -> MullionError:
    """What to say to a question whose events are gone."""
    kept = "keeps no events" if keeps_none else "no longer has all the events"
    hint = f"add KEEP '1 hour' or KEEP 1000000 ROWS to CREATE STREAM {stream.name}"
    return MullionError(f"stream '{stream.name}' {kept} that this question needs{either}", hint=hint)


@dataclass(frozen=True)
class Asked:
    query: SlicedAggregation
    stream: Stream
    view: View
    evaluate: Evaluate
    table: Tables

    def answer(self) -> SourcedRows:
        """From sub-windows up to the newest event, or kept events, or sub-windows up to an earlier time."""
        for answer in (self._from_sub_windows(exact=True), self._from_kept(), self._from_sub_windows(exact=False)):
            if answer is not None:
                return answer
        raise not_kept(self.stream, self.view.kept is None, ", and no standing query has them either")

    def from_synopsis(self) -> SourcedRows | None:
        """max or min of [ROWS n] over a column that ordered sharing serves."""
        query, frame = self.query, self.query.frame
        if frame.rows is None or frame.partition_by or frame.slide_rows != 1 or query.keys or query.lookups:
            return None
        if query.predicate is not None or len(query.template.aggregates) != 1:
            return None
        (aggregate,) = query.template.aggregates
        if aggregate.function not in ("max", "min") or not isinstance(aggregate.argument, Column):
            return None
        if (
            query.template.having is not None
            or [expr for expr, _ in query.template.items] != [Column("#a0")]
            or aggregate.argument_type is None
        ):
            return None
        for synopsis in self.view.synopses.values():
            if (
                synopsis.shared
                and synopsis.definition.column == aggregate.argument.name
                and synopsis.holds(frame.rows, self.view.waiting)
            ):
                type_ = aggregate.argument_type
                value = synopsis.exact(aggregate.function, frame.rows, self.view.waiting, type_)
                answer = None if value is None else (int(value) if type_.is_integer else value)
                opens = synopsis.opens(frame.rows, self.view.waiting)
                columns = [Vector.of(TIMESTAMP, [opens]), Vector.of(TIMESTAMP, [self.view.newest])]
                arrays = [c.to_arrow() for c in (*columns, Vector.of(aggregate.result, [answer]))]
                table = pa.table(arrays, schema=query.template.schema)
                return table, f"the synopsis {synopsis.definition.name} (ordered sharing)", self.view.newest
        return None

    def _from_sub_windows(self, *, exact: bool) -> SourcedRows | None:
        for entries, coverage in self.view.sets:
            kept = kept_window(self.query, coverage, self.view.newest, exact=exact)
            if kept is not None:
                window, shown = kept
                table = from_sub_windows(self.query, self.stream, entries, shown, window)
                # A window cut at an edge holds the events before the edge, also when the newest event is on it.
                up_to = min(shown.closes, self.view.newest) if exact else window[1] - 1
                return table, "the sub-windows that standing queries keep", up_to
        return None

    def _from_kept(self) -> SourcedRows | None:
        kept, frame, now = self.view.kept, self.query.frame, self.view.newest
        if kept is None or not are_enough(frame, kept.past, kept.rows, now):
            return None
        since = events_needed(frame, now)
        events = kept.read(since)
        before = self.view.events - len(events)
        if not reaches_back(frame, times_of(events), kept.past, before):
            return None
        plan = make_plan(self.stream, [self.query], axis=Axis("events"))
        inputs = Input({n: t for n, t in self.stream.columns if n in events.schema.names})
        if kernel_columns(plan.groupings) is None:
            events, inputs = self.evaluate(self.stream, events, plan.groupings)
        table = from_events(self.query, self.stream, events, inputs, self._look_up(plan.groupings), before, now)
        closes = now if frame.slide is None else last_instant(frame, now)
        return table, "the events that the stream keeps", min(closes, now)

    def _look_up(self, groupings: Sequence[Grouping]) -> tuple[Prepared, ...]:
        lookups = dict.fromkeys(lookup for grouping in groupings for lookup in grouping.lookups)
        prepared = []
        for lookup in lookups:
            rows = self.view.tables.get(lookup.table)
            prepared.append(prepare(lookup, self.table(lookup.table) if rows is None else rows))
        return tuple(prepared)


def bounds_of(query: Query, stream: Stream, view: View | None, defined: Sequence[Synopsis]) -> SourcedRows:
    """SELECT APPROX max(price) FROM trades [ROWS 3]: two columns for each item, between which the answer lies."""
    source = query.source
    plain = not (query.where or query.group_by or query.having or query.order_by or query.distinct or query.union)
    if not isinstance(source, Named) or source.window is None or source.window.rows is None or not plain:
        hint = "write SELECT APPROX max(column) FROM stream [ROWS n], without WHERE or GROUP BY"
        raise NotSupported("this form of SELECT APPROX", query.place, hint=hint)
    if source.window.partition_by or source.window.slide_rows != 1:
        raise NotSupported("SELECT APPROX over PARTITION BY or with a SLIDE", source.window.place)
    rows = source.window.rows
    waiting, synopses = None if view is None else view.waiting, _known(defined, view)
    names, arrays, used = list(WINDOW_COLUMNS), [], dict[str, None]()
    opens: int | None = None
    for item in query.items:
        call = item.expr
        if not isinstance(call, Aggregate) or call.function not in _BOUNDED or call.distinct or call.where:
            hint = f"a timegram answers {', '.join(_BOUNDED)} of a column"
            raise NotSupported("this item of SELECT APPROX", item.place or query.place, hint=hint)
        timegram = _timegram_for(call, stream, rows, synopses, query, waiting)
        low, high = timegram.bounds(call.function, rows, waiting, stream.types[timegram.definition.column])
        opens = timegram.opens(rows, waiting)
        used[timegram.definition.name] = None
        name, type_ = item.name or call.function, BIGINT if call.function == "count" else DOUBLE
        names += [f"{name}_low", f"{name}_high"]
        arrays += [Vector.of(type_, [low]).to_arrow(), Vector.of(type_, [high]).to_arrow()]
    now = None if view is None else view.newest
    bounds = [Vector.of(TIMESTAMP, [opens]).to_arrow(), Vector.of(TIMESTAMP, [now]).to_arrow()]
    table = pa.table([*bounds, *arrays], names=names)
    assert table.schema.field(0).type == arrow_type(TIMESTAMP)
    return table, f"the synopsis {', '.join(used)} (timegram)", now


def _known(defined: Sequence[Synopsis], view: View | None) -> dict[str, ColumnSynopsis]:
    """The synopses that there are: what was shown of them, or that they have seen nothing yet."""
    shown, newest = ({}, None) if view is None else (view.synopses, view.newest)
    known = {name: shown_synopsis for name, shown_synopsis in shown.items() if shown_synopsis.definition in defined}
    return {synopsis.name: known.get(synopsis.name) or ColumnSynopsis(synopsis, since=newest) for synopsis in defined}


_BOUNDED = ("max", "min", "count", "sum", "avg")


def _timegram_for(
    call: Aggregate,
    stream: Stream,
    rows: int,
    synopses: Mapping[str, ColumnSynopsis],
    query: Query,
    waiting: pa.Table | None,
) -> ColumnSynopsis:
    argument = call.args[0] if call.args else None
    column = stream.spelling.get(argument.name.lower()) if isinstance(argument, Column) else None
    if column is None:
        near = "name a column of the stream that has a timegram"
        raise CheckError(f"SELECT APPROX {call.function} needs a column", call.place or query.place, hint=near)
    on_it = [timegram for timegram in synopses.values() if timegram.grams and timegram.definition.column == column]
    if not on_it:
        hint = f"CREATE SYNOPSIS name ON {stream.name}({column}) USING timegram (buckets 64, rows {rows})"
        raise CheckError(f"there is no timegram on {stream.name}({column})", query.place, hint=hint)
    for timegram in on_it:
        if timegram.holds(rows, waiting):
            return timegram
    most = max(timegram.definition.rows for timegram in on_it)
    if rows <= most:
        raise CheckError(f"the timegram on {stream.name}({column}) has not seen {rows:,} rows yet", query.place)
    raise CheckError(f"the timegram on {stream.name}({column}) holds {most:,} rows, not {rows:,}", query.place)
