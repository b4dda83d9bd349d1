"""Zones that grow longer with age: COLLAPSE (rate, depth) (ali 3.5).

     older <------------------------------------------------------------- newer
     G_3: zones of T_2, T_3 = rate x T_2 | G_2: zones of T_1, T_2 = rate x T_1 | G_1: zones as they were cut, T_1

What is older than T_1 + .. + T_i goes from G_i into the zone of G_i+1 at whose multiples of T_i it lies; what is older
than the last granularity is not kept. So the memory is that of O(rate x depth) summaries, and the past that is told
of grows exponentially with the depth.

Zones move when a new one begins, by the time of its first event: never by batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mullion.summaries.zones import Zone


@dataclass(frozen=True)
class Collapse:
    """How long zones are and for how long they stay, by their granularity.

    >>> collapse = Collapse(granularity=10, rate=4, depth=3)
    >>> [collapse.step(g) for g in (1, 2, 3)], [collapse.reach(g) for g in (1, 2, 3)]
    ([10, 10, 40], [10, 50, 210])
    """

    granularity: int
    rate: int
    depth: int

    def step(self, granularity: int) -> int:
        """At multiples of this a zone ends, at the latest."""
        return self.granularity * self.rate ** max(granularity - 2, 0)

    def reach(self, granularity: int) -> int:
        """How far back this granularity and the newer ones go."""
        return self.granularity * sum(self.rate**i for i in range(granularity))

    def leaves(self, zone: Zone) -> int:
        """The time from which on a zone is too old for its granularity."""
        if zone.granularity == 1:
            return zone.ends + self.reach(1)
        step = self.step(zone.granularity)
        return zone.begins - zone.begins % step + step + self.reach(zone.granularity)

    def are_one(self, zone: Zone, newer: Zone) -> bool:
        """Whether two zones that came from a newer granularity lie in one zone of theirs."""
        step = self.step(zone.granularity)
        return zone.begins // step == newer.begins // step


class Granularities:
    """All zones that have ended, the oldest first. Those of a granularity stand together.

    Zones are never changed, so that a copy shares them.
    """

    def __init__(self, collapse: Collapse, zones: Sequence[Zone] = (), since: int | None = None) -> None:
        self.collapse = collapse
        self.by_age: list[list[Zone]] = [[] for _ in range(collapse.depth)]
        """From G_1 on."""
        for zone in zones:
            self.by_age[zone.granularity - 1].append(zone)
        self.since = since
        """All events that are later are in zones; None while nothing was let go."""

    def copy(self) -> Granularities:
        return Granularities(self.collapse, list(self), self.since)

    def __iter__(self) -> Iterator[Zone]:
        return (zone for zones in reversed(self.by_age) for zone in zones)

    def __len__(self) -> int:
        return sum(map(len, self.by_age))

    @property
    def nbytes(self) -> int:
        return sum(zone.summary.nbytes for zone in self)

    def add(self, zone: Zone, now: int, most: int | None = None) -> None:
        """A zone that has ended, at a time; then let zones grow old, and go as long as they take too much memory."""
        self.by_age[0].append(zone)
        for place, zones in enumerate(self.by_age):
            old = 0
            while old < len(zones) and self.collapse.leaves(zones[old]) <= now:
                self._move_on(zones[old], place + 1)
                old += 1
            del zones[:old]
        while most is not None and len(self) and self.nbytes > most:
            oldest = next(zones for zones in reversed(self.by_age) if zones)
            self._evict(oldest.pop(0))

    def _move_on(self, zone: Zone, place: int) -> None:
        """Into the next granularity, or away."""
        if place == len(self.by_age):
            self._evict(zone)
            return
        zone, older = replace(zone, granularity=place + 1), self.by_age[place]
        if older and self.collapse.are_one(older[-1], zone):
            older[-1] = older[-1].plus(zone)
        else:
            older.append(zone)

    def _evict(self, zone: Zone) -> None:
        self.since = zone.ends
