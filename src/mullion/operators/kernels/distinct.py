"""The loops of DISTINCT, over the rows of one step in the order of their starts, ties by id.

    rows of one value     |---a---|
                             |---b---|
                               |-----c-----|
    delta*                |---a---|---c----|      b is not needed: c is younger when a ends

A result lives the life of one row. When it ends, the youngest row that is there takes over: the one with the latest
end, of those the one that came last. So only the result's end and the youngest row that outlives it must be known
(golab 3.5.2). Rows that start when a result ends are too late to take over from it.
"""

from __future__ import annotations

from numba import njit

from mullion.expressions.arrays import Array
from mullion.instants import FOREVER, NEVER
from mullion.operators.kernels.expiry_heap import pop, push


@njit(cache=True, nogil=True)
def delta_star(
    code: Array,
    ids: Array,
    start: Array,
    end: Array,
    now: int,
    result_end: Array,
    youngest_end: Array,
    youngest_ids: Array,
    agenda_ends: Array,
    agenda_codes: Array,
    agenda_size: int,
    out_code: Array,
    out_ids: Array,
    out_start: Array,
    out_end: Array,
    over: Array,
) -> tuple[int, int, int]:
    """Results that start before `now`. State by code: the end of its result and of its youngest row that outlives that,
    NEVER where there is none. The agenda has an entry for each result that ends, and room for one more for each row.

    Returns how many results there are, how many codes are `over` because nobody took over, and the agenda's size.
    """
    found, ended, size = 0, 0, agenda_size
    for i in range(len(code) + 1):
        # One turn more than there are rows, for what ends after the last of them.
        upto = start[i] if i < len(code) else now - 1
        while size > 0 and agenda_ends[0] <= upto:
            at, c = agenda_ends[0], agenda_codes[0]
            pop(agenda_ends, agenda_codes, size)
            size -= 1
            result_end[c] = NEVER
            if youngest_end[c] > at:
                out_code[found], out_start[found], out_end[found] = c, at, youngest_end[c]
                out_ids[found] = youngest_ids[c]
                found += 1
                result_end[c] = youngest_end[c]
                push(agenda_ends, agenda_codes, size, youngest_end[c], c)
                size += 1
            else:
                over[ended] = c
                ended += 1
            youngest_end[c] = NEVER
        if i == len(code):
            break
        c = code[i]
        if result_end[c] == NEVER:
            out_code[found], out_start[found], out_end[found] = c, start[i], end[i]
            out_ids[found] = ids[i]
            found += 1
            result_end[c] = end[i]
            push(agenda_ends, agenda_codes, size, end[i], c)
            size += 1
        elif end[i] > result_end[c] and end[i] >= youngest_end[c]:
            youngest_end[c] = end[i]
            youngest_ids[c] = ids[i]
    return found, ended, size


@njit(cache=True, nogil=True)
def _youngest(c: int, at: int, own: Array, start: Array, end: Array, last: Array, link: Array, linked: bool) -> int:
    """The stored row of a code that takes over at a time, -1 for none. Found by the links, newest rows first, or by
    looking at all rows."""
    best = -1
    row = last[c] if linked else len(own) - 1
    while row >= 0:
        if own[row] == c and start[row] < at and end[row] > at and (best < 0 or end[row] > end[best]):
            best = row
            if linked and end[row] == FOREVER:
                break
        row = link[row] if linked else row - 1
    return best


@njit(cache=True, nogil=True)
def naive(
    fresh: Array,
    due: Array,
    now: int,
    own: Array,
    start: Array,
    end: Array,
    last: Array,
    link: Array,
    linked: bool,
    result_row: Array,
    promised: Array,
    out_row: Array,
    out_start: Array,
    out_end: Array,
    gone_row: Array,
    gone_at: Array,
) -> tuple[int, int]:
    """The same results as `delta_star` from all rows of the input, which are stored: `own` has their codes, and `end`
    what is known of their ends. `fresh` are the new ones, `due` the codes whose result ends before `now`.

    State by code: the row of its result, -1 for none, and the end that it promised. Returns how many results start,
    and how many end before they promised.
    """
    found, ended = 0, 0
    for i in range(len(fresh) + len(due)):
        row = fresh[i] if i < len(fresh) else -1
        c = own[row] if row >= 0 else due[i - len(fresh)]
        upto = start[row] if row >= 0 else now - 1
        while result_row[c] >= 0 and end[result_row[c]] <= upto:
            at = end[result_row[c]]
            if at < promised[c]:
                gone_row[ended], gone_at[ended] = result_row[c], at
                ended += 1
            heir = _youngest(c, at, own, start, end, last, link, linked)
            result_row[c] = heir
            if heir >= 0:
                promised[c] = end[heir]
                out_row[found], out_start[found], out_end[found] = heir, at, end[heir]
                found += 1
        if row >= 0 and result_row[c] < 0:
            result_row[c], promised[c] = row, end[row]
            out_row[found], out_start[found], out_end[found] = row, start[row], end[row]
            found += 1
    return found, ended


@njit(cache=True, nogil=True)
def crossings(code: Array, step: Array, count: Array, out: Array) -> int:
    """Which of some events, in the order of time, make a code's count leave zero or come back to it."""
    found = 0
    for i in range(len(code)):
        c = code[i]
        before = count[c]
        count[c] = before + step[i]
        if before == 0 or count[c] == 0:
            out[found] = i
            found += 1
    return found


__all__ = ["crossings", "delta_star", "naive"]
