"""Pairs of rows with equal keys whose lives overlap.

Both sides are sorted by the codes of their keys, so equal codes stand together in runs:

    probe  3 3 5 8        runs of equal codes that both have: 3 and 8
    kept   1 3 8 8 8      pairs: (0,1) (1,1) (3,2) (3,3) (3,4), those that do not live at the same time left out

The loops are compiled: one hot key costs as much per pair as many cold ones. Pairs come in portions of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Codes, Index, Times, Unsigned
from mullion.expressions.coding.hashes import Keys
from mullion.expressions.readonly import frozen
from mullion.loops import loop

PORTION = 1 << 21
"""So many pairs are held at a time."""


@dataclass(frozen=True)
class KeyRuns:
    """Rows sorted by code: the code of each run, and where runs start; the last number is where the last run ends."""

    codes: Codes
    first: Index

    @staticmethod
    def of(codes: Codes) -> KeyRuns:
        """
        >>> runs = KeyRuns.of(np.array([3, 3, 5, 8]))
        >>> runs.codes.tolist(), runs.first.tolist()
        ([3, 5, 8], [0, 2, 3, 4])
        """
        if not len(codes):
            return KeyRuns(codes, np.zeros(1, np.intp))
        first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1], [True]]))
        return KeyRuns(codes[first[:-1]], first)


def common_runs(probe: KeyRuns, stored: KeyRuns) -> tuple[Index, Index]:
    """The runs of both that have the same code."""
    few, many = len(probe.codes), len(stored.codes)
    if not few or not many:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    if few * log2(many + 1) < many:
        place = np.minimum(np.searchsorted(stored.codes, probe.codes), many - 1)
        own = np.flatnonzero(stored.codes[place] == probe.codes)
        return own, place[own]
    if many * log2(few + 1) < few:
        stored_runs, probe_runs = common_runs(stored, probe)
        return probe_runs, stored_runs
    in_probe, in_stored = np.empty(min(few, many), np.intp), np.empty(min(few, many), np.intp)
    count = _merge(probe.codes, stored.codes, in_probe, in_stored)
    return in_probe[:count], in_stored[:count]


@dataclass(frozen=True)
class Pairs:
    """Rows of the probe with stored rows, and when both live."""

    probe: Index
    stored: Index
    start: Times
    end: Times

    def __len__(self) -> int:
        return len(self.probe)

    def take(self, index: Index) -> Pairs:
        return Pairs(self.probe[index], self.stored[index], self.start[index], self.end[index])

    @staticmethod
    def concat(parts: Sequence[Pairs]) -> Pairs:
        if len(parts) == 1:
            return parts[0]
        columns = zip(*((p.probe, p.stored, p.start, p.end) for p in parts), strict=True)
        return Pairs(*map(np.concatenate, columns))


class Side(NamedTuple):
    """From where to where the rows of common runs stand on one side, and when rows live."""

    first: Array
    last: Array
    start: Array
    end: Array


class PairBuffers(NamedTuple):
    """Room for pairs."""

    probe: Array
    stored: Array
    start: Array
    end: Array


def sides(
    probe: KeyRuns,
    stored: KeyRuns,
    runs: tuple[Index, Index],
    probe_times: tuple[Times, Times],
    stored_times: tuple[Times, Times],
) -> tuple[Side, Side]:
    """The runs that both have, with the times of the rows."""
    (p_start, p_end), (k_start, k_end) = frozen(*probe_times), frozen(*stored_times)
    p = Side(probe.first[runs[0]], probe.first[runs[0] + 1], p_start, p_end)
    return p, Side(stored.first[runs[1]], stored.first[runs[1] + 1], k_start, k_end)


def room_for(pairs: int) -> PairBuffers:
    return PairBuffers(*(np.empty(pairs, kind) for kind in (np.intp, np.intp, np.int64, np.int64)))


def overlapping_pairs(
    probe: KeyRuns,
    stored: KeyRuns,
    runs: tuple[Index, Index],
    probe_times: tuple[Times, Times],
    stored_times: tuple[Times, Times],
    portion: int = PORTION,
) -> Iterator[Pairs]:
    """All pairs of the rows of two runs whose lives overlap, in the order of the probe's rows."""
    p, k = sides(probe, stored, runs, probe_times, stored_times)
    at_most = int(((p.last - p.first) * (k.last - k.first)).sum())
    at = np.zeros(3, np.int64)
    if len(p.first):
        at[1], at[2] = p.first[0], k.first[0]
    while at[0] < len(p.first):
        out = room_for(min(portion, at_most))
        count = _pair_up(p, k, at, out)
        if count:
            yield Pairs(*(column[:count] for column in out))


def overlap_counts(
    probe: KeyRuns,
    stored: KeyRuns,
    runs: tuple[Index, Index],
    probe_times: tuple[Times, Times],
    stored_times: tuple[Times, Times],
    ages: Times,
) -> Index:
    """How many rows of the same run overlap with each row of the probe, by the age that they have when it comes.

    >>> runs, when = KeyRuns.of(np.array([3, 3])), (np.array([5, 9]), np.array([15, 19]))
    >>> both = np.array([0]), np.array([0])
    >>> overlap_counts(runs, runs, both, when, (np.array([0, 8]), np.array([10, 18])), np.array([5])).tolist()
    [[1, 1], [1, 1]]
    """
    p, k = sides(probe, stored, runs, probe_times, stored_times)
    counts = np.zeros((len(p.start), len(ages) + 1), np.intp)
    _count(p, k, ages, counts)
    return counts


def equal_pairs(pairs: Pairs, probe: Keys, stored: Keys) -> Pairs:
    """The pairs whose keys are equal, when some with equal codes may not be."""
    return pairs.take(np.flatnonzero(probe.take(pairs.probe).equals(stored.take(pairs.stored))))


def ranges_expanded(first: Index, last: Index) -> tuple[Index, Index]:
    """Each row with all numbers of its range.

    >>> [found.tolist() for found in ranges_expanded(np.array([5, 0, 7]), np.array([7, 0, 8]))]
    [[0, 0, 2], [5, 6, 7]]
    """
    counts = last - first
    rows = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return rows, np.arange(len(rows)) - np.repeat(before - first, counts)


@loop
def _merge(a: Array, b: Array, in_a: Array, in_b: Array) -> int:
    """Where two sorted lists of different numbers have the same one."""
    i, j, count = 0, 0, 0
    while i < len(a) and j < len(b):
        own, other = a[Unsigned(i)], b[Unsigned(j)]
        in_a[Unsigned(count)], in_b[Unsigned(count)] = i, j
        count += own == other
        i += own <= other
        j += own >= other
    return count


@loop
def _pair_up(probe: Side, stored: Side, at: Array, out: PairBuffers) -> int:
    """Fill the output with pairs, going on from the run and rows in `at`, which then tell where to go on."""
    count, room = 0, len(out.probe)
    run, p, k = at[0], at[1], at[2]
    while run < len(probe.first):
        while p < probe.last[run]:
            start, end, last = probe.start[p], probe.end[p], stored.last[run]
            while k < last:
                if count == room:
                    at[0], at[1], at[2] = run, p, k
                    return count
                later, sooner = max(start, stored.start[Unsigned(k)]), min(end, stored.end[Unsigned(k)])
                if later < sooner:
                    new = Unsigned(count)
                    out.probe[new], out.stored[new], out.start[new], out.end[new] = p, k, later, sooner
                    count += 1
                k += 1
            p += 1
            k = stored.first[run]
        run += 1
        if run < len(probe.first):
            p, k = probe.first[run], stored.first[run]
    at[0] = run
    return count


@loop
def _count(probe: Side, stored: Side, ages: Array, counts: Array) -> None:
    for run in range(len(probe.first)):
        for p in range(probe.first[run], probe.last[run]):
            start, end = probe.start[p], probe.end[p]
            for k in range(stored.first[run], stored.last[run]):
                begin = stored.start[Unsigned(k)]
                if max(start, begin) < min(end, stored.end[Unsigned(k)]):
                    grain, age = 0, start - begin
                    while grain < len(ages) and age >= ages[Unsigned(grain)]:
                        grain += 1
                    counts[Unsigned(p), Unsigned(grain)] += 1


@loop
def distance(start: Times, rows: Index, other: Times, others: Index) -> float:
    """The time between the starts of the two rows of each pair, together."""
    total = 0.0
    for k in range(len(rows)):
        total += abs(start[Unsigned(rows[k])] - other[Unsigned(others[k])])
    return total
