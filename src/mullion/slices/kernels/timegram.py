"""The loops of a timegram: the newest row of each bucket answers max and min, sums before each block the rest.

`newest[b]` is the newest row with a value in bucket b, 0 where there was none. Values stand in their order at
values[0:]; before the first of every BLOCK values `sums` and `counts` hold what all values before it come to.
"""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Array
from mullion.loops import loop

SPECIAL = 3
"""Buckets beside those of finite values: the first holds -infinity, the last but one +infinity, the last NaN."""
BLOCK = 8
"""Rows from one kept sum to the next: half of them are added for the start of a window."""
KNOWN, BELOW, ABOVE, NAN = 0, 1, 2, 3
"""Of `counts`: values, -infinity, +infinity and NaN."""
LARGE, SMALLER = 2.0**900, 2.0**-100
"""Beyond LARGE values are added by SMALLER, so that their sum does not overflow before it must."""
FINE = 1e-12
"""Roundings of less than this share of a sum are no reason to go over its values again."""


@loop
def first_above(rows: Array, number: int, row: int) -> int:
    """Where in rows[:number], which do not decrease, the first above `row` stands."""
    low, high = 0, number
    while low < high:
        middle = (low + high) >> 1
        if rows[middle] <= row:
            low = middle + 1
        else:
            high = middle
    return low


@loop
def extent(values: Array, known: Array) -> tuple[float, float]:
    """The least and the largest finite value."""
    least, most = np.inf, -np.inf
    for i in range(len(values)):
        if known[i] and np.isfinite(values[i]):
            least, most = min(least, values[i]), max(most, values[i])
    return least, most


@loop
def place(values: Array, known: Array, row: int, ends: Array, resting: Array, newest: Array, beyond: Array) -> None:
    """Rows after `row` go to their buckets. A value beyond the first or the last one moves its end outwards; `beyond`
    counts those on both sides that are outside of where the ends rest. Equal buckets are found at once."""
    last = len(ends) - 1
    span = resting[last] - resting[0]
    each = last / span if 0.0 < span < LARGE and last / span < LARGE else 0.0
    for i in range(len(values)):
        value = values[i]
        if not known[i]:
            continue
        if value != value:
            bucket = last + 2
        elif np.isinf(value):
            bucket = last + 1 if value > 0.0 else 0
        else:
            bucket = int(min(max((value - resting[0]) * each, 0.0), last - 1.0)) + 1 if each > 0.0 else 1
            if not ends[bucket - 1] <= value < ends[bucket]:
                low, high = 1, last
                while low < high:
                    middle = (low + high) >> 1
                    if ends[middle] <= value:
                        low = middle + 1
                    else:
                        high = middle
                bucket = low
            if value < resting[0]:
                ends[0] = min(ends[0], value)
                beyond[0] += 1
            elif value > resting[last]:
                ends[last] = max(ends[last], value)
                beyond[1] += 1
        newest[bucket] = row + i + 1


@loop
def extremes(
    windows: Array, row: int, of_largest: bool, ends: Array, newest: Array, bounds: Array, valid: Array
) -> None:
    """Bounds of the max or min of each window that ends with `row`: the ends of the outermost bucket that it reaches.

    Buckets are looked at from the outermost inwards, as far as the largest window needs.
    """
    buckets = len(newest)
    reach = np.empty(buckets, np.int64)
    reached, seen = 0, 0
    for i in range(len(windows)):
        before = max(row - windows[i], 0)
        while seen < buckets and reached <= before:
            reached = max(reached, newest[buckets - 1 - seen if of_largest else seen])
            reach[seen] = reached
            seen += 1
        at = first_above(reach, seen, before)
        valid[i] = at < seen
        bucket = buckets - 1 - at if of_largest else at
        if not valid[i] or bucket == buckets - 1:
            bounds[0, i] = bounds[1, i] = np.nan
        elif bucket == 0 or bucket == buckets - 2:
            bounds[0, i] = bounds[1, i] = -np.inf if bucket == 0 else np.inf
        else:
            bounds[0, i], bounds[1, i] = ends[bucket - 1], ends[bucket]


@loop
def place_and_answer(
    values: Array,
    known: Array,
    row: int,
    ends: Array,
    resting: Array,
    newest: Array,
    beyond: Array,
    windows: Array,
    at: Array,
    of_largest: bool,
    bounds: Array,
    valid: Array,
) -> None:
    """Rows after `row` go to their buckets, and window i is asked after row at[i]; `at` does not decrease."""
    done, i = 0, 0
    while i < len(windows):
        j = i
        while j < len(windows) and at[j] == at[i]:
            j += 1
        upto = at[i] - row
        place(values[done:upto], known[done:upto], row + done, ends, resting, newest, beyond)
        extremes(windows[i:j], at[i], of_largest, ends, newest, bounds[:, i:j], valid[i:j])
        done, i = upto, j
    place(values[done:], known[done:], row + done, ends, resting, newest, beyond)


@loop
def _plus(total: float, rest: float, slack: float, term: float) -> tuple[float, float, float]:
    """Knuth's exact addition, twice: what even the rest loses is added to the slack."""
    result = total + term
    back = result - total
    lost = (total - (result - back)) + (term - back)
    kept = rest + lost
    back = kept - rest
    return result, kept, slack + abs((rest - (kept - back)) + (lost - back))


@loop
def _add(
    values: Array, known: Array, first: int, last: int, total: float, rest: float, slack: float, kinds: Array
) -> tuple[float, float, float]:
    """Add values[first:last] to a sum and to the counts of the kinds of values."""
    for i in range(first, last):
        if known[i]:
            value = values[i]
            kinds[KNOWN] += 1
            if np.isfinite(value):
                total, rest, slack = _plus(total, rest, slack, value)
            else:
                kinds[NAN if value != value else ABOVE if value > 0.0 else BELOW] += 1
    return total, rest, slack


@loop
def add_up(
    values: Array, known: Array, first: int, last: int, sums: Array, counts: Array, all_sums: Array, own: Array
) -> None:
    """Continue the sums before blocks with values[first:last]; `all_sums` and `own` are what all values come to."""
    total, rest, slack = all_sums
    while first < last:
        if first % BLOCK == 0:
            block = first // BLOCK
            sums[block, 0], sums[block, 1], sums[block, 2] = total, rest, slack
            counts[block] = own
        stop = min(last, (first // BLOCK + 1) * BLOCK)
        total, rest, slack = _add(values, known, first, stop, total, rest, slack, own)
        first = stop
    all_sums[0], all_sums[1], all_sums[2] = total, rest, slack


@loop
def totals(
    values: Array, known: Array, sums: Array, counts: Array, starts: Array, stops: Array, bounds: Array, own: Array
) -> None:
    """How many values stand in values[start:stop], and between which bounds their sum lies. What all values before a
    stop come to is found once for windows that end together."""
    kinds, upto = np.zeros(4, np.int64), np.zeros(4, np.int64)
    before, all_total, all_rest, all_slack = -1, 0.0, 0.0, 0.0
    for i in range(len(starts)):
        start, stop = starts[i], stops[i]
        if stop != before and stop > 0:
            block = (stop - 1) // BLOCK
            upto[:] = counts[block]
            all_total, all_rest, all_slack = _add(
                values, known, block * BLOCK, stop, sums[block, 0], sums[block, 1], sums[block, 2], upto
            )
            before = stop
        head = (start + BLOCK - 1) // BLOCK
        if head * BLOCK < stop:
            total, rest, slack = _plus(all_total, all_rest, 0.0, -sums[head, 0])
            total, rest, slack = _plus(total, rest, slack, -sums[head, 1])
            if all_slack > 0.0:
                slack += all_slack - sums[head, 2] + all_slack * FINE
            for kind in range(4):
                kinds[kind] = upto[kind] - counts[head, kind]
            total, rest, slack = _add(values, known, start, head * BLOCK, total, rest, slack, kinds)
        else:
            kinds[:] = 0
            total, rest, slack = _add(values, known, start, stop, 0.0, 0.0, 0.0, kinds)
        own[i] = kinds[KNOWN]
        if kinds[NAN] or (kinds[BELOW] and kinds[ABOVE]):
            bounds[0, i] = bounds[1, i] = np.nan
        elif kinds[BELOW] or kinds[ABOVE]:
            bounds[0, i] = bounds[1, i] = np.inf if kinds[ABOVE] else -np.inf
        else:
            scale = 1.0
            if not slack <= FINE * abs(total + rest):
                total, rest, slack, scale = _from_values(values, known, start, stop)
            bounds[0, i] = _not_above(total, rest, slack, scale)
            bounds[1, i] = -_not_above(-total, -rest, slack, scale)


@loop
def _from_values(values: Array, known: Array, start: int, stop: int) -> tuple[float, float, float, float]:
    """The sum of finite values by themselves, whatever came before them, and what it must be multiplied with."""
    least, most = extent(values[start:stop], known[start:stop])
    factor = SMALLER if max(-least, most) > LARGE else 1.0
    total, rest, slack = 0.0, 0.0, 0.0
    for j in range(start, stop):
        if known[j]:
            total, rest, slack = _plus(total, rest, slack, values[j] * factor)
    if factor != 1.0:
        slack += (stop - start) * 5e-324
    return total, rest, slack, 1.0 / factor


@loop
def _not_above(total: float, rest: float, slack: float, scale: float) -> float:
    """The largest double at hand that is not above the exact sum; the slack itself was rounded."""
    result = total + rest
    back = result - total
    lost = (total - (result - back)) + (rest - back)
    if slack > 0.0:
        result = np.nextafter(np.nextafter(result, -np.inf) - slack * 1.000001, -np.inf)
    elif lost < 0.0:
        result = np.nextafter(result, -np.inf)
    scaled = result * scale
    return float(min(scaled, np.finfo(np.float64).max))
