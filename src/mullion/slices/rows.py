"""All sub-windows of one grouping as one sequence of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.arrays import Index, Mask, Times
from mullion.expressions.coding.canonical import in_one_piece
from mullion.expressions.coding.dictionary import codes_of, combine
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector, arrow_type
from mullion.language.types import Type
from mullion.lazy import cached_property
from mullion.planner.plan import Grouping, StateColumn
from mullion.slices.arrange import rank_of_keys
from mullion.slices.kernels.groups import Groups
from mullion.slices.kernels.layout import SLOT
from mullion.slices.kernels.row_loops import first_of_each
from mullion.slices.subwindow import PartialSubWindows, fragments_of, slot_sizes

MOST_OF = 0.75
"""The share of the rows from which on all of them are taken."""


class SubWindowRows:
    """All sub-windows of one grouping that windows may still need, as one sequence."""

    def __init__(self, entries: Sequence[PartialSubWindows], grouping: Grouping) -> None:
        self.entries = [e for e in entries if e.grouping == grouping.name]
        self.starts: Index = np.cumsum([0, *(len(e.slices) for e in self.entries)])
        """Where the rows of each sub-window begin, and where the last ones end."""
        self._key_types = grouping.key_types
        self.group_keys = len(grouping.group_keys)
        self._states: dict[StateColumn, tuple[Vector, ...]] = {}

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def slices(self) -> Times:
        return _concat([e.slices for e in self.entries], np.int64)

    def fragments_of(self, slots: Sequence[str]) -> Index:
        """How many rows of fragments each slot has."""
        found = np.zeros(len(slots), np.intp)
        for entry in self.entries:
            found += fragments_of(entry, slots)
        return found

    @property
    def keys(self) -> int:
        return len(self._key_types)

    def key_type(self, index: int) -> Type:
        return self._key_types[index]

    @cached_property
    def groups(self) -> tuple[npt.NDArray[np.integer[Any]], int]:
        """The group of each row as a number, and how many groups there are at most."""
        if not self.group_keys:
            return np.zeros(len(self), np.int32), 1
        found = Groups.of_texts([self._chunks(i) for i in range(self.group_keys)])
        if found is not None:
            numbered, self.__dict__["firsts"] = found
            return numbered.codes, numbered.size
        numbered = Groups.numbered([in_one_piece(self.key(i)) for i in range(self.group_keys)])
        return numbered.codes, numbered.size

    @cached_property
    def firsts(self) -> npt.NDArray[np.int64]:
        """A row of each group; the first of all where no row is of it."""
        codes, size = self.groups
        if "firsts" in self.__dict__:  # found with the groups
            return self.firsts
        first = np.zeros(size, np.int64)
        (codes,) = frozen(codes)
        first_of_each(codes, first)
        return first

    @cached_property
    def key_ranks(self) -> npt.NDArray[np.int64]:
        """The rank of each group by its keys."""
        _, size = self.groups
        if not len(self) or not self.group_keys:
            return np.arange(size)
        return rank_of_keys([self.values_of_key(i, self.firsts) for i in range(self.group_keys)], size)

    def align(self, others: Sequence[SubWindowRows]) -> None:
        """Number the groups of all these rows alike."""
        every = (self, *others)
        bounds = np.cumsum([len(rows) for rows in every])
        keys = [_in_one_type([c for rows in every for c in rows._chunks(i)], t) for i, t in self._typed_group_keys()]
        codes, size = combine([codes_of(key) for key in keys], int(bounds[-1]))
        for rows, own in zip(every, np.split(codes, bounds[:-1]), strict=True):
            rows.__dict__["groups"] = own, size
            rows.__dict__.pop("firsts", None)

    def _typed_group_keys(self) -> Iterator[tuple[int, Type]]:
        return zip(range(self.group_keys), self._key_types, strict=False)

    def key(self, index: int) -> pa.ChunkedArray:
        """A key of each row, coded where all sub-windows have it coded."""
        return _in_one_type(self._chunks(index), self._key_types[index])

    def _chunks(self, index: int) -> list[pa.Array]:
        return [c for e in self.entries for c in e.table.column(f"key{index}").chunks]

    def values_of_key(self, index: int, rows: Index) -> pa.Array:
        """A key of some rows, without codes. Only these are looked at."""
        chunks, type_ = self._chunks(index), arrow_type(self._key_types[index])
        if len(chunks) == 1:
            return _plain(chunks[0].take(pa.array(rows)), type_)
        ends = np.cumsum([len(chunk) for chunk in chunks])
        of = np.searchsorted(ends, rows, "right")
        order = np.argsort(of, kind="stable")
        bounds = np.searchsorted(of[order], np.arange(len(chunks) + 1))
        parts = []
        for chunk, end, low, high in zip(chunks, ends, bounds, bounds[1:], strict=False):
            part = chunk.take(pa.array(rows[order[low:high]] - (end - len(chunk))))
            parts.append(_plain(part, type_))
        place = np.empty(len(rows), np.int64)
        place[order] = np.arange(len(rows))
        return (pa.concat_arrays(parts) if parts else pa.nulls(0, type_)).take(pa.array(place))

    def runs(self, slots: Mapping[str, int]) -> list[tuple[int, int, slice]] | None:
        """The numbers of slots, and of sub-windows with the rows there that belong to it, by slot; None where these do
        not follow one another."""
        runs = []
        for at, entry in enumerate(self.entries):
            bounds = entry.slot_bounds
            if bounds is None:
                return None
            own = zip(entry.slots or [""], bounds.tolist(), bounds[1:].tolist(), strict=False)
            runs += [(slots[name], at, slice(low, high)) for name, low, high in own if name in slots and high > low]
        return sorted(runs, key=lambda run: run[:2])

    def members(self, slots: Mapping[str, int]) -> tuple[Index, Index]:
        """Pairs of a row and the number of a slot that it belongs to."""
        parts = [e.members(slots, np.arange(len(e.slices))) for e in self.entries]
        if len(parts) == 1:
            return parts[0]
        first = np.concatenate([[0], np.cumsum([len(e.slices) for e in self.entries])])
        rows = [rows + first[i] for i, (rows, _) in enumerate(parts)]
        return _concat(rows, np.intp), _concat([numbers for _, numbers in parts], np.intp)

    def sizes(self, slots: Sequence[str]) -> list[int]:
        """How many rows belong to each slot."""
        found = [slot_sizes(entry, slots).tolist() for entry in self.entries]
        return [sum(own) for own in zip(*found, strict=True)] if found else [0] * len(slots)

    @property
    def are_fragments(self) -> bool:
        """Whether all rows are those of fragments, which are cut wherever a window of any slot starts or ends."""
        return all(SLOT not in entry.table.schema.names for entry in self.entries)

    def within(self, start: int, end: int) -> Mask | None:
        """Which rows lie in a span of time; None where most do, for then it does not pay to leave the others out."""
        inside = (self.slices >= start) & (self.slices < end)
        return inside if np.count_nonzero(inside) < MOST_OF * len(inside) else None

    def state(self, state: StateColumn) -> tuple[Vector, ...]:
        if state not in self._states:
            self._states[state] = self._joined(state)
        return self._states[state]

    def are_same(self, count: StateColumn, other: StateColumn) -> bool:
        """Whether two counts are equal throughout."""
        names = f"{count.name}.0", f"{other.name}.0"
        columns = [[e.table.column(n) for n in names if n in e.table.schema.names] for e in self.entries]
        return all(len(own) == len(names) and own[0].equals(own[1]) for own in columns)

    def _joined(self, state: StateColumn) -> tuple[Vector, ...]:
        parts = [e.state(state) for e in self.entries]
        if not parts:
            return tuple(Vector.of(type_, []) for type_ in state.partial.stored)
        return parts[0] if len(parts) == 1 else tuple(Vector.concat(own) for own in zip(*parts, strict=True))


def _plain(key: pa.Array, type_: pa.DataType) -> pa.Array:
    key = key.dictionary_decode() if pa.types.is_dictionary(key.type) else key
    return key if key.type == type_ else key.cast(type_)


def _in_one_type(chunks: list[pa.Array], type_: Type) -> pa.ChunkedArray:
    """Chunks of a key together: with codes where all have some, without where some have none."""
    coded = [chunk for chunk in chunks if pa.types.is_dictionary(chunk.type)]
    if not coded:
        return pa.chunked_array(chunks, arrow_type(type_))
    if len(coded) < len(chunks):
        plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in chunks]
        return pa.chunked_array(plain, arrow_type(type_))
    common = pa.dictionary(pa.int32(), arrow_type(type_))
    return pa.chunked_array([c if c.type == common else c.cast(common) for c in chunks], common)


def _concat(arrays: Sequence[npt.NDArray[Any]], dtype: Any) -> npt.NDArray[Any]:
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)
