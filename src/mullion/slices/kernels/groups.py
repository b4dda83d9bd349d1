"""Groups of a batch as small numbers, made once for all that group by the same keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.coding.dictionary import codes_of, combine, without_unused
from mullion.slices.kernels.row_loops import first_of_each


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
        codes, size = combine([codes_of(key) for key in keys], length)
        alone = Groups(codes.astype(np.int32), size if length else 0, ())
        events = pa.array(alone.firsts())
        return alone._replace(keys=tuple(_coded(key.take(events)) for key in keys))

    def firsts(self) -> npt.NDArray[np.int64]:
        """An event of each group; 0 where no event has it."""
        first = np.zeros(self.size, np.int64)
        first_of_each(self.codes, first)
        return first

    def key(self, at: int, groups: npt.NDArray[np.int32]) -> pa.Array:
        """The key of some rows, given by their groups."""
        return without_unused(self.keys[at].take(pa.array(groups)))


def _coded(key: pa.Array) -> pa.Array:
    """Texts with a dictionary that holds what is there, each value once."""
    if pa.types.is_dictionary(key.type):
        key = key.dictionary_decode()
    is_text = pa.types.is_string(key.type) or pa.types.is_binary(key.type)
    return key.dictionary_encode() if is_text else key
