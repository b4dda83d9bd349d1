"""Sub-windows: the immutable partials that windows are made of, as they came from one batch.

A sub-window's columns are named by what they hold, not by their place in a plan, so that sub-windows made under
different plans still serve a query that both knew: `slice`, `sig0..`, `key0..`, `<state>.<field>`. The predicates that
the bits of the signature stand for are in the schema's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates import Partial
from mullion.kernels.encode import codes_of, combine, runs
from mullion.kernels.signature import satisfies
from mullion.language.vector import Vector, arrow_type
from mullion.planner.plan import Grouping, StateColumn

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SubWindows:
    table: pa.Table

    @staticmethod
    def of(partials: pa.Table, grouping: Grouping) -> SubWindows:
        """From the partials of a batch; rows without a slice (malformed records) are left out."""
        names = {f"k{i}": f"key{i}" for i in range(len(grouping.keys))}
        for i, state in enumerate(grouping.states):
            names |= {f"s{i}_{j}": f"{state.name}.{j}" for j in range(len(state.partial.stored))}
        kept = [n for n in partials.schema.names if n == "slice" or n.startswith("sig") or n in names]
        table = partials.select(kept).rename_columns([names.get(n, n) for n in kept])
        if table.column("slice").null_count:
            table = table.filter(table.column("slice").is_valid())
        metadata = {"grouping": grouping.name, "predicates": json.dumps(grouping.predicate_names)}
        return SubWindows(table.combine_chunks().replace_schema_metadata(metadata))

    @cached_property
    def grouping(self) -> str:
        return str(self.table.schema.metadata[b"grouping"].decode())

    @cached_property
    def predicates(self) -> list[str]:
        names: list[str] = json.loads(self.table.schema.metadata[b"predicates"])
        return names

    @cached_property
    def slices(self) -> Times:
        return np.asarray(self.table.column("slice").combine_chunks(), np.int64)

    @cached_property
    def newest(self) -> int:
        return int(self.slices.max()) if len(self.slices) else np.iinfo(np.int64).min

    @cached_property
    def signature(self) -> npt.NDArray[np.int64]:
        words = [n for n in self.table.schema.names if n.startswith("sig") and n[3:].isdigit()]
        columns = [np.asarray(self.table.column(w).combine_chunks(), np.int64) for w in words]
        return np.stack(columns, axis=1) if columns else np.zeros((len(self.slices), 0), np.int64)

    def member(self, predicate: str | None) -> npt.NDArray[np.bool_]:
        """The rows that satisfy the predicate; none when it was not known yet."""
        if predicate is None:
            return np.ones(len(self.slices), np.bool_)
        if predicate not in self.predicates:
            return np.zeros(len(self.slices), np.bool_)
        return satisfies(self.signature, self.predicates.index(predicate))

    def state(self, state: StateColumn) -> tuple[Vector, ...]:
        """The stored fields of a state; its identity throughout when it was not kept yet."""
        stored = state.partial.stored
        if f"{state.name}.0" not in self.table.schema.names:
            return tuple(Vector.from_arrow(pa.nulls(len(self.slices), arrow_type(t)), t) for t in stored)
        columns = (self.table.column(f"{state.name}.{j}") for j in range(len(stored)))
        return tuple(Vector.from_arrow(c, t) for c, t in zip(columns, stored, strict=True))

    def since(self, time: int) -> SubWindows:
        """Without the slices before `time`."""
        if not len(self.slices) or self.slices.min() >= time:
            return self
        return SubWindows(self.table.filter(pa.array(self.slices >= time)))


def merge(entries: Sequence[SubWindows], states: Sequence[StateColumn]) -> list[SubWindows]:
    """Fewer, equal sub-windows: those of one layout become one, equal (slice, fragment, group) rows one row."""
    by_layout: dict[str, list[SubWindows]] = {}
    for entry in entries:
        by_layout.setdefault(entry.table.schema.to_string(show_schema_metadata=True), []).append(entry)
    return [_merge_alike(alike, states) for alike in by_layout.values()]


def _merge_alike(entries: Sequence[SubWindows], states: Sequence[StateColumn]) -> SubWindows:
    table = pa.concat_tables([e.table for e in entries]).combine_chunks()
    fields = {f"{s.name}.{j}" for s in states for j in range(len(s.partial.stored))}
    if not len(table) or any("." in n and n not in fields for n in table.schema.names):
        return SubWindows(table)
    identity = [n for n in table.schema.names if n not in fields]
    order, starts = runs(combine([codes_of(table.column(n)) for n in identity], len(table))[0])
    if len(starts) == len(table):
        return SubWindows(table)
    first = pa.array(np.arange(len(table))[order][starts])
    columns = {n: table.column(n).take(first) for n in identity}
    whole = SubWindows(table)
    for state in states:
        if f"{state.name}.0" in table.schema.names:
            stored = tuple(v.take(np.arange(len(table))[order]) for v in whole.state(state))
            partial: Partial = state.partial
            merged = partial.store(partial.reduce(partial.load(stored), starts), stored)
            columns |= {f"{state.name}.{j}": v.to_arrow() for j, v in enumerate(merged)}
    arrays = [columns[n] for n in table.schema.names]
    return SubWindows(pa.table(arrays, schema=table.schema))


class Rows:
    """All sub-windows of one grouping that windows may still need, as one sequence."""

    def __init__(self, entries: Sequence[SubWindows], grouping: Grouping) -> None:
        self.entries = [e for e in entries if e.grouping == grouping.name]
        self.slices: Times = _concat([e.slices for e in self.entries], np.int64)
        self._keys = len(grouping.keys)

    def __len__(self) -> int:
        return len(self.slices)

    @cached_property
    def groups(self) -> tuple[npt.NDArray[np.int64], int]:
        """The group of each row as a number, and how many groups there are."""
        return combine([codes_of(self.key(i)) for i in range(self._keys)], len(self))

    def key(self, index: int) -> pa.ChunkedArray:
        chunks = [c for e in self.entries for c in e.table.column(f"key{index}").chunks]
        return pa.chunked_array(chunks)

    def member(self, predicate: str | None) -> npt.NDArray[np.bool_]:
        return _concat([e.member(predicate) for e in self.entries], np.bool_)

    def state(self, state: StateColumn) -> tuple[Vector, ...]:
        parts = [e.state(state) for e in self.entries]
        return tuple(
            Vector(
                type_,
                _concat([p[j].values for p in parts], None),
                _concat([p[j].valid for p in parts], np.bool_),
            )
            for j, type_ in enumerate(state.partial.stored)
        )


def _concat(arrays: Sequence[npt.NDArray[Any]], dtype: Any) -> npt.NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)
