"""The values behind codes that are hashes: texts, bytes and decimals, each once, for questions that name them.

    codes    -71      5      9
    values   'pear'  'fig'  'plum'

Objects are never changed: a copy of a summary shares them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Mask
from mullion.expressions.coding.canonical import in_one_piece
from mullion.expressions.coding.dictionary import decoded

CODE, VALUE = "code", "value"


class KnownValues:
    def __init__(self, codes: Codes, values: pa.Array | None) -> None:
        """In the order of codes; no values where there are none."""
        self.codes, self.values = codes, values

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes) + (0 if self.values is None else int(self.values.nbytes))

    def plus(self, codes: Codes, known: Mask | None, column: pa.ChunkedArray, most: int | None = None) -> KnownValues:
        """With the values of some rows that are not NULL. Beyond so many bytes no more are taken up.

        >>> values = NONE.plus(np.array([9, 5, 9]), None, pa.chunked_array([["plum", "fig", "plum"]]))
        >>> values.codes.tolist(), values.values.to_pylist()
        ([5, 9], ['fig', 'plum'])
        """
        if most is not None and self.nbytes > most:
            return self
        rows = np.arange(len(codes)) if known is None else np.flatnonzero(known)
        different, first = np.unique(codes[rows], return_index=True)
        is_new = ~np.isin(different, self.codes, assume_unique=True)
        if not is_new.any():
            return self
        fresh = decoded(pa.table({VALUE: column.take(pa.array(rows[first[is_new]]))}))[VALUE]
        return self._merged(different[is_new], in_one_piece(fresh))

    def _merged(self, codes: Codes, values: pa.Array) -> KnownValues:
        both = np.concatenate([self.codes, codes])
        order = np.argsort(both, kind="stable")
        together = values if self.values is None else pa.concat_arrays([self.values, values.cast(self.values.type)])
        return KnownValues(both[order], together.take(pa.array(order)))

    def among(self, codes: Codes) -> KnownValues:
        """Only those of some codes."""
        return self._chosen(np.isin(self.codes, codes))

    def since(self, other: KnownValues) -> KnownValues:
        """Only those that another one does not have."""
        return self._chosen(~np.isin(self.codes, other.codes))

    def _chosen(self, chosen: Mask) -> KnownValues:
        if chosen.all():
            return self
        return KnownValues(self.codes[chosen], None if self.values is None else self.values.filter(pa.array(chosen)))

    def of(self, codes: Codes) -> pa.Array | None:
        """The values of some codes; None where not all are known."""
        if self.values is None:
            return None
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return self.values.take(pa.array(at)) if (self.codes[at] == codes).all() else None

    def to_table(self) -> pa.Table:
        values = pa.nulls(0) if self.values is None else self.values
        return pa.table({CODE: self.codes, VALUE: values})

    @staticmethod
    def from_tables(tables: Sequence[pa.Table]) -> KnownValues:
        """Of what commits wrote one after the other."""
        found = NONE
        for table in tables:
            if len(table):
                found = found._merged(table[CODE].to_numpy(), in_one_piece(table[VALUE]))
        return found


NONE = KnownValues(np.zeros(0, np.int64), None)
