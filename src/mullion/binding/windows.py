"""Windows: which make sense where, when a query is answered, and how far back it reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from mullion.algebra.nodes import Node
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.binding.grouping import no_aggregate
from mullion.binding.scope import Scope
from mullion.errors import CheckError, NotSupported, Place
from mullion.expressions.shared import shared
from mullion.expressions.typing import resolve
from mullion.language.query import Derived, Exists, Expr, Named, Query, Window, walk
from mullion.language.sources import leaves


class Clock(NamedTuple):
    """When a query is answered: at the multiples of `slide` shifted by `offset`; None: at every change."""

    slide: int | None = None
    offset: int = 0
    at_most: bool = False
    """Whether a scheduler may put some of these instants off (SLIDE AT MOST)."""


CONTINUOUS = Clock()


def stream_window(source: Named, stream: Stream) -> tuple[Window, tuple[Expr, ...]]:
    """The window of a stream, and the resolved keys of PARTITION BY.

    Without its SLIDE: events live for as long, whenever they are looked at, so windows of one range are shared.
    """
    window = source.window
    if window is None:
        hint = "write one after its name, such as [RANGE '10 min' SLIDE '1 min'] or [RANGE UNBOUNDED]"
        raise CheckError(f"stream '{stream.name}' needs a window", source.place, hint=hint)
    if window.attribute is not None and stream.column(window.attribute, window.place) != stream.time_column:
        hint = f"windows of rows and joins go over the event time, {stream.time_column}"
        raise NotSupported("WATTR in this query", window.place, hint=hint)
    _check(window)
    keys = _partition(window, source, stream)
    return _unslid(replace(window, attribute=None, partition_by=keys)), keys


def checked_window(window: Window | None, stream: Stream, place: Place | None) -> Window:
    """The window, with the column that it goes over as the stream spells it, or None for the event time.

    INTERNAL is for results that would expire; answers of aggregates don't.
    """
    if window is None:
        hint = "write one after its name, such as [RANGE '10 min' SLIDE '1 min']"
        raise CheckError(f"stream '{stream.name}' needs a window", place, hint=hint)
    window = replace(window, internal=False) if window.internal else window
    if window.attribute is None:
        return _in_time(window)
    attribute = stream.column(window.attribute, window.place)
    if attribute == stream.time_column:
        return _in_time(replace(window, attribute=None))
    if window.at_most:
        hint = f"windows over the event time, {stream.time_column}, may be scheduled; leave AT MOST out"
        raise NotSupported(f"SLIDE AT MOST over '{attribute}'", window.place, hint=hint)
    type_ = stream.types[attribute]
    if window.rows is not None:
        raise CheckError("a window of ROWS has no WATTR: rows are ordered by event time", window.place)
    if not type_.is_integer and type_.kind not in ("timestamp", "timestamp_ntz", "date"):
        hint = "use a column of whole numbers, dates or timestamps"
        raise CheckError(f"a window cannot go over '{attribute}', which is {type_}", window.place, hint=hint)
    if not type_.is_integer:
        return _in_time(replace(window, attribute=attribute))
    if not window.unitless and (window.range, window.slide, window.since) != (None, None, None):
        hint = f"write numbers alone, as in [RANGE 10 SLIDE 5 WATTR {attribute}]"
        raise CheckError(f"'{attribute}' is {type_}: a window over it has no durations", window.place, hint=hint)
    return replace(window, attribute=attribute)


def _in_time(window: Window) -> Window:
    """The window, whose lengths must be durations."""
    if window.unitless:
        raise CheckError("a duration needs a unit, such as 10 s", window.place)
    return window


def grouped_window(source: Named, stream: Stream) -> tuple[Window, tuple[Expr, ...]]:
    """The window of a query that groups its events, as it was written, and the resolved keys of PARTITION BY."""
    window = checked_window(source.window, stream, source.place)
    return window, _partition(window, source, stream, alone=True)


def result_window(window: Window) -> Window:
    """A window over the results of a query, without its SLIDE."""
    for there, what in [
        (window.attribute is not None, "WATTR"),
        (bool(window.partition_by), "PARTITION BY"),
        (window.internal, "INTERNAL"),
        (window.since is not None, "FROM TIMESTAMP"),
    ]:
        if there:
            hint = "write [RANGE r], [RANGE r SLIDE s], [ROWS n], [NOW] or [RANGE UNBOUNDED]"
            raise NotSupported(f"{what} in a window over results", window.place, hint=hint)
    _check(window)
    return _unslid(window)


def _unslid(window: Window) -> Window:
    slide_rows = 1 if window.rows is not None and window.slide_rows is None else window.slide_rows
    return replace(window, slide=None, offset=0, at_most=False, slide_rows=slide_rows, place=None)


def _check(window: Window) -> None:
    _in_time(window)
    if window.rows is None and window.slide_rows is not None:
        hint = "slide in time, or write [ROWS n SLIDE m]"
        raise NotSupported("SLIDE by TUPLES in this query", window.place, hint=hint)
    if window.partition_by and (window.slide_rows or 1) > 1:
        hint = "leave out its SLIDE"
        raise NotSupported("PARTITION BY with SLIDE in this query", window.place, hint=hint)


def _partition(window: Window, source: Named, stream: Stream, *, alone: bool = False) -> tuple[Expr, ...]:
    if not window.partition_by:
        return ()
    scope = Scope([source], [stream], alone=alone)
    keys = []
    for key in window.partition_by:
        no_aggregate(key, "PARTITION BY")
        keys.append(shared(resolve(scope.plain(key), stream.types)[0]))
    return tuple(keys)


@dataclass(frozen=True)
class Timing:
    """The clock of a query: that of all its windows, in FROM and in EXISTS, in all parts of a union.

    A sub-query with a window over its results keeps its own time: its results are events to the query around. Where
    there is nothing else, and no window has a SLIDE, the query is answered when it is.
    """

    materialized: Mapping[str, Relation]

    def clock(self, query: Query) -> Clock:
        common = self._common(self._clocks(query))
        if common == CONTINUOUS and not any(isinstance(node, Exists) for node in _parts(query.where)):
            parts = (query, *query.union, *query.excepted)
            within = {self._within(source) for part in parts for source in leaves(part.source)}
            common = within.pop() if len(within) == 1 else common
        return common

    def _within(self, source: Named | Derived) -> Clock:
        """The clock of the query whose results a window without SLIDE goes over."""
        if source.window is not None and (source.window.slide_rows or 1) > 1:
            return CONTINUOUS
        if isinstance(source, Named):
            read = self.materialized.get(source.name.lower())
            return CONTINUOUS if read is None else Clock(read.slide, read.offset)
        return self.clock(source.query)

    @staticmethod
    def _common(clocks: Iterable[tuple[Clock, Place | None]]) -> Clock:
        common_clock = CONTINUOUS
        for clock, place in clocks:
            if common_clock == CONTINUOUS:
                common_clock = clock
            elif clock not in (CONTINUOUS, common_clock):
                hint = "give all windows of the query the same SLIDE and OFFSET"
                if clock.at_most != common_clock.at_most:
                    hint = "write SLIDE AT MOST with the same period in all windows of the query, or in none"
                raise NotSupported("a query over windows of different SLIDEs", place, hint=hint)
        return common_clock

    def _clocks(self, query: Query) -> Iterator[tuple[Clock, Place | None]]:
        for source in leaves(query.source):
            if source.window is not None:
                yield clock_of(source.window), source.window.place
            elif isinstance(source, Derived):
                yield from self._clocks(source.query)
            elif (read := self.materialized.get(source.name.lower())) is not None:
                yield Clock(read.slide, read.offset), source.place
        for node in _parts(query.where):
            if isinstance(node, Exists):
                yield from self._clocks(node.query)
        for part in (*query.union, *query.excepted):
            yield from self._clocks(part)


def _parts(expr: Expr | None) -> Iterable[Expr]:
    return () if expr is None else walk(expr)


def clock_of(window: Window) -> Clock:
    return CONTINUOUS if window.slide is None else Clock(window.slide, window.offset % window.slide, window.at_most)


def reach(node: Node) -> int | None:
    """How long before an instant an event may count; None when no window has a length in time.

    A window over results reaches back by its own range and by that of what the results are made of.
    """
    below = max((length for part in node.inputs if (length := reach(part)) is not None), default=None)
    window = node.own_window
    return below if window is None or window.range is None else window.range + (below or 0)
