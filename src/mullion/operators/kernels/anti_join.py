"""The loops of the anti-join: when keys are present on the right, and what that leaves of the rows of the left.

right rows    |----|        |--|
                 |-----|
key present   |--------|    |--|
left row           |------------------|
left of it             |----|  |------|
"""

from __future__ import annotations

from typing import NamedTuple

from mullion.expressions.arrays import Array, Unsigned
from mullion.instants import NEVER
from mullion.loops import loop
from mullion.operators.kernels.expiry_heap import Heap, pop, push, replace_first
from mullion.operators.kernels.stays import EarlyEnds, Stays, add_early_end, add_stay


class KeyChanges(NamedTuple):
    """When keys become present (`on`), and when they no longer are."""

    code: Array
    time: Array
    on: Array


class LeftRows(NamedTuple):
    """Rows of the left and what is known of their keys."""

    start: Array
    promised: Array
    """The end as it was known when the row came."""
    end: Array
    """The end as it is known now."""
    is_old: Array
    """Whether the row started before the step."""
    was_present: Array
    """Whether the right had the key before the step."""
    absent_since: Array
    """Since when it had not, if it had not."""
    first_change: Array
    """The changes of the key are first_change[i] .. behind_change[i]."""
    behind_change: Array


@loop
def presence_changes(
    code: Array, start: Array, end: Array, now: int, until: Array, expiries: Heap, size: int, changes: KeyChanges
) -> tuple[int, int]:
    """When codes become present, and when they no longer are, before `now`.

    Rows come in the order of their starts and end as they promise. So of a code only the end of its presence must be
    known: NEVER where there is none. Rows that touch leave no gap.

    The heap has `size` entries, one for each code that is present, and room for one more for each row. An entry may
    be too early. Returns how many changes there are, and the size of the heap.
    """
    count = 0
    for i in range(len(code) + 1):
        # One turn more than there are rows, for what ends after the last of them.
        upto = start[i] if i < len(code) else now
        while size > 0 and expiries.ends[0] < upto:
            at, c = expiries.ends[0], Unsigned(expiries.items[0])
            if until[c] > at:
                replace_first(expiries, size, until[c], expiries.items[0])
            else:
                pop(expiries, size)
                size -= 1
                until[c] = NEVER
                changed = Unsigned(count)
                changes.code[changed], changes.time[changed], changes.on[changed] = c, at, False
                count += 1
        if i == len(code):
            break
        row = Unsigned(i)
        c = Unsigned(code[row])
        if until[c] == NEVER:
            until[c] = end[row]
            push(expiries, size, end[row], code[row])
            size += 1
            changed = Unsigned(count)
            changes.code[changed], changes.time[changed], changes.on[changed] = c, start[row], True
            count += 1
        elif end[row] > until[c]:
            until[c] = end[row]
    return count, size


@loop
def left_stays(rows: LeftRows, changes: KeyChanges, stays: Stays, early_ends: EarlyEnds) -> tuple[int, int, int]:
    """What one step makes of rows of the left: the stretches of their lives in which the right has not their key.

    The changes of a key are in the order of time. What there was of an old row before the step was emitted then, as
    lasting until its promised end. Returns how many stays start, how many of those emitted earlier end early, and how
    many ends the right has brought.
    """
    count, ended, premature = 0, 0, 0
    for i in range(len(rows.start)):
        change, behind, present = rows.first_change[i], rows.behind_change[i], rows.was_present[i]
        start, end, was_emitted = rows.start[i], rows.end[i], rows.is_old[i]
        if not was_emitted:
            while change < behind and changes.time[Unsigned(change)] <= start:
                present = changes.on[Unsigned(change)]
                change += 1
        begin = max(start, rows.absent_since[i]) if was_emitted else start
        while change < behind and changes.time[Unsigned(change)] < end:
            at, present = changes.time[Unsigned(change)], changes.on[Unsigned(change)]
            if not present:
                begin, was_emitted = at, False
            elif was_emitted:
                ended = add_early_end(early_ends, ended, i, begin, at)
                premature += 1
            else:
                count = add_stay(stays, count, i, begin, at)
                premature += 1
            change += 1
        if present:
            continue
        if not was_emitted:
            count = add_stay(stays, count, i, begin, end)
        elif end < rows.promised[i]:
            ended = add_early_end(early_ends, ended, i, begin, end)
    return count, ended, premature
