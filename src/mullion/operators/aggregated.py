"""GROUP BY over a relation that changes: one row for each group, replaced when the rows of the group change.

    SLIDE 5                       5    10   15   20         at every change
    rows of a group           *-------------*                  *-------------*
                                     *-----------*                    *-----------*
    count of the group          [ 1 ][ 2 ][ 1 ]                [  1  ][   2  ][ 1 ]

A periodic query sees each of its instants t by itself: a row lives [t - 1, t + slide - 1), so that t sees it and no
other instant does. At every change, a row lives until the group's values are others; when that will be is not known, so
a negative tuple tells.

When all windows are INTERNAL, results stay: a new one does not end the one before (golab 3.3.2, Figure 3.2).

Without keys there is one group, which has a row also over nothing, from the first instant at which a window below holds
an event (`widen` tells of these) until the last one that does, or to which event time has come. At which of these a
query is answered is for its result to say.

At the end of the input the rows of the last instant end with it, but for those that the next one would have as well:
groups of windows that never let go do not leave.

Over an input that tells a part of its rows, each row says whether all are there that it is made of. Rows that are told
after they started count from then on.

Requires: an associative combine; sums, counts and averages are subtracted, others are combined anew (see `grouped`).
Time: O(n log n) for the n rows of the groups that a step touches, where all can be subtracted.
Space: the columns that are aggregated, of all rows that can still be seen.
Guarantee: one row a group at every instant that is answered, with the values of the rows that live then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.column_names import outside
from mullion.algebra.nodes import Aggregated, Join, Promising, scans
from mullion.algebra.nodes.aggregated import COMPLETE
from mullion.expressions.arrays import Index, Mask, Times
from mullion.expressions.coding.canonical import canonical_floats
from mullion.expressions.coding.dictionary import row_codes
from mullion.expressions.vector import Vector, arrow_type
from mullion.instants import EVER_BEFORE, FOREVER, THE_END
from mullion.kernels.columns import BatchColumns
from mullion.language.query import Column, Expr, walk
from mullion.language.types import BOOLEAN, Type
from mullion.operators.bad_values import BadValues
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import KeyFunction, key_function
from mullion.operators.grouped import Grouped, GroupedRows, GroupInstants, every_change, every_instant
from mullion.operators.missing import NOTHING
from mullion.operators.punctuated import Punctuated
from mullion.operators.ranked_instants import Changes, Periodic
from mullion.operators.row_store import Hash
from mullion.operators.timed_rows import Delta, Retractions, TimedRows
from mullion.operators.timed_tables import as_table, from_table
from mullion.operators.window_occupancy import Occupancy
from mullion.slices.arrange import ranked


class AggregatedOperator(Operator):
    width = 1

    def __init__(self, node: Aggregated, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        (below,) = inputs
        self.node = node
        self.schema = pa.schema([(name, arrow_type(type_)) for name, type_ in node.columns])
        self._clock = None if node.slide is None else Periodic(node.slide, node.offset)
        self._stays = all(scan.window.internal for scan in scans(node))
        self._types = _evaluated(node)
        self._read = _columns_read(node, self._types)
        self._bad = BadValues(self._types, node.input.types)
        fields = [(f"x{i}", arrow_type(type_)) for i, type_ in enumerate(self._types.values())]
        self._rows = pa.schema(fields or [("x", pa.null())])
        self._input = Hash(self._rows, below.width)
        self._ending = self._keys_that_end(construction)
        self._occupancy, self._others = Occupancy(), Occupancy()
        self.newest = EVER_BEFORE
        """The time of the newest event of all streams: the network sets it."""
        self.stretch = 1
        """Of how many instants one is looked at in the next step; whoever makes it says so."""
        self._known_until = EVER_BEFORE
        """The last time that the output is known of."""
        self._emitted = 0
        """How many rows it gave so far; a row's id is its number."""
        self._current = TimedRows.empty(self.schema, 1)
        """Of a continuous query, the rows that are there now."""
        self._joined_by = _join_keys(node)
        self._missing = NOTHING
        """When rows of the input are missing, as the last step knew it."""

    def structures(self) -> dict[str, str]:
        over = "" if self._ending is None else f", without groups that are over in {self._ending.stream}"
        return {"input": f"{self._input.kept_in} of rows that can still be seen{over}"}

    def _keys_that_end(self, construction: Construction) -> Punctuated | None:
        """The keys of whose groups a stream tells that they are over, if these then stay as they are: of windows that
        never let go, answered at every change."""
        endless = all(scan.window.is_endless and not scan.window.internal for scan in scans(self.node))
        if self._clock is not None or not endless or construction.has_retractions(self.node.input.pattern):
            return None
        return Punctuated.of(self.node.input, [expr for expr, _ in self.node.keys])

    def purge(self, ended: Mapping[str, pa.Table]) -> None:
        if self._ending is None or self._ending.stream not in ended:
            return
        closed, keys = self.closed[self._ending.stream], self._ending.chosen(self.node.keys)
        places = [list(self._types).index(expr) for expr, _ in keys]
        types = [type_ for _, type_ in keys]

        def is_open(names: Sequence[str], rows: pa.Table) -> Mask:
            named = dict(zip(names, types, strict=True))
            return closed.until(key_function([Column(name) for name in names], named)(rows)) < FOREVER

        self._input.keep(lambda timed: is_open([f"x{place}" for place in places], timed.rows))
        names = self._ending.chosen(self.schema.names[: len(self.node.keys)])
        self._current = self._current.take(is_open(names, self._current.rows))

    @property
    def rows_held(self) -> int:
        return self._input.rows_held + len(self._current)

    def widen(self, window: TimedRows, *, is_below: bool = True) -> None:
        """Rows that came into a window below, or into another one: at the end, what never leaves is aggregated as long
        as these are there. To be called before the `advance` that they take part in."""
        (self._occupancy if is_below else self._others).widen(window, self._clock)

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        (delta,) = inputs
        self.bad += self._bad.among(delta.fresh.rows)
        self._missing = delta.missing or NOTHING
        self._input.cut(delta.retracted)
        self._input.settle()
        self._input.insert(self._needed(self._as_found(delta.fresh).lasting()))
        delta = (
            self._at_changes(now) if self._clock is None else self._at_instants(self._clock.every(self.stretch), now)
        )
        self._input.keep(self._is_needed)
        return delta

    def _as_found(self, fresh: TimedRows) -> TimedRows:
        """At every change, what is told after it started is there from when it is told; instants see no past."""
        if not self.node.is_marked or self._clock is not None:
            return fresh
        return replace(fresh, start=np.maximum(fresh.start, self._known_until + 1))

    def _needed(self, fresh: TimedRows) -> TimedRows:
        """The rows with what is evaluated on them instead of their own columns."""
        columns = BatchColumns.of(fresh.rows, self._read)
        arrays = [columns.value(expr).to_arrow() for expr in self._types] or [pa.nulls(len(fresh))]
        return replace(fresh, rows=pa.table(arrays, schema=self._rows))

    def _is_needed(self, timed: TimedRows) -> Mask:
        """Which rows can still be seen."""
        if self._clock is None:
            return timed.end > self._known_until
        return self._clock.last(timed.end) > self._clock.due(self._known_until)

    # Periodic

    def _at_instants(self, instants: Periodic, now: int) -> Delta:
        timed, low = self._input.rows(), instants.due(self._known_until) + 1
        first, last = instants.first(timed.start), instants.last(timed.end)
        ended = now >= THE_END
        high = self._last_instant(instants) if ended else instants.due(now)
        self._known_until = now
        until = high + 1 if ended and self._occupancy.endless else high
        seen = (first <= last) & (last >= low) & (first <= until)
        keys, rows = self._grouped_rows(timed.take(seen), np.maximum(first, low)[seen], np.minimum(last, until)[seen])
        if self.node.keys:
            moments = every_instant(rows.group, rows.first, rows.last)
        else:
            ranks = np.arange(max(low, -(-self._occupancy.first // self.stretch)), until + 1)
            moments = GroupInstants(np.zeros(len(ranks), np.int64), ranks)
        start = instants.time(moments.rank) - 1
        table = self._answers(keys, Grouped(rows, moments, start + 1), start)
        end = np.where(_stays_on(table, moments, high), FOREVER, start + instants.slide // self.stretch)
        order = self._in_order(table, moments.rank)
        order = order[moments.rank[order] <= high]
        return Delta(self._numbered(table.take(pa.array(order)), start[order], end[order]), Retractions.none(1), now)

    def _last_instant(self, instants: Periodic) -> int:
        """At the end of the input, the last one at which there can be a row."""
        last = self._occupancy.last
        if self._occupancy.endless:
            last = max(last, self._others.last, int(instants.first(np.array([self.newest]))[0]))
        return last if self.node.keys else max(last, instants.due(self.newest))

    # At every change

    def _at_changes(self, now: int) -> Delta:
        timed, marks = self._input.rows(), self._marks(now)
        instants = self._changes(timed, marks, now)
        self._known_until = now - 1
        if not len(instants.times):
            return Delta(TimedRows.empty(self.schema, 1), Retractions.none(1), now)
        first, last = instants.first(timed.start), instants.last(timed.end)
        seen = last >= -1
        keys, rows = self._grouped_rows(timed.take(seen), first[seen], last[seen])
        if self.node.keys:
            marked = np.searchsorted(instants.times, marks)
            moments = every_change(rows.group, rows.first, rows.last, len(instants.times) - 1, marked)
        else:
            moments = GroupInstants(np.zeros(len(instants.times), np.int64), np.arange(len(instants.times)))
        grouped = Grouped(rows, moments)
        times = instants.time(moments.rank)
        there = grouped.count > 0 if self.node.keys else self._is_occupied(times, now)
        return self._replaced(self._answers(keys, grouped, times), times, there, now)

    def _marks(self, now: int) -> Times:
        """When groups may begin or cease to lack rows. From where the last step ended more may be known."""
        if not self.node.is_marked:
            return np.zeros(0, np.int64)
        edges, since = self._missing.edges(self._known_until, now), self._known_until + 1
        lacked = not pc.all(self._current.rows[COMPLETE], min_count=0).as_py()
        lacks = bool(self._missing.at(np.array([since]))[0])
        return np.union1d(edges, [since] if (lacked or lacks) and since < now else []).astype(np.int64)

    def _changes(self, timed: TimedRows, marks: Times, now: int) -> Changes:
        """When rows come or leave, and at the marks; without keys also when the first event comes and the last one
        leaves."""
        instants = Changes.of(timed, self._known_until, now)
        if self.node.keys:
            return Changes(np.union1d(instants.times, marks)) if len(marks) else instants
        times = [self._occupancy.first, *([self._last_moment] if now >= THE_END else [])]
        times = [time for time in times if self._known_until < time < now]
        return Changes(np.union1d(instants.times, [*times, *marks]).astype(np.int64))

    @property
    def _last_moment(self) -> int:
        """At the end of the input, when the last row leaves."""
        return FOREVER if self._occupancy.endless else max(self._occupancy.last, self.newest)

    def _is_occupied(self, times: Times, now: int) -> Mask:
        return (times >= self._occupancy.first) & (times < (self._last_moment if now >= THE_END else FOREVER))

    def _replaced(self, table: pa.Table, times: Times, there: Mask, now: int) -> Delta:
        """What the groups are from these times on, where they differ from before: by value, and whether there is any
        row at all."""
        before = len(self._current)
        known = pa.concat_tables([self._current.rows, table])
        there = np.concatenate([np.ones(before, np.bool_), there])
        times = np.concatenate([np.full(before, EVER_BEFORE), times])
        keys = len(self.node.keys)
        group = row_codes(known.select(range(keys))) if keys else np.zeros(len(known), np.int64)
        order = np.lexsort((times, group))
        same = np.zeros(len(order), np.bool_)
        value = np.where(there, row_codes(known) if known.num_columns else 0, -1)[order]
        same[1:] = (group[order[1:]] == group[order[:-1]]) & (value[1:] == value[:-1])
        begins = np.ones(len(order), np.bool_)
        begins[1:] = group[order[1:]] != group[order[:-1]]
        changed = order[~same & (there[order] | ~begins)]
        end = np.full(len(known), FOREVER)
        follows = group[changed[1:]] == group[changed[:-1]]
        end[changed[:-1][follows]] = times[changed[1:][follows]]
        fresh = changed[(changed >= before) & there[changed]]
        fresh = fresh[self._in_order(known.take(pa.array(fresh)), times[fresh])]
        inserted = self._numbered(known.take(pa.array(fresh)), times[fresh], end[fresh])
        over = np.flatnonzero(end[:before] < FOREVER)
        retracted = Retractions(self._current.ids[over], end[over])
        staying = self._current.take(end[:before] == FOREVER)
        self._current = TimedRows.concat([staying, inserted.take(end[fresh] == FOREVER)])
        return Delta(inserted, Retractions.none(1) if self._stays else retracted, now)

    # Both

    def _grouped_rows(self, timed: TimedRows, first: Times, last: Times) -> tuple[pa.Table, GroupedRows]:
        """The keys of rows, and the rows by groups."""
        order = np.lexsort((*timed.ids.T[::-1], timed.start))
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order))
        columns = zip(self._types.items(), timed.rows.columns, strict=False)
        values = {expr: Vector.from_arrow(column, type_) for (expr, type_), column in columns}
        keys = pa.table({f"#k{i}": _key(values[expr]) for i, (expr, _) in enumerate(self.node.keys)})
        group = row_codes(keys) if self.node.keys else np.zeros(len(timed), np.int64)
        return keys, GroupedRows(group, first, last, timed.start, place, values)

    def _answers(self, keys: pa.Table, grouped: Grouped, seen: Times) -> pa.Table:
        """Keys and aggregates at each moment, which sees the rows of such a time."""
        any_row = np.zeros(int(grouped.rows.group.max(initial=-1)) + 1, np.intp)
        any_row[grouped.rows.group] = np.arange(len(grouped.rows))
        arrays = [column.take(pa.array(any_row[grouped.moments.group])) for column in keys.columns]
        arrays += [vector.to_arrow() for vector in grouped.lower(self.node.aggregates)]
        if self.node.is_marked:
            codes = None if self._joined_by is None else self._joined_by(keys).codes[any_row[grouped.moments.group]]
            arrays.append(pa.array(~self._missing.at(seen, codes)))
        return pa.table(arrays, schema=self.schema)

    def _in_order(self, table: pa.Table, times: Times) -> Index:
        """By time, then by keys: an order that does not depend on which steps were made."""
        keys = [ranked(table.column(i), descending=False, nulls_first=True) for i in range(len(self.node.keys))]
        return np.lexsort((*keys[::-1], times))

    def _numbered(self, rows: pa.Table, start: Times, end: Times) -> TimedRows:
        numbers = self._emitted + np.arange(len(start))
        end = np.full(len(end), FOREVER) if self._stays else end
        self._emitted += len(start)
        return TimedRows(rows, numbers[:, None], start, end)

    # Restart

    def parts(self) -> Parts:
        small = pa.table({"told": [self._known_until], "made": [self._emitted]})
        current = [as_table(self._current)] if len(self._current) else []
        return {
            "small": [small],
            "cover": [self._occupancy.to_table(), self._others.to_table()],
            "current": current,
            **self._input.parts(),
        }

    def restore(self, parts: Parts) -> None:
        if not parts:
            return
        (small,) = parts["small"]
        self._known_until, self._emitted = (small.column(name)[0].as_py() for name in ("told", "made"))
        self._occupancy, self._others = map(Occupancy.from_table, parts["cover"])
        for table in parts.get("current", ()):
            self._current = from_table(table)
        self._input.restore(parts)


def _join_keys(node: Aggregated) -> KeyFunction | None:
    """What gives the keys of a join from those of its groups, by which it says what is missing; None where groups do
    not tell."""
    join = node.input.input if isinstance(node.input, Promising) else None
    if not isinstance(join, Join):
        return None
    groups = [expr for expr, _ in node.keys]
    found = [[groups.index(key) for key in same if key in groups] for same in zip(*_outside(join), strict=True)]
    if not all(found):
        return None
    places = [own[0] for own in found]
    return key_function([Column(f"#k{i}") for i in places], {f"#k{i}": node.keys[i][1] for i in places})


def _outside(join: Join) -> list[list[Expr]]:
    """The keys of each input, over the columns of the join."""
    return [[outside(key, i) for key in own] for i, own in enumerate(join.keys)]


def _evaluated(node: Aggregated) -> dict[Expr, Type]:
    """What is evaluated on every row: keys, arguments, counted values and conditions."""
    types = dict(node.keys)
    for bound in node.aggregates:
        types |= {expr: type_ for expr, type_ in bound.values if expr not in types}
        if bound.argument is not None and not bound.values and bound.argument not in types:
            assert bound.argument_type is not None
            types[bound.argument] = bound.argument_type
        if bound.where is not None:
            types.setdefault(bound.where, BOOLEAN)
    return types


def _columns_read(node: Aggregated, expressions: Iterable[Expr]) -> dict[str, Type]:
    names = {part.name for expr in expressions for part in walk(expr) if isinstance(part, Column)}
    return {name: type_ for name, type_ in node.input.columns if name in names}


def _stays_on(table: pa.Table, moments: GroupInstants, last: int) -> Mask:
    """Which rows of the last instant are those of the instant after it too."""
    same = np.zeros(len(moments), np.bool_)
    if len(moments) and int(moments.rank.max()) > last:
        follows = (moments.group[1:] == moments.group[:-1]) & (moments.rank[1:] == last + 1)
        codes = row_codes(table) if table.num_columns else np.zeros(len(moments), np.int64)
        same[:-1] = follows & (moments.rank[:-1] == last) & (codes[1:] == codes[:-1])
    return same


def _key(values: Vector) -> pa.Array:
    array = values.to_arrow()
    return canonical_floats(array) if pa.types.is_floating(array.type) else array
