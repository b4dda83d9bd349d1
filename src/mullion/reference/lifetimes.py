"""From when until when a window holds each event, by the window's definition.

| window | an event is there |
|---|---|
| RANGE r | from its time ts until ts + r |
| NOW | at ts alone, until ts + 1 |
| UNBOUNDED, FROM TIMESTAMP x | from ts on; with FROM only those from x on |
| ROWS n SLIDE m | the window moves at every m-th event. The event number j enters with the first such event that is not
  before it, and leaves with the first that has n events between: number j + n or later |
| PARTITION BY k ROWS n | as ROWS, counting events of the same k |

>>> lifetimes(Window(rows=2, slide_rows=1), [10, 20, 30])[:1]
[(10, 30)]
>>> lifetimes(Window(rows=2, slide_rows=2), [10, 20, 30, 40])[:2]
[(20, 40), (20, 40)]
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from mullion.errors import NotSupported
from mullion.instants import FOREVER
from mullion.language.query import Window

Lifetime = tuple[int, int]
NO_LIFETIME: Lifetime = (FOREVER, FOREVER)


def lifetimes(window: Window, times: Sequence[int], partitions: Sequence[Hashable] | None = None) -> list[Lifetime]:
    """Of each event, in the order of the events; times ascend. A lifetime that ends when it starts is none."""
    if window.attribute is not None:
        raise NotSupported("WATTR in a query over relations", window.place)
    if window.rows is not None:
        return _by_count(window.rows, window.slide_rows or 1, times, partitions or [()] * len(times))
    if window.slide_rows is not None:
        raise NotSupported("SLIDE n TUPLES in a query over relations", window.place)
    if window.since is not None:
        return [(time, FOREVER) if time >= window.since else NO_LIFETIME for time in times]
    if window.unbounded:
        return [(time, FOREVER) for time in times]
    length = 1 if window.now else window.range
    assert length is not None
    return [(time, time + length) for time in times]


def _by_count(rows: int, step: int, times: Sequence[int], partitions: Sequence[Hashable]) -> list[Lifetime]:
    def moved_at(number: int) -> int:
        """When the window first moves at or after the event of this number."""
        at = -(-number // step) * step
        return times[at - 1] if at <= len(times) else FOREVER

    spans = []
    for number, partition in enumerate(partitions, 1):
        later = [n for n, other in enumerate(partitions, 1) if n > number and other == partition]
        leaves = moved_at(later[rows - 1]) if len(later) >= rows else FOREVER
        spans.append((moved_at(number), leaves))
    return spans
