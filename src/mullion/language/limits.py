"""How far times, durations and numbers of events may go, so that no sum of them leaves 64 bits.

    0001-01-01 .. 9999-12-31         event times, START AT, STOP AT, landmarks      within 2^58 microseconds of 1970
    10,000 years                     RANGE, SLIDE, OFFSET, LATENESS, KEEP ...       below 2^59
    2^59 either way                  values of a WATTR column, and its RANGE ...

A window's bounds thus lie within 2^60, before the sentinels that stand for the beginning (`instants.ORIGIN`,
-2^60) and for no end at all (`instants.FOREVER`, 2^62), and so do up to six windows over windows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mullion.language.dialect import DAY

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_TIME = -62_135_596_800_000_000
"""The first microsecond of the year 1."""
LAST_TIME = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""
LONGEST = 3_652_500 * DAY
"""10,000 years of 365.25 days."""
FURTHEST = 1 << 59
"""The largest number of a window over a column of whole numbers, and the largest value of the column, either way."""
MOST_ROWS = 1_000_000_000
"""Events of a window that counts them, and between its answers."""
DEEPEST = 6 * FURTHEST
"""How far all windows of a query may reach back together, where they stand over each other."""


def moment(microseconds: int) -> datetime:
    """The time as Python has it; what lies outside its years is the first or the last there is.

    >>> moment(LAST_TIME + 1).year, moment(-1).year
    (9999, 1969)
    """
    return EPOCH + timedelta(microseconds=min(max(microseconds, FIRST_TIME), LAST_TIME))
