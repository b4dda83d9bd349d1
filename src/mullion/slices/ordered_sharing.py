"""Ordered sharing: exact max and min of row windows of any size, from the few rows that can still be an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.arrays import Mask, Real, Whole
from mullion.slices.kernels import ordered_sharing as loops

FUNCTIONS = ("max", "min")


class SharedAnswers(NamedTuple):
    """The answer of each window that was asked. Where `valid` is False it is NULL."""

    values: Real
    valid: Mask


class OrderedSharing:
    """Windows in the order of their size are also in the order of their max, so few answers serve them all
    (wang-freschl 6).

        row        2    4    6    8   10   12                     2   13
        answer    50   30   20   15   10    5     insert 30      50   30

    A row that a later one reaches is the max of no window any more. The others are a staircase: the answer of a window
    is the oldest of them that lies in it. A new value drops all that it reaches, at the new end, and rows leave at the
    old end. No window need be registered.

    The paper keeps the answers of windows that were asked, lets them expire, and goes over the rows of a window again
    when its answer is lost; values that fall all the time make it do so at every lookup. Keeping the whole staircase
    costs no more for a value that comes, and nothing is ever lost.

    A row with a NULL counts as a row; NaN is the largest value and -0.0 equals 0.0, as in Spark. Min is the max of the
    opposite order.

    Requires: doubles.
    Time: amortised O(1) a row; O(log m) a window with m kept answers.
    Space: O(m): at most n, for values that fall all the time, and about log n for values in no order.

    >>> shared = OrderedSharing(6)
    >>> shared.extend(np.array([9.0, 2, 7, 1]))
    >>> shared.lookup(np.array([1, 2, 3, 6])).values.tolist()
    [1.0, 7.0, 7.0, 9.0]
    >>> shared.extend(np.array([8.0]))
    >>> shared.kept()
    [(1, 9.0), (5, 8.0)]
    """

    def __init__(self, rows: int, function: str = "max") -> None:
        if rows < 1:
            raise ValueError(f"the largest window has at least one row, not {rows}")
        if function not in FUNCTIONS:
            raise ValueError(f"ordered sharing answers max and min, not {function}")
        self.rows, self.function = rows, function
        self._of_largest = function == "max"
        self._stairs: tuple[Whole, Whole] = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._state = np.zeros(3, np.int64)

    @property
    def seen(self) -> int:
        """Rows so far; the newest has this number."""
        return int(self._state[loops.SEEN])

    def copy(self) -> Self:
        """One that may take in rows while others ask this one. O(m)."""
        copied = type(self)(self.rows, self.function)
        rows, orders = self._kept()
        copied._stairs = rows.copy(), orders.copy()
        copied._state[:] = 0, len(rows), self.seen
        return copied

    def extend(self, values: npt.ArrayLike, valid: npt.ArrayLike | None = None) -> None:
        """Take in the rows of a batch, oldest first. Where `valid` is False the value is NULL."""
        self.extend_and_lookup(values, [], [], valid)

    def lookup(self, windows: npt.ArrayLike) -> SharedAnswers:
        """The answers for the last w rows, for each w of `windows`."""
        asked = self._asked(windows)
        orders, valid = np.empty(len(asked), np.int64), np.empty(len(asked), np.bool_)
        loops.look_up(asked, *self._stairs, self._state, orders, valid)
        return SharedAnswers(self._values(orders), valid)

    def extend_and_lookup(
        self, values: npt.ArrayLike, windows: npt.ArrayLike, at: npt.ArrayLike, valid: npt.ArrayLike | None = None
    ) -> SharedAnswers:
        """Take in the rows of a batch, and answer window i as it is after row at[i], with all rows up to that number.

        `at` lies within the batch, its start and its end included, and does not decrease.
        """
        taken = np.array(values, np.float64)
        known = np.ones(len(taken), np.bool_) if valid is None else np.array(valid, np.bool_)
        asked, after = self._asked(windows), np.array(at, np.int64, ndmin=1)
        if taken.shape != known.shape or taken.ndim != 1:
            raise ValueError("values and valid are columns of one length")
        if asked.shape != after.shape or (np.diff(after) < 0).any():
            raise ValueError("at has a number for each window, and they do not decrease")
        if len(after) and (after[0] < self.seen or after[-1] > self.seen + len(taken)):
            raise ValueError(f"at lies within the batch, from {self.seen} to {self.seen + len(taken)}")
        self._make_room(len(taken))
        coming = np.empty(len(taken), np.int64)
        loops.orders_of(taken, self._of_largest, coming)
        orders, there = np.empty(len(asked), np.int64), np.empty(len(asked), np.bool_)
        loops.insert_and_look_up(coming, known, asked, after, *self._stairs, self._state, orders, there)
        return SharedAnswers(self._values(orders), there)

    def kept(self) -> list[tuple[int, float]]:
        """The rows that are the answer of some window, and their values, from the oldest on."""
        rows, orders = self._kept()
        return list(zip(rows.tolist(), self._values(orders).tolist(), strict=True))

    def _kept(self) -> tuple[Whole, Whole]:
        rows, orders = self._stairs
        head, top, seen = self._state.tolist()
        head += int(np.searchsorted(rows[head:top], seen - self.rows, "right"))
        return rows[head:top], orders[head:top]

    def _asked(self, windows: npt.ArrayLike) -> Whole:
        asked = np.array(windows, np.int64, ndmin=1)
        wrong = asked[(asked < 1) | (asked > self.rows)]
        if len(wrong):
            raise ValueError(f"windows have 1 to {self.rows} rows, not {wrong[0]}")
        return asked

    def _make_room(self, coming: int) -> None:
        """Let go of stairs that are in no window any more, when there is no room for what comes."""
        if self._state[loops.TOP] + coming > len(self._stairs[0]):
            kept = self._kept()
            number = len(kept[0])
            room = np.empty((2, number + coming + max(number, 64)), np.int64)
            room[:, :number] = kept
            self._stairs = room[0], room[1]
            self._state[loops.HEAD], self._state[loops.TOP] = 0, number

    def _values(self, orders: Whole) -> Real:
        bits = orders if self._of_largest else ~orders
        return (bits ^ ((bits >> 63) & loops.HIGHEST)).view(np.float64)

    # What a restart needs

    def snapshot(self) -> dict[str, Any]:
        return {"rows": self.rows, "function": self.function, "seen": self.seen}

    def stairs_after(self, row: int) -> pa.Table:
        """The kept answers whose rows have a number above `row`."""
        rows, orders = self._kept()
        first = int(np.searchsorted(rows, row, "right"))
        return pa.table({"row": rows[first:], "order": orders[first:]})

    @classmethod
    def restore(cls, state: Mapping[str, Any], stairs: pa.Table) -> Self:
        """As it was, from all answers that were kept since some time: newer ones drop older ones once more."""
        shared = cls(state["rows"], state["function"])
        shared._make_room(len(stairs))
        shared._state[loops.SEEN] = 0
        rows, orders = (stairs[name].to_numpy().astype(np.int64) for name in ("row", "order"))
        loops.insert(orders, np.ones(len(orders), np.bool_), *shared._stairs, shared._state)
        top = shared._state[loops.TOP]
        shared._stairs[0][:top] = rows[shared._stairs[0][:top] - 1]
        shared._state[loops.SEEN] = state["seen"]
        return shared
