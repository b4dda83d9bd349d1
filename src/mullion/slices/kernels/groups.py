"""Groups of a batch as small numbers, made once for all that group by the same keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.arrays import Array
from mullion.expressions.coding.dictionary import codes_of, without_unused
from mullion.expressions.readonly import frozen
from mullion.slices.kernels.row_loops import first_of_each, gather, go_on_numbering, number_pairs


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
    def of_texts(keys: Sequence[Sequence[pa.Array]]) -> tuple[Groups, npt.NDArray[np.int64]] | None:
        """Groups by one or two keys that are codes into dictionaries, each in pieces that follow one another; and a row
        of each group. None for others.

        >>> whole = pa.chunked_array([["b", "a"], ["a", "b"]]).dictionary_encode()
        >>> groups, first = Groups.of_texts([[*whole.chunks]])
        >>> groups.codes.tolist(), first.tolist()
        ([0, 1, 1, 0], [0, 1])
        """
        pieces = [piece for key in keys for piece in key]
        if not pieces or len(keys) > 2 or not all(pa.types.is_dictionary(piece.type) for piece in pieces):
            return None
        (a, of_a, size_a), (b, of_b, size_b) = _in_pieces(keys[0]), _in_pieces(keys[-1])
        alone, size, length = len(keys) == 1, size_a * (1 if len(keys) == 1 else size_b), sum(map(len, a))
        if size > SPARSE * length + (1 << 16):
            return None
        out, first = np.empty(length, np.int32), np.empty(min(size, length), np.int64)
        number, row, count = np.zeros(size, np.int32), 0, 0
        for codes, table, others, of_others in zip(a, of_a, b, of_b, strict=True):
            (table,) = frozen(table if alone else table * size_b)
            own = out[row : row + len(codes)]
            count = go_on_numbering(codes, table, None if alone else others, of_others, number, count, first, row, own)
            row += len(codes)
        return Groups(out, count, ()), first[:count]

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
            pairs = pa.array(self.codes.astype(np.int64) * other.size + other.codes).dictionary_encode()
            return Groups(np.asarray(pairs.indices), len(pairs.dictionary), ())
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


def _in_pieces(pieces: Sequence[pa.Array]) -> tuple[list[Array], list[Array], int]:
    """The codes of each piece, the number that each of its codes stands for, and how many numbers there are."""
    values = [pa.concat_arrays([piece.dictionary, pa.nulls(1, piece.dictionary.type)]) for piece in pieces]
    of_values, size = codes_of(pa.concat_arrays(values))
    indices = [p.indices.fill_null(len(p.dictionary)) if p.indices.null_count else p.indices for p in pieces]
    tables = np.split(of_values, np.cumsum([len(own) for own in values])[:-1])
    codes = [np.asarray(own).astype(np.int32, copy=False) for own in indices]
    return list(frozen(*codes)), list(frozen(*tables)), size


def _coded(key: pa.Array) -> pa.Array:
    """Texts with a dictionary that holds what is there, each value once."""
    if pa.types.is_dictionary(key.type):
        key = key.dictionary_decode()
    is_text = pa.types.is_string(key.type) or pa.types.is_binary(key.type)
    return key.dictionary_encode() if is_text else key
