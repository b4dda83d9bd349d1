"""Sub-windows: the immutable partials that windows are made of, as they came from one batch.

A sub-window's columns are named by what they hold, not by their place in a plan, so that sub-windows made under
different plans still serve a query that both knew: `slice`, `signature` or `slot`, `key0..`, `<state>.<field>`. What
the bits of a signature and the numbers of slots stand for is in the schema's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates import Partial
from mullion.expressions.arrays import Index, Times
from mullion.expressions.coding.canonical import in_one_piece
from mullion.expressions.coding.dictionary import codes_of, combine, runs
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector, arrow_type
from mullion.instants import ORIGIN
from mullion.lazy import cached_property
from mullion.planner.plan import Grouping, StateColumn
from mullion.questions_first import give_way
from mullion.slices.kernels.layout import SLOT
from mullion.slices.kernels.ranges import count_members, rows_of_fragments
from mullion.slices.kernels.signature import unpack

LARGE_PORTION = 50_000
"""Rows of a portion that makes sub-windows of its own."""


@dataclass(frozen=True, eq=False)
class PartialSubWindows:
    table: pa.Table
    on_disk: bool = False
    """Whether its rows lie in a file that is mapped."""

    @staticmethod
    def of(partials: pa.Table, grouping: Grouping) -> PartialSubWindows:
        """From the partials of a batch, without the rows that only say which slices hold an event."""
        names = {f"k{i}": f"key{i}" for i in range(len(grouping.keys))}
        for i, state in enumerate(grouping.states):
            names |= {f"s{i}_{j}": f"{state.name}.{j}" for j in range(len(state.partial.stored))}
        columns = [n for n in partials.schema.names if n in ("slice", "signature", SLOT) or n in names]
        slots = grouping.slot_names if SLOT in columns else grouping.slot_names[: len(grouping.bits)]
        metadata = {
            "grouping": grouping.name,
            "lanes": json.dumps(slots),
            "everyone": json.dumps(not grouping.selective),
            "private": json.dumps(all(slot.tag for slot in grouping.slots)),
        }
        table = with_states(partials, grouping).select(columns).rename_columns([names.get(n, n) for n in columns])
        return PartialSubWindows(table.unify_dictionaries().combine_chunks().replace_schema_metadata(metadata))

    @cached_property
    def grouping(self) -> str:
        return str(self.table.schema.metadata[b"grouping"].decode())

    @cached_property
    def slots(self) -> list[str]:
        names: list[str] = json.loads(self.table.schema.metadata[b"lanes"])
        return names

    @cached_property
    def is_private(self) -> bool:
        """Kept for queries alone whose past was read once more."""
        return bool(json.loads(self.table.schema.metadata[b"private"]))

    @cached_property
    def readers(self) -> frozenset[str] | None:
        """The queries that may read it; None for all. Queries that were given to another cluster take what was kept
        for them along, and the others there have it in sub-windows of their own."""
        names = self.table.schema.metadata.get(b"readers")
        return None if names is None else frozenset(json.loads(names))

    def for_readers(self, names: frozenset[str]) -> PartialSubWindows:
        """The same sub-windows, for these queries alone."""
        own = names if self.readers is None else names & self.readers
        metadata = {**self.table.schema.metadata, b"readers": json.dumps(sorted(own)).encode()}
        return PartialSubWindows(self.table.replace_schema_metadata(metadata))

    def is_read_by(self, name: str) -> bool:
        return self.readers is None or name in self.readers

    def knows(self, slot: str) -> bool:
        """Whether events of the slot were kept here."""
        if SLOT not in self.table.schema.names and not slot:
            return bool(json.loads(self.table.schema.metadata[b"everyone"]))
        return slot in self.slots

    @cached_property
    def slices(self) -> Times:
        return np.asarray(in_one_piece(self.table.column("slice")), np.int64)

    @cached_property
    def size(self) -> int:
        """Bytes of its rows."""
        return int(self.table.nbytes)

    @cached_property
    def newest(self) -> int:
        return int(self.slices.max()) if len(self.slices) else np.iinfo(np.int64).min

    @cached_property
    def oldest(self) -> int:
        return int(self.slices.min()) if len(self.slices) else np.iinfo(np.int64).max

    @cached_property
    def stands_by_slice(self) -> bool:
        """Whether the rows are in the order of their slices."""
        return bool((self.slices[1:] >= self.slices[:-1]).all())

    @cached_property
    def slot_bounds(self) -> Index | None:
        """Where the rows of each slot begin, and the last ones end; None where they do not stand by slot. Fragments do
        where no predicate tells them apart: all are of the slot without one."""
        if SLOT not in self.table.schema.names:
            return None if self.slots or not self.knows("") else np.array([0, len(self.slices)])
        if len(self.slots) == 1:
            return np.array([0, len(self.slices)])
        slot = np.asarray(in_one_piece(self.table.column(SLOT)))
        return np.searchsorted(slot, np.arange(len(self.slots) + 1)) if (slot[1:] >= slot[:-1]).all() else None

    @cached_property
    def by_slice(self) -> tuple[Index | None, Times]:
        """The rows in the order of their slices, where they do not stand in it, and the slices in order."""
        if self.stands_by_slice:
            return None, self.slices
        order = np.argsort(self.slices, kind="stable")
        return order, self.slices[order]

    def within(self, low: int, high: int) -> PartialSubWindows:
        """The rows of the slices in [low, high), without looking at the others."""
        order, slices = self.by_slice
        first, last = np.searchsorted(slices, (low, high)).tolist()
        if order is None:
            return PartialSubWindows(self.table.slice(first, last - first))
        return PartialSubWindows(self.table.take(pa.array(order[first:last])))

    def of_slot(self, slot: str) -> PartialSubWindows:
        """The rows that belong to a slot."""
        rows, _ = self.members({slot: 0}, np.arange(len(self.slices)))
        return self if len(rows) == len(self.slices) else PartialSubWindows(self.table.take(pa.array(rows)))

    def members(self, slots: Mapping[str, int], order: Index) -> tuple[Index, Index]:
        """Pairs of a row and the number of a slot that it belongs to, for the slots asked for, rows of each slot in the
        given order; none for a slot that was not known yet (krishnamurthy Algorithm 2)."""
        if SLOT in self.table.schema.names:
            number_of = np.array([slots.get(name, -1) for name in self.slots], np.intp)
            if len(number_of) == 1 and number_of[0] >= 0:
                return order, np.full(len(order), number_of[0], np.intp)
            number = number_of[np.asarray(in_one_piece(self.table.column(SLOT)))[order]]
            chosen = np.flatnonzero(number >= 0)
            return order[chosen], number[chosen]
        bits_of = [(bit, slots[name]) for bit, name in enumerate(self.slots) if name in slots]
        everyone = order if "" in slots and self.knows("") else order[:0]
        if not bits_of:
            return everyone, np.full(len(everyone), slots.get("", -1), np.intp)
        codes, bits = self._signatures
        fragment, number = np.nonzero(bits[:, [bit for bit, _ in bits_of]])
        first = np.searchsorted(fragment, np.arange(len(bits) + 1))
        counts = np.zeros(len(bits_of), np.intp)
        np.add.at(counts, number, np.bincount(codes[order], minlength=len(bits))[fragment])
        rows = np.empty(counts.sum(), np.intp)
        codes, order = frozen(codes, order)
        rows_of_fragments(codes, order, first, number, np.cumsum(counts) - counts, rows)
        numbers = np.repeat(np.array([number for _, number in bits_of], np.intp), counts)
        if len(everyone):
            rows = np.concatenate([rows, everyone])
            numbers = np.concatenate([numbers, np.full(len(everyone), slots[""])])
        return rows, numbers

    @cached_property
    def _signatures(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The fragment of each row, and the slots of each fragment."""
        column = in_one_piece(self.table.column("signature"))
        width = column.type.value_type.byte_width
        body = np.frombuffer(b"".join(column.dictionary.to_pylist()), np.uint8).reshape(-1, width)
        return np.asarray(column.indices, np.int64), unpack(body, len(self.slots))

    def state(self, state: StateColumn) -> tuple[Vector, ...]:
        """The stored fields of a state; its identity throughout when it was not kept yet."""
        give_way()
        stored = state.partial.stored
        if f"{state.name}.0" not in self.table.schema.names:
            return tuple(Vector.from_arrow(pa.nulls(len(self.slices), arrow_type(t)), t) for t in stored)
        columns = (self.table.column(f"{state.name}.{j}") for j in range(len(stored)))
        return tuple(Vector.coded_from_arrow(c, t) for c, t in zip(columns, stored, strict=True))

    def since(self, time: int) -> PartialSubWindows:
        """Without the slices before `time`."""
        if not len(self.slices) or self.slices.min() >= time:
            return self
        return PartialSubWindows(self.table.filter(pa.array(self.slices >= time)))

    def gathered(self, horizon: int, origin: int) -> PartialSubWindows:
        """With all slices before the horizon taken to be one at the origin."""
        if not len(self.slices) or self.slices.min() >= horizon:
            return self
        return _with_slices(self.table, np.where(self.slices < horizon, origin, self.slices))

    def relabelled(self, index: Index, slices: Times) -> PartialSubWindows:
        """The rows of the index, perhaps some of them often, in other slices."""
        return _with_slices(self.table.take(pa.array(index)), slices)

    def only(self, rows: npt.NDArray[np.bool_]) -> PartialSubWindows:
        """Without other rows."""
        return PartialSubWindows(self.table.filter(pa.array(rows)))


def _with_slices(table: pa.Table, slices: Times) -> PartialSubWindows:
    return PartialSubWindows(table.set_column(table.schema.get_field_index("slice"), "slice", pa.array(slices)))


def in_portions(partials: pa.Table) -> list[pa.Table]:
    """Partials of a batch that came in large portions, portion by portion, so that none is copied to stand beside the
    others; together where they came in many small ones."""
    batches = [batch for batch in partials.to_batches() if batch.column("s0_0").null_count < len(batch)]
    if len(batches) < 2 or min(map(len, batches)) < LARGE_PORTION:
        return [partials]
    return [pa.Table.from_batches([batch]) for batch in batches]


def with_states(partials: pa.Table, grouping: Grouping) -> pa.Table:
    """The rows that a query may need. The kernel gives those and the others apart: they are not copied."""
    parts = []
    for batch in partials.to_batches():
        if batch.column("s0_0").null_count == len(batch):
            continue
        part = pa.Table.from_batches([batch])
        rows = has_states(part, grouping)
        parts.append(part if rows.all() else part.filter(pa.array(rows)))
    return pa.concat_tables(parts) if parts else partials.slice(0, 0)


def has_states(partials: pa.Table, grouping: Grouping) -> npt.NDArray[np.bool_]:
    """The rows that a query may need; others only say which slices hold an event."""
    counts, slices = in_one_piece(partials.column("s0_0")), in_one_piece(partials.column("slice"))
    rows: npt.NDArray[np.bool_] = np.asarray(counts.fill_null(0) if counts.null_count else counts) > 0
    if slices.null_count:
        rows &= np.asarray(slices.is_valid())
    if "signature" in partials.schema.names and grouping.selective:
        rows &= _satisfies_any(partials.column("signature"))
    return rows


def _satisfies_any(signatures: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    column = signatures.unify_dictionaries().combine_chunks()
    some = np.array([any(bits) for bits in column.dictionary.to_pylist()] + [False], np.bool_)
    return some[np.asarray(column.indices.fill_null(len(some) - 1), np.int64)]


def fragments_of(entry: PartialSubWindows, slots: Sequence[str]) -> Index:
    """How many rows of fragments each slot has."""
    if SLOT in entry.table.schema.names:
        return np.zeros(len(slots), np.intp)
    codes, bits = entry._signatures
    of_bits = np.zeros(len(entry.slots) + 2, np.intp)
    rows, inside = frozen(np.bincount(codes, minlength=len(bits)), bits)
    count_members(rows, inside, of_bits)
    of_bits[-2] = len(codes) if entry.knows("") else 0
    at = {name: bit for bit, name in enumerate(entry.slots)} | {"": len(entry.slots)}
    return of_bits[[at.get(name, -1) for name in slots]]


def slot_sizes(entry: PartialSubWindows, slots: Sequence[str]) -> Index:
    """How many rows each slot has."""
    if SLOT not in entry.table.schema.names:
        return fragments_of(entry, slots)
    sizes = np.bincount(in_one_piece(entry.table.column(SLOT)), minlength=len(entry.slots) + 1)
    at = {name: number for number, name in enumerate(entry.slots)}
    return sizes[[at.get(name, -1) for name in slots]]


def rows_of_a_slot(entry: PartialSubWindows) -> float:
    """How many rows a slot has, on the average."""
    if SLOT in entry.table.schema.names:  # each is of one slot
        return len(entry.slices) / max(1, len(entry.slots))
    own = [*entry.slots, ""] if entry.knows("") else entry.slots
    return float(fragments_of(entry, own).sum()) / max(1, len(own))


def merge_sub_windows(entries: Sequence[PartialSubWindows], states: Sequence[StateColumn]) -> list[PartialSubWindows]:
    """Fewer, equal sub-windows: those of one layout become one, equal (slice, fragment, group) rows one row."""
    by_layout: dict[str, list[PartialSubWindows]] = {}
    for entry in entries:
        by_layout.setdefault(entry.table.schema.to_string(show_schema_metadata=True), []).append(entry)
    return [_merge_alike(alike, states) for alike in by_layout.values()]


def _merge_alike(entries: Sequence[PartialSubWindows], states: Sequence[StateColumn]) -> PartialSubWindows:
    entries = sorted(entries, key=lambda e: e.oldest)
    table = pa.concat_tables([e.table for e in entries]).unify_dictionaries().combine_chunks()
    if entries[0].oldest > ORIGIN and all(e.newest < later.oldest for e, later in pairwise(entries)):
        return PartialSubWindows(with_used_codes(table))
    if any("." in n and n not in _fields(states) for n in table.schema.names):
        return PartialSubWindows(with_used_codes(table))
    return PartialSubWindows(with_used_codes(_reduced(table, states)))


def _fields(states: Sequence[StateColumn]) -> set[str]:
    return {f"{s.name}.{j}" for s in states for j in range(len(s.partial.stored))}


def _reduced(table: pa.Table, states: Sequence[StateColumn]) -> pa.Table:
    """Equal (slice, fragment, group) rows become one; it has no states but these."""
    identity = [n for n in table.schema.names if n not in _fields(states)]
    order, starts = runs(combine([codes_of(table.column(n)) for n in identity], len(table))[0])
    if len(starts) == len(table):
        return table
    first = pa.array(np.arange(len(table))[order][starts])
    columns = {n: table.column(n).take(first) for n in identity}
    whole = PartialSubWindows(table)
    for state in states:
        if f"{state.name}.0" in table.schema.names:
            stored = tuple(v.take(np.arange(len(table))[order]) for v in whole.state(state))
            partial: Partial = state.partial
            merged = partial.store(partial.reduce(partial.load(stored), starts), stored)
            columns |= {f"{state.name}.{j}": v.to_arrow() for j, v in enumerate(merged)}
    return pa.table([columns[n] for n in table.schema.names], schema=table.schema)


def as_one(
    entries: Sequence[PartialSubWindows], states: Mapping[str, Sequence[StateColumn]]
) -> list[PartialSubWindows]:
    """Neighbours of one layout in one table, with these states of their groupings alone: that costs much less to look
    at than each for itself."""
    alike: list[list[PartialSubWindows]] = []
    for entry in entries:
        if alike and alike[-1][0].table.schema.equals(entry.table.schema, check_metadata=True):
            alike[-1].append(entry)
        else:
            alike.append([entry])
    return [_side_by_side(own, states[own[0].grouping]) for own in alike]


def _side_by_side(entries: Sequence[PartialSubWindows], states: Sequence[StateColumn]) -> PartialSubWindows:
    fields = _fields(states)
    names = [n for n in entries[0].table.schema.names if "." not in n or n in fields]
    table = pa.concat_tables([entry.table for entry in entries]).select(names)
    return PartialSubWindows(table.unify_dictionaries().combine_chunks())


def as_one_slice(entry: PartialSubWindows, slot: str, states: Sequence[StateColumn], slice_: int) -> PartialSubWindows:
    """What sub-windows of any slices hold of a slot, as one: a row for each fragment and group, with these states
    alone."""
    entry = entry.of_slot(slot)
    names = [n for n in entry.table.schema.names if "." not in n or n in _fields(states)]
    table = entry.table.select(names).unify_dictionaries().combine_chunks()
    at = table.schema.get_field_index("slice")
    table = table.set_column(at, table.schema.field(at), pa.array(np.full(len(table), slice_, np.int64)))
    return PartialSubWindows(_reduced(table, states) if len(table) else table)


def with_used_codes(table: pa.Table) -> pa.Table:
    """Without the values of forgotten rows, which dictionaries would gather as long as a stream runs."""
    for i, name in enumerate(table.schema.names):
        column = table.column(i)
        if pa.types.is_dictionary(column.type) and name.startswith("key"):
            coded = in_one_piece(column)
            if len(coded.dictionary) > 2 * len(coded):
                fresh = coded.dictionary_decode().dictionary_encode().cast(column.type)
                table = table.set_column(i, table.schema.field(i), fresh)
    return table
