"""The loops of negation: when keys are covered by the right, and what that leaves of the rows of the left.

right rows    |----|        |--|
                 |-----|
coverage      |--------|    |--|
left row           |------------------|
left of it             |----|  |------|
"""

from __future__ import annotations

from numba import njit

from mullion.expressions.arrays import Array
from mullion.instants import NEVER
from mullion.operators.kernels.expiry_heap import pop, push


@njit(cache=True, nogil=True)
def coverage(
    code: Array,
    start: Array,
    end: Array,
    now: int,
    until: Array,
    agenda_ends: Array,
    agenda_codes: Array,
    agenda_size: int,
    out_code: Array,
    out_time: Array,
    out_on: Array,
) -> tuple[int, int]:
    """When codes become covered, and when they no longer are, before `now`. Rows come in the order of their starts and
    end as they promise, so of a code only the end of its coverage must be known: NEVER where there is none.

    The agenda has one entry for each code that is covered, and room for one more for each row; an entry may be too
    early. Rows that touch leave no gap. Returns how many changes there are, and the size of the agenda.
    """
    found, size = 0, agenda_size
    for i in range(len(code) + 1):
        # One turn more than there are rows, for what ends after the last of them.
        upto = start[i] if i < len(code) else now
        while size > 0 and agenda_ends[0] < upto:
            at, c = agenda_ends[0], agenda_codes[0]
            pop(agenda_ends, agenda_codes, size)
            size -= 1
            if until[c] > at:
                push(agenda_ends, agenda_codes, size, until[c], c)
                size += 1
            else:
                until[c] = NEVER
                out_code[found], out_time[found], out_on[found] = c, at, False
                found += 1
        if i == len(code):
            break
        c = code[i]
        if until[c] == NEVER:
            until[c] = end[i]
            push(agenda_ends, agenda_codes, size, end[i], c)
            size += 1
            out_code[found], out_time[found], out_on[found] = c, start[i], True
            found += 1
        elif end[i] > until[c]:
            until[c] = end[i]
    return found, size


@njit(cache=True, nogil=True)
def uncovered(
    start: Array,
    promised: Array,
    end: Array,
    is_old: Array,
    was_covered: Array,
    since: Array,
    first: Array,
    behind: Array,
    time: Array,
    on: Array,
    out_row: Array,
    out_start: Array,
    out_end: Array,
    gone_row: Array,
    gone_start: Array,
    gone_at: Array,
) -> tuple[int, int, int]:
    """What one step makes of rows of the left.

    Changes first[i] .. behind[i] are those of row i's key, in the order of time; before them the key was covered or
    not, and not since `since`. A row that `is_old` started before the step, and what was there of it then was told
    then, as lasting until `promised`. Returns how many pieces start, how many of those told earlier end early, and how
    many ends the right has brought.
    """
    found, ended, premature = 0, 0, 0
    for i in range(len(start)):
        change, covered = first[i], was_covered[i]
        if not is_old[i]:
            while change < behind[i] and time[change] <= start[i]:
                covered = on[change]
                change += 1
        told = is_old[i]
        begin = max(start[i], since[i]) if told else start[i]
        while change < behind[i] and time[change] < end[i]:
            at = time[change]
            if not on[change]:
                begin, told = at, False
            elif told:
                gone_row[ended], gone_start[ended], gone_at[ended] = i, begin, at
                ended += 1
                premature += 1
            else:
                out_row[found], out_start[found], out_end[found] = i, begin, at
                found += 1
                premature += 1
            covered = on[change]
            change += 1
        if covered:
            continue
        if not told:
            out_row[found], out_start[found], out_end[found] = i, begin, end[i]
            found += 1
        elif end[i] < promised[i]:
            gone_row[ended], gone_start[ended], gone_at[ended] = i, begin, end[i]
            ended += 1
    return found, ended, premature


__all__ = ["coverage", "uncovered"]
