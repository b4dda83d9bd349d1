"""How much of a batch's time queries with SLIDE AT MOST may take.

    a batch   |-- read, partials, exact queries --|-- scheduled queries --|        the time that it has
              '------------- other ---------------'------ capacity -------'

The time that a batch has is that from one batch to the next where the user gave one, otherwise that in which its events
came, if they come as they happen. A bounded run has all the time there is. What units of cost take is measured, and a
batch goes by what the last commit knew: played again after a crash it decides the same.

The monitor of the input says `behind(2.0)`: from the next commit on periods stretch to about twice their length, until
`behind(1.0)`. Relations have no capacity, since they pay for changes and not for answers: they are answered at every
second of their instants then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any

NEW = 0.3
"""What the last batch counts, against all before it."""
LIVE = 600.0
"""Seconds: events that are younger than this come as they happen."""


@dataclass(frozen=True)
class Conditions:
    """What others say of a run."""

    every: float = 0.0
    """Seconds from one batch to the next; 0 where one follows the other."""
    bounded: bool = True
    """The source is read to its end, and no answer is awaited before that; so it is unless somebody says otherwise."""
    stretch: float = 1.0
    """How much longer periods may become, since the run is behind."""


@dataclass
class Pace:
    conditions: Conditions = field(default_factory=Conditions)
    """Of now; the next batch goes by `in_force`."""
    in_force: Conditions | None = None
    unit: float | None = None
    """Seconds that a unit of cost takes."""
    other: float = 0.0
    """Seconds that the rest of a batch takes."""
    is_live: bool = False

    def behind(self, stretch: float) -> None:
        """The run is behind, so that periods should stretch this much; 1 when it no longer is."""
        self.conditions = replace(self.conditions, stretch=max(1.0, stretch))

    def tell(self, *, every: float, bounded: bool) -> None:
        """How the run is read."""
        self.conditions = replace(self.conditions, every=every, bounded=bounded)

    def capacity(self, span: float, load: Callable[[], float]) -> float:
        """What the scheduled queries of a batch may cost whose events span so many seconds and whose queries cost
        `load` when all are in time; that is asked for only while the run is behind."""
        conditions = self.in_force or self.conditions
        if conditions.bounded:
            return inf
        seconds = conditions.every or (span if self.is_live else inf)
        capacity = inf if self.unit is None else max(0.0, seconds - self.other) / self.unit
        return capacity if conditions.stretch == 1.0 else min(capacity, load() / conditions.stretch)

    @property
    def stretch(self) -> int:
        """Of how many of its instants a relation with SLIDE AT MOST is answered at one. Who reads a source to its end
        waits for no answer; others go by what the last commit knew."""
        return 1 if self.conditions.bounded or self.in_force is None else int(self.in_force.stretch)

    def measured(self, cost: float, seconds: float, other: float, age: float) -> None:
        """A batch took so long for scheduled queries of this cost, and for the rest; its events are so old."""
        if cost > 0.0:
            unit = seconds / cost
            self.unit = unit if self.unit is None else (1.0 - NEW) * self.unit + NEW * unit
        self.other = other if not self.other else (1.0 - NEW) * self.other + NEW * other
        self.is_live = abs(age) < LIVE

    def settle(self) -> None:
        """A batch is about to be committed: the next one goes by what is known now."""
        self.in_force = self.conditions

    def snapshot(self) -> dict[str, Any]:
        in_force = None if self.in_force is None else asdict(self.in_force)
        return {"in_force": in_force, "unit": self.unit, "other": self.other, "is_live": self.is_live}

    def restore(self, state: Mapping[str, Any]) -> None:
        conditions = state["in_force"]
        self.in_force = None if conditions is None else Conditions(**conditions)
        self.unit, self.other, self.is_live = state["unit"], state["other"], state["is_live"]
