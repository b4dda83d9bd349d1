"""Records that count in no answer: late, too far ahead of the clock, without a time, or after the end of their key.
They are counted and set aside."""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa

from mullion.expressions.vector import arrow_type, has_arrow_type
from mullion.runtime.batch import Batch, Outside
from mullion.runtime.stream_state import StreamState
from mullion.slices.bounds import Sifted, Stretch
from mullion.slices.odd_times import count_far, odd_times
from mullion.slices.tally import Tally
from mullion.storage.marks import Mark

log = logging.getLogger("mullion")

OUTSIDE = {"late", "ahead"}
"""What one look at all times of a batch tells."""


class SetAside:
    """What of one batch is set aside, each kind once however many meet it."""

    def __init__(self, state: StreamState, batch: Batch) -> None:
        self._state, self._batch, self._mark = state, batch, Mark(batch.number)
        self.bounds = Stretch(state.watermark, state.ahead.limit(batch.number, state.newest))
        """What the batch takes of its events."""
        self._far_ahead = 0
        """Events that are more than ten years ahead."""
        self._read: Outside | None = None
        self.some: set[str] = set()
        """The kinds of records that were set aside until now."""

    def note(self, *, late: bool, ahead: bool, rows: Sifted | None = None) -> None:
        """Some events are late, or ahead. They are taken from rows that were read, where these have all columns."""
        bounds = self.bounds
        late, ahead = late and "late" not in self.some, ahead and "ahead" not in self.some
        if not late and not ahead:
            return
        if ahead and bounds.high is not None:
            self._state.ahead.note(self._mark.batch, bounds.high, self._state.source.offsets_of(self._mark.batch))
        outside = self._outside(rows)
        if ahead and bounds.high is not None:
            records = self._records(bounds.ahead.of(outside))
            self._state.counts.ahead += len(records)
            self._far_ahead = count_far(records.column(self._state.stream.time_column), bounds.high)
            self._write("ahead", _with_time(records, "latest_allowed", bounds.high - 1))
        if late and bounds.low is not None:
            records = self._records(bounds.late.of(outside))
            self._state.counts.late += len(records)
            self._write("late", _with_time(records, "watermark", bounds.low))

    def broken(self, records: pa.Table) -> None:
        """Some events came after the end of their key."""
        self._state.counts.broken += len(records)
        self._write("broken", records)

    def _outside(self, rows: Sifted | None) -> pa.Table:
        """The events before and after the bounds, with all columns of the stream and their time."""
        if rows is not None and self._state.stream.types.keys() <= set(rows.late.schema.names):
            return pa.concat_tables([rows.late, rows.ahead])
        return self._outside_read.events

    @property
    def _outside_read(self) -> Outside:
        """All that is set aside by its time, from one read."""
        if self._read is None:
            self._read = self._batch.outside(self.bounds)
        return self._read

    def _records(self, events: pa.Table) -> pa.Table:
        """Events as they came, of the types that the stream declares."""
        columns = self._state.stream.shown
        schema = {name: arrow_type(t) if has_arrow_type(t) else events.schema.field(name).type for name, t in columns}
        return pa.table({name: events.column(name).cast(type_) for name, type_ in schema.items()})

    def malformed(self, number: int) -> None:
        """So many records have no time."""
        self._state.counts.malformed += number
        if number:
            self._write("malformed", self._outside_read.malformed)

    def _write(self, kind: str, rows: pa.Table) -> None:
        self.some.add(kind)
        self._state.sink.aside(kind, self._state.stream.name, self._mark, rows)

    def warn_of_odd_times(self, seen: Tally) -> None:
        """Once for each stream."""
        counts, stream = self._state.counts, self._state.stream
        warning = None if counts.odd_times else odd_times(stream.name, seen.events, seen.newest, self._far_ahead)
        if warning is not None:
            counts.odd_times = warning
            log.warning("%s", warning)


def _with_time(rows: pa.Table, name: str, time: int) -> pa.Table:
    return rows.append_column(name, pa.array(np.full(len(rows), time), pa.int64()).cast(pa.timestamp("us", "UTC")))
