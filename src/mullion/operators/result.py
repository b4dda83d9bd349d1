"""The result of a standing query, and what is emitted of it at every instant.

    root of the plan --Delta--> Result: the rows that can still be seen --answers--> rows of the sink

What is emitted depends on the query's output (see `emission`). A row is forgotten when it can no longer be seen, nor be
emitted as one that left. Rows of one instant are emitted in the query's order, then in the order in which they came.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Node, Promising, has_total, nodes
from mullion.algebra.relation import Relation
from mullion.algebra.update_pattern import Pattern
from mullion.expressions.arrays import Mask, Times
from mullion.expressions.vector import Vector, arrow_type
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.language.types import TIMESTAMP
from mullion.operators.base import Parts
from mullion.operators.emission import Emission, Visibility
from mullion.operators.emitter import Emitter
from mullion.operators.ranked_instants import Changes, Periodic, RankedInstants
from mullion.operators.row_store import Hash
from mullion.operators.timed_rows import Delta, TimedRows, in_time_order
from mullion.operators.window_occupancy import Occupancy
from mullion.planner.answer_schema import answer_schema, came_after, has_lives, has_sign


class Result:
    """The materialised result of a relation.

    A periodic query is answered at the instants up to `now`, a continuous one at the changes before it. At the end of
    the input all instants are answered that see a row. Rows that never end are seen as long as a window holds an event,
    and at least until the first instant after the newest event.

    Aggregates without GROUP BY have a row also where no window holds an event. They are answered from the first to the
    last instant at which a window does, so what comes after the last such instant waits until there is a later one.

    LIMIT is part of the result: what is new or gone is what came into the limited result or left it.

    With SLIDE AT MOST a step may be answered at every second or fourth of its instants alone. The others are put off
    for good; what is kept and counted goes by all of them, so that the next step may again be answered at each.
    """

    def __init__(
        self,
        relation: Relation,
        pattern: Pattern,
        schema: pa.Schema | None = None,
        *,
        asked_once: bool = False,
    ) -> None:
        """`asked_once`: a question about one instant, which is answered also where no window holds an event."""
        self.relation, self.pattern = relation, pattern
        self.schema = answer_schema(relation) if schema is None else schema
        self._signed = has_sign(relation)
        self._emitter = Emitter(relation, signed=self._signed)
        self._periodic = None if relation.slide is None else Periodic(relation.slide, relation.offset)
        self._rows = pa.schema([(name, arrow_type(type_)) for name, type_ in relation.root.columns])
        self._store: Hash | None = None
        self._emitted_until = EVER_BEFORE if relation.after is None else relation.after
        """Up to when all is emitted."""
        self._left, self._stretch = 0, 1
        self._may_come_late = any(isinstance(node, Promising) for node in nodes(relation.plan))
        self._occupancy = Occupancy()
        self._has_total = has_total(relation.plan) and not asked_once
        self.watches = self._has_total or (self._periodic is not None and not all(map(_rows_end, nodes(relation.plan))))
        """Whether it must know what comes into the windows (`widen`)."""

    @property
    def rows_held(self) -> int:
        return 0 if self._store is None else self._store.rows_held

    def apply(self, delta: Delta) -> None:
        """What became known of the root."""
        if self._store is None:
            self._store = Hash(self._rows, delta.fresh.ids.shape[1])
        self._store.cut(delta.retracted)
        self._store.settle()
        self._store.insert(self._as_found(delta.fresh).lasting())

    def _as_found(self, fresh: TimedRows) -> TimedRows:
        """Rows that a promising join tells after they started are there from when they are told. Where rows are emitted
        as they come, they say when they started."""
        if not self._may_come_late or self._is_plain:
            return fresh
        begin = self._emitted_until + (1 if self._periodic is None else 0)
        return fresh if not len(fresh) else replace(fresh, start=np.maximum(fresh.start, begin))

    def widen(self, windows: Sequence[TimedRows]) -> None:
        """What came into the windows of the plan."""
        for timed in windows:
            self._occupancy.widen(timed, self._periodic, begin=self._begin, stop=self.relation.stop)

    @property
    def _begin(self) -> int | None:
        """The time of its first instant, if it entered late."""
        return None if self.relation.start is None else self.relation.start + (self.relation.longest or 0)

    @property
    def _bound(self) -> int | None:
        """The last instant at which a window holds an event, so far, where that limits what is emitted."""
        return self._occupancy.last if self._has_total and not self._occupancy.endless else None

    def answers(
        self, now: int, *, last: int | None = None, ended: bool = False, most: int = sys.maxsize, stretch: int = 1
    ) -> pa.Table:
        """What is due up to now and was not emitted yet. `last` is the time of the newest event of its streams; it
        matters when the input has ended. Where there is more than `most`, a little more than that is emitted.
        `stretch`: of how many instants one is answered, if they may be put off."""
        self._left = most
        self._stretch = stretch if self.relation.at_most else 1
        timed = TimedRows.empty(self._rows, 1) if self._store is None else self._store.rows()
        tables: list[pa.Table] = []
        latest = self._emitted_until
        if len(timed):
            if self._is_plain:
                tables = self._as_they_come(timed)
            elif self._periodic is not None:
                high = self._last_instant(self._periodic, timed, last) if ended else self._due(self._periodic, now)
                tables = self._at_instants(self._periodic.every(self._stretch), timed, high // self._stretch)
                latest = max(latest, int(self._periodic.time(np.array([high]))[0]))
            else:
                tables = self._at_changes(timed, now, ended=ended)
        if ended:
            # Should more input come after all, no instant is answered twice; changes come after the newest event.
            self._emitted_until = latest if self._periodic is not None or last is None else max(latest, last)
            self._store, self._occupancy = None, Occupancy()
        else:
            self._emitted_until = max(self._emitted_until, self._nothing_left_until(now))
        if self._store is not None:
            self._store.keep(self._is_needed)
        return pa.concat_tables([self.schema.empty_table(), *tables])

    def _due(self, instants: Periodic, now: int) -> int:
        """The last instant that is due."""
        return instants.due(now) if self._bound is None else min(instants.due(now), self._bound)

    def _nothing_left_until(self, now: int) -> int:
        """Up to when nothing is left to emit. Before any window holds an event there is nothing to emit, and what comes
        later is after now."""
        waits = self._bound is not None and not self._occupancy.is_empty
        if self._periodic is not None:
            return min(now, int(self._periodic.time(np.array([self._bound]))[0])) if waits else now
        return (min(now, self._occupancy.last) if waits else now) - 1

    @property
    def _is_plain(self) -> bool:
        """Whether rows are emitted when they come and in that order, whatever other rows there are."""
        return self.relation.output == "changes" and not self._signed and not self.relation.order_by

    def _as_they_come(self, timed: TimedRows) -> list[pa.Table]:
        relation = self.relation
        emitted = timed.start < timed.end
        if relation.after is not None:
            emitted &= timed.start > relation.after
        if self._begin is not None:
            emitted &= timed.start >= self._begin
        if relation.stop is not None:
            emitted &= timed.start <= relation.stop
        row = np.flatnonzero(emitted)
        order = in_time_order(timed.start[row], timed.ids[row])
        row = row if order is None else row[order]
        return [self._table(timed, Changes(timed.start), Emission.of(row, row))]

    def _last_instant(self, instants: Periodic, timed: TimedRows, newest: int | None) -> int:
        """The last one that sees a row; for DSTREAM the one after it, which sees it gone."""
        after = 1 if self.relation.output == "dstream" else 0
        if self._bound is not None:
            return self._bound + after
        last = self._occupancy.last
        if newest is not None:
            last = max(last, int(instants.first(np.array([newest]))[0]))
        if self._has_total:
            return last + after
        ends = instants.last(timed.end[timed.end < FOREVER])
        return max(last, int(instants.first(timed.start).max()), int(ends.max(initial=EVER_BEFORE)) + after)

    def _at_instants(self, instants: Periodic, timed: TimedRows, high: int) -> list[pa.Table]:
        relation, low = self.relation, instants.due(self._emitted_until) + 1
        if relation.stop is not None:
            high = min(high, instants.due(relation.stop))
        seen = _visibility(timed, instants)
        if self._bound is not None:
            seen = seen._replace(last=np.minimum(seen.last, self._bound // self._stretch))
        before, entered = low - 1, EVER_BEFORE if self._begin is None else instants.since(self._begin)
        begin = entered if self._bound is None else max(entered, -(-self._occupancy.first // self._stretch))
        if begin > EVER_BEFORE:
            low, before = max(low, begin), max(before, begin)
            timed, seen = _from(begin, timed, seen, entered)
        return [*self._answers(timed, seen, instants, low, high, before)] if low <= high else []

    def _at_changes(self, timed: TimedRows, now: int, *, ended: bool) -> list[pa.Table]:
        until, begin = FOREVER if ended else now, self._begin
        if self._bound is not None:
            until, begin = until if ended else min(until, self._bound), self._occupancy.first
            timed = timed.take(timed.start < self._bound)
            timed = replace(timed, end=np.where(timed.end < FOREVER, np.minimum(timed.end, self._bound), FOREVER))
        enters = self._enters_at
        instants = Changes.of(timed, self._emitted_until, until, () if enters is None else (enters,))
        low, high = 0, len(instants.times) - 1
        if begin is not None:
            low = int(np.searchsorted(instants.times, begin))
        if self.relation.stop is not None:
            high = int(np.searchsorted(instants.times, self.relation.stop, "right")) - 1
        if low > high:
            return []
        seen = _visibility(timed, instants)
        if enters is not None:
            entered = int(np.searchsorted(instants.times, enters))
            timed, seen = _from(entered, timed, seen, entered)
        return [*self._answers(timed, seen, instants, low, high, low - 1)]

    @property
    def _enters_at(self) -> int | None:
        """When a query enters late that tells how its result changes, and was not answered yet: what is there then has
        just come. With BACKFILL that is so where rows are taken back, since those told before were told to nobody."""
        enters = self._begin if self._signed or self.relation.output in ("istream", "dstream") else None
        if self._signed and self.relation.after is not None:
            enters = self.relation.after + 1
        return None if enters is None or enters <= self._emitted_until else enters

    def _answers(
        self, timed: TimedRows, seen: Visibility, instants: RankedInstants, low: int, high: int, before: int
    ) -> Iterator[pa.Table]:
        """What is emitted from low to high, when the result is looked at from `before` on."""
        for emission in self._emitter.emissions(timed, seen, low, high, before):
            if self._left < 0:
                return
            self._left -= len(emission.rank)
            yield self._table(timed, instants, emission)

    @property
    def exceeded(self) -> bool:
        """Whether the last answers were more than they should be."""
        return self._left < 0

    @property
    def waiting(self) -> int:
        """How many rows wait to be emitted, until a window holds an event."""
        return self.rows_held if self._has_total and self._periodic is not None else 0

    def _table(self, timed: TimedRows, instants: RankedInstants, emission: Emission) -> pa.Table:
        """The answer's columns."""
        ends = instants.time(emission.rank)
        longest = self.relation.longest
        known = np.ones(len(ends), np.bool_)
        arrays = [_times(ends - (longest or 0), known & (longest is not None)), _times(ends, known)]
        row = emission.row
        is_whole = len(row) == len(timed) and bool((row[1:] > row[:-1]).all())
        rows = timed.rows if is_whole else timed.rows.take(pa.array(row))
        arrays += [rows.column(i) for i in range(len(self.relation.names))]
        if has_lives(self.relation):
            expires, shift = timed.end[emission.row], came_after(self.relation)
            arrays.append(_times(timed.start[emission.row] + shift, known))
            arrays.append(_times(expires + shift, (expires < FOREVER) & (self.pattern is not Pattern.STRICT)))
            if self._signed:
                arrays.append(pa.array(emission.sign))
        return pa.table(arrays, names=self.schema.names).cast(self.schema)

    def _is_needed(self, timed: TimedRows) -> Mask:
        """Which rows can still be emitted."""
        instants = self._periodic
        if instants is None:
            only_comes = self._is_emitted_once and self._enters_at is None
            return (timed.start if only_comes else timed.end) > self._emitted_until
        emitted, comes = instants.due(self._emitted_until), instants.first(timed.start)
        if self._is_emitted_once:  # all that is there at the first instant comes then
            comes = comes if self._begin is None else np.maximum(comes, instants.since(self._begin))
            return comes > emitted
        leaves = instants.last(timed.end) + (0 if self.relation.output in ("rstream", "wstream") else 1)
        return (comes > emitted) | (leaves > emitted)

    @property
    def _is_emitted_once(self) -> bool:
        """Whether rows are emitted only when they come."""
        unsigned = self.relation.output == "changes" and not self._signed
        return unsigned or (self.pattern is Pattern.MONOTONIC and self.relation.output in ("istream", "changes"))

    # Restart

    def parts(self) -> Parts:
        width = 0 if self._store is None else self._store.width
        emitted = pa.table({"told": [self._emitted_until], "width": [width]})
        return {
            "told": [emitted],
            "cover": [self._occupancy.to_table()],
            **({} if self._store is None else self._store.parts()),
        }

    def restore(self, parts: Parts) -> None:
        if not parts:
            return
        (emitted,) = parts["told"]
        self._emitted_until = emitted.column("told")[0].as_py()
        self._occupancy = Occupancy.from_table(parts["cover"][0])
        width = emitted.column("width")[0].as_py()
        if width:
            self._store = Hash(self._rows, width)
            self._store.restore(parts)


def _rows_end(node: Node) -> bool:
    """Whether every row that a window brings ends some time, whatever comes."""
    window = node.own_window
    return window is None or not (window.is_endless or window.internal or window.rows is not None)


def _visibility(timed: TimedRows, instants: RankedInstants) -> Visibility:
    place, order = np.arange(len(timed)), in_time_order(timed.start, timed.ids)
    if order is not None:
        place[order] = np.arange(len(timed))
    return Visibility(instants.first(timed.start), instants.last(timed.end), place)


def _from(begin: int, timed: TimedRows, seen: Visibility, entered: int) -> tuple[TimedRows, Visibility]:
    """As it looks to a query whose first instant is `begin`: all that is there then has just come. What came and went
    before the query entered was never there."""
    is_there = seen.first <= seen.last
    visible = np.flatnonzero(np.where(is_there, seen.last >= begin, seen.first > entered))
    first = np.where(is_there, np.maximum(seen.first, begin), seen.first)
    return timed.take(visible), seen._replace(first=first).take(visible)


def _times(values: Times, known: Mask) -> pa.Array:
    return Vector(TIMESTAMP, np.where(known, values, 0), known).to_arrow()
