"""Count-sketches of slices: how often any value came, about, in states that are added and subtracted exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import comb

import numpy as np

from mullion.aggregates import count_sketch_loops as loops
from mullion.aggregates.base import Invertible, State
from mullion.aggregates.counter_loops import count_runs
from mullion.aggregates.keys import PresentValues, stable_codes
from mullion.aggregates.sketched import Sketched
from mullion.expressions.arrays import Array, Index, Whole, objects
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT
from mullion.lazy import cached_property

ROWS = 5
"""Of counters. The median of five is wrong only where three are."""
FEW = 4
"""Values are kept with their counts while there are so many times fewer than a row has counters."""


@dataclass(frozen=True, eq=False)
class SketchedValues:
    """What is kept of `total` values: the codes of few, ascending, with their counts, or else counters. It never
    changes."""

    total: int
    codes: Whole | None
    counts: Whole
    """Of each code; without codes, the counters: 1 x rows x width."""

    def __eq__(self, other: object) -> bool:
        """Whether both have the same counters."""
        if not isinstance(other, SketchedValues):
            return NotImplemented
        if self.codes is not None and other.codes is not None:
            return np.array_equal(self.codes, other.codes) and np.array_equal(self.counts, other.counts)
        width = (self if self.codes is None else other).counts.shape[-1]
        return self.total == other.total and np.array_equal(self.counters(width), other.counters(width))

    __hash__ = None  # type: ignore[assignment]

    def counters(self, width: int) -> Whole:
        """All counters; what is handed out may be changed."""
        if self.codes is None:
            return self.counts.copy()
        counters = np.zeros((1, ROWS, width), np.int64)
        codes, counts = frozen(self.codes, self.counts)
        loops.update_counted(codes, counts, counters)
        return counters


@dataclass(frozen=True)
class CountSketches(Sketched, Invertible):
    """Five rows of counters, to each of which a value adds +1 or -1 at a place of its own; the median of its places is
    its count, give or take what other values left there (charikar 3). Of few values the values themselves are kept, by
    their codes, and put into counters when they are asked for.

    Requires: values that are equal or not.
    Time: O(log b) an event of a slice of b; O(width) to add or subtract.
    Space: 40 bytes x width, less for few values.
    Guarantee: linear to the bit, so the estimate depends on the values of a window alone: not on how they were cut
    into slices, nor on what was added and subtracted on the way. In 99 of 100 cases it is off by at most 3.1 times the
    root of the sum of the squared counts of all other values, divided by that of the width.

    >>> sketches = CountSketches(BIGINT)
    >>> state = sketches.load(sketches.gather(Vector.of(BIGINT, [7, 7, 8, 7]), np.array([0, 2])))
    >>> (window,) = sketches.combine(*((field[i : i + 1],) for field in state for i in (0, 1)))
    >>> sketches.estimate(window[0], 7), sketches.estimate(window[0], 9)
    (3, 0)
    """

    kind = "count_sketch"
    width: int = 1024

    @property
    def label(self) -> str:
        return f"count_sketch{self.width}"

    @property
    def stands_alone(self) -> bool:
        return True

    @cached_property
    def most_codes(self) -> int:
        return self.width // FEW

    def build(self, events: Vector, starts: Index) -> State:
        codes, bounds = PresentValues.of(Vector(BIGINT, stable_codes(events), events.valid), starts)
        codes = np.array(codes, np.int64)
        counts, ends = np.empty(len(codes), np.int64), np.empty(len(starts), np.int64)
        count_runs(codes, np.array(bounds, np.int64), counts, ends)
        cuts = pairwise([0, *ends.tolist()])
        return (objects([self._tally(codes[low:high].copy(), counts[low:high].copy()) for low, high in cuts]),)

    def _tally(self, codes: Whole, counts: Whole) -> SketchedValues | None:
        """Of codes, ascending, each with its count."""
        if not len(codes):
            return None
        few = SketchedValues(int(counts.sum()), codes, counts)
        return few if len(codes) <= self.most_codes else SketchedValues(few.total, None, few.counters(self.width))

    def merged(self, sketches: Sequence[SketchedValues]) -> SketchedValues | None:
        return self._sum([(sketch, 1) for sketch in sketches])

    def _sum(self, parts: Sequence[tuple[SketchedValues, int]]) -> SketchedValues | None:
        """Each part is added or, with -1, subtracted. None of nothing."""
        total = sum(sign * tally.total for tally, sign in parts)
        few = [(tally.codes, sign * tally.counts) for tally, sign in parts if tally.codes is not None]
        codes, counts = frozen(*_added(few))
        if len(few) == len(parts):
            return self._tally(codes, counts)
        if not total:
            return None
        counters = np.zeros((1, ROWS, self.width), np.int64)
        for tally, sign in parts:
            if tally.codes is None:
                counters += sign * tally.counts
        loops.update_counted(codes, counts, counters)
        return SketchedValues(total, None, counters)

    def invert(self, a: State, b: State) -> State:
        return (objects([self._without(whole, part) for whole, part in zip(a[0], b[0], strict=True)]),)

    def _without(self, whole: SketchedValues | None, part: SketchedValues | None) -> SketchedValues | None:
        if part is None:
            return whole
        return self._sum([(part, -1), *([] if whole is None else [(whole, 1)])])

    def accumulate(self, state: State) -> State:
        prefixes: list[SketchedValues | None] = [None]
        for tally in state[0]:
            prefixes.append(self._whole((prefixes[-1], tally)))
        return (objects(prefixes),)

    def read(self, written: bytes) -> SketchedValues:
        total, few, size = np.frombuffer(written, np.int64, 3).tolist()
        numbers = np.frombuffer(written, f"i{size}", offset=24).astype(np.int64)
        if few < 0:
            return SketchedValues(total, None, numbers.reshape(1, ROWS, self.width))
        return SketchedValues(total, numbers[:few], numbers[few:])

    def write(self, sketch: SketchedValues) -> bytes:
        """Numbers take two bytes each where that is enough, or four, or eight."""
        few, numbers = -1, sketch.counts.reshape(-1)
        if sketch.codes is not None:
            few, numbers = len(sketch.codes), np.concatenate([sketch.codes, sketch.counts])
        low, high = int(numbers.min()), int(numbers.max())
        size = next(size for size in (2, 4, 8) if -(1 << (8 * size - 1)) <= low and high < 1 << (8 * size - 1))
        return np.array([sketch.total, few, size], np.int64).tobytes() + numbers.astype(f"i{size}").tobytes()

    def estimate(self, sketch: SketchedValues | None, code: int) -> int:
        """About how many values have the code."""
        if sketch is None:
            return 0
        asked, counters = frozen(np.array([code], np.int64), sketch.counters(self.width))
        found = np.empty(1, np.int64)
        loops.estimate(asked, counters, _everywhere(self.width), found)
        return min(int(found[0]), sketch.total)


def _added(parts: Sequence[tuple[Whole, Whole]]) -> tuple[Whole, Whole]:
    """Codes, ascending, with their counts added; without those that are nothing."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    codes, which = np.unique(np.concatenate([codes for codes, _ in parts]), return_inverse=True)
    counts = np.zeros(len(codes), np.int64)
    np.add.at(counts, which.reshape(-1), np.concatenate([counts for _, counts in parts]))
    kept = counts != 0
    return codes[kept], counts[kept]


@cache
def _everywhere(width: int) -> Array:
    """Some value may have come to each place: what was subtracted does not tell."""
    (everywhere,) = frozen(np.ones((1, ROWS, width), np.bool_))
    return everywhere


@cache
def deviations(rows: int, sure: float) -> float:
    """How many standard deviations of a row the median is off at most, with a probability: the median is off only
    if half of the rows are, each of which is so with a probability of at most 1 / k^2.

    >>> deviations(1, 0.99), deviations(5, 0.99)
    (10.0, 3.1)
    """
    tenths = 10
    while _some_off((10 / tenths) ** 2, rows) > 1 - sure + 1e-12:
        tenths += 1
    return tenths / 10


def _some_off(each: float, rows: int) -> float:
    """The probability that at least half of the rows are off."""
    return sum(comb(rows, k) * each**k * (1 - each) ** (rows - k) for k in range((rows + 1) // 2, rows + 1))
