"""Sliding max and count with panes and without, compiled: the four sides of li's Figure 3.

Every loop takes tuples in the order of time, one after the other, and asks each for its time. Without panes, a loop
goes over tuples. With panes, a pane-level loop (PLQ) makes a tuple of each pane that holds one, and the same loop as
without panes goes over these (WLQ), as the paper rewrites queries.

The input lies at times from 0 on and is a sequence of whole panes. Windows that it does not fill are not answered.
Every loop returns how often it took a tuple into a window, a pane, or out of one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mullion.expressions.arrays import Array, Times


class Steps(NamedTuple):
    """How often each of the steps was done that the formulas of `planner.panes` count."""

    tuples_in_panes: int
    panes_made: int
    panes_in_windows: int
    tuples_in_windows: int


def paned_max(times: Times, values: Array, pane: int, panes: int, out: Array) -> Steps:
    """Formula 3.1: the largest of every pane, then the largest of every window's panes."""
    pane_times, largest = _room(times, values, pane)
    taken, made = max_of_panes(times, values, pane, pane_times, largest)
    return Steps(taken, made, max_of_windows(pane_times[:made], largest[:made], pane, panes, out), 0)


def paned_count(times: Times, values: Array, pane: int, panes: int, out: Array) -> Steps:
    """Formula 3.2: the count of every pane; those that came are added, those that left subtracted."""
    pane_times, counts = _room(times, values, pane)
    taken, made = sum_of_panes(times, values, pane, pane_times, counts)
    return Steps(taken, made, sum_of_windows(pane_times[:made], counts[:made], pane, panes, out), 0)


def windowed_max(times: Times, values: Array, pane: int, panes: int, out: Array) -> Steps:
    """Formula 3.3: every tuple of every window."""
    return Steps(0, 0, 0, max_of_windows(times, values, pane, panes, out))


def windowed_count(times: Times, values: Array, pane: int, panes: int, out: Array) -> Steps:
    """Formula 3.4: tuples that came are added, tuples that left subtracted."""
    return Steps(0, 0, 0, sum_of_windows(times, values, pane, panes, out))


def windows_in(times: Times, pane: int, panes: int) -> int:
    """How many windows the input fills."""
    return max(0, _panes_in(times, pane) - panes + 1)


def _panes_in(times: Times, pane: int) -> int:
    return int(times[-1]) // pane + 1 if len(times) else 0


def _room(times: Times, values: Array, pane: int) -> tuple[Times, Array]:
    size = _panes_in(times, pane)
    return np.empty(size, np.int64), np.empty(size, values.dtype)


@njit(cache=True, nogil=True)
def max_of_windows(times: Times, values: Array, pane: int, panes: int, out: Array) -> int:
    """Windows of `panes` panes that slide by one. After the first pane of a window begins the next one."""
    taken, first, size = 0, 0, len(times)
    for k in range(len(out)):
        start, end = (k + 1) * pane, (k + panes) * pane
        largest = -np.inf
        at = first
        while at < size and times[at] < start:
            largest = max(largest, values[at])
            at += 1
        after = at
        while at < size and times[at] < end:
            largest = max(largest, values[at])
            at += 1
        taken += at - first
        first = after
        out[k] = largest
    return taken


@njit(cache=True, nogil=True)
def max_of_panes(times: Times, values: Array, pane: int, pane_times: Times, out: Array) -> tuple[int, int]:
    """The largest of every pane that holds a tuple, and when the pane begins."""
    made, at, size = 0, 0, len(times)
    while at < size:
        number = times[at] // pane
        end = (number + 1) * pane
        largest = values[at]
        at += 1
        while at < size and times[at] < end:
            largest = max(largest, values[at])
            at += 1
        pane_times[made], out[made] = number * pane, largest
        made += 1
    return at, made


@njit(cache=True, nogil=True)
def sum_of_windows(times: Times, values: Array, pane: int, panes: int, out: Array) -> int:
    """Windows of `panes` panes that slide by one, each from the one before."""
    total, first, at, size = 0, 0, 0, len(times)
    for k in range(len(out)):
        start, end = k * pane, (k + panes) * pane
        while first < size and times[first] < start:
            total -= values[first]
            first += 1
        while at < size and times[at] < end:
            total += values[at]
            at += 1
        out[k] = total
    return first + at


@njit(cache=True, nogil=True)
def sum_of_panes(times: Times, values: Array, pane: int, pane_times: Times, out: Array) -> tuple[int, int]:
    """The sum of every pane that holds a tuple, and when the pane begins."""
    made, at, size = 0, 0, len(times)
    while at < size:
        number = times[at] // pane
        end = (number + 1) * pane
        total = values[at]
        at += 1
        while at < size and times[at] < end:
            total += values[at]
            at += 1
        pane_times[made], out[made] = number * pane, total
        made += 1
    return at, made
