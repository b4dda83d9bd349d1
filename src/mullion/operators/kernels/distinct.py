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

from typing import NamedTuple

from mullion.expressions.arrays import Array, Unsigned
from mullion.instants import FOREVER, NEVER
from mullion.loops import loop
from mullion.operators.kernels.expiry_heap import Heap, pop, push, replace_first
from mullion.operators.kernels.stays import Stays

SEEN = NEVER + 1
"""In the place of an end, for a moment: a code without a result that was met already."""


class CodedRows(NamedTuple):
    """Rows of the input, or of the result: the code of their values, their ids, their start and their end."""

    code: Array
    ids: Array
    start: Array
    end: Array


class Outlook(NamedTuple):
    """Of each code the end of its result, and the end and the ids of the youngest row that outlives the result. An end
    is NEVER where there is no such row."""

    result_end: Array
    youngest_end: Array
    youngest_ids: Array


class StoredRows(NamedTuple):
    """All rows of the input. `end`: what is known of their ends. `last`, `link`: lists by code (see `links`)."""

    code: Array
    start: Array
    end: Array
    last: Array
    link: Array


@loop
def delta_star(
    rows: CodedRows, now: int, outlook: Outlook, expiries: Heap, size: int, results: CodedRows, over: Array
) -> tuple[int, int, int]:
    """Results that start before `now`.

    The heap has `size` entries, one for each result that ends, and room for one more for each row. Returns how many
    results there are, how many codes are `over` because they have none at `now`, and the heap's size.
    """
    code, ids, start, end = rows
    result_end, youngest_end, youngest_ids = outlook
    count, ended = 0, 0
    for i in range(len(code) + 1):
        # One turn more than there are rows, for what ends after the last of them.
        upto = start[i] if i < len(code) else now - 1
        while size > 0 and expiries.ends[0] <= upto:
            at, item = expiries.ends[0], expiries.items[0]
            c, new = Unsigned(item), Unsigned(count)
            if youngest_end[c] > at:
                results.code[new], results.start[new], results.end[new] = item, at, youngest_end[c]
                _copy_ids(youngest_ids, c, results.ids, new)
                count += 1
                result_end[c] = youngest_end[c]
                replace_first(expiries, size, youngest_end[c], item)
            else:
                result_end[c] = NEVER
                pop(expiries, size)
                size -= 1
                over[Unsigned(ended)] = item
                ended += 1
            youngest_end[c] = NEVER
        if i == len(code):
            break
        row = Unsigned(i)
        c, new = Unsigned(code[row]), Unsigned(count)
        if result_end[c] == NEVER:
            results.code[new], results.start[new], results.end[new] = code[row], start[row], end[row]
            _copy_ids(ids, row, results.ids, new)
            count += 1
            result_end[c] = end[row]
            push(expiries, size, end[row], code[row])
            size += 1
        elif end[row] > result_end[c] and end[row] >= youngest_end[c]:
            youngest_end[c] = end[row]
            _copy_ids(ids, row, youngest_ids, c)
    return count, _without_result(over, ended, result_end), size


@loop
def _copy_ids(ids: Array, row: Unsigned, out: Array, at: Unsigned) -> None:
    for k in range(ids.shape[1]):
        out[at, Unsigned(k)] = ids[row, Unsigned(k)]


@loop
def _without_result(codes: Array, size: int, result_end: Array) -> int:
    """Leave, in front, each of the codes once that has no result any more. Returns how many they are."""
    kept = 0
    for i in range(size):
        if result_end[codes[i]] == NEVER:
            codes[kept] = codes[i]
            result_end[codes[kept]] = SEEN
            kept += 1
    for i in range(kept):
        result_end[codes[i]] = NEVER
    return kept


@loop
def _youngest(c: int, at: int, stored: StoredRows, linked: bool) -> int:
    """The stored row of a code that takes over at a time, -1 for none. It is searched for by the links, newest rows
    first, or by looking at all rows."""
    code, start, end, last, link = stored
    best = -1
    row = last[c] if linked else len(code) - 1
    while row >= 0:
        if code[row] == c and start[row] < at and end[row] > at and (best < 0 or end[row] > end[best]):
            best = row
            if linked and end[row] == FOREVER:
                break
        row = link[row] if linked else row - 1
    return best


@loop
def naive(
    fresh: Array,
    due: Array,
    now: int,
    stored: StoredRows,
    linked: bool,
    result_row: Array,
    promised: Array,
    results: Stays,
    retracted_row: Array,
    retracted_at: Array,
) -> tuple[int, int]:
    """The same results as `delta_star`, from all rows of the input. `fresh` are the new ones, `due` the codes whose
    result ends before `now`.

    State by code: the row of its result, -1 for none, and the end that it promised. Returns how many results start,
    and how many end before they promised.
    """
    start, end = stored.start, stored.end
    count, ended = 0, 0
    for i in range(len(fresh) + len(due)):
        row = fresh[i] if i < len(fresh) else -1
        c = stored.code[row] if row >= 0 else due[i - len(fresh)]
        upto = start[row] if row >= 0 else now - 1
        while result_row[c] >= 0 and end[result_row[c]] <= upto:
            at = end[result_row[c]]
            if at < promised[c]:
                retracted_row[ended], retracted_at[ended] = result_row[c], at
                ended += 1
            heir = _youngest(c, at, stored, linked)
            result_row[c] = heir
            if heir >= 0:
                promised[c] = end[heir]
                results.row[count], results.start[count], results.end[count] = heir, at, end[heir]
                count += 1
        if row >= 0 and result_row[c] < 0:
            result_row[c], promised[c] = row, end[row]
            results.row[count], results.start[count], results.end[count] = row, start[row], end[row]
            count += 1
    return count, ended


@loop
def crossings(code: Array, step: Array, count: Array, out: Array) -> int:
    """Which of some events, in the order of time, make a code's count leave zero or come back to it."""
    crossed = 0
    for i in range(len(code)):
        c = Unsigned(code[i])
        before = count[c]
        after = before + step[i]
        count[c] = after
        if before == 0 or after == 0:
            out[Unsigned(crossed)] = i
            crossed += 1
    return crossed
