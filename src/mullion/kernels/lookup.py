"""Finding the rows of a table that events belong to.

A table is prepared once per version: rows that can be found are sorted by their keys' codes, so that equal keys stand
together. Events are probed a column at a time: values to codes of the table's distinct values, codes of several keys
to one, and that to the place of the rows. A row number of -1 means that no row was found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.lookups import Lookup
from mullion.expressions.arrays import Whole
from mullion.expressions.coding.canonical import bits, in_one_piece, whole_numbers
from mullion.expressions.evaluate import evaluate
from mullion.expressions.vector import Vector
from mullion.language.query import Column, walk
from mullion.language.types import BIGINT, BOOLEAN
from mullion.lazy import cached_property

ProbeKey: TypeAlias = Vector | pa.Array | pa.ChunkedArray

WIDEST_TABLE = 1 << 22
"""Whole numbers within so many of each other are found by position, others by hash."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A lookup with its table's rows, ready to be probed; made once per table version, picklable and small.

    - `rows`: the rows that can be found, in the order of their keys, columns named as on events.
    - `unique`: no key occurs twice.
    - `distinct`: for each key its distinct values: an Arrow array, or sorted whole numbers.
    - `pairs`: for each key after the first, the sorted combinations of its codes with what stands before it.
    - `starts`: where the rows of each combination of keys start in `rows`, and where the last ones end.
    """

    lookup: Lookup
    rows: pa.Table
    unique: bool
    distinct: tuple[pa.Array | Whole, ...]
    pairs: tuple[Whole, ...]
    starts: Whole
    versioned: bool = False
    """The rows are those of several versions of the table; the number of the version is the last key (`READ`)."""

    @property
    def length(self) -> int:
        """How many rows there are, also when no column of them is needed."""
        return int(self.starts[-1])

    @cached_property
    def _columns(self) -> dict[str, Vector]:
        return {}

    def vector(self, name: str) -> Vector:
        """A column of the rows with a NULL after the last, which is what -1 finds."""
        vector = self._columns.get(name)
        if vector is None:
            type_ = self.lookup.types()[name]
            column = self.rows.column(name)
            extended = pa.concat_arrays([*column.chunks, pa.nulls(1, column.type)])
            vector = self._columns[name] = Vector.from_arrow(extended, type_)
        return vector

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_columns"}


def prepare(
    lookup: Lookup, table: pa.Table, needed: Collection[str] | None = None, version: Whole | None = None
) -> Prepared:
    """The table ready for a lookup, with only the needed columns, given by their names on events. `version`: of which
    version of the table each row is, where it holds several."""
    used = {node.name for expr in _own_expressions(lookup) for node in walk(expr) if isinstance(node, Column)}
    types = dict(lookup.columns)
    columns = {name: Vector.from_arrow(table.column(name), types[name]) for name in used}
    length = table.num_rows
    keep = np.ones(length, np.bool_)
    if lookup.where is not None:
        condition = evaluate(lookup.where, columns, length)
        keep &= condition.valid & condition.values
    keys = [evaluate(own, columns, length) for _, own in lookup.keys]
    keys += [] if version is None else [Vector(BIGINT, version, np.ones(length, np.bool_))]
    for key in keys:
        keep &= key.valid
    at = np.flatnonzero(keep)
    distinct: list[pa.Array | Whole] = []
    pairs: list[Whole] = []
    codes = np.zeros(len(at), np.int64)
    for i, key in enumerate(keys):
        values, own = _distinct(_comparable(key.take(at)))
        distinct.append(values)
        if i == 0:
            codes = own
        else:
            pair, codes = np.unique(codes * len(values) + own, return_inverse=True)
            pairs.append(pair)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(_size(distinct, pairs) + 1))
    renamed = {lookup.column(name): name for name, _ in lookup.columns if name in table.column_names}
    renamed = {event: name for event, name in renamed.items() if needed is None or event in needed}
    rows = table.select(list(renamed.values())).rename_columns(list(renamed)).take(pa.array(at[order])).combine_chunks()
    unique = bool((np.diff(starts) == 1).all())
    starts = starts.astype(np.int64)
    return Prepared(lookup, rows, unique, tuple(distinct), tuple(pairs), starts, versioned=version is not None)


def prepare_versions(lookup: Lookup, tables: Sequence[pa.Table], needed: Collection[str] | None = None) -> Prepared:
    """Several versions of a table, ready for a lookup of events with the number of theirs."""
    version = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
    return prepare(lookup, pa.concat_tables(tables), needed, version)


def rows_found(prepared: Prepared, keys: Sequence[ProbeKey], length: int) -> tuple[Whole | None, Whole]:
    """The rows that events find, as (events, rows): an event once for every row, once with -1 where it finds none.

    `keys` are the values of the lookup's keys over the events, and last the version, where there are several. They have
    the type that the lookup compares in; Arrow columns may be dictionaries. `events` is None when every event stands
    once, in order.
    """
    codes = np.full(length, 0, np.int64)
    for i, (key, distinct) in enumerate(zip(keys, prepared.distinct, strict=True)):
        own = _codes(key, distinct)
        if i == 0:
            codes = own
        else:
            pair = codes * len(distinct) + own
            pair[(codes < 0) | (own < 0)] = -1
            codes = _places(pair, prepared.pairs[i - 1])
    if prepared.unique:
        return None, codes
    return _spread(codes, prepared.starts)


def _spread(codes: Whole, starts: Whole) -> tuple[Whole, Whole]:
    """Every event with all rows of its code."""
    found = codes >= 0
    first = np.where(found, starts[codes], -1)
    counts = np.where(found, starts[codes + 1] - first, 1)
    events = np.repeat(np.arange(len(codes)), counts)
    before = np.cumsum(counts) - counts
    rows = np.arange(len(events)) - np.repeat(before - first, counts)
    return events, rows


class Attached(Mapping[str, Vector]):
    """The columns that a lookup adds to events: those of the rows found, NULL where none was, and whether one was. Each
    is made when it is first asked for."""

    def __init__(self, prepared: Prepared, row: Whole) -> None:
        self.prepared, self.row = prepared, row
        self._vectors: dict[str, Vector] = {}

    def __getitem__(self, name: str) -> Vector:
        vector = self._vectors.get(name)
        if vector is None:
            vector = self._vectors[name] = self.of_rows(name).take(self.row)
        return vector

    def of_rows(self, name: str) -> Vector:
        """A column for each row of the table, and last for events that found none."""
        if name == self.prepared.lookup.matched:
            length = self.prepared.length + 1
            return Vector(BOOLEAN, np.arange(length) < length - 1, np.ones(length, np.bool_))
        if name not in self.prepared.rows.column_names:
            raise KeyError(name)
        return self.prepared.vector(name)

    @cached_property
    def codes(self) -> Whole:
        """The place of each event's row in `of_rows`."""
        if not len(self.row) or self.row.min() >= 0:
            return self.row
        return np.where(self.row < 0, self.prepared.length, self.row)

    def __iter__(self) -> Iterator[str]:
        yield self.prepared.lookup.matched
        yield from self.prepared.rows.column_names

    def __len__(self) -> int:
        return 1 + len(self.prepared.rows.column_names)


def _own_expressions(lookup: Lookup) -> Iterator[Any]:
    yield from (own for _, own in lookup.keys)
    if lookup.where is not None:
        yield lookup.where


def _size(distinct: list[pa.Array | Whole], pairs: list[Whole]) -> int:
    return len(pairs[-1]) if pairs else len(distinct[0])


def _comparable(key: Vector) -> pa.Array | npt.NDArray[Any]:
    """Values that are equal exactly where Spark has them equal: whole numbers, or Arrow's strings, bytes, decimals."""
    return key.to_arrow() if key.type.kind in ("string", "binary", "decimal") else bits(key.values)


def _distinct(values: pa.Array | npt.NDArray[Any]) -> tuple[pa.Array | Whole, Whole]:
    """The distinct values of a key that is never NULL, and which of them each row has."""
    if isinstance(values, pa.Array):
        encoded = values.dictionary_encode()
        return encoded.dictionary, np.asarray(encoded.indices, np.int64)
    distinct, codes = np.unique(values, return_inverse=True)
    return distinct, codes.astype(np.int64)


def _codes(key: ProbeKey, distinct: pa.Array | Whole) -> Whole:
    """Which of the table's distinct values each event has; -1 for others and for NULL."""
    if isinstance(key, Vector):
        if isinstance(distinct, pa.Array):
            return _places_of(key.to_arrow(), distinct)
        codes = _places(bits(key.values), distinct)
        return codes if key.valid.all() else np.where(key.valid, codes, -1)
    key = in_one_piece(key)
    if pa.types.is_dictionary(key.type):
        own = np.append(_codes(key.dictionary, distinct), np.int64(-1))
        indices = key.indices.fill_null(-1) if key.indices.null_count else key.indices
        return own.take(np.asarray(indices))
    if isinstance(distinct, pa.Array):
        return _places_of(key, distinct)
    codes = _places(whole_numbers(key), distinct)
    return codes if not key.null_count else np.where(np.asarray(key.is_valid()), codes, -1)


def _places_of(values: pa.Array, distinct: pa.Array) -> Whole:
    if values.type != distinct.type:
        distinct = distinct.cast(values.type)
    places = pc.index_in(values, value_set=distinct, skip_nulls=True)
    return np.asarray(places.fill_null(-1), np.int64)


def _places(values: npt.NDArray[Any], known: Whole) -> Whole:
    """The place of each value among the known ones, which are sorted; -1 for those that are not among them."""
    if not len(known):
        return np.full(len(values), -1, np.int64)
    low, high = int(known[0]), int(known[-1])
    if high - low <= min(WIDEST_TABLE, 4 * len(values)):
        place = np.full(high - low + 2, -1, np.int64)
        place[known - low] = np.arange(len(known))
        inside = (values >= low) & (values <= high)
        return place[np.where(inside, values - low, -1)]
    return _places_of(pa.array(values), pa.array(known))
