"""Rows with what they find in a table (golab 3.3.1).

Not retroactive: a row keeps what the table had when its event was read. Retroactive: it has what the table has at every
moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import TableLookup
from mullion.expressions.arrays import Ids, Index, Times
from mullion.expressions.coding.dictionary import codes_of, combine
from mullion.kernels.lookup import Attached, Prepared, prepare_versions, rows_found
from mullion.kernels.table_versions import PreparedTables, batches_read, versions_read
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import computed, schema_of
from mullion.operators.keyed_sub_window import codes_of_ids, equal_codes
from mullion.operators.registry import implements
from mullion.operators.row_store import Hash
from mullion.operators.timed_rows import Delta, Retractions, TimedRows

UNTIL = "#until"
"""The column of kept rows that tells until when their windows hold them."""


@implements(TableLookup)
def table_lookup_operator(
    node: TableLookup, inputs: Sequence[Operator], construction: Construction = DEFAULT
) -> TableLookupOperator:
    kind = RetroactiveOperator if node.retroactive else TableLookupOperator
    return kind(node, inputs, construction)


class TableLookupOperator(Operator):
    """A row that finds several rows of the table becomes several, numbered from 0 in the last part of their ids.

    When it is retracted, all of them are. As many are retracted as any row ever found: retractions of rows that never
    came are passed over. `needed`: the columns that an operator above reads."""

    picks_columns = True

    def __init__(self, node: TableLookup, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        self.node = node
        self.width = inputs[0].width + 1
        added = [(name, type_) for name, type_ in node.lookup.types().items() if construction.reads(name)]
        self.schema = pa.schema([*inputs[0].schema, *schema_of(added)])
        self.prepared: Prepared | None = None
        self.table_read: Callable[[int], pa.Table] | None = None
        """The table as events of a batch find it; without it all rows of a step find the same."""
        self.tables = PreparedTables()
        self.most = 1
        """How many rows of the table a row found at most."""

    def table_changed(self, prepared: Prepared, at: int) -> None:
        """From the time `at` on the table is this one. Told before the first step that goes beyond this time."""
        self.prepared = prepared

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        (delta,) = inputs
        own, numbers, rows = self._looked_up(delta.fresh)
        self.most = max(self.most, int(numbers.max(initial=0)) + 1)
        fresh = _copies(delta.fresh, own, np.column_stack([delta.fresh.ids[own], numbers]), rows)
        released = None if delta.released is None else self._all(delta.released)
        return Delta(fresh, self._all(delta.retracted), now, released)

    def _all(self, retracted: Retractions) -> Retractions:
        """Every row that a row may have become."""
        numbers = np.tile(np.arange(self.most), len(retracted))
        ids = np.column_stack([np.repeat(retracted.ids, self.most, axis=0), numbers])
        return Retractions(ids, np.repeat(retracted.at, self.most))

    def _looked_up(self, timed: TimedRows) -> tuple[Index, Index, pa.Table]:
        """Rows with what they find: which row each is, its number among the row's, and all its columns."""
        if not len(timed):
            nothing = np.zeros(0, np.intp)
            return nothing, nothing, self.schema.empty_table()
        prepared, versions = self._found_by(timed.rows)
        keys = [computed(event, timed, self.node.input.types) for event, _ in self.node.lookup.keys]
        events, matches = rows_found(prepared, [*keys, *versions], len(timed))
        own = np.arange(len(timed)) if events is None else events
        before = [name for name in self.schema.names if name not in self.node.lookup.types()]
        rows = timed.rows.select(before)
        rows = rows if events is None else rows.take(pa.array(own))
        attached = Attached(prepared, matches)
        columns = [
            rows.column(field.name) if field.name in before else attached[field.name].to_arrow().cast(field.type)
            for field in self.schema
        ]
        return own, _number_in_run(own), pa.Table.from_arrays(columns, schema=self.schema)

    def _found_by(self, rows: pa.Table) -> tuple[Prepared, list[pa.Array]]:
        """What rows are looked up in, and where that is several versions of the table, which of them each row sees."""
        if self.table_read is None:
            assert self.prepared is not None, f"nobody has given the table {self.node.lookup.table}"
            return self.prepared, []
        table, lookup = self.table_read, self.node.lookup
        versions, own = versions_read(batches_read(rows), lambda batch: [table(batch)])
        if own is None:
            return self.tables.of(lookup, versions[0][0]), []
        return prepare_versions(lookup, [rows for (rows,) in versions]), [pa.array(own)]

    def parts(self) -> Parts:
        return {"most": [pa.table({"most": [self.most]})]}

    def restore(self, parts: Parts) -> None:
        for table in parts.get("most", ()):
            self.most = table["most"][0].as_py()


class RetroactiveOperator(TableLookupOperator):
    """The rows that live are kept with what they found.

        row x found (1, a)                    the table changes at t: x finds (1, a) and (1, b)
        -------------------- (1, a) ----------------------->      goes on
                                               ---- (1, b) -->    starts at t

    When the table changes, they look again: what a row finds no more is gone, and what it finds now starts. An id is
    that of the row, the version of the table in which this was found first, and a number.
    """

    def __init__(self, node: TableLookup, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        super().__init__(node, inputs, Construction(construction.expiry))
        self.below = inputs[0].width
        self.width = self.below + 2
        self.stored = Hash(self.schema.append(pa.field(UNTIL, pa.int64())), self.width)
        self.version = 0
        self.changes: list[tuple[Prepared, int]] = []

    def table_changed(self, prepared: Prepared, at: int) -> None:
        self.changes = [*(change for change in self.changes if change[1] < at), (prepared, at)]

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        (delta,) = inputs
        released = None if delta.released is None else self._released(delta.released)
        self.stored.cut_all(delta.retracted, slice(0, self.below))
        fresh = self._with_changes(delta.fresh)
        retracted = [window.retracted() for window in self.stored.windows]
        self.stored.settle()
        self.stored.insert(_remembered(fresh))
        self.stored.expire(now)
        return Delta(fresh, Retractions.concat([Retractions.none(self.width), *retracted]), now, released)

    def _released(self, rows: Retractions) -> Retractions:
        """Everything that these rows became."""
        retractions = [Retractions.none(self.width)]
        for window in self.stored.windows:
            own, which = equal_codes(codes_of_ids(window.ids[:, : self.below]), codes_of_ids(rows.ids))
            same = (window.ids[own, : self.below] == rows.ids[which]).all(axis=1)
            retractions.append(Retractions(window.ids[own[same]], rows.at[which[same]]))
        return Retractions.concat(retractions)

    def _with_changes(self, arriving: TimedRows) -> TimedRows:
        """New rows with what they find, and what others find anew, as the table changed on the way."""
        parts = [TimedRows.empty(self.schema, self.width)]
        for prepared, at in self.changes:
            early = arriving.start < at
            if self.prepared is not None and early.any():
                parts.append(self._versioned(arriving.take(early)))
                arriving = arriving.take(~early)
            self.prepared, self.version = prepared, self.version + 1
            parts = [self._look_again(TimedRows.concat(parts), at)]
        self.changes = []
        parts.append(self._versioned(arriving))
        return TimedRows.concat([timed for timed in parts if len(timed)] or parts[:1])

    def _versioned(self, timed: TimedRows) -> TimedRows:
        own, numbers, rows = self._looked_up(timed)
        return _copies(timed, own, self._ids(timed.ids[own], numbers), rows)

    def _ids(self, ids: Ids, numbers: Index) -> Ids:
        return np.column_stack([ids[:, : self.below], np.full(len(ids), self.version), numbers])

    def _look_again(self, looked_up: TimedRows, at: int) -> TimedRows:
        """The rows of this step, and what these and stored rows find at a change of the table."""
        stored = [window.timed for window in self.stored.windows]
        everything = TimedRows.concat([*map(_recalled, stored), looked_up]) if stored else looked_up
        alive = np.flatnonzero((everything.start < at) & (at < everything.end))
        before = everything.take(alive)
        if not len(before):
            return looked_up
        _, first, row = np.unique(before.ids[:, : self.below], axis=0, return_index=True, return_inverse=True)
        rows = before.take(first)
        own, numbers, matches = self._looked_up(rows)
        lost, new = _difference(self._numbers_of_matches(row.ravel(), before.rows, own, matches), len(before))
        end = everything.end.copy()
        end[alive[lost]] = at
        self._cut(end)
        changed = TimedRows(
            looked_up.rows, looked_up.ids, looked_up.start, end[len(end) - len(looked_up) :], looked_up.held_until
        )
        fresh = _copies(rows, own[new], self._ids(rows.ids[own[new]], numbers[new]), matches.take(pa.array(new)))
        return TimedRows.concat([changed, replace(fresh, start=np.full(len(fresh), at))])

    def _numbers_of_matches(self, row: Index, before: pa.Table, own: Index, matches: pa.Table) -> Index:
        """A number for each row with what it found, before and now: equal where these are, NULLs being equal."""
        rows = np.concatenate([row, own])
        names = [name for name in self.schema.names if name in self.node.lookup.types()]
        columns = [pa.chunked_array([*before.column(name).chunks, *matches.column(name).chunks]) for name in names]
        return combine([(rows, int(rows.max()) + 1), *map(codes_of, columns)], len(rows))[0]

    def _cut(self, end: Times) -> None:
        """End kept rows, given the ends of all of them."""
        first = 0
        for window in self.stored.windows:
            own = end[first : first + len(window)]
            rows = np.flatnonzero(own != window.end)
            window.cut(rows, own[rows])
            first += len(window)

    def structures(self) -> dict[str, str]:
        return {"results": self.stored.kept_in}

    @property
    def rows_held(self) -> int:
        return self.stored.rows_held

    def parts(self) -> Parts:
        return {**self.stored.parts(), "version": [pa.table({"version": [self.version]})]}

    def restore(self, parts: Parts) -> None:
        self.stored.restore(parts)
        for table in parts.get("version", ()):
            self.version = table["version"][0].as_py()


def _copies(timed: TimedRows, own: Index, ids: Ids, rows: pa.Table) -> TimedRows:
    """What rows became, with the lives of these rows."""
    held_until = None if timed.held_until is None else timed.held_until[own]
    return TimedRows(rows, ids, timed.start[own], timed.end[own], held_until)


def _remembered(timed: TimedRows) -> TimedRows:
    """Rows as they are kept: until they end, also when their windows hold them no more."""
    held = timed.end if timed.held_until is None else timed.held_until
    return TimedRows(timed.rows.append_column(UNTIL, pa.array(held)), timed.ids, timed.start, timed.end)


def _recalled(timed: TimedRows) -> TimedRows:
    held = timed.rows.column(UNTIL).to_numpy()
    rows = timed.rows.drop_columns([UNTIL])
    return TimedRows(rows, timed.ids, timed.start, timed.end, None if (held >= timed.end).all() else held)


def _difference(what: Index, before: int) -> tuple[Index, Index]:
    """Which of the first numbers have no equal among the others, and which of the others among the first. Of several
    that are equal, each has but one equal on the other side."""
    old, new = what[:before], what[before:]
    most = len(what) + 1
    old, new = old * most + _number_among_equals(old), new * most + _number_among_equals(new)
    return np.flatnonzero(~np.isin(old, new)), np.flatnonzero(~np.isin(new, old))


def _number_among_equals(values: Index) -> Index:
    order = np.argsort(values, kind="stable")
    numbers = np.empty(len(values), np.int64)
    numbers[order] = _number_in_run(values[order])
    return numbers


def _number_in_run(values: Index) -> Index:
    """The place of each value in its run of equals.

    >>> _number_in_run(np.array([4, 4, 7, 4])).tolist()
    [0, 1, 0, 0]
    """
    first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])) if len(values) else values
    return np.arange(len(values)) - np.repeat(first, np.diff(np.append(first, len(values))))
