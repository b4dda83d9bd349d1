"""The compiled loops of a predicate's own slices.

Events come in the order of time. Those that a predicate selects are told their row: one for each slice of the
predicate's own and group. Then each column is added up, row by row.

    events        0   1   2   3   4   5         groups 0..1
    selected      x   -   x   x   x   x
    group         0   0   1   0   1   1
    slice         [-- 0 --]   [----- 1 ----]
    row           0       1   2   3   3         rows of a slice are new: `row_of` a group is older than the slice or not

No state is kept for a group that has none: rows are as many as there are answers to keep, and all that is held beside
them is one number for each group.
"""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import loop


@loop
def select_events(bounds: Array, selected: Array, event: Array, upto: Array) -> int:
    """The events that are selected, and how many there are up to the end of each slice; there is room for one more."""
    count = 0
    for s in range(len(bounds) - 1):
        for i in range(Unsigned(bounds[s]), Unsigned(bounds[s + 1])):
            event[Unsigned(count)] = i
            count += selected[i]
        upto[s] = count
    return count


@loop
def rows_of_events(event: Array | None, upto: Array, groups: Array, row_of: Array, row: Array, group_of: Array) -> int:
    """The row of each event, and the group of each row; `upto` becomes the number of rows up to the end of each slice.

    `row_of` has a place for each group, -1 before the first call. `event` is None where all are selected.
    """
    rows, begin = 0, 0
    for s in range(len(upto)):
        first, end = rows, upto[s]
        for j in range(Unsigned(begin), Unsigned(end)):
            group = Unsigned(groups[j] if event is None else groups[Unsigned(event[j])])
            # Without branches: whether a group is new in its slice cannot be foreseen.
            known = row_of[group]
            is_new = known < first
            own = rows if is_new else known
            group_of[Unsigned(rows)] = group
            row_of[group] = own
            row[j] = own
            rows += is_new
        begin = end
        upto[s] = rows
    return rows


@loop
def count_events(row: Array, out: Array) -> None:
    """How many events each row has."""
    for j in range(len(row)):
        out[Unsigned(row[j])] += 1


@loop
def spread(values: Array, upto: Array, out: Array) -> None:
    """The value of each row's slice, given the number of rows up to the end of each. Other threads go on meanwhile, as
    they do not while numpy repeats."""
    begin = 0
    for s in range(len(upto)):
        for row in range(Unsigned(begin), Unsigned(upto[s])):
            out[row] = values[s]
        begin = upto[s]


@loop
def add_up(event: Array | None, row: Array, values: Array, out: Array) -> None:
    for j in range(len(row)):
        out[Unsigned(row[j])] += values[j] if event is None else values[Unsigned(event[j])]


@loop
def with_next(total: float, lost: float, value: float) -> tuple[float, float]:
    """A sum of doubles and what rounding took from it, with one more added (Neumaier)."""
    added = total + value
    if abs(total) >= abs(value):
        return added, lost + ((total - added) + value)
    return added, lost + ((value - added) + total)


@loop
def rounded(total: float, lost: float) -> float:
    """The double nearest to both. Where the sum is infinite or NaN, what is lost means nothing."""
    return total + lost if np.isfinite(lost) else total


@loop
def add_up_doubles(event: Array | None, row: Array, values: Array, out: Array) -> None:
    lost = np.zeros(len(out))
    for j in range(len(row)):
        at, value = Unsigned(row[j]), values[j] if event is None else values[Unsigned(event[j])]
        out[at], lost[at] = with_next(out[at], lost[at], value)
    for i in range(len(out)):
        out[i] = rounded(out[i], lost[i])


@loop
def keep_least(event: Array | None, row: Array, values: Array, out: Array) -> None:
    for j in range(len(row)):
        at = Unsigned(row[j])
        out[at] = min(out[at], values[j] if event is None else values[Unsigned(event[j])])


@loop
def keep_most(event: Array | None, row: Array, values: Array, out: Array) -> None:
    for j in range(len(row)):
        at = Unsigned(row[j])
        out[at] = max(out[at], values[j] if event is None else values[Unsigned(event[j])])


@loop
def add_up_slices(bounds: Array, selected: Array | None, values: Array, out: Array) -> None:
    """The sum of each slice, where there are no groups."""
    for s in range(len(bounds) - 1):
        total = out[s]
        for i in range(Unsigned(bounds[s]), Unsigned(bounds[s + 1])):
            if selected is None:
                total += values[i]
            else:
                total += values[i] if selected[i] else 0
        out[s] = total


@loop
def add_up_doubles_of_slices(bounds: Array, selected: Array | None, values: Array, out: Array) -> None:
    for s in range(len(bounds) - 1):
        total, lost = 0.0, 0.0
        for i in range(Unsigned(bounds[s]), Unsigned(bounds[s + 1])):
            if selected is None or selected[i]:
                total, lost = with_next(total, lost, values[i])
        out[s] = rounded(total, lost)


@loop
def least_of_slices(bounds: Array, selected: Array | None, values: Array, out: Array) -> None:
    for s in range(len(bounds) - 1):
        least = out[s]
        for i in range(Unsigned(bounds[s]), Unsigned(bounds[s + 1])):
            if selected is None:
                least = min(least, values[i])
            else:
                least = min(least, values[i] if selected[i] else least)
        out[s] = least


@loop
def most_of_slices(bounds: Array, selected: Array | None, values: Array, out: Array) -> None:
    for s in range(len(bounds) - 1):
        most = out[s]
        for i in range(Unsigned(bounds[s]), Unsigned(bounds[s + 1])):
            if selected is None:
                most = max(most, values[i])
            else:
                most = max(most, values[i] if selected[i] else most)
        out[s] = most


@loop
def gather(codes: Array, table: Array, low: int, out: Array) -> None:
    """What the table has for each code, whose first entry is that of `low`."""
    for i in range(len(codes)):
        out[i] = table[Unsigned(codes[i] - low)]


@loop
def gather_noting(codes: Array, table: Array, low: int, out: Array, present: Array) -> None:
    """The same, where the table has codes of another kind, and which of these occur."""
    for i in range(len(codes)):
        found = table[Unsigned(codes[i] - low)]
        out[i] = found
        present[Unsigned(found)] = True


@loop
def gather_more(codes: Array, table: Array, out: Array) -> None:
    """What the table has for each code is added."""
    for i in range(len(codes)):
        out[i] += table[Unsigned(codes[i])]


@loop
def gather_between(codes: Array, low: int, high: int, inside: int, out: Array) -> None:
    """Whether each code is from `low` to `high`, which are of its type, or is not: 1 or 0. Many are compared at once,
    as they are not where each is looked up."""
    for i in range(len(codes)):
        out[i] = ((codes[i] >= low) & (codes[i] <= high)) == inside


@loop
def note_within(numbers: Array, low: int, high: int, codes: Array, out: Array) -> None:
    """The first code for each number outside low .. high, and the second for others."""
    outside, inside = codes[0], codes[1]
    for i in range(len(numbers)):
        out[i] = inside if low <= numbers[i] <= high else outside


@loop
def note_present(codes: Array, present: Array) -> None:
    for i in range(len(codes)):
        present[Unsigned(codes[i])] = True


@loop
def number_pairs(a: Array, b: Array, width: int, number: Array, out: Array) -> int:
    """Numbers of pairs of codes, of which b's are below `width`, in the order in which they occur, and how many there
    are. `number` has a place for each pair that may occur, 0 before the call."""
    count = 0
    for i in range(len(a)):
        at = Unsigned(np.int64(a[i]) * width + b[i])
        if number[at] == 0:
            count += 1
            number[at] = count
        out[i] = number[at] - 1
    return count


@loop
def go_on_numbering(
    a: Array, of_a: Array, b: Array | None, of_b: Array, number: Array, count: int, first: Array, row: int, out: Array
) -> int:
    """The same for pairs of what two tables have for codes, or for those of one: goes on from so many pairs that were
    numbered before. `first` gets the row of each new one, given that of the first code."""
    for i in range(len(a)):
        at = np.int64(of_a[Unsigned(a[i])])
        if b is not None:
            at += of_b[Unsigned(b[i])]
        known = number[Unsigned(at)]
        if known == 0:
            first[Unsigned(count)] = row + i
            count += 1
            number[Unsigned(at)] = known = count
        out[i] = known - 1
    return count


@loop
def first_of_each(codes: Array, first: Array) -> None:
    """An event of each code."""
    for i in range(len(codes) - 1, -1, -1):
        first[Unsigned(codes[i])] = i
