"""When a sub-window becomes one with the one before it.

    [ 20 ] [ 7 ] [ 2 ]  + [ 1 ]      2 <= 2 * 1: one of 3;  7 > 2 * 3: that stays
    [ 20 ] [ 7 ] [ 3 ]

Every sub-window has more than GROWTH times the rows of the next, so n rows stand in at most log2(n) + 1 of them. With
each merge the sub-window that a row is in grows by half or more, unless the row is new, so a row is copied at most
log1.5(n) times. GROWTH is a balance of both: with 1 there would be more sub-windows to look into, with 4 each row would
be copied more often for the same few.

Rows that are seldom looked for need not be in so few: up to `most` rows a sub-window, they are copied less.
"""

from __future__ import annotations

import sys

GROWTH = 2
SMALL = 4096
"""Up to so many rows, it costs less to look into one sub-window than into two, whatever was copied for it. This is for
rows that are probed at every step."""
FRACTION = 4
"""Sub-windows of rows that are seldom looked for are merged up to this fraction of all rows. With 16 rows were copied
less, but where old rows come back there were so many sub-windows to look into that NOT EXISTS took 8 % longer."""


def is_merged(last: int, fresh: int, *, small: int = 0, most: int = sys.maxsize) -> bool:
    """Whether a sub-window of `fresh` rows is merged with the one of `last` rows before it. Together they may always
    have up to `small` rows, and never more than `most`.

    >>> is_merged(2, 1), is_merged(3, 1), is_merged(3, 1, small=4), is_merged(2, 1, most=2)
    (True, False, True, False)
    """
    return last <= max(GROWTH * fresh, small - fresh) and last + fresh <= most


def most_merged(rows: int) -> int:
    """Up to how many rows sub-windows are merged where rows are seldom looked for, of which there are so many.

    >>> most_merged(1000), most_merged(160_000)
    (4096, 40000)
    """
    return max(SMALL, rows // FRACTION)
