"""When there is any row of a key, and when there is none, for inputs whose rows end as they promise.

Of each key only the end of its presence is kept: a row that ends earlier than another that is there changes nothing.
It is to the anti-join what delta* is to DISTINCT (golab 3.5.2).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mullion.expressions.arrays import Codes, Mask, Times, grown
from mullion.expressions.readonly import frozen
from mullion.instants import NEVER
from mullion.operators.kernels.anti_join import KeyChanges, presence_changes
from mullion.operators.kernels.expiry_heap import ExpiryHeap
from mullion.operators.multiplicities import Crossings
from mullion.operators.timed_rows import Retractions, TimedRows, in_time_order


class KeyPresence:
    """Ends of presence by code, and a heap of them."""

    kept_in: ClassVar[str] = "end of each key, heap of ends"
    """The structure, in words for people."""

    def __init__(self) -> None:
        self._until = np.empty(0, np.int64)
        self._expiries = ExpiryHeap()

    def __len__(self) -> int:
        """How many keys are present."""
        return self._expiries.size

    def advance(self, rows: TimedRows, codes: Codes, retracted: Retractions, now: int) -> Crossings:
        assert not len(retracted), "rows of an input that is not strict end as they promise"
        start, end = rows.start, rows.end
        order = in_time_order(start, rows.ids)
        if order is not None:
            codes, start, end = codes[order], start[order], end[order]
        self._make_room(codes)
        expiries = self._expiries
        expiries.reserve(len(codes))
        most = 2 * len(codes) + expiries.size
        changes = KeyChanges(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.bool_))
        codes, start, end = frozen(codes, start, end)
        count, expiries.size = presence_changes(
            codes, start, end, now, self._until, expiries.heap, expiries.size, changes
        )
        code, time, on = (column[:count] for column in changes)
        return Crossings(code, time, on, np.empty((count, 0), np.int64))

    def present(self, codes: Codes) -> Mask:
        """Which codes are present now."""
        is_present: Mask = self.ends(codes) > NEVER
        return is_present

    def ends(self, codes: Codes) -> Times:
        self._make_room(codes)
        return self._until[codes]

    def purge(self, codes: Codes) -> None:
        """Forget that some codes are present: nobody asks about them any more."""
        if len(codes):
            self._until[codes] = NEVER
            self._expiries = ExpiryHeap()
            present = np.flatnonzero(self._until > NEVER)
            self._expiries.add(self._until[present], present)

    def restore(self, codes: Codes, until: Times) -> None:
        is_present = until > NEVER
        self._make_room(codes)
        self._until[codes] = until
        self._expiries.add(until[is_present], codes[is_present])

    def _make_room(self, codes: Codes) -> None:
        self._until = grown(self._until, int(codes.max(initial=-1)) + 1, NEVER)
