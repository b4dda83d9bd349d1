"""What a stream hands on to relations, in the order of its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.instants import EVER_BEFORE, THE_END
from mullion.operators.network import Events
from mullion.runtime.intake import OVER
from mullion.slices.kernels.partial import TIME
from mullion.slices.order import Order, times_of
from mullion.storage.event_log import LoggedBatch
from mullion.storage.marks import Mark


@dataclass
class Incoming:
    """What one stream has handed on, and how far it is."""

    order: Order = field(default_factory=Order)
    taken: Mark | None = None
    """The newest batch that is in the order."""
    watermark: int | None = None
    oldest: int | None = None
    newest: int | None = None
    reached: int | None = None
    """The watermark before the end."""
    settled: int = 0
    """How many events have left the order: the number that the next one gets."""
    ended: list[pa.Table] = field(default_factory=list)
    """Keys that somebody said are over, until a step has gone past when they are."""

    def take(self, batch: LoggedBatch, since: int) -> None:
        """Take the events of a batch that no step has taken."""
        if self.taken is not None and batch.mark <= self.taken:
            return
        self.taken = batch.mark
        if OVER in batch.events.column_names:
            if batch.oldest >= since:
                self.ended.append(batch.events.drop_columns([OVER]))
            return
        self.newest = batch.newest if self.newest is None else max(self.newest, batch.newest)
        events = batch.events
        if since != EVER_BEFORE:
            events = events.filter(pc.greater_equal(events.column(TIME), since))
        if len(events):
            self.order.add(events)

    def reach(self, watermark: int | None, *, ended: bool) -> None:
        """All before the watermark is here, or all there ever is."""
        self.reached = watermark if watermark is not None else self.reached
        self.watermark = THE_END if ended else watermark

    def settle(self, now: int) -> Events | None:
        """The events before `now`, in their order, each with its number."""
        rows = self.order.settle(None if now == THE_END else now)
        over = [keys for keys in self.ended if times_of(keys)[0] < now]
        self.ended = [keys for keys in self.ended if times_of(keys)[0] >= now]
        ended = pa.concat_tables(over) if over else None
        if rows is None:
            nothing = np.zeros(0, np.int64)
            return None if ended is None else Events(pa.table({TIME: nothing}), nothing, nothing, ended)
        times, first = times_of(rows), self.settled
        self.settled += len(times)
        if self.oldest is None:
            self.oldest = int(times[0])
        return Events(rows, times, np.arange(first, self.settled), ended)

    def snapshot(self) -> dict[str, Any]:
        return {"oldest": self.oldest, "newest": self.newest, "settled": self.settled}
