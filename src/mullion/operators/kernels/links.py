"""Lists of the rows of each code, newest first: every row has a link to the one before it, -1 for none."""

from __future__ import annotations

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import loop


@loop
def link_all(first: int, size: int, code: Array, last: Array, link: Array) -> None:
    """Put rows first .. size on the lists; `last` has where the list of each code begins."""
    for row in range(first, size):
        c = Unsigned(code[Unsigned(row)])
        link[Unsigned(row)] = last[c]
        last[c] = row


@loop
def linked_rows(codes: Array, since: int, last: Array, link: Array, end: Array, out: Array) -> int:
    """The rows of some codes that end after `since`; returns how many. Those that have ended leave the list."""
    count = 0
    for code in codes:
        newer, row = -1, last[Unsigned(code)]
        while row >= 0:
            older = link[Unsigned(row)]
            if end[Unsigned(row)] > since:
                out[Unsigned(count)] = row
                count += 1
                newer = row
            elif newer < 0:
                last[Unsigned(code)] = older
            else:
                link[Unsigned(newer)] = older
            row = older
    return count
