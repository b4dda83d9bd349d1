"""What a stream hands on to relations, in the order of its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.algebra.lookups import READ
from mullion.instants import EVER_BEFORE, THE_END
from mullion.kernels.table_versions import oldest_batch, read_before
from mullion.operators.closed_keys import ClosedKeys
from mullion.operators.network import StepEvents
from mullion.runtime.intake import OVER
from mullion.runtime.past_read import PastRead
from mullion.slices.bounds import Stretch
from mullion.slices.kernels.events import TIME
from mullion.slices.order import ReorderBuffer, times_of
from mullion.storage.event_log import LoggedBatch
from mullion.storage.files import serialised
from mullion.storage.marks import Mark


@dataclass
class Incoming:
    """What one stream has handed on, and how far it is."""

    order: ReorderBuffer = field(default_factory=ReorderBuffer)
    taken: Mark | None = None
    """The newest batch that is in the order."""
    watermark: int | None = None
    oldest: int | None = None
    newest: int | None = None
    reached: int | None = None
    """The watermark before the end."""
    settled: int = 0
    """How many events of the stream were there before those in the order: the number that the next one gets."""
    replaced: PastRead | None = None
    """Events of earlier batches that are here in another form than the stream handed them on."""
    ended: list[tuple[int, pa.Table]] = field(default_factory=list)
    """Keys that are over, each with the time past which all is that came before their ends."""

    def add(self, batch: LoggedBatch, since: int) -> None:
        """Take the events of a batch that no step has taken."""
        if self.taken is not None and batch.mark <= self.taken:
            return
        self.taken = batch.mark
        if OVER in batch.events.column_names:
            if batch.oldest >= since:
                self.ended.append((batch.newest, batch.events.drop_columns([OVER])))
            return
        events = Stretch(None if since == EVER_BEFORE else since).of(batch.events)
        if self.replaced is not None and batch.mark.batch <= self.replaced.batch:
            events = self._as_wide(Stretch(high=self.replaced.since).of(events))
        self._put(events, batch.newest)

    def _as_wide(self, events: pa.Table) -> pa.Table:
        """Events before those that were replaced, with all columns of these: nobody needs them of the others."""
        waiting = self.order.waiting
        for column in () if waiting is None else waiting.schema:
            if column.name not in events.column_names:
                events = events.append_column(column, pa.nulls(len(events), column.type))
        return events

    def _put(self, events: pa.Table, newest: int) -> None:
        self.newest = newest if self.newest is None else max(self.newest, newest)
        if len(events):
            self.order.add(events)

    def replace(self, events: Sequence[pa.Table], past: PastRead, now: int) -> None:
        """Let events take the place of those that came with the batches of a past and lie in the same time."""
        self.replaced = past
        if self.order.waiting is not None:
            self.order = ReorderBuffer(Stretch(high=past.since).of(self.order.waiting))
        for some in events:
            self._put(Stretch(None if now == EVER_BEFORE else now).of(some), past.newest)

    def read_again(self, events: pa.Table) -> pa.Table:
        """Events that were read once more, with what was noted of those that wait."""
        waiting = self.order.waiting
        if waiting is None or not {READ} <= {*waiting.column_names} & {*events.column_names}:
            return events
        return read_before(events, times_of(events), waiting, times_of(waiting))

    @property
    def oldest_read(self) -> int | None:
        """The oldest batch of events that wait, where that is noted."""
        return oldest_batch(self.order.waiting)

    def waiting_between(self, low: int, high: int) -> pa.Table | None:
        """The events of a stretch of time that no step has taken."""
        return None if self.order.waiting is None else Stretch(low, high).of(self.order.waiting)

    def count(self, events: int) -> None:
        """The stream has taken so many events up to now: those that are not here have come before, whoever heard of
        them. All relations count rows as the stream does (decision 33)."""
        self.settled = events - (0 if self.order.waiting is None else len(self.order.waiting))

    def reach(self, watermark: int | None, *, ended: bool) -> None:
        """All before the watermark is here, or all there ever is."""
        self.reached = watermark if watermark is not None else self.reached
        self.watermark = THE_END if ended else watermark

    def settle(self, now: int) -> StepEvents | None:
        """The events before `now`, in their order, each with its number."""
        rows = self.order.settle(None if now == THE_END else now)
        if rows is None:
            return None
        times, first = times_of(rows), self.settled
        self.settled += len(times)
        if self.oldest is None:
            self.oldest = int(times[0])
        return StepEvents(rows, times, np.arange(first, self.settled))

    def with_ends(self, events: StepEvents | None, keys: ClosedKeys, now: int) -> StepEvents | None:
        """The events of a step, with the keys that are over once they are past. An event behind the end of its key that
        came before it counts (decision 39), so an end waits for all that has come and lies behind it."""
        if events is not None:
            ended, waiting = keys.ended(events.rows, events.times), self.order.waiting
            if waiting is not None and len(waiting) and len(ended):
                waits = keys.among(ended, waiting)
                self.ended.append((int(times_of(waiting).max()), ended.filter(pa.array(waits))))
                ended = ended.filter(pa.array(~waits))
            self.ended.append((now - 1, ended))
        over = [ended for time, ended in self.ended if time < now]
        self.ended = [(time, ended) for time, ended in self.ended if time >= now and len(ended)]
        if events is None and over:
            nothing = np.zeros(0, np.int64)
            events = StepEvents(pa.table({TIME: nothing}), nothing, nothing)
        return None if events is None else replace(events, ended=pa.concat_tables(over) if over else keys.none())

    def snapshot(self) -> dict[str, Any]:
        ended = [(time, serialised(keys).hex()) for time, keys in self.ended]
        return {"oldest": self.oldest, "newest": self.newest, "settled": self.settled, "ended": ended}

    @staticmethod
    def restored(snapshot: Mapping[str, Any]) -> Incoming:
        ended = [(time, pa.ipc.open_stream(bytes.fromhex(keys)).read_all()) for time, keys in snapshot.get("ended", ())]
        return Incoming(**{**snapshot, "ended": ended})
