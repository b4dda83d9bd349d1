"""Lists of the rows of each code, newest first: every row has a link to the one before it, -1 for none."""

from __future__ import annotations

from numba import njit

from mullion.expressions.arrays import Array


@njit(cache=True, nogil=True)
def link_all(first: int, size: int, code: Array, last: Array, link: Array) -> None:
    """Put rows first .. size on the lists; `last` has where the list of each code begins."""
    for row in range(first, size):
        c = code[row]
        link[row] = last[c]
        last[c] = row


@njit(cache=True, nogil=True)
def linked_rows(codes: Array, since: int, last: Array, link: Array, end: Array, out: Array) -> int:
    """The rows of some codes that end after `since`; returns how many. Those that have ended leave the list."""
    count = 0
    for c in codes:
        newer, row = -1, last[c]
        while row >= 0:
            if end[row] > since:
                out[count] = row
                count += 1
                newer = row
            elif newer < 0:
                last[c] = link[row]
            else:
                link[newer] = link[row]
            row = link[row]
    return count
