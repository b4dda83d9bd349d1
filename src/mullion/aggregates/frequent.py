"""frequent(x, share [, k]): the values that make up at least a share of all, with their counts."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from mullion.aggregates.base import PSEUDO, Aggregate, Partial, State
from mullion.aggregates.keys import Counted, rank_of, text_of, value_of
from mullion.aggregates.sketched import Sketched, library
from mullion.aggregates.top_lists import MOST, TopLists
from mullion.aggregates.values import orderable
from mullion.expressions.arrays import Index, objects
from mullion.expressions.vector import Vector
from mullion.language.types import Type, counted

FINER = 10
"""So many times smaller than the share is the error of a count."""
LEAST_SIZE, MOST_SIZE = 5, 20
"""The logarithms of how many places the table of a sketch may have."""


@dataclass(frozen=True)
class FrequentItems(Sketched):
    """Counters for at most 3/4 2^size values; when they run out, all are lowered by their median and those at zero are
    dropped (Misra, Gries 1982; Anderson et al., A High-Performance Algorithm for Identifying Frequent Items in Data
    Streams, IMC 2017; made by Apache DataSketches).

    Requires: values that are equal or not.
    Time: O(1) for a different value of a slice, amortised; O(2^size) a merge.
    Space: 2^size counters.
    Guarantee: a count given is never below the true one, and above it by at most 3.5 / 2^size of all values. While
    there are no more different values than counters, counts are exact.
    """

    kind = "frequent"
    size: int = LEAST_SIZE

    @property
    def label(self) -> str:
        return f"frequent{self.size}"

    def build(self, events: Vector, starts: Index) -> State:
        counted = Counted.of(events, starts)
        text = [text_of(self.argument)(value) for value in counted.distinct]
        make = library().frequent_strings_sketch
        sketches: list[Any] = [None] * len(starts)
        columns = (counted.run.tolist(), counted.code.tolist(), counted.times.tolist())
        for run, code, count in zip(*columns, strict=True):
            if sketches[run] is None:
                sketches[run] = make(self.size)
            sketches[run].update(text[code], count)
        return (objects(sketches),)

    def merged(self, sketches: Sequence[Any]) -> Any:
        """The largest is copied, which is quicker than to add its values one by one."""
        largest = max(range(len(sketches)), key=lambda at: int(sketches[at].num_active_items))
        whole = copy.copy(sketches[largest])
        for at, sketch in enumerate(sketches):
            if at != largest:
                whole.merge(sketch)
        return whole

    def read(self, written: bytes) -> Any:
        return library().frequent_strings_sketch.deserialize(written)

    def write(self, sketch: Any) -> bytes:
        return bytes(sketch.serialize())


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
            lists = [self._listed(counts, delta, total) for counts, delta, total in columns]
        else:
            assert isinstance(partial, FrequentItems)
            lists = [self._sketched(sketch) for sketch in partial.opened(state[0])]
        answers = objects([None] * len(lists))
        for i, pairs in enumerate(lists):
            answers[i] = _ordered(partial.argument, pairs)
        return Vector(self.result(argument), answers, np.ones(len(lists), np.bool_))

    def _listed(self, counts: dict[str, int] | None, delta: int, total: int) -> list[tuple[str, int]]:
        least = max(delta + 1, self._least(total))
        return [(text, count) for text, count in (counts or {}).items() if count >= least]

    def _sketched(self, sketch: Any) -> list[tuple[str, int]]:
        if sketch is None:
            return []
        least = self._least(sketch.total_weight)
        rows = sketch.get_frequent_items(library().NO_FALSE_NEGATIVES, least - 1)
        return [(text, count) for text, count, _, upper in rows if upper >= least]

    def _least(self, total: int) -> int:
        return math.ceil(self.share * total)


def _ordered(type_: Type, pairs: Iterable[tuple[str, int]]) -> list[tuple[Any, int]]:
    """The most frequent first, of equally frequent ones the smaller."""
    read = value_of(type_)
    return sorted(((read(text), count) for text, count in pairs), key=lambda pair: (-pair[1], rank_of(pair[0])))


def size_for(share: Fraction) -> int:
    """The smallest sketch whose counts err by at most a tenth of the share."""
    for size in range(LEAST_SIZE, MOST_SIZE + 1):
        if _error_of(size) * FINER <= share:
            return size
    least = float(_error_of(MOST_SIZE) * FINER)
    raise TypeError(f"needs a share of {least:.1g} at least; a list's length after it allows smaller ones")


def _error_of(size: int) -> Fraction:
    return Fraction(7, 2 ** (size + 1))


def _fraction(value: Any) -> Fraction:
    """The share as it is written: 0.1 is a tenth, not the double next to it."""
    try:
        share = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    except (TypeError, ValueError, OverflowError):
        share = Fraction(-1)
    if isinstance(value, bool | str) or not 0 <= share <= 1:
        raise TypeError(f"needs a share between 0 and 1, not {value}")
    return share
