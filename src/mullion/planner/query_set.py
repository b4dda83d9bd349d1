"""Queries in an order, and what plans and batches ask of all of them: found once for the set, as columns.

A plan is improved rule by rule and asked batch by batch, with the same queries. Of a thousand of them each pass in
Python takes as long as a hundred thousand events.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mullion.algebra.lookups import Lookup
from mullion.expressions.arrays import Mask, Times
from mullion.language.query import TIME_AXIS, Expr
from mullion.lazy import cached_property
from mullion.planner import sliced
from mullion.planner.predicate_slot import PredicateSlot, Slots
from mullion.planner.sliced import AnswerTemplate, SlicedAggregation
from mullion.planner.slices import window_table


class QuerySet(tuple[SlicedAggregation, ...]):
    @staticmethod
    def of(queries: Iterable[SlicedAggregation]) -> QuerySet:
        """The same one where it is one already."""
        return queries if isinstance(queries, QuerySet) else QuerySet(queries)

    def __reduce__(self) -> tuple[type[QuerySet], tuple[tuple[SlicedAggregation, ...]]]:
        return QuerySet, (tuple(self),)

    @cached_property
    def over_time(self) -> QuerySet:
        """Those whose windows lie over the time of events."""
        return self if self.are_over_time else QuerySet(query for query in self if query.axis == TIME_AXIS)

    @cached_property
    def over_others(self) -> QuerySet:
        """The rest: over another column, or over the order of events."""
        return NO_QUERIES if self.are_over_time else QuerySet(query for query in self if query.axis != TIME_AXIS)

    def of_names(self, names: frozenset[str]) -> QuerySet:
        """Those that have one of these names."""
        if len(names) == len(self) and names.issuperset(self.names):
            return self
        return QuerySet(query for query in self if query.name in names)

    @cached_property
    def key_sets(self) -> list[QuerySet]:
        """Those that group by the same expressions, over rows of the same tables."""
        found: dict[tuple[tuple[Expr, ...], tuple[Lookup, ...]], list[SlicedAggregation]] = {}
        keys, lookups, own = None, None, list[SlicedAggregation]()
        for query in self:
            if query.keys != keys or query.lookups != lookups:
                keys, lookups = query.keys, query.lookups
                own = found.setdefault((keys, lookups), [])
            own.append(query)
        return [self] if len(found) == 1 else [QuerySet(own) for own in found.values()]

    @cached_property
    def names(self) -> list[str]:
        return [query.name for query in self]

    @cached_property
    def texts(self) -> dict[str, str]:
        return {query.name: query.text for query in self}

    @cached_property
    def windows(self) -> Times:
        """Rows (range, slide, offset)."""
        return window_table([query.window for query in self])

    @cached_property
    def templates(self) -> tuple[npt.NDArray[np.intp], list[AnswerTemplate]]:
        """The different templates, and for each query the number of its own. Queries with one template are answered
        together."""
        numbers: dict[AnswerTemplate, int] = {}
        same = {id(query.template): query.template for query in self}  # most are one object, which is asked once
        number_of = {at: numbers.setdefault(template, len(numbers)) for at, template in same.items()}
        if len(numbers) == 1:
            return np.zeros(len(self), np.intp), list(numbers)
        return np.array([number_of[id(query.template)] for query in self], np.intp), list(numbers)

    @cached_property
    def slots(self) -> tuple[npt.NDArray[np.intp], Slots]:
        """The different slots, and for each query the number of its own."""
        numbers: dict[PredicateSlot, int] = {}
        if self.are_newcomers.any():
            for query in self:
                for slot in query.slots:
                    numbers.setdefault(slot, len(numbers))
        own = np.array([numbers.setdefault(query.slot, len(numbers)) for query in self], np.intp)
        slots = Slots.of(numbers)
        if any(slot is not first for slot, first in zip(slots, numbers, strict=True)):
            own = np.array([slots.numbers[slot] for slot in numbers], np.intp)[own]
        return own, slots

    @cached_property
    def are_over_time(self) -> bool:
        return bool(self._have(sliced.IS_OVER_TIME).all())

    @cached_property
    def any_endless(self) -> bool:
        """Whether some query's windows have no start, so that they need all there ever was."""
        return bool(self._have(sliced.IS_ENDLESS).any())

    @cached_property
    def is_bounded(self) -> Mask:
        """Which queries begin or end at a time."""
        return self._have(sliced.IS_BOUNDED)

    @cached_property
    def is_scheduled(self) -> Mask:
        """Which have SLIDE AT MOST, and are answered at instants that are chosen for them."""
        return self._have(sliced.IS_SCHEDULED)

    @cached_property
    def has_keys(self) -> Mask:
        return self._have(sliced.HAS_KEYS)

    @cached_property
    def is_plain(self) -> Mask:
        """Which have no GROUP BY and no SLIDE AT MOST, while every event falls into a window."""
        range_, slide, _ = self.windows.T
        plain: Mask = ~(self.has_keys | self.is_scheduled) & (range_ >= slide)
        return plain

    @cached_property
    def never_stops(self) -> Mask:
        return self._have(sliced.NEVER_STOPS)

    @cached_property
    def starts_anywhere(self) -> Mask:
        """Of which the first window is the first that holds an event."""
        return self._have(sliced.STARTS_ANYWHERE)

    @cached_property
    def are_newcomers(self) -> Mask:
        return self._have(sliced.IS_NEWCOMER)

    @cached_property
    def _flags(self) -> npt.NDArray[np.uint8]:
        return np.fromiter((query.flags for query in self), np.uint8, len(self))

    def _have(self, flag: int) -> Mask:
        have: Mask = (self._flags & flag) != 0
        return have


NO_QUERIES = QuerySet()
