"""Groups of a batch as small numbers, made once for all that group by the same keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.coding.dictionary import codes_of, combine, without_unused
from mullion.expressions.readonly import frozen
from mullion.slices.kernels.row_loops import first_of_each, gather, number_pairs


class Groups(NamedTuple):
    codes: npt.NDArray[np.int32]
    size: int
    keys: tuple[pa.Array, ...]
    """The keys of each group; texts as a dictionary."""

    @staticmethod
    def of(keys: Sequence[pa.Array], length: int) -> Groups:
        """Groups by keys that events have.

        >>> Groups.of([pa.array(["b", "a", "b"])], 3).codes.tolist()
        [0, 1, 0]
        """
        if not length:
            return Groups(np.zeros(0, np.int32), 0, tuple(_coded(key) for key in keys))
        return Groups.numbered(keys).named(keys)

    @staticmethod
    def numbered(keys: Sequence[pa.Array]) -> Groups:
        """The same without the keys of each group: numbers alone, of which some may not occur."""
        return Groups.together([Groups(*_codes(key), ()) for key in keys])

    @staticmethod
    def together(parts: Sequence[Groups]) -> Groups:
        """Groups by all that these group by."""
        alone, *others = parts
        for other in others:
            alone = alone.with_others(other)
        return alone

    def named(self, keys: Sequence[pa.Array]) -> Groups:
        """With the keys of each group, given those of events."""
        events = pa.array(self.firsts())
        return self._replace(keys=tuple(_coded(key.take(events)) for key in keys))

    def with_others(self, other: Groups) -> Groups:
        """Groups by these and others: the pairs that occur, in the order in which they do."""
        out, size = np.empty(len(self.codes), np.int32), self.size * other.size
        if size > SPARSE * len(out) + (1 << 16):
            codes, size = combine([(g.codes.astype(np.int64), g.size) for g in (self, other)], len(out))
            return Groups(codes.astype(np.int32), size, ())
        a, b = frozen(self.codes, other.codes)
        size = number_pairs(a, b, other.size, np.zeros(size, np.int32), out)
        return Groups(out, size, ())

    def firsts(self) -> npt.NDArray[np.int64]:
        """An event of each group; 0 where no event has it."""
        first = np.zeros(self.size, np.int64)
        (codes,) = frozen(self.codes)
        first_of_each(codes, first)
        return first

    def key(self, at: int, groups: npt.NDArray[np.int32]) -> pa.Array:
        """The key of some rows, given by their groups."""
        key = self.keys[at]
        if not pa.types.is_dictionary(key.type) or key.null_count:
            return without_unused(key.take(pa.array(groups)))
        indices = np.empty(len(groups), np.int32)
        gather(groups, np.asarray(key.indices), 0, indices)
        return without_unused(pa.DictionaryArray.from_arrays(pa.array(indices), key.dictionary, safe=False))


SPARSE = 16
"""Up to so many possible pairs for each event, pairs are numbered by a table."""


def _codes(key: pa.Array) -> tuple[npt.NDArray[np.int32], int]:
    """A number for each different value, NULL being one of them."""
    if pa.types.is_dictionary(key.type):
        of_values, size = codes_of(pa.concat_arrays([key.dictionary, pa.nulls(1, key.dictionary.type)]))
        indices = np.asarray(key.indices.fill_null(len(key.dictionary)) if key.indices.null_count else key.indices)
        if size == len(of_values) and indices.dtype == np.int32:
            return indices, size  # all are different, so they are numbered as they stand
        out = np.empty(len(key), np.int32)
        gather(indices, of_values, 0, out)
        return out, size
    codes, size = codes_of(key)
    return codes.astype(np.int32), size


def _coded(key: pa.Array) -> pa.Array:
    """Texts with a dictionary that holds what is there, each value once."""
    if pa.types.is_dictionary(key.type):
        key = key.dictionary_decode()
    is_text = pa.types.is_string(key.type) or pa.types.is_binary(key.type)
    return key.dictionary_encode() if is_text else key
