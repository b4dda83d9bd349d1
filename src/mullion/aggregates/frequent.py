"""frequent(x, share [, k]): the values that make up at least a share of all, with their counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from mullion.aggregates.base import PSEUDO, Aggregate, Partial, State
from mullion.aggregates.counter_loops import count_runs
from mullion.aggregates.counters import CountersOf, Found, NumberCounters, TextCounters, runs_of_counters
from mullion.aggregates.extremes import float_from_order, float_order
from mullion.aggregates.keys import CountedValues, PresentValues, rank_of, text_of, value_of
from mullion.aggregates.sketched import Sketched
from mullion.aggregates.top_lists import MOST, TopLists
from mullion.aggregates.values import orderable
from mullion.expressions.arrays import Index, objects
from mullion.expressions.decimals import to_decimals
from mullion.expressions.vector import Vector, dtype_of
from mullion.language.types import Type, counted
from mullion.lazy import cached_property

FINER = 10
"""So many times smaller than the share is the error of a count."""
LEAST_SIZE, MOST_SIZE = 5, 20
"""The logarithms of how many counters a sketch may have."""


@dataclass(frozen=True)
class FrequentItems(Sketched):
    """Counters for at most 2^size values; where there are more, all are lowered by the largest that has no place, and
    those at zero are dropped (Misra, Gries 1982; merged as in Agarwal et al., Mergeable Summaries, PODS 2012, 3).

    What a window takes together is not made one: only values that can be frequent are looked up in its parts.

    Requires: values that are equal or not.
    Time: O(log b) an event of a slice of b; O(2^size) to make one of two; for a window of n parts, one comparison for
    each of their counters, and n lookups for each value that can be frequent.
    Space: 2^size counters.
    Guarantee: a count given is never below the true one, and above it by less than 1 / 2^size of all values. While
    there are no more different values than counters, counts are exact.
    """

    kind = "frequent"
    size: int = LEAST_SIZE

    @property
    def label(self) -> str:
        return f"frequent{self.size}"

    @property
    def most(self) -> int:
        return int(2**self.size)

    @cached_property
    def holds_text(self) -> bool:
        return np.dtype(dtype_of(self.argument)).kind in "OV"

    def build(self, events: Vector, starts: Index) -> State:
        if self.holds_text:
            return (objects(self._of_texts(CountedValues.of(events, starts), len(starts))),)
        values, bounds = PresentValues.of(events, starts)
        keys = float_order(values) if self.argument.is_fractional else values.astype(np.int64)
        counts, ends = np.empty(len(keys), np.int64), np.empty(len(starts), np.int64)
        number = count_runs(keys, np.array(bounds, np.int64), counts, ends)
        return (objects(runs_of_counters(keys[:number].copy(), counts[:number].copy(), ends, self.most)),)

    def _of_texts(self, counted: CountedValues, runs: int) -> list[CountersOf | None]:
        text = [text_of(self.argument)(value) for value in counted.distinct]
        columns = (counted.run.tolist(), counted.code.tolist(), counted.times.tolist())
        lists: list[dict[str, int]] = [{} for _ in range(runs)]
        for run, code, count in zip(*columns, strict=True):
            lists[run][text[code]] = count
        made = (TextCounters.of(own, sum(own.values()), 0, self.most) if own else None for own in lists)
        return [None if own is None else CountersOf((own,)) for own in made]

    def merged(self, sketches: Sequence[CountersOf]) -> CountersOf:
        return CountersOf(tuple(part for sketch in sketches for part in sketch.parts))

    def combine(self, a: State, b: State) -> State:
        """A new one is made, which others will be made of."""
        (both,) = super().combine(a, b)
        return (objects([None if sketch is None else sketch.together(self.most) for sketch in both]),)

    def read(self, written: bytes) -> CountersOf:
        return CountersOf(((TextCounters if self.holds_text else NumberCounters).read(written),))

    def write(self, sketch: CountersOf) -> bytes:
        return bytes(sketch.together(self.most).parts[0].written())

    def values(self, found: Found) -> list[tuple[Any, int]]:
        """The values that have the keys."""
        if self.holds_text:
            read = value_of(self.argument)
            return [(read(key), count) for key, count in found]
        if self.argument.kind == "decimal":
            numbers = np.array([key for key, _ in found], np.int64)
            return list(zip(to_decimals(numbers, self.argument), (count for _, count in found), strict=True))
        if not self.argument.is_fractional:
            return [(bool(key), count) for key, count in found] if self.argument.kind == "boolean" else found
        decoded = float_from_order(np.array([key for key, _ in found], np.int64), np.float64).tolist()
        return list(zip(decoded, (count for _, count in found), strict=True))


@dataclass(frozen=True)
class Frequent(Aggregate):
    """Without k, no value is missed whose count is at least share times the number of values; some may be given whose
    count is up to a tenth of the share below. With k, the values come from lists of the k most frequent of each slice:
    no value is given that is not frequent, but some may be missed."""

    name = "frequent"
    casts_text = False
    is_exact = False
    share: Fraction = Fraction(1, 100)
    most: int | None = None

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        if len(parameters) not in (1, 2):
            wanted = "an argument, a share between 0 and 1 and, if wanted, the length of lists"
            raise TypeError(f"takes {wanted}, not {1 + len(parameters)} argument{'s' if parameters else ''}")
        share = _fraction(parameters[0])
        if len(parameters) == 1:
            size_for(share)
            return replace(self, share=share, most=None)
        most = parameters[1]
        if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MOST:
            raise TypeError(f"keeps lists of 1 to {MOST:,} values, not {most}")
        return replace(self, share=share, most=most)

    def differential(self, argument: Type | None) -> str:
        return super().differential(argument) if self.most is None else PSEUDO

    def result(self, argument: Type | None) -> Type:
        return counted(orderable(argument))

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        argument = orderable(argument)
        if self.most is not None:
            return (TopLists(argument, self.most),)
        return (FrequentItems(argument, size_for(self.share)),)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        (partial,) = self.partials(argument)
        state = states[0]
        if isinstance(partial, TopLists):
            columns = zip(partial.opened(state[0]), state[1].values.tolist(), state[2].values.tolist(), strict=True)
            read = value_of(partial.argument)
            lists = [self._listed(counts, delta, total, read) for counts, delta, total in columns]
        else:
            assert isinstance(partial, FrequentItems)
            lists = [self._sketched(sketch, partial) for sketch in partial.opened(state[0])]
        answers = objects([None] * len(lists))
        for i, pairs in enumerate(lists):
            answers[i] = sorted(pairs, key=lambda pair: (-pair[1], rank_of(pair[0])))
        return Vector(self.result(argument), answers, np.ones(len(lists), np.bool_))

    def _listed(
        self, counts: dict[str, int] | None, delta: int, total: int, read: Callable[[str], Any]
    ) -> list[tuple[Any, int]]:
        least = max(delta + 1, self._least(total))
        return [(read(text), count) for text, count in (counts or {}).items() if count >= least]

    def _sketched(self, sketch: CountersOf | None, partial: FrequentItems) -> list[tuple[Any, int]]:
        if sketch is None:
            return []
        return partial.values(sketch.at_least(self._least(sketch.total)))

    def _least(self, total: int) -> int:
        return math.ceil(self.share * total)


def size_for(share: Fraction) -> int:
    """The smallest sketch whose counts err by at most a tenth of the share."""
    for size in range(LEAST_SIZE, MOST_SIZE + 1):
        if _error_of(size) * FINER <= share:
            return size
    least = float(_error_of(MOST_SIZE) * FINER)
    raise TypeError(f"needs a share of {least:.1g} at least; a list's length after it allows smaller ones")


def _error_of(size: int) -> Fraction:
    return Fraction(1, 2**size)


def _fraction(value: Any) -> Fraction:
    """The share as it is written: 0.1 is a tenth, not the double next to it."""
    try:
        share = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    except (TypeError, ValueError, OverflowError):
        share = Fraction(-1)
    if isinstance(value, bool | str) or not 0 <= share <= 1:
        raise TypeError(f"needs a share between 0 and 1, not {value}")
    return share
