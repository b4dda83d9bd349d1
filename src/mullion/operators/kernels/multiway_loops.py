"""The loops of the multi-way joins, compiled: what algorithms 2 to 5 do with the windows."""

from __future__ import annotations

import numpy as np
from numba import njit

from mullion.expressions.arrays import Array
from mullion.operators.kernels.multiway_windows import (
    ABSENT,
    CHECKED,
    COMPARED,
    ENDS,
    INSIDE,
    LOOKED_AT,
    MOST_HELD,
    NOBODY,
    RESULTS,
    WAITING,
    Results,
    Windows,
    emit,
    expire,
    insert,
    remove,
)


@njit(cache=True, nogil=True)
def compute_join(windows: Windows, out: Results, k: int, now: int, sign: int) -> None:
    """ComputeJoin of Algorithm 2: nested loops that go deeper at every match; expired tuples are not here any more."""
    s, value = windows.stream[k], windows.value[k]
    b, deepest = value % windows.head.shape[1], windows.probes.shape[1] - 1
    at, chosen = np.empty(deepest + 1, np.int64), np.empty(deepest + 1, np.int64)
    ends = np.empty(deepest + 2, np.int64)
    ends[0] = windows.end[k]
    compared, level = 0, 0
    at[0] = windows.head[windows.probes[s, 0], b]
    while level >= 0:
        u = at[level]
        while u != NOBODY:
            compared += 1
            if windows.value[u] == value:
                break
            u = windows.after[u]
        if u == NOBODY:
            level -= 1
            continue
        at[level], chosen[level] = windows.after[u], u
        ends[level + 1] = min(ends[level], windows.end[u])
        if level == deepest:
            emit(windows, out, k, chosen, now, ends[level + 1] if sign > 0 else now, sign)
        else:
            level += 1
            at[level] = windows.head[windows.probes[s, level], b]
    windows.counts[COMPARED] += compared
    windows.counts[LOOKED_AT] += compared


@njit(cache=True, nogil=True)
def compute_join_lazy_exp(windows: Windows, out: Results, k: int, now: int, sign: int) -> None:
    """ComputeJoinLazyExp of Algorithm 3: as `compute_join`, among tuples of which some may have expired."""
    s, value = windows.stream[k], windows.value[k]
    b, deepest = value % windows.head.shape[1], windows.probes.shape[1] - 1
    at, chosen = np.empty(deepest + 1, np.int64), np.empty(deepest + 1, np.int64)
    ends = np.empty(deepest + 2, np.int64)
    ends[0] = windows.end[k]
    compared, looked_at, level = 0, 0, 0
    at[0] = windows.head[windows.probes[s, 0], b]
    while level >= 0:
        u = at[level]
        while u != NOBODY:
            looked_at += 1
            if windows.end[u] > now:
                compared += 1
                if windows.value[u] == value:
                    break
            u = windows.after[u]
        if u == NOBODY:
            level -= 1
            continue
        at[level], chosen[level] = windows.after[u], u
        ends[level + 1] = min(ends[level], windows.end[u])
        if level == deepest:
            emit(windows, out, k, chosen, now, ends[level + 1] if sign > 0 else now, sign)
        else:
            level += 1
            at[level] = windows.head[windows.probes[s, level], b]
    windows.counts[COMPARED] += compared
    windows.counts[LOOKED_AT] += looked_at


@njit(cache=True, nogil=True)
def lazy_compute_join(windows: Windows, out: Results, group: int, same: Array, now: int) -> None:
    """LazyComputeJoin of Algorithm 4: the windows are probed once for all new tuples of a value.

    The group is a list: its first tuple, and `same[g]`, the one after g.
    """
    s, value = windows.stream[group], windows.value[group]
    b, deepest = value % windows.head.shape[1], windows.probes.shape[1] - 1
    at, chosen = np.empty(deepest + 1, np.int64), np.empty(deepest + 1, np.int64)
    ends = np.empty(deepest + 2, np.int64)
    ends[0] = np.iinfo(np.int64).max
    compared, level = 0, 0
    at[0] = windows.head[windows.probes[s, 0], b]
    while level >= 0:
        u = at[level]
        while u != NOBODY:
            compared += 1
            if windows.value[u] == value:
                break
            u = windows.after[u]
        if u == NOBODY:
            level -= 1
            continue
        at[level], chosen[level] = windows.after[u], u
        ends[level + 1] = min(ends[level], windows.end[u])
        if level == deepest:
            g = group
            while g != NOBODY:
                emit(windows, out, g, chosen, now, min(ends[level + 1], windows.end[g]), 1)
                g = same[g]
        else:
            level += 1
            at[level] = windows.head[windows.probes[s, level], b]
    windows.counts[COMPARED] += compared
    windows.counts[LOOKED_AT] += compared


@njit(cache=True, nogil=True)
def lazy_restore_compute_join(windows: Windows, out: Results, group: int, same: Array, now: int) -> None:
    """LazyRestoreComputeJoin of Algorithm 5: as `lazy_compute_join`, of tuples that lived at the same time.

    While loops go deeper, a choice must outlive the latest of its parts and of the group's earliest tuple; then each
    tuple of the group is compared by itself.
    """
    s, value = windows.stream[group], windows.value[group]
    b, deepest = value % windows.head.shape[1], windows.probes.shape[1] - 1
    at, chosen = np.empty(deepest + 1, np.int64), np.empty(deepest + 1, np.int64)
    starts, ends = np.empty(deepest + 2, np.int64), np.empty(deepest + 2, np.int64)
    # Groups are in the order of arrival, so the first tuple has the smallest timestamp (the paper's mints).
    starts[0], ends[0] = windows.ts[group], np.iinfo(np.int64).max
    compared, looked_at, level = 0, 0, 0
    at[0] = windows.head[windows.probes[s, 0], b]
    while level >= 0:
        u = at[level]
        while u != NOBODY:
            looked_at += 1
            if windows.end[u] > starts[level] and windows.ts[u] < ends[level]:
                compared += 1
                if windows.value[u] == value:
                    break
            u = windows.after[u]
        if u == NOBODY:
            level -= 1
            continue
        at[level], chosen[level] = windows.after[u], u
        starts[level + 1] = max(starts[level], windows.ts[u])
        ends[level + 1] = min(ends[level], windows.end[u])
        if level == deepest:
            g = group
            while g != NOBODY:
                end = min(ends[level + 1], windows.end[g])
                if max(starts[level + 1], windows.ts[g]) < end:
                    emit(windows, out, g, chosen, now, end, 1)
                g = same[g]
        else:
            level += 1
            at[level] = windows.head[windows.probes[s, level], b]
    windows.counts[COMPARED] += compared
    windows.counts[LOOKED_AT] += looked_at


@njit(cache=True, nogil=True)
def eager(windows: Windows, out: Results, takes_out: Array) -> None:
    """Each tuple is joined as it comes, after the other windows were rid of what has expired (golab Algorithm 2).
    A negative tuple removes its tuple and is then joined like any other.

    Requires: tuples in the order of time.
    Time: a tuple looks at one bucket of the first window, and for each match at one of the next; besides, at the head
    of every bucket of every window.
    Space: the windows.
    Guarantee: every result is emitted when its last part comes.
    """
    for e in range(len(takes_out)):
        now, k, sign = windows.ts[e], e, 1
        if takes_out[e] == NOBODY:
            insert(windows, e)
        else:
            k, sign = takes_out[e], -1
            if windows.place[k] != INSIDE or windows.end[k] <= now:
                continue
            remove(windows, k)
        expire(windows, windows.stream[k], now)
        compute_join(windows, out, k, now, sign)


@njit(cache=True, nogil=True)
def eager_lazy_expiry(windows: Windows, out: Results, delta: int) -> None:
    """As `eager`, but windows are rid of what has expired at multiples of delta alone (golab 5.2.1, Algorithm 3).

    Requires: known ends, so no negative tuples.
    Time: as `eager`, and a comparison of timestamps for every tuple; but heads are looked at only every delta.
    Space: the windows, and what expired within a delta.
    Guarantee: that of `eager`.
    """
    if len(windows.ts) == 0:
        return
    due = (windows.ts[0] // delta + 1) * delta
    for e in range(len(windows.ts)):
        now = windows.ts[e]
        if now >= due:
            due = (now // delta + 1) * delta
            expire(windows, NOBODY, due - delta)
        insert(windows, e)
        compute_join_lazy_exp(windows, out, e, now, 1)


@njit(cache=True, nogil=True)
def lazy(windows: Windows, out: Results, takes_out: Array, delta: int, restore: bool) -> None:
    """Executed at every multiple of delta: new tuples of equal values are joined together (golab 5.2.2, Algorithm 4),
    with `restore` also those that met between two executions and are gone (Algorithm 5).

    Requires: tuples in the order of time.
    Time: as `eager` for each group of equal new tuples of a stream; with restore a comparison of timestamps for every
    tuple and every result.
    Space: the windows and the new tuples; without restore less, since what ends before the next execution goes.
    Guarantee: each result is emitted at the first execution after its last part came; without restore if it is
    still there.
    """
    size = len(takes_out)
    if size == 0:
        return
    groups = np.full(windows.value.max() + 1, NOBODY, np.int64)
    last, same = np.empty(len(groups), np.int64), np.empty(size, np.int64)
    cut, cuts = np.empty(size, np.int64), 0
    began, due = 0, (windows.ts[0] // delta + 1) * delta
    for e in range(size + 1):
        if e == size or windows.ts[e] >= due:
            execute(windows, out, began, e, takes_out, groups, last, same, due, restore)
            for c in range(cuts):
                if windows.place[cut[c]] == INSIDE:
                    remove(windows, cut[c])
            began, cuts = e, 0
            if e == size:
                break
            due = (windows.ts[e] // delta + 1) * delta
            # Without restore what ends before the next execution is not needed any more; with it, until it has ended.
            expire(windows, NOBODY, due - delta if restore else due - 1)
        k = takes_out[e]
        if k == NOBODY:
            windows.place[e] = WAITING
        elif windows.place[k] != ABSENT and windows.end[k] > windows.ts[e]:
            if windows.place[k] == INSIDE:
                if restore:
                    compute_join_lazy_exp(windows, out, k, windows.ts[e], -1)
                else:
                    remove(windows, k)
                    compute_join(windows, out, k, windows.ts[e], -1)
            windows.end[k] = windows.ts[e]
            cut[cuts] = k
            cuts += 1


@njit(cache=True, nogil=True)
def execute(
    windows: Windows,
    out: Results,
    began: int,
    upto: int,
    takes_out: Array,
    groups: Array,
    last: Array,
    same: Array,
    now: int,
    restore: bool,
) -> None:
    """One execution: window after window takes its new tuples in, and each group of equal ones is joined.

    A window whose turn is later does not hold its new tuples yet, so every combination is met once.
    """
    count = np.empty(upto - began, np.int64)
    for s in range(windows.head.shape[0]):
        number = 0
        for e in range(began, upto):
            if windows.stream[e] != s or takes_out[e] != NOBODY:
                continue
            if not restore and windows.end[e] < now:
                windows.place[e] = ABSENT
                continue
            insert(windows, e)
            value = windows.value[e]
            same[e] = NOBODY
            if groups[value] == NOBODY:
                groups[value] = e
                count[number] = value
                number += 1
            else:
                same[last[value]] = e
            last[value] = e
        for i in range(number):
            group = groups[count[i]]
            groups[count[i]] = NOBODY
            if restore:
                lazy_restore_compute_join(windows, out, group, same, now)
            else:
                lazy_compute_join(windows, out, group, same, now)


__all__ = [
    "CHECKED",
    "COMPARED",
    "ENDS",
    "LOOKED_AT",
    "MOST_HELD",
    "NOBODY",
    "RESULTS",
    "Results",
    "Windows",
    "eager",
    "eager_lazy_expiry",
    "lazy",
]
