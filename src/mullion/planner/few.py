"""Whether the driver takes a batch by itself: the plan of the batch says so (`Plan.on_driver`), who runs it obeys."""

from __future__ import annotations

FEW = 100_000
"""Events that the driver takes by itself: a job costs more than the work."""


def are_few(events: int | None) -> bool:
    """Whether so many events are few; of an unknown number that is not said."""
    return events is not None and events <= FEW
