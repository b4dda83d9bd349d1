"""The loops of the multi-way joins, compiled: what algorithms 2 to 5 do with the windows."""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Array
from mullion.loops import loop
from mullion.operators.kernels.multiway_windows import (
    ABSENT,
    COMPARED,
    INSIDE,
    LOOKED_AT,
    NOBODY,
    WAITING,
    LinkedWindows,
    ResultBuffers,
    emit,
    expire,
    insert,
    remove,
)

ALONE = np.empty(0, np.int64)
"""For a tuple that is joined by itself: nobody has the same value."""
ALWAYS = np.iinfo(np.int64).min


@loop
def compute_join(
    windows: LinkedWindows,
    out: ResultBuffers,
    first: int,
    same: Array,
    now: int,
    sign: int,
    since: int,
    some_expired: bool,
) -> None:
    """ComputeJoin of Algorithms 2 to 5: nested loops that go deeper at every match.

    | algorithm | `first` and `same` | `some_expired`, `since` |
    |---|---|---|
    | 2, ComputeJoin | a tuple, ALONE | no: expired tuples are not here any more |
    | 3, ComputeJoinLazyExp | a tuple, ALONE | some may have, and what is chosen must live after now |
    | 4, LazyComputeJoin | a list of new tuples of a value: `same[g]` is the one after g | no |
    | 5, LazyRestoreComputeJoin | as 4 | what is chosen must outlive the latest of its parts and the list's earliest |

    In the end each tuple of the list is compared by itself.
    """
    s, value = windows.stream[first], windows.value[first]
    b, deepest = value % windows.head.shape[1], windows.probes.shape[1] - 1
    at, chosen = np.empty(deepest + 1, np.int64), np.empty(deepest + 1, np.int64)
    starts, ends = np.empty(deepest + 2, np.int64), np.empty(deepest + 2, np.int64)
    starts[0], ends[0] = since, np.iinfo(np.int64).max
    compared, looked_at, level = 0, 0, 0
    at[0] = windows.head[windows.probes[s, 0], b]
    while level >= 0:
        u, start, end = at[level], starts[level], ends[level]
        while u != NOBODY:
            looked_at += 1
            if not some_expired or (windows.end[u] > start and windows.ts[u] < end):
                compared += 1
                if windows.value[u] == value:
                    break
            u = windows.after[u]
        if u == NOBODY:
            level -= 1
            continue
        at[level], chosen[level] = windows.after[u], u
        starts[level + 1], ends[level + 1] = max(start, windows.ts[u]), min(end, windows.end[u])
        if level < deepest:
            level += 1
            at[level] = windows.head[windows.probes[s, level], b]
            continue
        g = first
        while g != NOBODY:
            until = min(ends[level + 1], windows.end[g])
            if max(starts[level + 1], windows.ts[g]) < until:
                emit(windows, out, g, chosen, now, until if sign > 0 else now, sign)
            g = same[g] if len(same) else NOBODY
    windows.counts[COMPARED] += compared
    windows.counts[LOOKED_AT] += looked_at


@loop
def eager(windows: LinkedWindows, out: ResultBuffers, takes_out: Array) -> None:
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
        compute_join(windows, out, k, ALONE, now, sign, ALWAYS, False)


@loop
def eager_lazy_expiry(windows: LinkedWindows, out: ResultBuffers, delta: int) -> None:
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
        compute_join(windows, out, e, ALONE, now, 1, now, True)


@loop
def lazy(windows: LinkedWindows, out: ResultBuffers, takes_out: Array, delta: int, restore: bool) -> None:
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
                if not restore:
                    remove(windows, k)
                now = windows.ts[e]
                compute_join(windows, out, k, ALONE, now, -1, now, restore)
            windows.end[k] = windows.ts[e]
            cut[cuts] = k
            cuts += 1


@loop
def execute(
    windows: LinkedWindows,
    out: ResultBuffers,
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
            # Groups are in the order of arrival, so the first tuple has the smallest timestamp (the paper's mints).
            compute_join(windows, out, group, same, now, 1, windows.ts[group], restore)
