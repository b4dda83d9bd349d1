"""Windows over streams: from when until when each event is inside.

| window | an event lives |
|---|---|
| [RANGE r] | from its time ts until ts + r |
| [NOW] | from ts until ts + 1 |
| [RANGE UNBOUNDED], [FROM TIMESTAMP x] | from ts on |
| [ROWS n SLIDE m] | the j-th event: from event m * ceil(j / m) until event m * ceil((j + n) / m) |
| [PARTITION BY k ROWS n] | from ts until the n-th later event with the same k |

Windows of time know all ends when events come. Windows of rows learn them later: the event that pushes another one out
makes a negative tuple of it (golab 3.2.2). Where all rows are retracted (`nt`), windows of time do so too: they
promise nothing, remember which rows are inside, and announce every end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Scan
from mullion.expressions.arrays import Times
from mullion.expressions.coding.dictionary import codes_of, combine
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.kernels.table_versions import oldest_batch
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import computed
from mullion.operators.queue import Queue
from mullion.operators.registry import implements
from mullion.operators.timed_rows import Delta, Retractions, TimedRows
from mullion.operators.timed_tables import id_names
from mullion.options import Expiry


@implements(Scan)
def window_operator(node: Scan, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> Operator:
    """The window of a scan over its stream's events, which live forever."""
    (stream,) = inputs
    window = node.window
    if window.rows is None:
        return TimeWindow(node, stream, announces=construction.expiry is Expiry.NEGATIVE_TUPLES and not window.internal)
    if node.partition:
        return PartitionedWindow(node, stream)
    return RowWindow(node, stream)


class _Window(Operator):
    def __init__(self, node: Scan, stream: Operator) -> None:
        self.node = node
        self.schema, self.width = stream.schema, stream.width
        since = [time for time in (node.since, node.window.since) if time is not None]
        self.since = max(since, default=EVER_BEFORE)

    def _delta(self, timed: TimedRows, retracted: Retractions, now: int) -> Delta:
        """What an INTERNAL window lets go of stays in results."""
        lasting = timed.start < timed.end
        timed = timed if lasting.all() else timed.take(lasting)
        if not self.node.window.internal:
            return Delta(timed, retracted, now)
        forever = np.full(len(timed), FOREVER)
        return Delta(
            TimedRows(timed.rows, timed.ids, timed.start, forever, timed.end),
            Retractions.none(self.width),
            now,
            retracted,
        )

    def _events(self, inputs: Sequence[Delta]) -> TimedRows:
        """The new events, without those that came before the window was there."""
        events = inputs[0].fresh
        if self.since > EVER_BEFORE and len(events) and events.start[0] < self.since:
            return events.take(np.arange(np.searchsorted(events.start, self.since), len(events)))
        return events


class TimeWindow(_Window):
    """Events that leave a fixed time after they came."""

    def __init__(self, node: Scan, stream: Operator, *, announces: bool) -> None:
        super().__init__(node, stream)
        window = node.window
        self.length = FOREVER if window.is_endless else 1 if window.now else window.range
        assert self.length is not None
        self.inside = Queue(self.width) if announces and self.length < FOREVER else None

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        events = self._events(inputs)
        assert self.length is not None
        end = np.full(len(events), FOREVER) if self.length >= FOREVER else events.start + self.length
        if self.inside is None:
            return self._delta(TimedRows(events.rows, events.ids, events.start, end), Retractions.none(self.width), now)
        retracted = Retractions(*self.inside.pop(now - 1))
        stay = end >= now
        self.inside.append(events.ids[stay], end[stay])
        return Delta(TimedRows(events.rows, events.ids, events.start, np.where(stay, FOREVER, end)), retracted, now)

    def structures(self) -> dict[str, str]:
        return {} if self.inside is None else {"window": self.inside.kept_in}

    @property
    def rows_held(self) -> int:
        return 0 if self.inside is None else len(self.inside)

    def parts(self) -> Parts:
        return {} if self.inside is None else self.inside.parts()

    def restore(self, parts: Parts) -> None:
        if self.inside is not None and parts:
            self.inside.restore(parts)


class RowWindow(_Window):
    """The last n events, looked at after every m-th. Events that came since the last look wait for the next.

    Events are counted as the stream counts them: an event's id is how many came before it.
    """

    def __init__(self, node: Scan, stream: Operator) -> None:
        super().__init__(node, stream)
        assert node.window.rows is not None
        self.rows, self.slide = node.window.rows, node.window.slide_rows or 1
        self.count: int | None = None
        """How many events of the stream have come; not known before the first."""
        self.waiting = TimedRows.empty(self.schema, self.width)
        self.inside = Queue(self.width)

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        events = self._events(inputs)
        if not len(events):
            return Delta(events, Retractions.none(self.width), now)
        count = int(events.ids[0, 0]) if self.count is None else self.count
        self.count = count + len(events)
        looks = self._looks(events, count)
        leaving, numbers = self.inside.pop(looks.last * self.slide - self.rows)
        retracted = Retractions(leaving, looks.at(self._leaves(numbers)))
        waiting = TimedRows.concat([self.waiting, events]) if len(self.waiting) else events
        numbers = np.arange(self.count - len(waiting), self.count) + 1
        entered = int(np.searchsorted(numbers, looks.last * self.slide, "right"))
        entering, numbers = waiting.take(np.arange(entered)), numbers[:entered]
        self.waiting = waiting.take(np.arange(entered, len(waiting)))
        self.oldest_read = oldest_batch(self.waiting.rows)
        start, end = looks.at(-(-numbers // self.slide)), looks.at(self._leaves(numbers))
        self.inside.append(entering.ids[end == FOREVER], numbers[end == FOREVER])
        fresh = TimedRows(entering.rows, entering.ids, start, end)
        return self._delta(fresh, retracted, now)

    def _looks(self, events: TimedRows, count: int) -> _Looks:
        """The looks that these events bring: events number m, 2 m, 3 m, ..."""
        first, last = count // self.slide + 1, (count + len(events)) // self.slide
        return _Looks(first, last, events.start[np.arange(first, last + 1) * self.slide - count - 1])

    def _leaves(self, numbers: Times) -> Times:
        """The look after which an event is no longer inside."""
        return -(-(numbers + self.rows) // self.slide)

    def structures(self) -> dict[str, str]:
        waiting = {"waiting": "rows until the slide"} if self.slide > 1 else {}
        return {"window": self.inside.kept_in, **waiting}

    @property
    def rows_held(self) -> int:
        return len(self.inside) + len(self.waiting)

    def parts(self) -> Parts:
        waiting = self.waiting.rows.append_column("#start", pa.array(self.waiting.start))
        for name, ids in zip(id_names(self.width), self.waiting.ids.T, strict=True):
            waiting = waiting.append_column(name, pa.array(ids))
        return {**self.inside.parts(), "waiting": [waiting], "count": [pa.table({"count": [self.count]})]}

    def restore(self, parts: Parts) -> None:
        if parts:
            self.inside.restore(parts)
            self.count = parts["count"][0]["count"][0].as_py()
            saved = parts["waiting"][0]
            rows = with_columns(saved, self.schema)
            ids = np.column_stack([saved[name].to_numpy() for name in id_names(self.width)])
            start = saved["#start"].to_numpy()
            self.waiting = TimedRows(rows, ids, start, np.full(len(start), FOREVER))
            self.oldest_read = oldest_batch(self.waiting.rows)


class _Looks:
    """When the window was looked at: look number `first` and those after it."""

    def __init__(self, first: int, last: int, times: Times) -> None:
        self.first, self.last, self.times = first, last, times

    def at(self, looks: Times) -> Times:
        """The times of looks; FOREVER for those that are yet to come."""
        known = np.append(self.times, FOREVER)
        return known[np.minimum(looks - self.first, len(self.times))]


class PartitionedWindow(_Window):
    """The last n events of each partition."""

    def __init__(self, node: Scan, stream: Operator) -> None:
        super().__init__(node, stream)
        assert node.window.rows is not None
        self.rows = node.window.rows
        names = [f"#k{i}" for i in range(len(node.partition))]
        self.names = [*names, *id_names(self.width)]
        self.inside: pa.Table | None = None
        """The keys and ids of the events inside, in the order in which they came."""

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        events = self._events(inputs)
        if not len(events):
            return Delta(events, Retractions.none(self.width), now)
        coming = self._keyed(events)
        both = coming if self.inside is None else pa.concat_tables([self.inside, coming])
        before = len(both) - len(events)
        keys = [codes_of(both[name]) for name in self.names[: -self.width]]
        codes, _ = combine(keys, len(both))
        order = np.argsort(codes, kind="stable")
        in_order = codes[order]
        ends = np.full(len(both), FOREVER)
        pushed = np.flatnonzero(in_order[self.rows :] == in_order[: -self.rows or None])
        ends[order[pushed]] = events.start[order[pushed + self.rows] - before]
        left = np.flatnonzero(ends[:before] < FOREVER)
        ids = np.column_stack([both[name].to_numpy() for name in id_names(self.width)])
        self.inside = both.take(pa.array(np.flatnonzero(ends == FOREVER)))
        fresh = TimedRows(events.rows, events.ids, events.start, ends[before:])
        return self._delta(fresh, Retractions(ids[left], ends[left]), now)

    def _keyed(self, events: TimedRows) -> pa.Table:
        keys = [computed(key, events, self.node.types) for key in self.node.partition]
        return pa.table([*keys, *events.ids.T], names=self.names)

    def structures(self) -> dict[str, str]:
        return {"window": "list of ids and partitions"}

    @property
    def rows_held(self) -> int:
        return 0 if self.inside is None else len(self.inside)

    def parts(self) -> Parts:
        return {} if self.inside is None else {"inside": [self.inside]}

    def restore(self, parts: Parts) -> None:
        for table in parts.get("inside", ()):
            self.inside = table


def with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """These columns of a table; NULL where it has none, since no plan needed them when it was written."""
    columns = [
        table.column(field.name) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
