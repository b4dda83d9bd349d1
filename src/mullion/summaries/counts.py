"""The exact kind of summary: codes in order, with their counts."""

from __future__ import annotations

from math import isqrt
from typing import ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Counts, Index
from mullion.summaries.base import Summary, register


class _Run(NamedTuple):
    """Different codes in order, each with how often it came."""

    codes: Codes
    counts: Counts


@register
class ExactCounts(Summary):
    """Each code with its count, in sorted runs, each more than twice as long as the next one.

        runs   3 5 8 9 12 40 | 5 7 | 12        estimate of 5: its counts in all runs

    A few events that come make a short run. It is merged with its neighbours as long as they are not much longer, so
    that each count is moved O(log n) times. A summary that is only asked is one run.

    Requires: nothing.
    Time: O(log n) a new event, amortised, with n different codes; O(log n) a code that is asked of one run, O(log^2 n)
    of many; O(n) to add or subtract.
    Space: 16 bytes a code.
    Guarantee: exact.

    >>> summary = ExactCounts()
    >>> summary.summarize(np.array([5, 9, 5]))
    >>> summary.estimate(np.array([5, 7, 9])).tolist(), summary.confidence()
    ([2, 0, 1], 0.0)
    """

    kind: ClassVar[str] = "counts"
    is_exact: ClassVar[bool] = True
    knows_codes: ClassVar[bool] = True

    def __init__(self) -> None:
        self.events = 0
        self._runs: tuple[_Run, ...] = ()
        self._squares: int | None = 0
        """The sum of the squared counts, if it is known."""

    def summarize(self, codes: Codes) -> None:
        self._take(_run(*np.unique(codes, return_counts=True)), len(codes), None)

    def _take(self, run: _Run, events: int, squares: int | None) -> None:
        if self._squares is not None and squares is not None and self.events:
            self._squares += 2 * _product(run.counts, self.estimate(run.codes), self.events + events) + squares
        else:
            self._squares = None if self.events else squares
        self.events += events
        runs = list(self._runs)
        while runs and len(runs[-1].codes) <= 2 * len(run.codes):
            run = _merged(runs.pop(), run)
        self._runs = (*runs, run) if len(run.codes) else self._runs

    def estimate(self, codes: Codes) -> Counts:
        found = np.zeros(len(codes), np.int64)
        for run in self._runs:
            if len(run.codes):
                at = np.minimum(np.searchsorted(run.codes, codes), len(run.codes) - 1)
                found += np.where(run.codes[at] == codes, run.counts[at], 0)
        return found

    def confidence(self) -> float:
        return 0.0

    def codes(self) -> Codes:
        return self.run().codes

    def add(self, other: Self) -> None:
        self._take(other.run(), other.events, other._squares)

    def subtract(self, other: Self) -> None:
        codes, counts = other.run()
        run = _merged(self.run(), _run(codes, -counts))
        if len(run.counts) and run.counts.min() < 0:
            raise ValueError("a summary is subtracted from one of other events")
        self.events -= other.events
        self._runs, self._squares = (run,), None

    def run(self) -> _Run:
        """All codes in order with their counts. Several threads may ask for them."""
        *runs, last = self._runs or (_run(np.zeros(0, np.int64), np.zeros(0, np.int64)),)
        while runs:
            last = _merged(runs.pop(), last)
        self._runs = (last,)
        return last

    def distance(self, other: Self) -> float:
        """|a - b|^2 = |a|^2 + |b|^2 - 2 a b, of which the last is over the codes of the shorter one."""
        few, many = sorted((self, other), key=lambda summary: sum(len(run.codes) for run in summary._runs))
        codes, counts = few.run()
        together = _product(counts, many.estimate(codes), max(few.events, many.events))
        squares = few.squares() / few.events**2 + many.squares() / many.events**2
        return float(np.sqrt(max(squares - 2 * together / (few.events * many.events), 0.0)))

    def squares(self) -> int:
        """The sum of the squared counts, exactly."""
        if self._squares is None:
            counts = self.run().counts
            self._squares = _product(counts, counts, self.events)
        return self._squares

    def copy(self) -> Self:
        copied = type(self)()
        copied.events, copied._runs, copied._squares = self.events, self._runs, self._squares
        return copied

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.run())

    def snapshot(self) -> pa.Table:
        codes, counts = self.run()
        return pa.table({"code": codes, "count": counts})

    def restore(self, table: pa.Table, events: int) -> None:
        self.events = events
        codes, counts = (table[name].to_numpy() for name in ("code", "count"))
        self._runs, self._squares = (_run(codes, counts),), None


def _run(codes: Codes, counts: Counts) -> _Run:
    return _Run(np.asarray(codes, np.int64), np.asarray(counts, np.int64))


def _product(counts: Counts, others: Counts, events: int) -> int:
    """The sum of the products of counts, of at most so many events on either side."""
    if events < isqrt(2**63):
        return int(counts @ others)
    return sum(count * other for count, other in zip(counts.tolist(), others.tolist(), strict=True))


def _merged(first: _Run, second: _Run) -> _Run:
    """The counts of both, added where they have the same code; without those that are nothing."""
    codes, counts = (np.concatenate(parts) for parts in zip(first, second, strict=True))
    order = np.argsort(codes, kind="stable")
    codes, counts = codes[order], counts[order]
    starts: Index = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]])) if len(codes) else order
    codes, counts = codes[starts], np.add.reduceat(counts, starts) if len(starts) else counts
    kept = counts != 0
    return _Run(codes, counts) if kept.all() else _Run(codes[kept], counts[kept])
