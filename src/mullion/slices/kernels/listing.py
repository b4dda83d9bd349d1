"""The loops that list the values of windows in their order."""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import loop


@loop
def layers_of(order: Array, low: Array, high: Array, layer: Array) -> int:
    """A layer for each range, so that those of one layer lie apart; they are taken in the `order` of where they begin.
    Returns how many layers there are."""
    ends = np.zeros(len(order), np.int64)
    used = 0
    for at in range(len(order)):
        w = Unsigned(order[at])
        own = 0
        while own < used and ends[Unsigned(own)] > low[w]:
            own += 1
        used = max(used, own + 1)
        ends[Unsigned(own)] = high[w]
        layer[w] = own
    return used


@loop
def mark_rows(windows: Array, low: Array, high: Array, window_of: Array) -> None:
    """Write down for each row in which of these windows it lies; they lie apart."""
    for at in range(len(windows)):
        w = Unsigned(windows[at])
        for i in range(low[w], high[w]):
            window_of[Unsigned(i)] = w


@loop
def list_rows(
    rows: Array, code: Array, count: Array, window_of: Array, first: Array, size: Array, codes: Array, counts: Array
) -> None:
    """Append each row's code to the list of its window, that of window w from `first[w]` on. Rows come in the order of
    their codes, so that one which is there already is the last one of the list."""
    for at in range(len(rows)):
        i = Unsigned(rows[at])
        w = window_of[i]
        if w < 0:
            continue
        w = Unsigned(w)
        free = Unsigned(first[w] + size[w])
        if size[w] and codes[free - Unsigned(1)] == code[i]:
            counts[free - Unsigned(1)] += count[i]
        else:
            codes[free], counts[free] = code[i], count[i]
            size[w] += 1
