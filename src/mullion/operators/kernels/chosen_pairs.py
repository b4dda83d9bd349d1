"""Some of the pairs of rows with equal keys: those that entries of an agenda still have, or a sample of them.

    entry of a row   rows 3..8 of the other side, 2 of 6 drawn      its pairs, in the order in which they are met
                                                                    . . x . . x

Pairs are walked over without being kept; only what is chosen is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor
from typing import NamedTuple

import numpy as np
from numba import njit

from mullion.expressions.arrays import Array, Codes, Counts, Index, Mask, Real, Times
from mullion.expressions.readonly import frozen
from mullion.operators.kernels.join import PORTION, Found, Pairs, Runs, Side, room_for, sides


class Wanted(NamedTuple):
    """For each row that probes: which numbers the rows have that it is to meet, and how many pairs are taken of how
    many, evenly spaced from a phase on. `seen` counts the pairs that were met, taken or not."""

    since: Codes
    until: Codes
    taken: Counts
    of: Counts
    phase: Real
    seen: Counts


def chosen_pairs(
    probe: Runs,
    stored: Runs,
    runs: tuple[Index, Index],
    probe_times: tuple[Times, Times],
    stored_times: tuple[Times, Times],
    number: Codes,
    wanted: Wanted,
    before: int,
) -> Iterator[Pairs]:
    """The pairs that are wanted, of rows whose lives overlap and reach beyond `before`."""
    p, k = sides(probe, stored, runs, probe_times, stored_times)
    at = np.zeros(3, np.int64)
    if len(p.first):
        at[1], at[2] = p.first[0], k.first[0]
    number = frozen(number)[0]
    room = min(PORTION, int(wanted.taken.sum()) + 1)
    while at[0] < len(p.first):
        out = room_for(room)
        count = _choose(p, k, number, wanted, before, at, out)
        if count:
            yield Pairs(*(column[:count] for column in out))


def taken_of(which: Index, wanted: Wanted) -> Mask:
    """Which of some pairs are taken, when each is of such a row that probes."""
    taken = np.zeros(len(which), np.bool_)
    _take(which, wanted, taken)
    return taken


@njit(cache=True, nogil=True)
def _is_taken(place: int, taken: int, of: int, phase: float) -> bool:
    """Whether a pair is, when so many come before it: exactly `taken` of all are, each equally likely."""
    if taken >= of:
        return True
    share = taken / of
    return floor((place + 1) * share + phase + 1e-9) > floor(place * share + phase + 1e-9)


@njit(cache=True, nogil=True)
def _take(which: Array, wanted: Wanted, taken: Array) -> None:
    for i in range(len(which)):
        p = which[i]
        taken[i] = wanted.taken[p] > 0 and _is_taken(wanted.seen[p], wanted.taken[p], wanted.of[p], wanted.phase[p])
        wanted.seen[p] += 1


@njit(cache=True, nogil=True)
def _choose(probe: Side, stored: Side, number: Array, wanted: Wanted, before: int, at: Array, out: Found) -> int:
    """Fill the output, going on from the run and rows in `at`, which then tell where to go on."""
    count, room = 0, len(out.probe)
    run, p, k = at[0], at[1], at[2]
    while run < len(probe.first):
        while p < probe.last[run]:
            start, end, since, until = probe.start[p], probe.end[p], wanted.since[p], wanted.until[p]
            taken, of, phase = wanted.taken[p], wanted.of[p], wanted.phase[p]
            while k < stored.last[run]:
                if count == room:
                    at[0], at[1], at[2] = run, p, k
                    return count
                later, sooner = max(start, stored.start[k]), min(end, stored.end[k])
                if later < sooner and sooner > before and since <= number[k] < until:
                    place = wanted.seen[p]
                    wanted.seen[p] = place + 1
                    if taken > 0 and _is_taken(place, taken, of, phase):
                        out.probe[count], out.stored[count], out.start[count], out.end[count] = p, k, later, sooner
                        count += 1
                k += 1
            p += 1
            k = stored.first[run]
        run += 1
        if run < len(probe.first):
            p, k = probe.first[run], stored.first[run]
    at[0] = run
    return count
