"""Finding, for combinations of rows of some inputs of a join, the rows of one more input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mullion.expressions.arrays import Codes, Counts, Index, Times
from mullion.expressions.coding.hashes import Keys
from mullion.operators.kernels.chosen_pairs import PairChoice, chosen_pairs, taken_of
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
class Combinations:
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
    def of(i: int, window: KeyedSubWindow, rows: Index | None = None) -> Combinations:
        """Rows of input i, with their ends as they were before any cuts."""
        if rows is None:
            at = np.arange(len(window))
            return Combinations(window.keys, window.is_clean, window.start, window.meets_before, {i: at})
        rows = np.sort(rows)
        return Combinations(
            window.keys.take(rows), window.is_clean, window.start[rows], window.meets_before[rows], {i: rows}
        )

    @cached_property
    def runs(self) -> KeyRuns:
        assert self.keys is not None
        return KeyRuns.of(self.keys.codes)

    def take(self, index: Index) -> Combinations:
        at = {i: rows[index] for i, rows in self.at.items()}
        return Combinations(None, self.is_clean, self.start[index], self.end[index], at)


def probe(combinations: Combinations, store: SubWindows, *, before_cuts: bool) -> Iterator[Pairs]:
    """The rows of a store with equal keys that live at the same time, counted through; in portions.

    `before_cuts`: with the ends that rows promised before the last cuts.
    """
    portion: list[Pairs] = []
    for window, offset in zip(store.windows, store.offsets().tolist(), strict=True):
        for pairs in _probe_window(combinations, window, before_cuts=before_cuts):
            portion.append(Pairs(pairs.probe, pairs.stored + offset, pairs.start, pairs.end))
            if sum(map(len, portion)) >= PORTION:
                yield Pairs.concat(portion)
                portion = []
    if portion:
        yield Pairs.concat(portion)


def _probe_window(combinations: Combinations, window: KeyedSubWindow, *, before_cuts: bool) -> Iterator[Pairs]:
    """As `probe`, of one sub-window: in the order of the rows that probe, which stand where they do in the window."""
    assert combinations.keys is not None
    runs = common_runs(combinations.runs, window.runs)
    is_clean = combinations.is_clean and window.is_clean
    if is_clean:
        runs = _same_keys(combinations, window, runs)
    if not len(runs[0]):
        return
    timed = window.start, window.meets_before if before_cuts else window.meets
    for pairs in overlapping_pairs(combinations.runs, window.runs, runs, (combinations.start, combinations.end), timed):
        yield pairs if is_clean else equal_pairs(pairs, combinations.keys, window.keys)


def extended(combinations: Combinations, pairs: Pairs, j: int, *, is_last: bool) -> Combinations:
    """Combinations with the rows of input j that they found."""
    if not is_last:
        pairs = pairs.take(np.argsort(pairs.probe, kind="stable"))
    at = {i: rows.take(pairs.probe) for i, rows in combinations.at.items()}
    keys = None if is_last or combinations.keys is None else combinations.keys.take(pairs.probe)
    return Combinations(keys, combinations.is_clean, pairs.start, pairs.end, {**at, j: pairs.stored})


def count_met(combinations: Combinations, window: KeyedSubWindow, ages: Times) -> Index:
    """How many rows of a sub-window each row meets, by the age that these have when they do: younger than the first of
    the ages, younger than the second, and so on."""
    assert combinations.keys is not None
    if combinations.is_clean and window.is_clean:
        runs = _same_keys(combinations, window, common_runs(combinations.runs, window.runs))
        times = (combinations.start, combinations.end), (window.start, window.meets)
        return overlap_counts(combinations.runs, window.runs, runs, *times, ages)
    counts = np.zeros((len(combinations), len(ages) + 1), np.intp)
    for pairs in _probe_window(combinations, window, before_cuts=False):
        age = combinations.start[pairs.probe] - window.start[pairs.stored]
        np.add.at(counts, (pairs.probe, np.searchsorted(ages, age, "right")), 1)
    return counts


def count_same(combinations: Combinations, window: KeyedSubWindow, time: int) -> Counts:
    """How many rows of a sub-window that are there after a time have the key of each row. Linear in the rows of both,
    where counting those that meet is linear in their pairs."""
    assert combinations.keys is not None
    is_there = (window.meets > time).astype(np.int64)
    own, stored = common_runs(combinations.runs, window.runs)
    if combinations.is_clean and window.is_clean:
        own, stored = _same_keys(combinations, window, (own, stored))
        by_run = np.zeros(len(combinations.runs.codes), np.int64)
        by_run[own] = np.add.reduceat(is_there, window.runs.first[:-1])[stored]
        return np.repeat(by_run, np.diff(combinations.runs.first))
    counts = np.zeros(len(combinations), np.int64)
    for mine, theirs in zip(own.tolist(), stored.tolist(), strict=True):
        probe = np.arange(*combinations.runs.first[mine : mine + 2])
        met = np.arange(*window.runs.first[theirs : theirs + 2])
        probes, rows = np.repeat(probe, len(met)), np.tile(met, len(probe))
        same = combinations.keys.take(probes).equals(window.keys.take(rows))
        np.add.at(counts, probes, same * is_there[rows])
    return counts


def choose(
    combinations: Combinations, window: KeyedSubWindow, number: Codes, wanted: PairChoice, before: int
) -> Iterator[Pairs]:
    """The pairs with rows of a sub-window that are wanted, by the numbers that these rows have."""
    assert combinations.keys is not None
    if combinations.is_clean and window.is_clean:
        runs = _same_keys(combinations, window, common_runs(combinations.runs, window.runs))
        times = (combinations.start, combinations.end), (window.start, window.meets)
        yield from chosen_pairs(combinations.runs, window.runs, runs, *times, number, wanted, before)
        return
    for pairs in _probe_window(combinations, window, before_cuts=False):
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


def _same_keys(combinations: Combinations, window: KeyedSubWindow, runs: tuple[Index, Index]) -> tuple[Index, Index]:
    """Of runs with equal codes those with equal keys."""
    if window.keys.exact or not len(runs[0]):
        return runs
    assert combinations.keys is not None
    heads = combinations.keys.take(combinations.runs.first[runs[0]])
    same = heads.equals(window.keys.take(window.runs.first[runs[1]]))
    return runs[0][same], runs[1][same]
