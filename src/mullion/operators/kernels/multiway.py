"""Joins of n sliding windows on one attribute, tuple by tuple (golab 5.2).

Each stream has a window of its own length. A new tuple is joined with the windows of the others, one inside the other,
in the global order without its own stream:

    order S1, S2, S3:   for a new tuple k of S2:  for u in S1, if u = k:  for x in S3, if x = k:  result (u, k, x)

| mode | results are emitted | expired tuples leave | paper |
|---|---|---|---|
| EAGER | as each tuple comes | before each probing, from all other windows | Algorithm 2 |
| LAZY_EXPIRY | as each tuple comes | every delta; until then probing compares timestamps | Algorithm 3 |
| LAZY | every delta, for all new tuples of a value at once; what came and went in between is lost | after each
  execution, if they end before the next one | Algorithm 4 |
| RESTORE | as LAZY, and what came and went in between too | after each execution, if they have ended | Algorithm 5 |

Time: for each tuple (or group of equal ones) the lengths of the probed windows, times the matches above them; `buckets`
divides the lengths. Space: the windows; with lazy expiry what has ended since. Nothing in between is stored.

A tuple lives from ts until ts + T, half-open: at its end it is gone. The paper lets it join once more (k.ts <= exp).
Executions are at multiples of delta and see what lives just before, as queries with SLIDE do: start < now <= end.
The tests of Algorithm 5 are not quite the paper's: its `exp <= NOW` would leave out what still lives, and comparing
each part with the new tuple alone lets two other parts join that never met. Here all parts must have lived at once.

Negative tuples take a tuple out before its end. EAGER joins them like others: their results have sign -1 and say that a
result is gone. LAZY and RESTORE take a tuple that waits for its first execution back, or end it earlier; for one
whose results were emitted, they emit at once which of them are gone. LAZY leaves out those that no execution would have
seen. LAZY_EXPIRY relies on known ends, and refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from mullion.expressions.arrays import Array, Whole
from mullion.operators.kernels import multiway_loops as loops
from mullion.operators.kernels import multiway_windows as lists
from mullion.operators.kernels.multiway_windows import NOBODY, LinkedWindows, ResultBuffers


class Reevaluation(Enum):
    EAGER = "eager"
    LAZY_EXPIRY = "eager, lazy expiry"
    LAZY = "lazy"
    RESTORE = "lazy, restore"


@dataclass(frozen=True)
class Arrivals:
    """Tuples of several streams in the order of time. `codes` are their values, numbered.

    `takes_out[e]` is the earlier tuple that the negative tuple e takes out, or -1.
    """

    streams: Whole
    times: Whole
    codes: Whole
    takes_out: Whole

    @staticmethod
    def of(streams: Array, times: Array, values: Array, takes_out: Array | None = None) -> Arrivals:
        """Values may be of any type that numpy sorts. At equal times negative tuples come before others."""
        given = np.full(len(times), NOBODY) if takes_out is None else takes_out
        streams, times, given = (np.asarray(a, np.int64) for a in (streams, times, given))
        _check(streams, times, given)
        codes = np.unique(values, return_inverse=True)[1].reshape(-1)
        return Arrivals(streams, times, codes.astype(np.int64), given)

    def __len__(self) -> int:
        return len(self.times)

    def first(self, number: int) -> Arrivals:
        return Arrivals(*(column[:number] for column in (self.streams, self.times, self.codes, self.takes_out)))

    @property
    def is_strict(self) -> bool:
        """Whether tuples may leave earlier than their windows say."""
        return bool((self.takes_out != NOBODY).any())


@dataclass(frozen=True)
class Joined:
    """Results in the order in which they were emitted, and what they cost."""

    parts: Whole
    """A row for each result: the numbers of its tuples, stream by stream."""
    emitted: Whole
    end: Whole
    """When the first of the parts ends; of a negative result, the time at which it is gone."""
    sign: Whole
    results: int
    ends: int
    """The sum of all ends: also where results are only counted, each was made."""
    compared: int
    """How often two values were compared: what the cost formulas of golab 5.3.1 count."""
    looked_at: int
    """Tuples that probing came by, expired ones too."""
    checked: int
    """Tuples that were asked whether they had expired."""
    most_held: int
    """The most tuples that were in the windows at one time."""


def join(
    arrivals: Arrivals,
    *,
    lengths: Sequence[int],
    order: Sequence[int] | None = None,
    mode: Reevaluation = Reevaluation.EAGER,
    delta: int = 0,
    buckets: int = 1,
    keep: bool = True,
) -> Joined:
    """Join the windows of all streams. Stream i has a window of `lengths[i]`; `order` is the global join order.

    One bucket is a nested-loop join, more are hash tables. `delta` is the interval of the lazy modes. Without `keep`
    results are made and counted, but not kept.

    >>> orders = Arrivals.of([0, 1, 0, 1], [1, 4, 6, 12], ["x", "x", "y", "x"])
    >>> found = join(orders, lengths=[10, 10])
    >>> found.parts.tolist(), found.emitted.tolist(), found.end.tolist()
    ([[0, 1]], [4], [11])
    """
    streams = len(lengths)
    order = list(range(streams)) if order is None else list(order)
    if streams < 2 or sorted(order) != list(range(streams)):
        raise ValueError("a join has two streams or more, and its order names each once")
    if len(arrivals) and not 0 <= arrivals.streams.min() <= arrivals.streams.max() < streams:
        raise ValueError("a tuple is of a stream that has no window")
    if min(lengths) <= 0 or buckets < 1 or (mode is not Reevaluation.EAGER and delta <= 0):
        raise ValueError("windows, buckets and the interval of lazy modes are at least 1")
    if mode is Reevaluation.LAZY_EXPIRY and arrivals.is_strict:
        raise ValueError("lazy expiry needs to know when tuples end: negative tuples cannot be joined so")
    counts = _run(arrivals, lengths, order, mode, delta, buckets, _room(0, streams))
    out = _room(int(counts[lists.RESULTS]) if keep else 0, streams)
    if keep and len(out.emitted):
        _run(arrivals, lengths, order, mode, delta, buckets, out)
    return Joined(
        *out,
        results=int(counts[lists.RESULTS]),
        ends=int(counts[lists.ENDS]),
        compared=int(counts[lists.COMPARED]),
        looked_at=int(counts[lists.LOOKED_AT]),
        checked=int(counts[lists.CHECKED]),
        most_held=int(counts[lists.MOST_HELD]),
    )


def _run(
    arrivals: Arrivals,
    lengths: Sequence[int],
    order: list[int],
    mode: Reevaluation,
    delta: int,
    buckets: int,
    out: ResultBuffers,
) -> Whole:
    windows = _empty(arrivals, lengths, order, buckets)
    if mode is Reevaluation.EAGER:
        loops.eager(windows, out, arrivals.takes_out)
    elif mode is Reevaluation.LAZY_EXPIRY:
        loops.eager_lazy_expiry(windows, out, delta)
    else:
        loops.lazy(windows, out, arrivals.takes_out, delta, mode is Reevaluation.RESTORE)
    return windows.counts


def _empty(arrivals: Arrivals, lengths: Sequence[int], order: list[int], buckets: int) -> LinkedWindows:
    size, streams = len(arrivals), len(lengths)
    return LinkedWindows(
        stream=arrivals.streams,
        value=arrivals.codes,
        ts=arrivals.times,
        end=arrivals.times + np.asarray(lengths, np.int64)[arrivals.streams],
        head=np.full((streams, buckets), NOBODY, np.int64),
        tail=np.full((streams, buckets), NOBODY, np.int64),
        after=np.full(size, NOBODY, np.int64),
        before=np.full(size, NOBODY, np.int64),
        place=np.zeros(size, np.int8),
        probes=np.array([[s for s in order if s != own] for own in range(streams)], np.int64),
        counts=np.zeros(7, np.int64),
    )


def _room(rows: int, streams: int) -> ResultBuffers:
    return ResultBuffers(*(np.empty((rows, streams) if i == 0 else rows, np.int64) for i in range(4)))


def _check(streams: Whole, times: Whole, takes_out: Whole) -> None:
    if (np.diff(times) < 0).any():
        raise ValueError("tuples come in the order of time")
    negative = takes_out != NOBODY
    if (negative[1:] & ~negative[:-1] & (times[1:] == times[:-1])).any():
        raise ValueError("at equal times negative tuples come first")
    taken = takes_out[negative]
    if (taken >= np.flatnonzero(negative)).any() or (taken < 0).any() or negative[taken].any():
        raise ValueError("a negative tuple takes out an earlier tuple")
    if (streams[negative] != streams[taken]).any():
        raise ValueError("a negative tuple takes out a tuple of its own stream")
