"""Whether rows stand in the order of time."""

from __future__ import annotations

from mullion.expressions.arrays import Array
from mullion.loops import loop


@loop
def is_in_time_order(start: Array, ids: Array) -> bool:
    """Whether rows go by start, then by ids. Stops at the first that does not."""
    for i in range(1, len(start)):
        if start[i] > start[i - 1]:
            continue
        if start[i] < start[i - 1]:
            return False
        for j in range(ids.shape[1]):
            if ids[i, j] < ids[i - 1, j]:
                return False
            if ids[i, j] > ids[i - 1, j]:
                break
    return True
