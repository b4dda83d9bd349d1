"""The loops over places in the order of the stream."""

from __future__ import annotations

from mullion.expressions.arrays import Array
from mullion.loops import loop


@loop
def earliest_of_runs(present: Array, time: Array, part: Array, arrival: Array, starts: Array, first: Array) -> None:
    """Where the earliest event of each run stands; its first one where none is present."""
    for run in range(len(starts)):
        best = starts[run]
        end = starts[run + 1] if run + 1 < len(starts) else len(time)
        for i in range(best + 1, end):
            if not present[i]:
                continue
            if not present[best]:
                best = i
            elif time[i] != time[best]:
                if time[i] < time[best]:
                    best = i
            elif part[i] != part[best]:
                if part[i] < part[best]:
                    best = i
            elif arrival[i] < arrival[best]:
                best = i
        first[run] = best


@loop
def are_in_order(time: Array, part: Array, arrival: Array) -> bool:
    """Whether events stand in the order of the stream."""
    for i in range(1, len(time)):
        if time[i] != time[i - 1]:
            if time[i] < time[i - 1]:
                return False
        elif part[i] != part[i - 1]:
            if part[i] < part[i - 1]:
                return False
        elif arrival[i] < arrival[i - 1]:
            return False
    return True
