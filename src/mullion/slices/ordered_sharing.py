"""Ordered sharing: exact max and min of row windows of any size, found again only when they are lost."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.slices.kernels import ordered_sharing as loops

FUNCTIONS = ("max", "min")


class Answers(NamedTuple):
    """The answer of each window that was asked. Where `valid` is False it is NULL."""

    values: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]


class OrderedSharing:
    """Windows in the order of their size are also in the order of their max, so few answers serve them all
    (wang-freschl 6).

        size       2    4    6    8   10   12                    10   12
        answer     5   10   15   20   30   50     insert 30      30   50
        age        0    2    4    6    8   10                     0   11

    A new value becomes the answer of the largest window whose answer it reaches; smaller windows share it, and their
    own answers are dropped. A window w is valid as long as the smallest kept answer of a size not below w comes from a
    row within w. A lookup of an invalid one goes once over its rows, from the newest back, and finds the answers of all
    smaller windows on the way; it jumps over rows that are known not to be above a kept answer. No window need be
    registered: each answer is kept for the largest size that has it.

    Where the paper balances a tree, an array is enough: answers are only ever dropped and added at the small end. And
    where the paper passes over answers that have expired when a value comes, they take it too: an expired answer is not
    below any row of its window, so a value that reaches it is the answer.

    A row with a NULL counts as a row; NaN is the largest value and -0.0 equals 0.0, as in Spark. Min is the max of the
    opposite order.

    Requires: doubles.
    Time: O(1) a row and O(log m) a batch with m kept answers; O(log m) a valid window, O(w) once for all invalid ones.
    Space: O(n) for the largest window of n rows.

    >>> shared = OrderedSharing(6)
    >>> shared.extend(np.array([9.0, 2, 7, 1]))
    >>> shared.lookup(np.array([1, 2, 3, 6])).values.tolist()
    [1.0, 7.0, 7.0, 9.0]
    >>> shared.extend(np.array([8.0]))
    >>> shared.kept()
    [(3, 8.0, 5), (6, 9.0, 1)]
    """

    def __init__(self, rows: int, function: str = "max") -> None:
        if rows < 1:
            raise ValueError(f"the largest window has at least one row, not {rows}")
        if function not in FUNCTIONS:
            raise ValueError(f"ordered sharing answers max and min, not {function}")
        self.rows, self.function = rows, function
        self._of_largest = function == "max"
        self._ring = np.empty(rows, np.int64)
        self._steps = np.empty((3, rows), np.int64)
        self._state = np.array([rows, 0, 0], np.int64)

    @property
    def seen(self) -> int:
        """Rows so far; the newest has this number."""
        return int(self._state[loops.SEEN])

    @property
    def passed(self) -> int:
        """Rows that were gone over again so far because answers were lost."""
        return int(self._state[loops.PASSED])

    def extend(self, values: npt.ArrayLike, valid: npt.ArrayLike | None = None) -> None:
        """Take in the rows of a batch, oldest first. Where `valid` is False the value is NULL."""
        taken, known = _columns(values, valid)
        loops.insert(taken, known, self._of_largest, self._ring, self._steps, self._state)

    def lookup(self, windows: npt.ArrayLike) -> Answers:
        """The answers for the last w rows, for each w of `windows`."""
        asked = np.array(windows, np.int64, ndmin=1)
        values, valid = np.empty(len(asked)), np.empty(len(asked), np.bool_)
        wrong = loops.look_up(asked, self._of_largest, self._ring, self._steps, self._state, values, valid)
        if wrong >= 0:
            raise ValueError(f"windows have 1 to {self.rows} rows, not {asked[wrong]}")
        return Answers(values, valid)

    def extend_and_lookup(
        self, values: npt.ArrayLike, windows: npt.ArrayLike, at: npt.ArrayLike, valid: npt.ArrayLike | None = None
    ) -> Answers:
        """Take in the rows of a batch, and answer window i as it is after row at[i], with all rows up to that number.

        `at` lies within the batch, its start and its end included, and does not decrease.
        """
        taken, known = _columns(values, valid)
        asked, after = np.array(windows, np.int64, ndmin=1), np.array(at, np.int64, ndmin=1)
        if asked.shape != after.shape or (np.diff(after) < 0).any():
            raise ValueError("at has a number for each window, and they do not decrease")
        if len(after) and (after[0] < self.seen or after[-1] > self.seen + len(taken)):
            raise ValueError(f"at lies within the batch, from {self.seen} to {self.seen + len(taken)}")
        wrong = np.flatnonzero((asked < 1) | (asked > self.rows))
        if len(wrong):
            raise ValueError(f"windows have 1 to {self.rows} rows, not {asked[wrong[0]]}")
        answers = Answers(np.empty(len(asked)), np.empty(len(asked), np.bool_))
        loops.insert_and_look_up(
            taken, known, asked, after, self._of_largest, self._ring, self._steps, self._state, *answers
        )
        return answers

    def kept(self) -> list[tuple[int, float | None, int]]:
        """The kept answers from the smallest window up: the largest size that has it, the answer, its row."""
        sizes, orders, rows = self._steps[:, self._state[loops.TOP] :]
        values = self._values(orders)
        null = orders == loops.NULL
        answers = [None if missing else value for value, missing in zip(values.tolist(), null.tolist(), strict=True)]
        return list(zip(sizes.tolist(), answers, rows.tolist(), strict=True))

    def snapshot(self) -> tuple[dict[str, Any], pa.Table]:
        """What `restore` needs: facts that go into JSON, and the rows of the largest window; answers are not kept."""
        last = np.arange(max(0, self.seen - self.rows), self.seen)
        orders = self._ring[last % self.rows]
        values = pa.array(self._values(orders), mask=orders == loops.NULL)
        state = {"rows": self.rows, "function": self.function, "seen": self.seen}
        return state, pa.table({"row": last + 1, "value": values})

    @classmethod
    def restore(cls, state: dict[str, Any], table: pa.Table) -> Self:
        shared = cls(state["rows"], state["function"])
        shared._state[loops.SEEN] = state["seen"] - len(table)
        values = table["value"].combine_chunks()
        shared.extend(values.fill_null(0.0).to_numpy(zero_copy_only=False), values.is_valid())
        return shared

    def _values(self, orders: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        bits = orders if self._of_largest else ~orders
        return (bits ^ ((bits >> 63) & loops.HIGHEST)).view(np.float64)


def _columns(values: npt.ArrayLike, valid: npt.ArrayLike | None) -> Answers:
    taken = np.array(values, np.float64)
    known = np.ones(len(taken), np.bool_) if valid is None else np.array(valid, np.bool_)
    if taken.shape != known.shape or taken.ndim != 1:
        raise ValueError("values and valid are columns of one length")
    return Answers(taken, known)
