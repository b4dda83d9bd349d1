"""The result of a standing query, and what is told of it at every instant.

    root of the plan --Delta--> Result: the rows that can still be seen --answers--> rows of the sink

What is told depends on the query's output (see `telling`). A row that can no longer be seen, or told to have left, is
not kept. Rows of one instant are told in the query's order, then in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.catalog.algebra import Aggregated, Filter, Node, Project, Relation
from mullion.kernels.columns import Columns
from mullion.language.types import TIMESTAMP
from mullion.language.vector import Vector, arrow_type
from mullion.operators.base import Parts
from mullion.operators.clock import Changes, Clock, Periodic
from mullion.operators.held import Held
from mullion.operators.lives import EVER_BEFORE, FOREVER, Delta, Index, Lives, Mask, Times
from mullion.operators.row_codes import Codes, value_codes
from mullion.operators.telling import Seen, Told, came, changes, left, missed, new, old, turns, whole
from mullion.planner.update_pattern import Pattern
from mullion.windows.arrange import ranked

SIGN = "sign"


def is_of_aggregates(node: Node) -> bool:
    """Whether rows of the result are groups, which have no lifetimes to tell of."""
    while isinstance(node, Filter | Project):
        node = node.input
    return isinstance(node, Aggregated)


def is_signed(relation: Relation, pattern: Pattern) -> bool:
    """Whether rows are told when they leave: their ends are not known when they come, so nothing else could tell."""
    return relation.output == "changes" and pattern is Pattern.STRICT and not is_of_aggregates(relation.root)


def answer_schema(relation: Relation, pattern: Pattern) -> pa.Schema:
    """The columns of an answer: the window's, the items, and for rows that are no groups from when to when they live
    and, for changes of strict plans, whether they come or leave."""
    time = arrow_type(TIMESTAMP)
    fields = [("window_start", time), ("window_end", time)]
    types = [type_ for _, type_ in relation.root.columns]
    fields += [(name, arrow_type(type_)) for name, type_ in zip(relation.names, types, strict=False)]
    if not is_of_aggregates(relation.root):
        fields += [("inserted_at", time), ("expires_at", time)]
        fields += [(SIGN, pa.int32())] if is_signed(relation, pattern) else []
    return pa.schema(fields)


class Result:
    """The materialised result of a relation.

    A periodic query is told at the instants up to `now`, a continuous one at the changes before it. At the end of the
    input all instants are told that see a row; rows that never end are seen as long as others, and at least until the
    first instant after the last event.
    """

    def __init__(
        self, relation: Relation, pattern: Pattern, schema: pa.Schema | None = None, strategy: str = "upa"
    ) -> None:
        self.relation, self.pattern, self.strategy = relation, pattern, strategy
        self.schema = answer_schema(relation, pattern) if schema is None else schema
        self._periodic = None if relation.slide is None else Periodic(relation.slide, relation.offset)
        self._rows = pa.schema([(name, arrow_type(type_)) for name, type_ in relation.root.columns])
        self._held: Held | None = None
        self._told = EVER_BEFORE
        """The last time that is told."""

    @property
    def held(self) -> int:
        return 0 if self._held is None else len(self._held)

    def take(self, delta: Delta) -> None:
        """What became known of the root."""
        if self._held is None:
            self._held = Held(self._rows, delta.fresh.ids.shape[1])
        self._held.finish(delta.gone)
        self._held.add(delta.fresh)

    def answers(self, now: int, *, first: int | None = None, last: int | None = None, ended: bool = False) -> pa.Table:
        """What is due up to now and was not told yet. `first` and `last` are the times of the first and the last event
        of its streams; they matter at the end of the input alone."""
        lives = Lives.empty(self._rows, 1) if self._held is None else self._held.lives
        found: list[pa.Table] = []
        if len(lives):
            if self._periodic is not None:
                bounds = self._due_instants(self._periodic, lives, now, last, ended=ended)
                found = [*self._answers(lives, self._periodic, *bounds)]
            else:
                at_changes = Changes.of(lives, self._told, FOREVER if ended else now)
                asked = np.flatnonzero(self._is_asked(at_changes.times))
                if len(asked):
                    found = [*self._answers(lives, at_changes, int(asked[0]), int(asked[-1]))]
        self._told = max(self._told, now if self._periodic is not None else now - 1)
        if self._held is not None:
            self._held.keep(self._is_needed)
        return pa.concat_tables([self.schema.empty_table(), *found])

    def _due_instants(
        self, clock: Periodic, lives: Lives, now: int, last: int | None, *, ended: bool
    ) -> tuple[int, int]:
        """The ranks of the first and the last instant to be told now."""
        relation = self.relation
        low = clock.due(self._told) + 1
        if relation.start is not None:
            low = max(low, clock.since(relation.start + (relation.longest or 0)))
        high = self._last_instant(clock, lives, last) if ended else clock.due(now)
        return low, high if relation.stop is None else min(high, clock.due(relation.stop))

    def _last_instant(self, clock: Periodic, lives: Lives, last: int | None) -> int:
        """The last one that sees a row; for DSTREAM and the like, the one after it, which sees it gone."""
        ends = clock.last(lives.end[lives.end < FOREVER])
        newest = int(lives.start.max()) if last is None else max(last, int(lives.start.max()))
        after = 0 if self._tells_all else 1
        return max(int(ends.max(initial=EVER_BEFORE)) + after, int(clock.first(np.array([newest]))[0]))

    @property
    def _tells_all(self) -> bool:
        return self.relation.output in ("rstream", "wstream")

    def _is_asked(self, times: Times) -> Mask:
        relation = self.relation
        asked = np.ones(len(times), np.bool_)
        if relation.start is not None:
            asked &= times - (relation.longest or 0) >= relation.start
        return asked if relation.stop is None else asked & (times <= relation.stop)

    def _answers(self, lives: Lives, clock: Clock, low: int, high: int) -> Iterator[pa.Table]:
        order = np.lexsort((*lives.ids.T[::-1], lives.start))
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order))
        seen = Seen(clock.first(lives.start), clock.last(lives.end), place)
        for told in self._tell(lives, seen, low, high):
            yield self._table(lives, clock, self._arranged(lives, place, told))

    def _tell(self, lives: Lives, seen: Seen, low: int, high: int) -> Iterator[Told]:
        restored = missed(seen, low, high) if self.relation.restore else None
        match self.relation.output:
            case "rstream" | "wstream":
                for begin, end in turns(seen, low, high):
                    told = whole(seen, begin, end)
                    yield told if restored is None else Told.concat(told, missed(seen, begin, end))
            case "istream":
                told = new(seen, self._values(lives, seen, low, high), low, high)
                yield told if restored is None else Told.concat(told, restored)
            case "dstream":
                yield old(seen, self._values(lives, seen, low, high), low, high)
            case "changes":
                yield changes(seen, low, high, signed=is_signed(self.relation, self.pattern))
            case other:
                raise AssertionError(f"no output is called {other}")

    def _values(self, lives: Lives, seen: Seen, low: int, high: int) -> Codes:
        """Numbers by value for the rows that come or leave; all others are as if they were one."""
        mine = np.flatnonzero(came(seen, low, high) | left(seen, low, high))
        codes = np.zeros(len(lives), np.int64)
        codes[mine] = value_codes(self._items(lives.rows.take(pa.array(mine))))
        return codes

    def _items(self, rows: pa.Table) -> pa.Table:
        return rows.select(range(len(self.relation.names)))

    def _arranged(self, lives: Lives, place: Index, told: Told) -> Told:
        """By instant, then ORDER BY, then as rows came; of each instant as many as LIMIT lets through."""
        terms: list[npt.NDArray[np.int64]] = []
        if self.relation.order_by:
            columns = Columns.of(lives.rows.take(pa.array(told.row)), self.relation.root.types)
            for expr, descending, nulls_first in self.relation.order_by:
                column = columns.value(expr).to_arrow()
                terms.append(ranked(column, descending=descending, nulls_first=nulls_first))
        keys: list[npt.NDArray[Any]] = [told.sign, place[told.row], *terms[::-1], told.rank]
        order = np.lexsort(keys)
        if self.relation.limit is not None:
            rank = told.rank[order]
            order = order[np.arange(len(order)) - np.searchsorted(rank, rank) < self.relation.limit]
        return told.take(order)

    def _table(self, lives: Lives, clock: Clock, told: Told) -> pa.Table:
        """The answer's columns."""
        ends = clock.time(told.rank)
        longest = self.relation.longest
        known = np.ones(len(ends), np.bool_)
        arrays = [_times(ends - (longest or 0), known & (longest is not None)), _times(ends, known)]
        rows = lives.rows.take(pa.array(told.row))
        arrays += [rows.column(i) for i in range(len(self.relation.names))]
        if not is_of_aggregates(self.relation.root):
            expires = lives.end[told.row]
            arrays.append(_times(lives.start[told.row], known))
            arrays.append(_times(expires, (expires < FOREVER) & (self.pattern is not Pattern.STRICT)))
            if is_signed(self.relation, self.pattern):
                arrays.append(pa.array(told.sign))
        return pa.table(arrays, names=self.schema.names).cast(self.schema)

    def _is_needed(self, lives: Lives) -> Mask:
        """Which rows can still be told."""
        clock = self._periodic
        if clock is None:
            return (lives.start if self._is_told_once else lives.end) > self._told
        told = clock.due(self._told)
        untold = clock.first(lives.start) > told
        leaves = clock.last(lives.end) + (0 if self._tells_all else 1)
        return untold if self._is_told_once else untold | (leaves > told)

    @property
    def _is_told_once(self) -> bool:
        """Whether rows are told only when they come."""
        unsigned = self.relation.output == "changes" and not is_signed(self.relation, self.pattern)
        return unsigned or (self.pattern is Pattern.MONOTONIC and self.relation.output in ("istream", "changes"))

    # Restart

    def parts(self) -> Parts:
        told = pa.table({"told": [self._told], "width": [0 if self._held is None else self._held.width]})
        return {"told": [told], **({} if self._held is None else self._held.parts())}

    def restore(self, parts: Parts) -> None:
        if not parts:
            return
        (told,) = parts["told"]
        self._told = told.column("told")[0].as_py()
        width = told.column("width")[0].as_py()
        if width:
            self._held = Held(self._rows, width)
            self._held.restore(parts)


def _times(values: Times, known: Mask) -> pa.Array:
    return Vector(TIMESTAMP, np.where(known, values, 0), known).to_arrow()


__all__ = ["Result", "answer_schema", "is_of_aggregates", "is_signed"]
