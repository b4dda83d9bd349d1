"""Which events of a batch count: none before the watermark, and none too far past the clock.

           watermark                    the clock and AHEAD after it
    late ------|---------- taken -----------------|------ ahead
               low                               high

Late events and those that are ahead change no answer and never move event time. Records without a time lie nowhere:
they go with those that are taken, to be counted as malformed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mullion.slices.kernels.events import TIME
from mullion.slices.tally import Tally


@dataclass(frozen=True)
class Stretch:
    """The events with low <= time < high, and perhaps the records without a time."""

    low: int | None = None
    high: int | None = None
    timeless: bool = True

    def where(self, time: str) -> str:
        """The condition as Spark SQL.

        >>> Stretch(3, 9).where("t"), Stretch(high=3, timeless=False).where("t"), Stretch().where("t")
        ('((t >= 3L AND t < 9L) OR t IS NULL)', '(t < 3L)', 'TRUE')
        """
        bounds = [] if self.low is None else [f"{time} >= {self.low}L"]
        bounds += [] if self.high is None else [f"{time} < {self.high}L"]
        if not bounds:
            return "TRUE"
        held = f"({' AND '.join(bounds)})"
        return f"({held} OR {time} IS NULL)" if self.timeless else held

    def of(self, events: pa.Table) -> pa.Table:
        """Those of some events that lie within, by their column `t`."""
        if self.low is not None:
            events = events.filter(pc.greater_equal(events.column(TIME), self.low).fill_null(self.timeless))
        if self.high is not None:
            events = events.filter(pc.less(events.column(TIME), self.high).fill_null(self.timeless))
        return events

    @property
    def late(self) -> Stretch:
        """The events before."""
        return Stretch(high=self.low, timeless=False)

    @property
    def ahead(self) -> Stretch:
        """The events after."""
        return Stretch(low=self.high, timeless=False)

    def outside(self, events: pa.Table) -> pa.Table:
        """The events before and after, and the records without a time.

        >>> Stretch(3, 9).outside(pa.table({"#t": [5, None, 2, 9]}))["#t"].to_pylist()
        [None, 2, 9]
        """
        times = events.column(TIME)
        within = pc.is_valid(times)
        if self.low is not None:
            within = pc.and_(within, pc.greater_equal(times, self.low).fill_null(False))
        if self.high is not None:
            within = pc.and_(within, pc.less(times, self.high).fill_null(False))
        return events.filter(pc.invert(within))

    def is_passed_by(self, oldest: int | None, newest: int | None) -> tuple[bool, bool]:
        """Whether some events lie before, and whether some lie after."""
        late = self.low is not None and oldest is not None and oldest < self.low
        return late, self.high is not None and newest is not None and newest >= self.high


EVERYWHERE = Stretch()


class Sifted(NamedTuple):
    taken: pa.Table
    """In the order of arrival; records without a time are left out."""
    counted: Tally
    late: pa.Table
    ahead: pa.Table


def sift(events: pa.Table, bounds: Stretch) -> Sifted:
    """Events with their time as `t`, by what is made of them.

    >>> taken, counted, late, ahead = sift(pa.table({"#t": [5, None, 2, 99, 7]}), Stretch(3, 10))
    >>> taken["#t"].to_pylist(), late["#t"].to_pylist(), ahead["#t"].to_pylist(), counted.malformed
    ([5, 7], [2], [99], 1)
    """
    malformed = events.column(TIME).null_count
    if malformed:
        events = events.filter(events.column(TIME).is_valid())
    extremes = pc.min_max(events.column(TIME)).as_py()
    some_late, some_ahead = bounds.is_passed_by(extremes["min"], extremes["max"])
    late = bounds.late.of(events) if some_late else events.slice(0, 0)
    ahead = bounds.ahead.of(events) if some_ahead else events.slice(0, 0)
    if some_late or some_ahead:
        events = bounds.of(events)
        extremes = pc.min_max(events.column(TIME)).as_py()
    counted = Tally(events=len(events), malformed=malformed, oldest=extremes["min"], newest=extremes["max"])
    return Sifted(events, counted, late, ahead)
