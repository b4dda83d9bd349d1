"""Numbers that stand in the place of an instant or a duration, and mean something else, such as no bound.

Real times and windows stay within 2^60 microseconds of 1970 (`language.limits`), so none of these is a real time, and
sums of two of them stay within 64 bits.
"""

from __future__ import annotations

FOREVER = 1 << 62
"""An end: of a row that is not known to end."""
THE_END = FOREVER - 1
"""A `now`: after every event and every end that is known. No more input comes."""
EVER_BEFORE = -FOREVER
"""A `now`: before every event. Nothing has come yet."""
NEVER = -FOREVER
"""An instant of something that is not: since when a row is in a result that does not hold it, or until when."""
ORIGIN = -(1 << 60)
"""A start, on any axis: of windows that reach back to the first event. It is before all events."""
EVERYTHING = 1 << 61
"""A range: of a window that reaches back to the first event."""
NO_START = -(1 << 63)
"""A start that is shown: of a window that has none. It is shown as NULL."""
