"""Aggregates of groups of rows that come and leave, at many instants at once.

    ranks of instants    1    2    3    4    5        moments: the instants at which a group is looked at
    rows of a group      *----*----*
                                   *----*             count at 3:  came up to 3, less left up to 3 = 2 - 0
    came so far          1    1    2    2    2        count at 4:                                  = 2 - 1
    left so far          0    0    0    1    2

What can be subtracted exactly (`Invertible`) is had from two running sequences, of the rows in the order in which they
come and in the order in which they leave (golab 2.3.4): no row is looked at once for every instant that sees it. For
everything else rows are repeated, once for each of these instants, in parts that bound the memory.

Requires: an associative combine.
Time: O(n log n + m) for n rows and m moments where all can be subtracted; O(p) for p pairs of a row and a moment else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mullion.aggregates.base import Invertible, Partial, Places, has_prefixes
from mullion.aggregates.decay import DecayedNow
from mullion.aggregates.values import OverValues
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Codes, Index, Times
from mullion.expressions.vector import Vector
from mullion.language.query import Expr
from mullion.language.types import BIGINT
from mullion.slices.coded_values import coded_values
from mullion.slices.value_counts import ValueCounts

MOST_PAIRS = 1_000_000
"""Pairs of a row and a moment that are made at once."""


class GroupInstants(NamedTuple):
    """Groups and the ranks of instants at which they are looked at, in the order of both."""

    group: Codes
    rank: Times

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True)
class GroupedRows:
    """The rows of groups: from which to which rank they are seen, and their place in the order of start and ids."""

    group: Codes
    first: Times
    last: Times
    start: Times
    place: Index
    values: Mapping[Expr, Vector]
    """What is evaluated on rows."""

    def __len__(self) -> int:
        return len(self.group)


def every_instant(group: Codes, first: Times, last: Times) -> GroupInstants:
    """All instants that see a row of a group: the union of the stretches from first to last of its rows."""
    if not len(group):
        return GroupInstants(group, first)
    order = np.lexsort((first, group))
    group, first, last = group[order], first[order], last[order]
    # The furthest last so far within a group: groups are lifted above each other, for they ascend.
    instants = np.unique(np.concatenate([first, last]))
    lift = group * len(instants)
    furthest = instants[np.maximum.accumulate(lift + np.searchsorted(instants, last)) - lift]
    begins = np.ones(len(group), np.bool_)
    begins[1:] = (group[1:] != group[:-1]) | (first[1:] > furthest[:-1])
    at = np.flatnonzero(begins)
    low, high = first[at], furthest[np.append(at[1:], len(group)) - 1]
    count = high - low + 1
    which = np.repeat(np.arange(len(at)), count)
    rank = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + low[which]
    return GroupInstants(group[at][which], rank)


def every_change(group: Codes, first: Times, last: Times, high: int, marked: Index) -> GroupInstants:
    """The instants from 0 to high at which a row of a group comes or leaves, and those that are marked for all."""
    groups, ranks = np.concatenate([group, group]), np.concatenate([first, last + 1])
    if len(marked):
        known = np.unique(group)
        groups = np.concatenate([groups, np.repeat(known, len(marked))])
        ranks = np.concatenate([ranks, np.tile(marked, len(known))])
    asked = (ranks >= 0) & (ranks <= high)
    pairs = np.unique(groups[asked] * (high + 1) + ranks[asked])
    return GroupInstants(*np.divmod(pairs, max(1, high + 1)))


class Grouped:
    """Aggregates over what is there at each moment."""

    def __init__(self, rows: GroupedRows, moments: GroupInstants, times: Times | None = None) -> None:
        """`times`: when the moments are, for aggregates that fade."""
        self.rows, self.moments, self._times = rows, moments, times
        edges = np.unique(np.concatenate([rows.first, rows.last + 1]))
        lift = len(edges) + 1
        came = rows.group * lift + np.searchsorted(edges, rows.first)
        left = rows.group * lift + np.searchsorted(edges, rows.last + 1)
        self._coming, self._leaving = np.argsort(came, kind="stable"), np.argsort(left, kind="stable")
        asked = moments.group * lift + np.searchsorted(edges, moments.rank, "right") - 1
        self._came = np.searchsorted(came[self._coming], asked, "right")
        self._left = np.searchsorted(left[self._leaving], asked, "right")
        self._running: dict[tuple[Partial, Expr | None], tuple[Vector, ...]] = {}

    @property
    def count(self) -> Times:
        """How many rows there are at each moment."""
        return self._came - self._left

    def lower(self, aggregates: Sequence[BoundAggregate]) -> list[Vector]:
        """The answers of the aggregates at all moments."""
        answers: list[Vector | None] = [None] * len(aggregates)
        repeated = []
        for i, bound in enumerate(aggregates):
            partials = bound.aggregate.partials(bound.argument_type)
            if bound.values or not all(map(has_prefixes, partials)):
                repeated.append(i)
            else:
                states = [self._subtracted(partial, bound.argument) for partial in partials]
                answers[i] = bound.aggregate.lower(bound.argument_type, states)
        if repeated:
            parts = [[part.lower(aggregates[i]) for i in repeated] for part in self._parts()]
            for i, vectors in zip(repeated, zip(*parts, strict=True), strict=True):
                answers[i] = joined(vectors)
        return [vector for vector in answers if vector is not None]

    def _subtracted(self, partial: Partial, argument: Expr | None) -> tuple[Vector, ...]:
        """The states at all moments, from the two running sequences."""
        assert isinstance(partial, Invertible)
        known = self._running.get((partial, argument))
        if known is None:
            lifted = partial.lift(argument_of(self.rows, argument))
            loaded = partial.load(lifted)
            coming = partial.accumulate(tuple(field[self._coming] for field in loaded))
            leaving = partial.accumulate(tuple(field[self._leaving] for field in loaded))
            came = tuple(field[self._came] for field in coming)
            left = tuple(field[self._left] for field in leaving)
            known = self._running[partial, argument] = partial.finish(partial.invert(came, left), lifted)
        return known

    # By repeating rows

    def _parts(self) -> Iterator[Repeated]:
        """The moments in parts, with the rows that they see. At least one part, also of no moments."""
        low, high = self._stretches
        reach = np.cumsum(self.count)
        begin = 0
        while True:
            done = int(reach[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(reach, done + MOST_PAIRS, "right")))
            end = min(end, len(self.moments))
            first, last = np.maximum(low, begin), np.minimum(high, end)
            times = np.maximum(last - first, 0)
            row = np.repeat(np.arange(len(times)), times)
            moment = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times) + first[row]
            order = np.lexsort((self.rows.place[row], moment))
            times = None if self._times is None else self._times[begin:end]
            yield Repeated(self.rows, row[order], self.count[begin:end], self._subtracted_from(begin, end), times)
            begin = end
            if begin >= len(self.moments):
                return

    def _subtracted_from(self, begin: int, end: int) -> Callable[[Partial, Expr | None], tuple[Vector, ...]]:
        def states(partial: Partial, argument: Expr | None) -> tuple[Vector, ...]:
            return tuple(vector.take(slice(begin, end)) for vector in self._subtracted(partial, argument))

        return states

    @cached_property
    def _stretches(self) -> tuple[Index, Index]:
        """Which moments see each row: from one to before another."""
        moments, rows = self.moments, self.rows
        ranks = np.unique(moments.rank)
        lift = len(ranks) + 1
        key = moments.group * lift + np.searchsorted(ranks, moments.rank)
        low = np.searchsorted(key, rows.group * lift + np.searchsorted(ranks, rows.first))
        high = np.searchsorted(key, rows.group * lift + np.searchsorted(ranks, rows.last + 1))
        return low, high


@dataclass(frozen=True)
class Repeated:
    """Some moments, and for one after the other the rows that they see, in the order in which these came."""

    rows: GroupedRows
    row: Index
    count: Times
    subtracted: Callable[[Partial, Expr | None], tuple[Vector, ...]]
    times: Times | None = None

    def lower(self, bound: BoundAggregate) -> Vector:
        if bound.values:
            return self._from_values(bound)
        partials = bound.aggregate.partials(bound.argument_type)
        states = [self._state(partial, bound) for partial in partials]
        if isinstance(bound.aggregate, DecayedNow):
            assert self.times is not None
            return bound.aggregate.lower_at(states, self.times)
        return bound.aggregate.lower(bound.argument_type, states)

    def _state(self, partial: Partial, bound: BoundAggregate) -> tuple[Vector, ...]:
        if has_prefixes(partial):
            return self.subtracted(partial, bound.argument)
        events = argument_of(self.rows, bound.argument).take(self.row)
        has_rows = self.count > 0
        ends = np.cumsum(self.count)
        stored = partial.gather(
            events, (ends - self.count)[has_rows], self._places(bound) if partial.takes_order else None
        )
        if has_rows.all():
            return stored
        nothing = partial.store(partial.identity(1), tuple(vector.take(slice(0, 0)) for vector in stored))
        where = np.where(has_rows, np.cumsum(has_rows) - 1, np.count_nonzero(has_rows))
        return tuple(joined(both).take(where) for both in zip(stored, nothing, strict=True))

    def _places(self, bound: BoundAggregate) -> Places:
        present = np.ones(len(self.row), np.bool_)
        if bound.where is not None:
            satisfied = self.rows.values[bound.where].take(self.row)
            present = satisfied.values.astype(np.bool_) & satisfied.valid
        place = self.rows.place[self.row].astype(np.int64)
        return Places(self.rows.start[self.row], np.zeros(len(place), np.int64), place, present)

    def _from_values(self, bound: BoundAggregate) -> Vector:
        """From how often each value is there (see `slices.value_counts`)."""
        assert isinstance(bound.aggregate, OverValues) and bound.argument_type is not None
        columns = [(self.rows.values[expr], type_) for expr, type_ in bound.values]
        code, values = coded_values([(vector.to_arrow(), type_) for vector, type_ in columns])
        present = np.logical_and.reduce([vector.valid for vector, _ in columns])[self.row]
        before = np.concatenate([[0], np.cumsum(present)])
        ends = np.cumsum(self.count)
        chosen = self.row[present]
        counts = ValueCounts(code[chosen], np.ones(len(chosen), np.int64), len(values[0]))
        counted = counts.within(before[ends - self.count], before[ends])
        return bound.aggregate.lower_counts(bound.argument_type, values, counted)


def argument_of(rows: GroupedRows, argument: Expr | None) -> Vector:
    """The values of an aggregate's argument; count(*) counts ones."""
    if argument is not None:
        return rows.values[argument]
    return Vector(BIGINT, np.ones(len(rows), np.int64), np.ones(len(rows), np.bool_))


def joined(vectors: Sequence[Vector]) -> Vector:
    if len(vectors) == 1:
        return vectors[0]
    values = np.concatenate([vector.values for vector in vectors])
    return Vector(vectors[0].type, values, np.concatenate([vector.valid for vector in vectors]))
