"""The events of a batch, and what all groupings ask of them: each thing is found once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates.base import Partial, Places
from mullion.aggregates.first_last import End
from mullion.algebra.lookups import READ, Lookup
from mullion.expressions.arrays import Mask, Times
from mullion.expressions.coding.canonical import canonical_floats, in_one_piece
from mullion.expressions.vector import Vector
from mullion.kernels.arrival import ARRIVAL, FILES, FileOrder, parts_of
from mullion.kernels.columns import BatchColumns
from mullion.kernels.extents import never_fails
from mullion.kernels.lookup import Attached, Prepared, ProbeKey, rows_found
from mullion.language.query import Expr
from mullion.language.types import BIGINT, Type
from mullion.planner.plan import StateColumn
from mullion.slices.kernels.fields import ADD, FoldedColumn, Lifted, Split, lift, lift_end, split_of
from mullion.slices.kernels.groups import Groups
from mullion.slices.kernels.selection import Compared, Selection
from mullion.slices.kernels.slicing import Cut

TIME = "#t"
EVENT_TIME = "#time"
"""The time of events that are placed by something else."""
"""The event time in microseconds; NULL for a record that has no place in time."""

K = TypeVar("K")
V = TypeVar("V")


class JobContext(NamedTuple):
    """What is known of all batches of a job."""

    columns: Mapping[str, Type]
    evaluated: Mapping[Expr, str]
    bad: Mapping[Expr, str]
    tables: Sequence[Prepared]
    compared: Mapping[tuple[Lookup, ...], Compared]
    batch: int
    files: FileOrder | None


class Events:
    """Events in the order of time."""

    def __init__(
        self,
        batch: pa.RecordBatch | pa.Table,
        context: JobContext,
        times: Times | None = None,
    ) -> None:
        """`times`: where they are known."""
        self.batch, self.context = batch, context
        self.length = len(batch)
        self.columns = BatchColumns.of(batch, context.columns, context.evaluated)
        self.times: Times = _numbers(batch, TIME) if times is None else times
        self._joined: dict[tuple[Lookup, ...], Events | None] = {}
        """None: these events themselves. Held by itself, a portion would stay until cycles are sought."""
        self._cuts: dict[bytes, Cut] = {}
        self._groups: dict[tuple[Expr, ...], Groups] = {}
        self._lifted: dict[tuple[Partial, Expr | None, Expr | None], Lifted] = {}
        self._splits: dict[Expr | None, Split] = {}
        self._bad: dict[Expr, Mask | None] = {}
        self._selections: dict[tuple[Lookup, ...], Selection] = {}

    @staticmethod
    def of(batch: pa.RecordBatch | pa.Table, context: JobContext) -> tuple[Events, int]:
        """The events, and how many records have no place in time."""
        malformed = batch.column(TIME).null_count
        if malformed:
            batch = batch.filter(in_one_piece(batch.column(TIME).is_valid()))
        times = _numbers(batch, TIME)
        if not (times[1:] < times[:-1]).any():
            return Events(batch, context, times), malformed
        order = np.argsort(times, kind="stable")
        return Events(batch.take(pa.array(order)), context, times[order]), malformed

    def joined(self, lookups: tuple[Lookup, ...]) -> Events:
        """The events with what the lookups find. Where a lookup finds several rows, they are other events."""
        if not lookups:
            return self
        if lookups not in self._joined:
            events = self._join(lookups)
            self._joined[lookups] = None if events is self else events
        return self._joined[lookups] or self

    def _join(self, lookups: tuple[Lookup, ...]) -> Events:
        prepared = {table.lookup: table for table in self.context.tables}
        events = self
        arrays: dict[Expr, pa.Array] = {}  # several tables are often looked up by the same key
        for at, lookup in enumerate(lookups):
            if lookup.matched in events.columns:
                continue
            for key, _ in lookup.keys:
                if key not in arrays:
                    arrays[key] = events.columns.array(key)
            keys: list[ProbeKey] = [arrays[key] for key, _ in lookup.keys]
            keys += [events.batch.column(READ)] if prepared[lookup].versioned else []
            repeated, row = rows_found(prepared[lookup], keys, events.length)
            if repeated is not None:
                events = events._repeated(repeated, lookups[:at])
                arrays.clear()
            events.columns.attach(Attached(prepared[lookup], row))
        return events

    def _repeated(self, index: npt.NDArray[np.int64], lookups: tuple[Lookup, ...]) -> Events:
        """Events with the earlier lookups done, as often as the index has them."""
        events = Events(self.batch.take(pa.array(index)), self.context)
        for lookup in lookups:
            found = self.columns.attached(lookup.matched)
            events.columns.attach(Attached(found.prepared, found.row[index]))
        return events

    def selection(self, lookups: tuple[Lookup, ...]) -> Selection:
        if lookups not in self._selections:
            self._selections[lookups] = Selection(self.context.compared[lookups], self.columns)
        return self._selections[lookups]

    def cut(self, progressions: Times) -> Cut:
        """The slices between the edges on progressions, given as rows (first, step)."""
        key = progressions.tobytes()
        if key not in self._cuts:
            self._cuts[key] = Cut.at(self.times, progressions)
        return self._cuts[key]

    def groups(self, keys: tuple[Expr, ...]) -> Groups:
        if keys not in self._groups:
            own = [self.key(key) for key in keys]
            if len(keys) == 1 or not self.length:
                self._groups[keys] = Groups.of(own, self.length)
            else:
                alone = [self.groups((key,)) for key in keys]  # others group by some of them
                self._groups[keys] = Groups.together(alone).named(own)
        return self._groups[keys]

    def key(self, key: Expr) -> pa.Array:
        array = self.columns.array(key)
        return canonical_floats(array) if pa.types.is_floating(array.type) else array

    def values(self, argument: Expr | None) -> Vector:
        """What a state is made of; ones where it only counts events."""
        if argument is not None:
            return self.columns.value(argument)
        return Vector(BIGINT, np.ones(self.length, np.int64), np.ones(self.length, np.bool_))

    def lifted(self, state: StateColumn) -> Lifted:
        """A dense state, ready to be added up."""
        key = state.partial, state.argument, state.where
        if key not in self._lifted:
            values, partial = self.values(state.argument), state.partial
            if isinstance(partial, End):
                self._lifted[key] = lift_end(partial, values, self.places(state.where))
            else:
                self._lifted[key] = lift(partial, values, lambda: self._split(state.argument, values))
        return self._lifted[key]

    def _split(self, argument: Expr | None, values: Vector) -> Split:
        if argument not in self._splits:
            self._splits[argument] = split_of(values)
        return self._splits[argument]

    def bad(self, check: Expr) -> Mask | None:
        """Where the expression met a bad value; None where it met none."""
        if check not in self._bad:
            self._bad[check] = self._find_bad(check)
        return self._bad[check]

    def _find_bad(self, check: Expr) -> Mask | None:
        column = self.context.bad.get(check)
        if column is None:
            return None if never_fails(check, self.columns) else self.columns.bad(check)
        met: Mask = self.columns[column].values & self.columns[column].valid
        return met if met.any() else None

    def bad_column(self, check: Expr) -> FoldedColumn | None:
        found = self.bad(check)
        return None if found is None else FoldedColumn.of(ADD, found.astype(np.int64))

    def places(self, where: Expr | None) -> Places:
        place = _numbers(self.batch, ARRIVAL)
        present = np.ones(self.length, np.bool_)
        if where is not None:
            satisfied = self.columns.value(where)
            present = satisfied.values.astype(np.bool_) & satisfied.valid
        parts = np.full(self.length, self.context.batch << FILES)
        within = parts_of(self.batch, self.context.files)
        times = _numbers(self.batch, EVENT_TIME) if EVENT_TIME in self.batch.schema.names else self.times
        return Places(times, parts if within is None else parts | within, place, present)


def _numbers(batch: pa.RecordBatch | pa.Table, name: str) -> Any:
    column = batch.column(name)
    return np.asarray(in_one_piece(column), np.int64)
