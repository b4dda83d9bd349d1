"""Event times that look as if they had been read in another unit than they were written in.

Seconds since 1970 taken for microseconds lie in January 1970, and milliseconds taken for seconds in the far future. One
such event may be right; a batch of them is worth a word.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

YEAR = 31_556_952_000_000
EARLIEST = 31_536_000_000_000
"""1971-01-01."""
FAR = 10 * YEAR


def count_far(times: pa.ChunkedArray, limit: int) -> int:
    """How many of these event times lie more than ten years past the time that is allowed. Numbers have no clock."""
    if not pa.types.is_timestamp(times.type):
        return 0
    micros = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
    return int(pc.sum(pc.greater(micros, limit + FAR)).as_py() or 0)


def odd_times(name: str, events: int, newest: int | None, far: int) -> str | None:
    """What to say of a batch with so many events that count, the newest at this time, and so many more than ten years
    ahead of the clock.

    >>> print(odd_times("s", 5, 1_700_000_000, 0))
    event times of s lie before 1971: they look like seconds or milliseconds read as microseconds; TIMESTAMP BY \
timestamp_seconds(...) or timestamp_millis(...) says what they are
    """
    if newest is not None and events and newest < EARLIEST:
        lie, unit = "before 1971", "seconds or milliseconds read as microseconds"
    elif far > events:
        lie, unit = "more than ten years ahead of the clock", "milliseconds or microseconds read as seconds"
    else:
        return None
    hint = "TIMESTAMP BY timestamp_seconds(...) or timestamp_millis(...) says what they are"
    return f"event times of {name} lie {lie}: they look like {unit}; {hint}"
