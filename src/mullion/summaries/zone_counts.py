"""How many events of a window have which values, from the zones of a summary.

zones      [---a---][----b----][--c--][-d-]
window            (after ............. now]       c and d count whole, b from nothing up to all of it, a not at all
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Codes, Counts, Mask, Real
from mullion.summaries.base import SURE, Summary
from mullion.summaries.pyramid import Pyramid
from mullion.summaries.zones import Zone


class ValueCondition(NamedTuple):
    """Which events are counted, by the value that a column has."""

    codes: Codes
    """Different ones."""
    others: bool
    """Whether those with another value are counted, instead of those with one of these."""
    nulls: bool
    """Whether those without a value are."""

    def hold(self, codes: Codes, known: Mask | None) -> Mask:
        """Whether each event is counted.

        >>> condition_on((7,), others=True).hold(np.array([7, 8, 0]), np.array([True, True, False])).tolist()
        [False, True, False]
        """
        inside = np.isin(codes, self.codes) != self.others
        return inside if known is None else np.where(known, inside, self.nulls)


def condition_on(codes: Iterable[int], *, others: bool = False, nulls: bool = False) -> ValueCondition:
    return ValueCondition(np.array(list(codes), np.int64), others, nulls)


EVERY = condition_on((), others=True, nulls=True)
"""All events."""


class CountBounds(NamedTuple):
    """The count lies in low .. high, and about at value."""

    low: int
    value: int
    high: int
    granularity: int
    """The oldest that it is from; 0 without any."""


class EachBounds(NamedTuple):
    """The same for many keys."""

    low: Counts
    value: Counts
    high: Counts


class ZoneCounts:
    """The zones of one moment, the oldest first, and what lies above them once somebody asks for it."""

    def __init__(self, zones: Sequence[Zone], *, is_exact: bool) -> None:
        self.zones, self._is_exact = zones, is_exact

    @cached_property
    def _pyramid(self) -> Pyramid:
        return Pyramid([zone.summary for zone in self.zones])

    def count(self, values: ValueCondition, after: int) -> CountBounds:
        """How many events with such values are later; each bound holds with the probability that the kind gives."""
        whole, touched = self._reach(after)
        sure = 1 - (1 - SURE) / max(len(values.codes), 1)
        (least, least_off), (most, most_off) = (self._counted(values, zones, sure) for zones in (whole, touched))
        low = max(least - least_off, 0)
        high = min(most + most_off, sum(zone.events for zone in self.zones[touched:]))
        value = least + round((most - least) * self._share(whole, touched, after))
        return CountBounds(low, min(max(value, low), high), high, self.oldest(after))

    def each(self, codes: Codes, after: int) -> EachBounds:
        """How often each key came later."""
        whole, touched = self._reach(after)
        (least, least_off), (most, most_off) = (self._estimated(codes, zones, SURE) for zones in (whole, touched))
        low = np.maximum(least - np.ceil(least_off).astype(np.int64), 0)
        events = sum(zone.events for zone in self.zones[touched:])
        high = np.minimum(most + np.ceil(most_off).astype(np.int64), events)
        value = least + np.rint((most - least) * self._share(whole, touched, after)).astype(np.int64)
        return EachBounds(low, value.clip(low, high), high)

    def codes(self, after: int) -> Codes:
        """Every key that may have come later, where the kind knows them."""
        _, touched = self._reach(after)
        of_zones = [zone.summary.codes() for zone in self.zones[touched:]]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *of_zones]))

    def oldest(self, after: int) -> int:
        """The oldest granularity that holds something later; 0 without any."""
        _, touched = self._reach(after)
        return max((zone.granularity for zone in self.zones[touched:]), default=0)

    def _reach(self, after: int) -> tuple[int, int]:
        """From which zone on all events are later, and from which on some may be. Zones follow each other in time."""
        whole = sum(zone.begins <= after for zone in self.zones)
        return whole, sum(zone.ends <= after for zone in self.zones)

    def _share(self, whole: int, touched: int, after: int) -> float:
        """Which part of the events of zones that are cut lies inside, about: as much as of their time."""
        cut = self.zones[touched:whole]
        inside = sum(zone.events * (zone.ends - after) / (zone.ends - zone.begins + 1) for zone in cut)
        return inside / max(sum(zone.events for zone in cut), 1)

    def _counted(self, values: ValueCondition, first: int, sure: float) -> tuple[int, int]:
        """How many events of the zones from one on have such values, and how far that is off at most."""
        zones = self.zones[first:]
        known = sum(zone.summary.events for zone in zones)
        estimates, errors = self._estimated(values.codes, first, sure)
        listed, off = int(estimates.sum()), ceil(float(errors.sum()))
        counted = max(known - listed, 0) if values.others else listed
        return counted + (sum(zone.events for zone in zones) - known if values.nulls else 0), off

    def _estimated(self, codes: Codes, first: int, sure: float) -> tuple[Counts, Real]:
        """How often each key came in the zones from one on, and how far that is off. Counts are added up; of sketches
        the sum is asked, which is less off than the sum of what each tells."""
        nothing = np.zeros(len(codes), np.int64)
        if self._is_exact or not len(codes):
            return sum((zone.summary.estimate(codes) for zone in self.zones[first:]), nothing), nothing.astype(float)
        total: Summary | None = self._pyramid.total(first, len(self.zones))
        if total is None:
            return nothing, nothing.astype(float)
        return total.estimate(codes), total.errors(codes, sure)
