"""What a promising join or selection has not looked at yet: the promising set (ali 2).

An entry of a join is a row that came with all rows of the other input that it is to meet there. Rows go by the numbers
in which they came, so entries stay what they are while sub-windows are merged and rows leave:

    side  probe  since  until  promise  pairs  start  end
       0     17      3      9      4.0      4     50   60     row 17 of input 0 meets rows 3..8 of input 1 with its key

A pair of rows belongs to one entry. `pairs` are those that were alive when the entry was last looked at. At `end` the
row that probes is held no more, and with it go all pairs that nobody looked at. Of a selection, an entry is one row:
one pair, which nothing else is needed for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Array, Codes, Counts, Index, Mask, Real, Times
from mullion.operators.kernels.chosen_pairs import pair_codes


@dataclass(frozen=True)
class Entries:
    side: Codes
    probe: Codes
    since: Codes
    until: Codes
    promise: Real
    """The more, the sooner."""
    pairs: Counts
    start: Times
    """Of the row that probes."""
    end: Times
    key: Codes
    """The code of its key."""

    ENTRY: ClassVar = 9 * 8
    """Bytes."""

    def __len__(self) -> int:
        return len(self.side)

    @property
    def size(self) -> int:
        """In bytes."""
        return self.ENTRY * len(self)

    def take(self, index: Index | Mask) -> Entries:
        return Entries(*(column[index] for column in self.columns()))

    def columns(self) -> list[Array]:
        return [getattr(self, field.name) for field in fields(self)]

    @staticmethod
    def none() -> Entries:
        whole = np.zeros(0, np.int64)
        return Entries(whole, whole, whole, whole, np.zeros(0, np.float64), whole, whole, whole, whole)

    @staticmethod
    def concat(parts: Sequence[Entries]) -> Entries:
        return Entries(*map(np.concatenate, zip(*(part.columns() for part in parts), strict=True)))

    def codes(self, salt: int) -> Codes:
        """What stands for each of new offers, as if it were drawn: by the row that probes, and the how manieth of its
        granularities it is. Those of a row come one after the other."""
        begins = np.ones(len(self), np.bool_)
        begins[1:] = (self.side[1:] != self.side[:-1]) | (self.probe[1:] != self.probe[:-1])
        places = np.arange(len(self))
        return pair_codes(salt, 2 * self.probe + self.side, places - np.maximum.accumulate(np.where(begins, places, 0)))

    def cut(self, at: int, until: int, pairs: int) -> Entries:
        """With one entry cut off: only rows before number `until` are left to it."""
        changed, left = self.until.copy(), self.pairs.copy()
        changed[at], left[at] = until, pairs
        return replace(self, until=changed, pairs=left)

    def to_table(self) -> pa.Table:
        """Names begin with #, so that none is a column of a stream."""
        return pa.table({f"#{field.name}": getattr(self, field.name) for field in fields(self)})

    @staticmethod
    def from_table(table: pa.Table) -> Entries:
        if "#start" not in table.column_names:  # of a checkpoint from before starts were kept
            table = table.append_column("#start", table.column("#end"))
        if "#key" not in table.column_names:  # of one from before keys were
            table = table.append_column("#key", pa.array(np.zeros(len(table), np.int64)))
        return Entries(*(table.column(f"#{field.name}").to_numpy() for field in fields(Entries)))
