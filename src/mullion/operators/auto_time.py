"""The time that promising joins and selections with BUDGET AUTO have in a step.

As long as the events of a step took to come, as their times tell, answers may take to be made without falling behind.
What all else took in the last step is not theirs, other operators, answers and the commit, and the rest they divide
among them (ali 5: the time between two arrivals, less the time to insert). A past that is read at once has time for
everything.

The time between two steps by the clock says nothing where a run is behind: it is then what the steps themselves take.

>>> time = AutoTime()
>>> time.begin(1, reached=2_000_000, oldest=1_000_000)
>>> time.turn()
1.0
>>> time.spend(0.3)
>>> time.measured(0.5)
>>> time.begin(2, reached=5_000_000, oldest=2_500_000)
>>> time.turn()
1.4
"""

from __future__ import annotations

import math

from mullion.instants import THE_END


class AutoTime:
    """Seconds of a step, of which each join in its turn gets an equal part of what those before it left."""

    def __init__(self) -> None:
        self.left, self.joins = math.inf, 1
        self._reached: int | None = None
        self._others = self._spent = 0.0

    def begin(self, joins: int, reached: int, oldest: int | None) -> None:
        """A step of so many joins goes on to an event time; its oldest event is of another. After the end of the input
        nothing waits for the next step."""
        since = oldest if self._reached is None else self._reached
        has_time = reached == THE_END or since is None
        self.left = math.inf if has_time else max(0.0, (reached - (since or 0)) / 1e6 - self._others)
        self.joins, self._reached = joins, reached
        self._spent = 0.0

    def turn(self) -> float:
        """The seconds of the next join."""
        return self.left / max(self.joins, 1)

    def spend(self, seconds: float) -> None:
        """A join has taken so long."""
        self.left = max(0.0, self.left - seconds)
        self.joins -= 1
        self._spent += seconds

    def measured(self, seconds: float) -> None:
        """The whole step has taken so long, its answers and its commit with it."""
        self._others = max(0.0, seconds - self._spent)
