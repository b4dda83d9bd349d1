"""The result of a standing query, and what is told of it at every instant.

    root of the plan --Delta--> Result: the rows that can still be seen --answers--> rows of the sink

What is told depends on the query's output (see `emission`). A row that can no longer be seen, or told to have left, is
not kept. Rows of one instant are told in the query's order, then in the order in which they came.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.nodes import Node, ResultWindow, Scan, has_total, nodes
from mullion.algebra.relation import Relation
from mullion.algebra.update_pattern import Pattern
from mullion.expressions.arrays import Index, Mask, Times
from mullion.expressions.vector import Vector, arrow_type
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.language.types import TIMESTAMP
from mullion.operators.base import Parts
from mullion.operators.clock import Changes, Clock, Periodic
from mullion.operators.cover import Cover
from mullion.operators.emission import Emission, Visibility
from mullion.operators.emitter import Emitter
from mullion.operators.row_store import Hash
from mullion.operators.timed_rows import Delta, TimedRows
from mullion.planner.answer_schema import answer_schema, has_lives, has_sign


class Result:
    """The materialised result of a relation.

    A periodic query is told at the instants up to `now`, a continuous one at the changes before it. At the end of the
    input all instants are told that see a row; rows that never end are seen as long as a window holds an event, and at
    least until the first instant after the newest one.

    Aggregates without GROUP BY have a row also where no window holds an event. They are told from the first to the last
    instant at which one does, so what comes after the last that is known waits until there is a later one.

    LIMIT is part of the result: what is new or gone is what came into the limited result or left it.
    """

    def __init__(
        self,
        relation: Relation,
        pattern: Pattern,
        schema: pa.Schema | None = None,
        *,
        asked_once: bool = False,
    ) -> None:
        """`asked_once`: a question about one instant, which is told also where no window holds an event."""
        self.relation, self.pattern = relation, pattern
        self.schema = answer_schema(relation) if schema is None else schema
        self._signed = has_sign(relation)
        self._emitter = Emitter(relation, signed=self._signed)
        self._periodic = None if relation.slide is None else Periodic(relation.slide, relation.offset)
        self._rows = pa.schema([(name, arrow_type(type_)) for name, type_ in relation.root.columns])
        self._held: Hash | None = None
        self._told = EVER_BEFORE
        """The last time that is told."""
        self._left = 0
        self._cover = Cover()
        self._has_total = has_total(relation.plan) and not asked_once
        self.watches = self._has_total or (self._periodic is not None and not all(map(_lets_go, nodes(relation.plan))))
        """Whether it must be told what comes into the windows."""

    @property
    def held(self) -> int:
        return 0 if self._held is None else self._held.held

    def take(self, delta: Delta) -> None:
        """What became known of the root."""
        if self._held is None:
            self._held = Hash(self._rows, delta.fresh.ids.shape[1])
        self._held.cut(delta.retracted)
        self._held.settle()
        self._held.insert(delta.fresh.lasting())

    def widen(self, windows: Sequence[TimedRows]) -> None:
        """What came into the windows of the plan."""
        for lives in windows:
            self._cover.widen(lives, self._periodic, begin=self._begin, stop=self.relation.stop)

    @property
    def _begin(self) -> int | None:
        """The time of its first instant, if it joined late."""
        return None if self.relation.start is None else self.relation.start + (self.relation.longest or 0)

    @property
    def _bound(self) -> int | None:
        """The last instant at which a window holds an event, so far, where that limits what is told."""
        return self._cover.last if self._has_total and not self._cover.endless else None

    def answers(self, now: int, *, last: int | None = None, ended: bool = False, most: int = sys.maxsize) -> pa.Table:
        """What is due up to now and was not told yet. `last` is the time of the newest event of its streams; it matters
        when the input has ended. Where there is more than `most`, as much as that and a little more is told."""
        self._left = most
        lives = TimedRows.empty(self._rows, 1) if self._held is None else self._held.rows()
        found: list[pa.Table] = []
        latest = self._told
        if len(lives):
            if self._is_plain:
                found = self._as_they_come(lives)
            elif self._periodic is not None:
                high = self._last_instant(self._periodic, lives, last) if ended else self._due(self._periodic, now)
                found = self._at_instants(self._periodic, lives, high)
                latest = max(latest, int(self._periodic.time(np.array([high]))[0]))
            else:
                found = self._at_changes(lives, now, ended=ended)
        if ended:
            # Should more input come after all, no instant is told twice; changes come after the newest event.
            self._told = latest if self._periodic is not None or last is None else max(latest, last)
            self._held, self._cover = None, Cover()
        else:
            self._told = max(self._told, self._told_up_to(now))
        if self._held is not None:
            self._held.keep(self._is_needed)
        return pa.concat_tables([self.schema.empty_table(), *found])

    def _due(self, clock: Periodic, now: int) -> int:
        """The last instant that is due."""
        return clock.due(now) if self._bound is None else min(clock.due(now), self._bound)

    def _told_up_to(self, now: int) -> int:
        """The last time of which nothing has to be told any more. Before any window holds an event there is nothing to
        tell, and what comes later is after now."""
        waits = self._bound is not None and not self._cover.is_empty
        if self._periodic is not None:
            return min(now, int(self._periodic.time(np.array([self._bound]))[0])) if waits else now
        return (min(now, self._cover.last) if waits else now) - 1

    @property
    def _is_plain(self) -> bool:
        """Whether rows are told when they come and in that order: no other row has a say in it."""
        return self.relation.output == "changes" and not self._signed and not self.relation.order_by

    def _as_they_come(self, lives: TimedRows) -> list[pa.Table]:
        relation = self.relation
        emitted = lives.start < lives.end
        if self._begin is not None:
            emitted &= lives.start >= self._begin
        if relation.stop is not None:
            emitted &= lives.start <= relation.stop
        order = np.lexsort((*lives.ids.T[::-1], lives.start))
        order = order[emitted[order]]
        return [self._table(lives, Changes(lives.start), Emission.of(order, order))]

    def _last_instant(self, clock: Periodic, lives: TimedRows, newest: int | None) -> int:
        """The last one that sees a row; for DSTREAM the one after it, which sees it gone."""
        after = 1 if self.relation.output == "dstream" else 0
        if self._bound is not None:
            return self._bound + after
        last = self._cover.last if newest is None else max(self._cover.last, int(clock.first(np.array([newest]))[0]))
        if self._cover.endless:
            return last + after
        ends = clock.last(lives.end[lives.end < FOREVER])
        return max(last, int(clock.first(lives.start).max()), int(ends.max(initial=EVER_BEFORE)) + after)

    def _at_instants(self, clock: Periodic, lives: TimedRows, high: int) -> list[pa.Table]:
        relation, low = self.relation, clock.due(self._told) + 1
        if relation.stop is not None:
            high = min(high, clock.due(relation.stop))
        seen = _visibility(lives, clock)
        if self._bound is not None:
            seen = seen._replace(last=np.minimum(seen.last, self._bound))
        before, begin = low - 1, EVER_BEFORE
        if relation.start is not None:
            begin = clock.since(relation.start + (relation.longest or 0))
        if self._bound is not None:
            begin = max(begin, self._cover.first)
        if begin > EVER_BEFORE:
            low, before = max(low, begin), max(before, begin)
            lives, seen = _from(begin, lives, seen)
        return [*self._answers(lives, seen, clock, low, high, before)] if low <= high else []

    def _at_changes(self, lives: TimedRows, now: int, *, ended: bool) -> list[pa.Table]:
        until, begin = FOREVER if ended else now, self._begin
        if self._bound is not None:
            until, begin = until if ended else min(until, self._bound), self._cover.first
            lives = lives.take(lives.start < self._bound)
            lives = replace(lives, end=np.where(lives.end < FOREVER, np.minimum(lives.end, self._bound), FOREVER))
        clock = Changes.of(lives, self._told, until)
        low, high = 0, len(clock.times) - 1
        if begin is not None:
            low = int(np.searchsorted(clock.times, begin))
        if self.relation.stop is not None:
            high = int(np.searchsorted(clock.times, self.relation.stop, "right")) - 1
        return [*self._answers(lives, _visibility(lives, clock), clock, low, high, low - 1)] if low <= high else []

    def _answers(
        self, lives: TimedRows, seen: Visibility, clock: Clock, low: int, high: int, before: int
    ) -> Iterator[pa.Table]:
        """What is told from low to high, when the result is looked at from `before` on."""
        for emission in self._emitter.emissions(lives, seen, low, high, before):
            if self._left < 0:
                return
            self._left -= len(emission.rank)
            yield self._table(lives, clock, emission)

    @property
    def exceeded(self) -> bool:
        """Whether the last answers were more than they should be."""
        return self._left < 0

    @property
    def untold(self) -> int:
        """How many rows wait for a window that holds an event, to be told."""
        return self.held if self._has_total and self._periodic is not None else 0

    def _table(self, lives: TimedRows, clock: Clock, emission: Emission) -> pa.Table:
        """The answer's columns."""
        ends = clock.time(emission.rank)
        longest = self.relation.longest
        known = np.ones(len(ends), np.bool_)
        arrays = [_times(ends - (longest or 0), known & (longest is not None)), _times(ends, known)]
        rows = lives.rows.take(pa.array(emission.row))
        arrays += [rows.column(i) for i in range(len(self.relation.names))]
        if has_lives(self.relation):
            expires = lives.end[emission.row]
            arrays.append(_times(lives.start[emission.row], known))
            arrays.append(_times(expires, (expires < FOREVER) & (self.pattern is not Pattern.STRICT)))
            if self._signed:
                arrays.append(pa.array(emission.sign))
        return pa.table(arrays, names=self.schema.names).cast(self.schema)

    def _is_needed(self, lives: TimedRows) -> Mask:
        """Which rows can still be told."""
        clock = self._periodic
        if clock is None:
            return (lives.start if self._is_told_once else lives.end) > self._told
        told = clock.due(self._told)
        untold = clock.first(lives.start) > told
        leaves = clock.last(lives.end) + (0 if self.relation.output in ("rstream", "wstream") else 1)
        return untold if self._is_told_once else untold | (leaves > told)

    @property
    def _is_told_once(self) -> bool:
        """Whether rows are told only when they come."""
        unsigned = self.relation.output == "changes" and not self._signed
        return unsigned or (self.pattern is Pattern.MONOTONIC and self.relation.output in ("istream", "changes"))

    # Restart

    def parts(self) -> Parts:
        told = pa.table({"told": [self._told], "width": [0 if self._held is None else self._held.width]})
        return {"told": [told], "cover": [self._cover.to_table()], **({} if self._held is None else self._held.parts())}

    def restore(self, parts: Parts) -> None:
        if not parts:
            return
        (told,) = parts["told"]
        self._told = told.column("told")[0].as_py()
        self._cover = Cover.from_table(parts["cover"][0])
        width = told.column("width")[0].as_py()
        if width:
            self._held = Hash(self._rows, width)
            self._held.restore(parts)


def _lets_go(node: Node) -> bool:
    """Whether every row that a window brings ends some time, whatever comes."""
    if not isinstance(node, Scan | ResultWindow):
        return True
    window = node.window
    return not (window.is_endless or window.internal or window.rows is not None)


def _visibility(lives: TimedRows, clock: Clock) -> Visibility:
    arrival = _places([*lives.ids.T[::-1], lives.start])
    return Visibility(clock.first(lives.start), clock.last(lives.end), arrival)


def _places(keys: Sequence[npt.NDArray[Any]]) -> Index:
    """The place of each row in the order of the keys, the last of which matters most."""
    order = np.lexsort(keys)
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    return place


def _from(begin: int, lives: TimedRows, seen: Visibility) -> tuple[TimedRows, Visibility]:
    """As it looks to a query whose first instant is `begin`: all that is there then has just come."""
    is_there = seen.first <= seen.last
    kept = np.flatnonzero(~is_there | (seen.last >= begin))
    first = np.where(is_there, np.maximum(seen.first, begin), seen.first)
    return lives.take(kept), seen._replace(first=first).take(kept)


def _times(values: Times, known: Mask) -> pa.Array:
    return Vector(TIMESTAMP, np.where(known, values, 0), known).to_arrow()


__all__ = ["Result"]
