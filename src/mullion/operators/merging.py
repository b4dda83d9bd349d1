"""When a sub-window becomes one with the one before it.

    [ 20 ] [ 7 ] [ 2 ]  + [ 1 ]      2 <= 2 * 1: one of 3;  7 > 2 * 3: that stays
    [ 20 ] [ 7 ] [ 3 ]

Every sub-window has more than GROWTH times the rows of the next, so n rows stand in at most log2(n) + 1 of them. With
each merge the sub-window that a row is in grows by half or more, unless the row is new, so a row is copied at most
log1.5(n) times. GROWTH is a balance of both: with 1 there would be more sub-windows to look into, with 4 each row would
be copied more often for the same few.
"""

from __future__ import annotations

GROWTH = 2
SMALL = 4096
"""Up to so many rows, it costs less to look into one sub-window than into two, whatever was copied for it. This is for
rows that are probed at every step."""


def is_merged(last: int, fresh: int, *, small: int = 0) -> bool:
    """Whether a sub-window of `fresh` rows is merged with the one of `last` rows before it. Together they may always
    have up to `small` rows.

    >>> is_merged(2, 1), is_merged(3, 1), is_merged(3, 1, small=4)
    (True, False, True)
    """
    return last <= max(GROWTH * fresh, small - fresh)
