"""Events in, partials out: the kernel that runs in Spark's Python workers, and on the driver just as well.

For each grouping, events fall into shards (slice, fragment, group), and each of these is reduced to one row:

    t, symbol, price      slice  signature  key   events t_min t_max  states..  bad..
    09:00:01  A   10   ->
    09:00:02  A   12      09:00     01       A      -     -     -     2  22
    09:00:02  B    9      09:00    NULL     NULL    3    :01   :02    0   -

Events that satisfy no predicate (fragment F0) leave before anything is aggregated. So that it is known nevertheless
which slices hold an event, each slice has one more row without signature or slot, which counts all its events.

By dense rows, a row belongs to one predicate, its `slot`, instead of to the fragment of a `signature`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates.base import Places
from mullion.algebra.lookups import Lookup
from mullion.expressions.coding.canonical import canonical_floats
from mullion.expressions.coding.dictionary import codes_of, combine, runs
from mullion.expressions.vector import Vector, arrow_type
from mullion.kernels.arrival import ARRIVAL, FILES, FileOrder, parts_of
from mullion.kernels.columns import Columns
from mullion.kernels.lookup import Prepared, attach, probe
from mullion.language.query import Expr, Period
from mullion.language.types import BIGINT, Type
from mullion.planner.plan import FRAGMENTS, ROWS, Grouping
from mullion.slices.kernels.rows import MOST_OWN, Fields, dense_rows
from mullion.slices.kernels.signature import bytes_for, fragments, masks
from mullion.slices.kernels.slicing import slice_starts

TIME = "#t"
"""The event time in microseconds; NULL for a record that has no place in time."""
SLOT = "lane"
"""The column that numbers the predicate slot of dense rows. Checkpoints have it under this name."""


Windows = tuple[Period, ...]


@dataclass(frozen=True)
class Input:
    """What events arrive as: TIME, and columns that are either the stream's own or expressions that Spark evaluated."""

    columns: Mapping[str, Type]
    evaluated: Mapping[Expr, str] = field(default_factory=dict)
    bad: Mapping[Expr, str] = field(default_factory=dict)
    """Columns in which Spark already noted on which rows a checked expression met a bad value."""


@dataclass(frozen=True)
class Job:
    """What is to be made of a batch of events, for each of its groupings."""

    groupings: tuple[Grouping, ...]
    methods: tuple[str, ...]
    windows: tuple[Windows, ...]
    """For each grouping, the windows at whose edges time is cut for it."""
    inputs: Input
    slicing: str = "paired"
    tables: tuple[Prepared, ...] = ()
    """The tables of all lookups."""
    batch: int = 0
    """The number of the batch."""
    files: FileOrder | None = None
    """The files of the batch, where a state asks for the order of events."""


def takes_order(groupings: Sequence[Grouping]) -> bool:
    """Whether a state needs to know where events stand in the order of the stream."""
    return any(state.partial.takes_order for grouping in groupings for state in grouping.states)


def partial_schema(grouping: Grouping, method: str) -> pa.Schema:
    """The columns of a grouping's partials."""
    whose = (SLOT, pa.int32()) if method == ROWS else ("signature", signature_type(len(grouping.bits)))
    fields: list[tuple[str, pa.DataType]] = [("slice", pa.int64()), whose]
    fields += [(f"k{i}", arrow_type(t)) for i, t in enumerate(grouping.key_types)]
    fields += [("events", pa.int64()), ("t_min", pa.int64()), ("t_max", pa.int64())]
    for i, state in enumerate(grouping.states):
        fields += [(f"s{i}_{j}", arrow_type(t)) for j, t in enumerate(state.partial.stored)]
    fields += [(f"bad{i}", pa.int64()) for i in range(len(grouping.checks))]
    return pa.schema(fields)


def signature_type(bits: int) -> pa.DataType:
    return pa.dictionary(pa.int32(), pa.binary(max(1, bytes_for(bits))))


def signature_array(numbers: npt.NDArray[Any], signatures: npt.NDArray[np.uint8]) -> pa.DictionaryArray:
    """Dense numbers of fragments, and the bit set of each."""
    width = max(1, signatures.shape[1])
    if not signatures.shape[1]:
        signatures = np.zeros((len(signatures), 1), np.uint8)
    body = pa.py_buffer(np.ascontiguousarray(signatures).tobytes())
    bits = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(signatures), [None, body])
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), bits)


def partials(batch: pa.RecordBatch | pa.Table, job: Job) -> list[pa.Table]:
    """The partials of one batch of events for each grouping.

    Time: O(n log n) for n events, O(n) when they come in time order and without keys; dense rows O(n p) bytes for p
    predicates. Guarantee: every event is in exactly one partial, or by dense rows in one of each predicate that it
    satisfies.
    """
    present = batch.column(TIME).is_valid()
    malformed = len(batch) - (
        present.true_count if isinstance(present, pa.Array) else present.combine_chunks().true_count
    )
    if malformed:
        batch = batch.filter(present)
    events = _Events(batch, job)
    return [
        _with_slices(events, events.joined(grouping.lookups), grouping, method, windows, malformed)
        for grouping, method, windows in zip(job.groupings, job.methods, job.windows, strict=True)
    ]


class _Events:
    """The events of a batch and what all groupings ask of them."""

    def __init__(self, batch: pa.RecordBatch | pa.Table, job: Job) -> None:
        self.batch, self.job, self.inputs = batch, job, job.inputs
        self.length = len(batch)
        self.columns = Columns.of(batch, job.inputs.columns, job.inputs.evaluated)
        times = batch.column(TIME)
        self.times = np.asarray(times if isinstance(times, pa.Array) else times.combine_chunks(), np.int64)
        self._slices: dict[Windows, npt.NDArray[np.int64]] = {}
        self._by_slice: dict[Windows, tuple[Any, npt.NDArray[np.intp]]] = {}

    def joined(self, lookups: tuple[Lookup, ...]) -> _Events:
        """The events with what the lookups find. Where a lookup finds several rows, they are other events."""
        prepared = {table.lookup: table for table in self.job.tables}
        events = self
        for at, lookup in enumerate(lookups):
            if lookup.matched in events.columns:
                continue
            keys = [events.columns.array(key) for key, _ in lookup.keys]
            repeated, row = probe(prepared[lookup], keys, events.length)
            if repeated is not None:
                events = events._repeated(repeated, lookups[:at])
            events.columns.attach(attach(prepared[lookup], row))
        return events

    def _repeated(self, index: npt.NDArray[np.int64], lookups: tuple[Lookup, ...]) -> _Events:
        """Events with the earlier lookups done, as often as the index has them."""
        events = _Events(self.batch.take(pa.array(index)), self.job)
        for lookup in lookups:
            found = self.columns.attached(lookup.matched)
            events.columns.attach(attach(found.prepared, found.row[index]))
        return events

    def bad(self, check: Expr) -> npt.NDArray[np.bool_]:
        column = self.inputs.bad.get(check)
        if column is None:
            return self.columns.bad(check)
        return self.columns[column].values & self.columns[column].valid

    def places(self, where: Expr | None) -> Places:
        arrival = self.batch.column(ARRIVAL)
        place = np.asarray(arrival if isinstance(arrival, pa.Array) else arrival.combine_chunks(), np.int64)
        present = np.ones(self.length, np.bool_)
        if where is not None:
            satisfied = self.columns.value(where)
            present = satisfied.values.astype(np.bool_) & satisfied.valid
        parts = np.full(self.length, self.job.batch << FILES)
        within = parts_of(self.batch, self.job.files)
        return Places(self.times, parts if within is None else parts | within, place, present)

    def slices(self, windows: Windows) -> npt.NDArray[np.int64]:
        if windows not in self._slices:
            self._slices[windows] = slice_starts(self.times, windows, slicing=self.job.slicing)
        return self._slices[windows]

    def by_slice(self, windows: Windows) -> tuple[Any, npt.NDArray[np.intp]]:
        if windows not in self._by_slice:
            self._by_slice[windows] = runs(self.slices(windows))
        return self._by_slice[windows]


def _with_slices(
    events: _Events, joined: _Events, grouping: Grouping, method: str, windows: Windows, malformed: int
) -> pa.Table:
    """The partials of a grouping, and a row for each slice that holds an event, whatever the lookups make of it."""
    rows = ROWS if method == ROWS and _is_worth_cutting(joined, grouping) else FRAGMENTS
    partial_columns = _rows(joined, grouping) if rows == ROWS else _shards(joined, grouping, windows)
    schema = partial_schema(grouping, rows)
    order, starts = events.by_slice(windows)
    counted: dict[str, Any] = {
        "slice": events.slices(windows)[order][starts],
        "events": np.diff(np.append(starts, events.length)),
        "t_min": _reduce(np.minimum, events.times[order], starts),
        "t_max": _reduce(np.maximum, events.times[order], starts),
    }
    for i, check in enumerate(grouping.checks):
        if joined is events:
            counted[f"bad{i}"] = _reduce(np.add, events.bad(check).astype(np.int64)[order], starts)
        elif len(starts):
            counted[f"bad{i}"] = np.append(np.zeros(len(starts) - 1, np.int64), joined.bad(check).sum())
    tables = [_table(partial_columns, schema), _table(counted, schema)]
    if malformed:
        tables.append(_table({"slice": pa.nulls(1, pa.int64()), "events": np.array([malformed])}, schema))
    return pa.concat_tables(tables)


def _is_worth_cutting(events: _Events, grouping: Grouping) -> bool:
    """Very fine windows have more edges than events: then events are sought out, not edges."""
    if not events.length:
        return True
    low, high = int(events.times.min()), int(events.times.max())
    edges = grouping.progressions.most(low, high)
    if grouping.keys and edges * len(grouping.slots) > MOST_OWN:
        return False
    return edges <= 4 * events.length + 100_000


def _table(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """A table of the schema; columns that are not there are NULL."""
    length = len(next(iter(columns.values())))
    arrays = []
    for f in schema:
        column = columns.get(f.name)
        if column is None:
            column = pa.nulls(length, f.type)
        array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
        arrays.append(array if array.type == f.type else array.cast(f.type))
    return pa.table(arrays, schema=schema)


def _shards(events: _Events, grouping: Grouping, windows: Windows) -> dict[str, Any]:
    """Fragments by hash: one row for each slice, fragment and group (krishnamurthy 5)."""
    fragmented = fragments(grouping.index, events.columns)
    selected: Any = slice(None)
    if grouping.selective:
        wanted = np.asarray(fragmented.signatures.any(axis=1))
        if not wanted.all():
            selected = np.flatnonzero(wanted[fragmented.number])
    fragment, slices = fragmented.number[selected], events.slices(windows)[selected]
    keys = [_key(events, key, selected) for key in grouping.keys]
    length = len(slices)
    coded = [_coded_slices(slices), (fragment, len(fragmented.signatures))] if length else [(slices, 0)]
    coded += [codes_of(key) for key in keys]
    order, starts = runs(combine(coded, length)[0])
    partial_columns: dict[str, Any] = {
        "slice": slices[order][starts],
        "signature": signature_array(fragment[order][starts], fragmented.signatures),
    }
    first = pa.array(np.arange(length)[order][starts])
    partial_columns |= {f"k{i}": key.take(first) for i, key in enumerate(keys)}
    for i, state in enumerate(grouping.states):
        values = _ones(events.length) if state.argument is None else events.columns.value(state.argument)
        places = events.places(state.where).take(selected).take(order) if state.partial.takes_order else None
        stored = state.partial.gather(values.take(selected).take(order), starts, places)
        partial_columns |= {f"s{i}_{j}": column.to_arrow() for j, column in enumerate(stored)}
    for i, check in enumerate(grouping.checks[: grouping.selected_checks]):
        partial_columns[f"bad{i}"] = _reduce(np.add, events.bad(check).astype(np.int64)[selected][order], starts)
    return partial_columns


def _coded_slices(slices: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
    """Slices as dense numbers; events mostly come in the order of their times."""
    steps = np.diff(slices)
    if (steps < 0).any():
        return codes_of(pa.array(slices))
    codes = np.concatenate([[0], np.cumsum(steps > 0)])
    return codes, int(codes[-1]) + 1


def _rows(events: _Events, grouping: Grouping) -> dict[str, Any]:
    """Dense rows: one row for each predicate, slice of its own, and group."""
    satisfied = masks(grouping.index, events.columns, len(grouping.slots))
    keys = [_key(events, key, slice(None)) for key in grouping.keys]
    groups = combine([codes_of(key) for key in keys], events.length)[0] if keys else None
    ones = _ones(events.length)
    states = [(s.partial, ones if s.argument is None else events.columns.value(s.argument)) for s in grouping.states]
    checks = grouping.checks[: grouping.selected_checks]
    fields = Fields.of(states, [events.bad(check) for check in checks])
    rows = dense_rows(events.times, groups, satisfied, fields, grouping.progressions)
    partial_columns: dict[str, Any] = {"slice": rows.slices, SLOT: rows.slot}
    events_of = pa.array(rows.event)
    partial_columns |= {f"k{i}": key.take(events_of) for i, key in enumerate(keys)}
    for i, stored in enumerate(fields.stored(rows.rows, rows.whole, rows.real, rows.least)):
        partial_columns |= {f"s{i}_{j}": column.to_arrow() for j, column in enumerate(stored)}
    for i in range(len(checks)):
        partial_columns[f"bad{i}"] = rows.whole[len(rows.whole) - len(checks) + i]
    return partial_columns


def _key(events: _Events, key: Expr, selected: Any) -> pa.Array:
    array = events.columns.array(key)
    if not (isinstance(selected, slice) and selected == slice(None)):
        array = array.take(pa.array(selected))
    return canonical_floats(array) if pa.types.is_floating(array.type) else array


def _ones(length: int) -> Vector:
    return Vector(BIGINT, np.ones(length, np.int64), np.ones(length, np.bool_))


def _reduce(ufunc: np.ufunc, values: npt.NDArray[np.int64], starts: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    return ufunc.reduceat(values, starts) if len(starts) else values[:0]
