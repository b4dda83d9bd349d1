"""The input monitor of a stream: how fast events come and are worked off, and whether the run is behind.

A pure state machine: the run tells it of each batch, with the clock and what waits at the source, and reads what to do.

    lag       how long it would take to work off what waits: what waits, by what a second of work takes of it. Where
              the source does not tell, the time of the last batch, if the next one began at once
    behind    the lag was longer than `after` at every look for `after` seconds; a look stands for the batches since the
              one before, so that one long batch is enough. A batch that alone would take twice `after`, going by what
              it holds and by those before it, is shed from its beginning on: batches that take all that waits would
              become longer and longer
    calm      the lag was shorter than half of `after` at every look for `after` seconds

    behind -> a step more relief, and the time begins anew            calm -> one step less, the last one first

After deep shedding, each time of calm takes back twice as many steps as the one before, until the run is behind again:
one by one, events would be shed for minutes that nothing asks for.

Relief comes in the order of the policy: queries with SLIDE AT MOST are answered more seldom, batches become larger, and
then, only where the stream allows it, events are shed (golab 1.1, 2.4.3 and 8.4.2; Figure 1.2 has the monitor in front
of the query processor).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mullion.options import Relief

STRETCHES = (1.0, 2.0, 4.0, 8.0)
"""How many times longer periods become."""
LARGER = (1, 2, 4, 8, 16)
"""How many times larger batches become."""
WEIGHTS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0)
"""How many events that came one that is kept stands for. Few different ones: the code that Spark generates for each is
then known already. Their sums are exact in doubles."""
LOOK = 0.5
"""Seconds between two looks at the least."""
GAP = 0.25
"""Seconds between two batches, within which the second had waited: Spark itself takes some."""
TOO_LONG = 2.0
"""Times `after` that a batch may take before its events are shed from its beginning on."""
WORKED_OFF = 4.0
"""Times `after` in which what waits should be worked off, beside what comes meanwhile."""
SMOOTHED = 0.5
"""The part of the newest look in a rate."""


class SourceLag(NamedTuple):
    """What waits at a source, and how much of the same the last batches took: bytes of files, or offsets."""

    amount: float | None
    """None where it is not known."""
    taken: float


@dataclass(frozen=True)
class Policy:
    after: float = 10.0
    """Seconds after which a run is behind, or calm."""
    order: tuple[Relief, ...] = tuple(Relief)
    heaviest: float = 1.0
    """How many events that came one that is kept may stand for; 1 where none may be shed."""

    def weights(self) -> tuple[float, ...]:
        """The weights that the stream allows, from 1 to the heaviest.

        >>> Policy(heaviest=2.0).weights()
        (1.0, 1.5, 2.0)
        """
        return (*(weight for weight in WEIGHTS if weight < self.heaviest), self.heaviest)


@dataclass
class Rates:
    """What was seen of a stream lately."""

    arriving: float | None = None
    """Events that come in a second."""
    working: float | None = None
    """Events that a second of work takes."""
    backlog: float | None = None
    """About how many events wait at the source; None where it does not tell."""
    busy: float = 0.0
    """Seconds of work in a second: near 1, the run can take no more."""
    lag: float = 0.0
    due: int = 0
    """Windows that were due and not answered when the last batch ended."""


@dataclass
class Monitor:
    """Relief, as steps of each kind: 0 is none."""

    policy: Policy = field(default_factory=Policy)
    rates: Rates = field(default_factory=Rates)
    steps: dict[Relief, int] = field(default_factory=lambda: dict.fromkeys(Relief, 0))
    can_stretch: bool = False
    """Whether there are queries whose periods may be stretched."""
    can_enlarge: bool = False
    """Whether batches may become larger and still fit into memory."""
    acts: bool = True
    """A run that reads what is there, and ends, is not behind."""
    behind_since: float | None = None
    calm_since: float | None = None
    looked: float | None = None
    _last_end: float | None = None
    _seconds: float = 0.0
    _events: int = 0
    _was_waiting: bool = False
    _since: float | None = None
    _began: float = 0.0
    """When the first batch since the last look began."""
    _newest_rate: float = 0.0
    """Events that came in a second, by the last look alone."""
    _taken_back: int = 1
    """Steps of shedding that the next time of calm takes back."""
    _pace: float | None = None
    """Seconds of work for what counts as one at the source, if nothing were shed."""
    _kept_by: float = 1.0
    """The weight of the batches since the last look."""

    # What it says

    @property
    def stretch(self) -> float:
        """How many times longer the periods of SLIDE AT MOST are."""
        return STRETCHES[self.steps[Relief.STRETCH]]

    @property
    def larger(self) -> int:
        """How many times larger batches are."""
        return LARGER[self.steps[Relief.ENLARGE]]

    @property
    def weight(self) -> float:
        """How many events that come one that is kept stands for."""
        return self.policy.weights()[self.steps[Relief.SHED]]

    @property
    def is_behind(self) -> bool:
        return any(self.steps.values()) or self._is_behind_for(self.policy.after)

    def _is_behind_for(self, seconds: float) -> bool:
        return self.behind_since is not None and self.looked is not None and self.looked - self.behind_since >= seconds

    def report(self) -> dict[str, Any]:
        """For statistics."""
        rates = self.rates
        return {
            "arriving": _rounded(rates.arriving),
            "working": _rounded(rates.working),
            "backlog": _rounded(rates.backlog),
            "busy": round(rates.busy, 3),
            "lag": round(rates.lag, 3),
            "due": rates.due,
            "behind": self.is_behind,
            "stretch": self.stretch,
            "larger": self.larger,
            "kept_share": 1 / self.weight,
        }

    # What it hears

    def begins(self, amount: float | None) -> None:
        """A batch begins that holds so much, as the source counts. One that would be too long is shed at once."""
        if amount is not None and self._pace is not None and self.acts and Relief.SHED in self.policy.order:
            longest, weights = TOO_LONG * self.policy.after, self.policy.weights()
            step, last = self.steps[Relief.SHED], self._last(Relief.SHED)
            while amount * self._pace / weights[step] > longest and step < last:
                step += 1
                self._taken_back = 1
            self.steps[Relief.SHED] = step
        self._kept_by = self.weight

    def observe(self, began: float, ended: float, events: int, due: int = 0) -> bool:
        """A batch had so many events, kept or not. Whether it is time for a look."""
        if self._since is None:
            self._since = began
        if not self._seconds:
            self._began = began
        self._was_waiting = self._last_end is not None and began - self._last_end < GAP
        self._last_end = ended
        self._seconds += ended - began
        self._events += events
        self.rates.due = due
        return self.looked is None or ended - self.looked >= LOOK

    def look(self, now: float, waiting: SourceLag | None) -> None:
        """Take stock of the batches since the last look, with what waits at the source now."""
        assert self._since is not None
        rates, seconds, events = self.rates, max(self._seconds, 1e-9), self._events
        elapsed = max(now - (self._since if self.looked is None else self.looked), seconds)
        before = rates.backlog
        rates.busy = seconds / elapsed
        rates.working = _smoothed(rates.working, events / seconds)
        if waiting is not None and waiting.taken:
            self._pace = _smoothed(self._pace, seconds * self._kept_by / waiting.taken)
        if waiting is None or waiting.amount is None or (waiting.amount and not waiting.taken):
            rates.backlog = None
            rates.lag = seconds if self._was_waiting else 0.0
            arrived = float(events)
        else:
            rates.backlog = waiting.amount * events / waiting.taken if waiting.taken else 0.0
            rates.lag = waiting.amount * seconds / waiting.taken if waiting.taken else 0.0
            arrived = max(0.0, events + (rates.backlog - before if before is not None else 0.0))
        self._newest_rate = arrived / elapsed
        rates.arriving = _smoothed(rates.arriving, self._newest_rate)
        self.looked, self._seconds, self._events = now, 0.0, 0
        if self.acts:
            self._act(now)

    def _act(self, now: float) -> None:
        after = self.policy.after
        if self.rates.lag > after:
            self.behind_since = self._began if self.behind_since is None else self.behind_since
            self.calm_since = None
            if now - self.behind_since >= after:
                self._taken_back = 1
                self._more()
                self.behind_since = now
        elif self.rates.lag < after / 2:
            self.calm_since = now if self.calm_since is None else self.calm_since
            self.behind_since = None
            if now - self.calm_since >= after and any(self.steps.values()):
                self._less()
                self.calm_since = now
        else:
            self.behind_since = self.calm_since = None

    def _more(self) -> None:
        """One step of the first kind of relief that has one left."""
        for kind in self.policy.order:
            if self.steps[kind] < self._last(kind):
                self.steps[kind] = self._next(kind)
                return

    def _next(self, kind: Relief) -> int:
        """Stretching and shedding go at once to what rates and lag ask for: steps one by one would come too late, since
        a batch takes all that came during the one before. What costs half as much is taken to go twice as fast."""
        step = self.steps[kind] + 1
        factors = {Relief.STRETCH: STRETCHES, Relief.SHED: self.policy.weights()}.get(kind)
        if factors is not None and self.rates.arriving and self.rates.working:
            pace = max(self.rates.arriving, self._newest_rate) / self.rates.working
            wanted = factors[step - 1] * (pace + self.rates.lag / (WORKED_OFF * self.policy.after))
            while step < self._last(kind) and factors[step] < wanted:
                step += 1
        return step

    def _less(self) -> None:
        for kind in reversed(self.policy.order):
            if self.steps[kind]:
                back = self._taken_back if kind == Relief.SHED else 1
                self._taken_back = 2 * back if kind == Relief.SHED else 1
                self.steps[kind] = max(0, self.steps[kind] - back)
                return

    def _last(self, kind: Relief) -> int:
        allowed = {
            Relief.STRETCH: len(STRETCHES) - 1 if self.can_stretch else 0,
            Relief.ENLARGE: len(LARGER) - 1 if self.can_enlarge else 0,
            Relief.SHED: len(self.policy.weights()) - 1,
        }
        return allowed[kind]


def _smoothed(before: float | None, now: float) -> float:
    return now if before is None else before + SMOOTHED * (now - before)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
