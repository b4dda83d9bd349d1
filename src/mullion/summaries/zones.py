"""Zones of time, which end where a stream begins to behave differently (ali 3.3).

    events   a a b a | a b a a | c c d c | ...        blocks of fixed length, by the numbers of the events
    zones    [----------------] [--------             the third block is far from what came before: a new zone begins

A zone also ends when it is `longest`, and at every multiple of `step`, where older zones end too: so it goes into one
of these as a whole. All of that depends on the events and their times alone, and not on the batches that they came in.

The paper ends a zone when its sketch tells badly, which does not show a change. Sketches are linear, so the distance
between two of them is an estimate of how differently keys are spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mullion.expressions.arrays import Codes, Mask, Times
from mullion.summaries.base import Summary

BLOCK = 1024
"""So many events are compared with the zone that they would go on. By chance alone shares differ by 0.03 then."""

START, DRIFT, LONGEST, STEP = "start", "drift", "longest", "step"
"""Why a zone began: it is the first, its events are spread differently, the one before was long enough, or it was time
for a new one."""


@dataclass(frozen=True)
class Zone:
    """Neighbouring events and their summary, which does not change any more. They lie in `begins` .. `ends`, both
    included; other events of these two instants may be in the zones beside it."""

    granularity: int
    """From 1 on, which is the newest."""
    first: int
    """The number of its first event."""
    events: int
    """Also those without a key, of which the summary has nothing."""
    begins: int
    ends: int
    by: str
    summary: Summary

    def plus(self, newer: Zone) -> Zone:
        """A zone of the events of both."""
        summary = self.summary.copy()
        summary.add(newer.summary)
        return replace(self, events=self.events + newer.events, ends=newer.ends, summary=summary)


@dataclass(frozen=True)
class Cuts:
    """Where zones end."""

    drift: float
    """The distance above which events are spread differently."""
    longest: int
    step: int

    def limit(self, begins: int) -> tuple[int, str]:
        """The first instant that does not belong to a zone which began then, and why.

        >>> Cuts(0.2, 5, 10).limit(3), Cuts(0.2, 5, 10).limit(7), Cuts(0.2, 5, 10).limit(-3)
        ((8, 'longest'), (10, 'step'), (0, 'step'))
        """
        at = begins - begins % self.step + self.step
        return (at, STEP) if at <= begins + self.longest else (begins + self.longest, LONGEST)


class Zones:
    """Takes events in their order, and hands on zones that have ended.

    body, of whole blocks      block, which still grows
    [----+----+----+----]      [--
    """

    def __init__(self, cuts: Cuts, empty: Callable[[], Summary]) -> None:
        self.cuts, self._empty = cuts, empty
        self.body: Zone | None = None
        self.block: Zone | None = None
        self.seen = 0
        """The events so far."""

    def copy(self) -> Self:
        """One that may take events while others read this one."""
        copied = type(self)(self.cuts, self._empty)
        copied.seen, copied.body = self.seen, self.body
        copied.block = None if self.block is None else replace(self.block, summary=self.block.summary.copy())
        return copied

    @property
    def open(self) -> Zone | None:
        """All events that are in no zone that has ended."""
        if self.body is None or self.block is None:
            return self.body or self.block
        return self.body.plus(self.block)

    def take(self, times: Times, codes: Codes, known: Mask | None) -> Iterator[tuple[Zone, int]]:
        """Each zone that ends, and the time with which the next one begins."""
        at = 0
        while at < len(times):
            time, begun = int(times[at]), self.body or self.block
            why = START
            if begun is not None:
                limit, why = self.cuts.limit(begun.begins)
                if time >= limit:
                    yield from self._ended(time)
                    begun = None
            if begun is None:
                limit, _ = self.cuts.limit(time)
                self.block = self._new_block(time, why)
            if self.block is None:
                self.block = self._new_block(time, DRIFT)
            room = at + BLOCK - self.block.events
            stop = min(room, at + int(np.searchsorted(times[at:room], limit)))
            self.block.summary.summarize(codes[at:stop] if known is None else codes[at:stop][known[at:stop]])
            events = self.block.events + stop - at
            self.block = replace(self.block, events=events, ends=int(times[stop - 1]))
            self.seen += stop - at
            at = stop
            if events == BLOCK:
                yield from self._end_block()

    def _new_block(self, time: int, why: str) -> Zone:
        return Zone(1, self.seen, 0, time, time, why, self._empty())

    def _ended(self, time: int) -> Iterator[tuple[Zone, int]]:
        """The newest zone, since the next event does not belong to it."""
        ended, self.body, self.block = self.open, None, None
        if ended is not None:
            yield ended, time

    def _end_block(self) -> Iterator[tuple[Zone, int]]:
        """Let the zone go on with the block, or begin with it anew."""
        block, self.block = self.block, None
        assert block is not None
        if self.body is None:
            self.body = block
        elif self._is_far(self.body.summary, block.summary):
            ended, self.body = self.body, block
            yield ended, block.begins
        else:
            self.body = self.body.plus(block)

    def _is_far(self, body: Summary, block: Summary) -> bool:
        return bool(body.events and block.events) and block.distance(body) > self.cuts.drift
