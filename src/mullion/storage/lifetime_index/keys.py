"""The search keys of a sub-index, and numbers for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.errors import NotSupported
from mullion.expressions.arrays import Codes
from mullion.expressions.coding.canonical import canonical, in_one_piece

NOT_THERE = -1


@dataclass(frozen=True)
class IndexKeys:
    """Distinct keys; the code of a key is its place. NULL is a key like others, NaN is one, zero of either sign too.

    >>> keys, codes = IndexKeys.none(pa.string()).extended(pa.array(["x", "y", "x"]))
    >>> codes.tolist(), keys.codes(pa.array(["y", "z"])).tolist()
    ([0, 1, 0], [1, -1])
    """

    values: pa.Array

    def __len__(self) -> int:
        return len(self.values)

    @staticmethod
    def none(type_: pa.DataType) -> IndexKeys:
        empty = pa.array([], type_)
        try:
            pc.index_in(empty, value_set=empty)
        except pa.ArrowNotImplementedError:
            raise NotSupported(f"an index by a key of type {type_}", hint="choose another key") from None
        return IndexKeys(empty)

    def codes(self, column: pa.Array | pa.ChunkedArray) -> Codes:
        """The codes of these keys; NOT_THERE for others."""
        return self._codes(_canonical(column, self.values.type))

    def extended(self, column: pa.Array | pa.ChunkedArray) -> tuple[IndexKeys, Codes]:
        """With these keys too, and their codes. Codes that were stay."""
        wanted = _canonical(column, self.values.type)
        codes = self._codes(wanted)
        if (codes != NOT_THERE).all():
            return self, codes
        new = wanted.filter(pa.array(codes == NOT_THERE)).unique()
        keys = IndexKeys(pa.concat_arrays([self.values, new]))
        return keys, keys._codes(wanted)

    def take(self, codes: Codes) -> IndexKeys:
        return IndexKeys(self.values.take(pa.array(codes)))

    def _codes(self, wanted: pa.Array) -> Codes:
        places = pc.index_in(wanted, value_set=self.values)
        return np.asarray(places.fill_null(NOT_THERE), np.int64)


def _canonical(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    return canonical(in_one_piece(column).cast(type_))
