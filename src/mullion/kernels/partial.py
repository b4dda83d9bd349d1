"""Events in, partials out: the kernel that runs in Spark's Python workers, and on the driver just as well.

For each grouping, events fall into (slice, fragment, group) and each of these is reduced to one row:

    t, symbol, price      slice  signature  key   n  t_min t_max  states..  bad..
    09:00:01  A   10   ->
    09:00:02  A   12      09:00     01       A    2   :01   :02   22
    09:00:02  B    9      09:00     00      NULL  1   :02   :02   -         (satisfies no predicate: fragment F0)

Rows of fragment F0 answer no query, so their key is dropped; they stay as witnesses that their slice holds an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.kernels.encode import canonical_floats, codes_of, combine, runs
from mullion.kernels.signature import pack, words_for
from mullion.kernels.slicing import slice_starts
from mullion.language.evaluate import count_bad, evaluate
from mullion.language.query import Column, Expr, Period
from mullion.language.types import BIGINT, Type
from mullion.language.vector import Vector, arrow_type
from mullion.planner.plan import Grouping


@dataclass(frozen=True)
class Input:
    """What Spark sends: the event time in microseconds as `t` (NULL for a malformed record), and columns that are
    either the stream's own or expressions that Spark evaluated."""

    columns: Mapping[str, Type]
    evaluated: Mapping[Expr, str] = field(default_factory=dict)
    bad: Mapping[Expr, str] = field(default_factory=dict)
    """Where Spark already told on which rows a checked expression met a bad value."""

    def over(self, expr: Expr) -> Expr:
        name = self.evaluated.get(expr)
        return expr if name is None else Column(name)


def partial_schema(grouping: Grouping) -> pa.Schema:
    """The columns of a grouping's partials, by whichever way they come."""
    fields: list[tuple[str, pa.DataType]] = [("slice", pa.int64())]
    fields += [(f"sig{i}", pa.int64()) for i in range(words_for(len(grouping.predicates)))]
    fields += [(f"k{i}", arrow_type(t)) for i, t in enumerate(grouping.key_types)]
    fields += [("t_min", pa.int64()), ("t_max", pa.int64())]
    for i, state in enumerate(grouping.states):
        fields += [(f"s{i}_{j}", arrow_type(t)) for j, t in enumerate(state.partial.stored)]
    fields += [(f"bad{i}", pa.int64()) for i in range(len(grouping.checks))]
    return pa.schema(fields)


def partials(
    batch: pa.RecordBatch,
    grouping: Grouping,
    windows: tuple[Period, ...],
    inputs: Input,
    *,
    slicing: str = "paired",
) -> pa.RecordBatch:
    """The partials of one batch of events for one grouping.

    Time: O(n log n) for n events, O(n) when they come in time order and without keys and predicates.
    Guarantee: every event is in exactly one partial.
    """
    present = batch.column("t").is_valid()
    malformed = len(batch) - present.true_count
    if malformed:
        batch = batch.filter(present)
    length = len(batch)
    times = np.asarray(batch.column("t"), np.int64)
    columns = {name: Vector.from_arrow(batch.column(name), type_) for name, type_ in inputs.columns.items()}

    def value(expr: Expr) -> Vector:
        return evaluate(inputs.over(expr), columns, length)

    slices = slice_starts(times, windows, slicing=slicing)
    satisfied = [(v := value(p)).values.astype(np.bool_) & v.valid for p in grouping.predicates]
    signature = pack(satisfied, length)
    wanted = (signature != 0).any(axis=1) if grouping.selective else None
    keys = [_key(value(k), wanted) for k in grouping.keys]

    coded = [codes_of(pa.array(slices))] if length else [(slices, 0)]
    coded += [codes_of(pa.array(signature[:, w])) for w in range(signature.shape[1])]
    coded += [codes_of(k) for k in keys]
    order, starts = runs(combine(coded, length)[0])

    out: list[Any] = [slices[order][starts]]
    out += [signature[order, w][starts] for w in range(signature.shape[1])]
    first = np.arange(length)[order][starts]
    out += [k.take(pa.array(first)) for k in keys]
    out += [_reduce(np.minimum, times[order], starts), _reduce(np.maximum, times[order], starts)]
    for state in grouping.states:
        events = _ones(length) if state.argument is None else value(state.argument)
        out += [_sorted.to_arrow() for _sorted in _partial(state.partial, events.take(order), starts)]
    for check in grouping.checks:
        told = inputs.bad.get(check)
        bad = count_bad(check, columns, length) if told is None else columns[told].values & columns[told].valid
        out.append(_reduce(np.add, bad.astype(np.int64)[order], starts))
    schema = partial_schema(grouping)
    arrays = [a if isinstance(a, pa.Array) else pa.array(a) for a in out]
    made = pa.RecordBatch.from_arrays([a.cast(f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)
    return _with_malformed(made, malformed) if malformed else made


def _key(key: Vector, wanted: Any) -> pa.Array:
    if wanted is not None:
        key = Vector(key.type, key.values, key.valid & wanted)
    array = key.to_arrow()
    return canonical_floats(array) if pa.types.is_floating(array.type) else array


def _ones(length: int) -> Vector:
    return Vector(BIGINT, np.ones(length, np.int64), np.ones(length, np.bool_))


def _partial(partial: Any, events: Vector, starts: npt.NDArray[np.intp]) -> tuple[Vector, ...]:
    lifted = partial.lift(events)
    reduced: tuple[Vector, ...] = partial.store(partial.reduce(partial.load(lifted), starts), lifted)
    return reduced


def _reduce(ufunc: np.ufunc, values: npt.NDArray[np.int64], starts: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    return ufunc.reduceat(values, starts) if len(starts) else values[:0]


def _with_malformed(made: pa.RecordBatch, malformed: int) -> pa.RecordBatch:
    """A last row without a slice tells how many records had no place in time."""
    rows = made.schema.get_field_index("s0_0")
    extra = [
        pa.array([malformed if i == rows else None], f.type) if f.name != "slice" else pa.nulls(1, f.type)
        for i, f in enumerate(made.schema)
    ]
    table = pa.Table.from_batches([made, pa.RecordBatch.from_arrays(extra, schema=made.schema)])
    return table.combine_chunks().to_batches()[0]
