"""Finds the events of ended keys in one pass over a batch.

    arrival   1        2         3         4            an event of a key, [closed] or not, with its time
              10     [12]        11        13           13 comes after the end of its key and lies behind it: broken
                                                        11 came later but lies before it: it counts

Requires: rows grouped by key, within a key in the order of arrival.
Time: linear, except for keys that end again and again within one batch.
"""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Array
from mullion.instants import FOREVER
from mullion.loops import loop


@loop
def mark_broken(order: Array, first: Array, times: Array, closes: Array, span: int, broken: Array) -> None:
    """Mark events that lie in [t, t + span) of an event t that closed their key before they came. `broken` tells those
    that are known to be; an event that is closes nothing. `first` is where each key begins in `order`."""
    ends = np.empty(len(order), np.int64)
    for key in range(len(first) - 1):
        known = 0
        for i in range(first[key], first[key + 1]):
            row = order[i]
            time = times[row]
            if not broken[row]:
                for k in range(known):
                    if ends[k] <= time and time - ends[k] < span:
                        broken[row] = True
                        break
            if closes[row] and not broken[row]:
                if span >= FOREVER:  # what lies behind an earlier end is behind this one too
                    ends[0], known = time, 1
                else:
                    ends[known] = time
                    known += 1
