"""Finding, for combinations of rows of some inputs of a join, the rows of one more input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mullion.expressions.arrays import Codes, Counts, Index, Times
from mullion.expressions.coding.hashes import Keys
from mullion.operators.kernels.chosen_pairs import Wanted, chosen_pairs, taken_of
from mullion.operators.kernels.join import (
    PORTION,
    KeyRuns,
    Pairs,
    common_runs,
    equal_pairs,
    overlap_counts,
    overlapping_pairs,
)
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.row_store import RowStore
from mullion.operators.sub_windows import SubWindows


@dataclass(frozen=True)
class Partial:
    """Combinations of rows of some inputs, sorted by key.

    `start` and `end` tell when all their rows are held; `at[i]` where the row of input i stands: in the sub-window that
    probes, or in input i's store, counted through.
    """

    keys: Keys | None
    """None when nothing more is to be found."""
    is_clean: bool
    """Rows of equal codes have equal keys."""
    start: Times
    end: Times
    at: dict[int, Index]

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def of(i: int, window: KeyedSubWindow, rows: Index | None = None) -> Partial:
        """Rows of input i, with their ends as they were before any cuts."""
        if rows is None:
            at = np.arange(len(window))
            return Partial(window.keys, window.is_clean, window.start, window.meets_before, {i: at})
        rows = np.sort(rows)
        return Partial(
            window.keys.take(rows), window.is_clean, window.start[rows], window.meets_before[rows], {i: rows}
        )

    @cached_property
    def runs(self) -> KeyRuns:
        assert self.keys is not None
        return KeyRuns.of(self.keys.codes)

    def take(self, index: Index) -> Partial:
        at = {i: rows[index] for i, rows in self.at.items()}
        return Partial(None, self.is_clean, self.start[index], self.end[index], at)


def probe(partial: Partial, store: SubWindows, *, before_cuts: bool) -> Iterator[Pairs]:
    """The rows of a store with equal keys that live at the same time, counted through; in portions.

    `before_cuts`: with the ends that rows promised before the last cuts.
    """
    portion: list[Pairs] = []
    for window, offset in zip(store.windows, store.offsets().tolist(), strict=True):
        for pairs in _probe_window(partial, window, before_cuts=before_cuts):
            portion.append(Pairs(pairs.probe, pairs.stored + offset, pairs.start, pairs.end))
            if sum(map(len, portion)) >= PORTION:
                yield Pairs.concat(portion)
                portion = []
    if portion:
        yield Pairs.concat(portion)


def _probe_window(partial: Partial, window: KeyedSubWindow, *, before_cuts: bool) -> Iterator[Pairs]:
    """As `probe`, of one sub-window: in the order of the rows that probe, which stand where they do in the window."""
    assert partial.keys is not None
    runs = common_runs(partial.runs, window.runs)
    is_clean = partial.is_clean and window.is_clean
    if is_clean:
        runs = _same_keys(partial, window, runs)
    timed = window.start, window.meets_before if before_cuts else window.meets
    for pairs in overlapping_pairs(partial.runs, window.runs, runs, (partial.start, partial.end), timed):
        yield pairs if is_clean else equal_pairs(pairs, partial.keys, window.keys)


def extended(partial: Partial, pairs: Pairs, j: int, *, is_last: bool) -> Partial:
    """Combinations with the rows of input j that they found."""
    if not is_last:
        pairs = pairs.take(np.argsort(pairs.probe, kind="stable"))
    at = {i: rows.take(pairs.probe) for i, rows in partial.at.items()}
    keys = None if is_last or partial.keys is None else partial.keys.take(pairs.probe)
    return Partial(keys, partial.is_clean, pairs.start, pairs.end, {**at, j: pairs.stored})


def count_met(partial: Partial, window: KeyedSubWindow, ages: Times) -> Index:
    """How many rows of a sub-window each row meets, by the age that these have when they do: younger than the first of
    the ages, younger than the second, and so on."""
    assert partial.keys is not None
    if partial.is_clean and window.is_clean:
        runs = _same_keys(partial, window, common_runs(partial.runs, window.runs))
        times = (partial.start, partial.end), (window.start, window.meets)
        return overlap_counts(partial.runs, window.runs, runs, *times, ages)
    counts = np.zeros((len(partial), len(ages) + 1), np.intp)
    for pairs in _probe_window(partial, window, before_cuts=False):
        age = partial.start[pairs.probe] - window.start[pairs.stored]
        np.add.at(counts, (pairs.probe, np.searchsorted(ages, age, "right")), 1)
    return counts


def count_same(partial: Partial, window: KeyedSubWindow, time: int) -> Counts:
    """How many rows of a sub-window that are there after a time have the key of each row. Linear in the rows of both,
    where counting those that meet is linear in their pairs."""
    assert partial.keys is not None
    is_there = (window.meets > time).astype(np.int64)
    own, stored = common_runs(partial.runs, window.runs)
    if partial.is_clean and window.is_clean:
        own, stored = _same_keys(partial, window, (own, stored))
        by_run = np.zeros(len(partial.runs.codes), np.int64)
        by_run[own] = np.add.reduceat(is_there, window.runs.first[:-1])[stored]
        return np.repeat(by_run, np.diff(partial.runs.first))
    counts = np.zeros(len(partial), np.int64)
    for mine, theirs in zip(own.tolist(), stored.tolist(), strict=True):
        probe = np.arange(*partial.runs.first[mine : mine + 2])
        met = np.arange(*window.runs.first[theirs : theirs + 2])
        probes, rows = np.repeat(probe, len(met)), np.tile(met, len(probe))
        same = partial.keys.take(probes).equals(window.keys.take(rows))
        np.add.at(counts, probes, same * is_there[rows])
    return counts


def choose(partial: Partial, window: KeyedSubWindow, number: Codes, wanted: Wanted, before: int) -> Iterator[Pairs]:
    """The pairs with rows of a sub-window that are wanted, by the numbers that these rows have."""
    assert partial.keys is not None
    if partial.is_clean and window.is_clean:
        runs = _same_keys(partial, window, common_runs(partial.runs, window.runs))
        times = (partial.start, partial.end), (window.start, window.meets)
        yield from chosen_pairs(partial.runs, window.runs, runs, *times, number, wanted, before)
        return
    for pairs in _probe_window(partial, window, before_cuts=False):
        own, met = number[pairs.stored], pairs.probe
        meant = (wanted.since[met] <= own) & (own < wanted.until[met]) & (pairs.end > before)
        some = pairs.take(np.flatnonzero(meant))
        yield some.take(np.flatnonzero(taken_of(some.probe, number[some.stored], wanted)))


def same_key(window: KeyedSubWindow, other: RowStore) -> Counts:
    """How many rows of a store have the key of each row of a sub-window, by codes: linear in the different keys, where
    counting the rows that overlap would be linear in their pairs. All live now, so all overlap."""
    counts = np.zeros(len(window.runs.first) - 1, np.int64)
    for met in other.windows:
        own, stored = common_runs(window.runs, met.runs)
        counts[own] += np.diff(met.runs.first)[stored]
    return np.repeat(counts, np.diff(window.runs.first))


def _same_keys(partial: Partial, window: KeyedSubWindow, runs: tuple[Index, Index]) -> tuple[Index, Index]:
    """Of runs with equal codes those with equal keys."""
    if window.keys.exact or not len(runs[0]):
        return runs
    assert partial.keys is not None
    heads = partial.keys.take(partial.runs.first[runs[0]])
    same = heads.equals(window.keys.take(window.runs.first[runs[1]]))
    return runs[0][same], runs[1][same]
