"""Rows as the index keeps them: the columns of its schema, then when each row comes and when it goes.

A row is there at `now` if start <= now < end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.expressions.arrays import Index, Mask, Times, numbers
from mullion.expressions.coding.dictionary import codes_of, combine

START, END = "#start", "#end"


def plain(type_: pa.DataType) -> pa.DataType:
    """Without a dictionary: the values of many batches come to lie in one file."""
    return plain(type_.value_type) if pa.types.is_dictionary(type_) else type_


def stored_schema(schema: pa.Schema) -> pa.Schema:
    columns = [pa.field(field.name, plain(field.type)) for field in schema]
    return pa.schema([*columns, pa.field(START, pa.int64()), pa.field(END, pa.int64())])


def timed(rows: pa.Table, start: Times, end: Times, stored: pa.Schema) -> pa.Table:
    """Rows with their times, as `stored_schema` has them."""
    if rows.schema.names != stored.names[:-2]:
        raise ValueError(f"the index has the columns {stored.names[:-2]}, not {rows.schema.names}")
    return rows.append_column(START, pa.array(start)).append_column(END, pa.array(end)).cast(stored)


def alive(rows: pa.Table, at: int) -> pa.Table:
    """The rows that are there at a time."""
    there = (numbers(rows, START) <= at) & (at < numbers(rows, END))
    return rows if there.all() else rows.filter(pa.array(there))


def matching(rows: pa.Table, wanted: pa.Table) -> Mask:
    """Which rows equal one of `wanted` in all the columns that it has."""
    names = wanted.schema.names
    if len(names) == 1:
        return np.asarray(pc.is_in(rows.column(names[0]), value_set=wanted.column(0).combine_chunks()))
    both = pa.concat_tables([rows.select(names), wanted.cast(rows.select(names).schema)])
    codes, _ = combine([codes_of(column) for column in both.columns], len(both))
    return np.isin(codes[: len(rows)], codes[len(rows) :])


@dataclass(frozen=True)
class Fresh:
    """New rows of one sub-index: those of a table that are chosen. They are copied only where they are written."""

    rows: pa.Table
    chosen: Index

    def __len__(self) -> int:
        return len(self.chosen)

    def column(self, name: str) -> pa.ChunkedArray:
        return self.rows.column(name).take(pa.array(self.chosen))

    def take(self, index: Index) -> pa.Table:
        return self.rows.take(pa.array(self.chosen[index]))

    def slice(self, piece: slice) -> pa.Table:
        return self.rows.take(pa.array(self.chosen[piece]))

    def only(self, index: Index) -> Fresh:
        """Some of them, in this order."""
        return Fresh(self.rows, self.chosen[index])
