"""An engine whose batches come from lists and whose kernels run here: the course of a batch without a JVM.

Reading, late records and the partials' Spark job are replaced; everything else, from the journal to the answers, is the
engine's own. Expressions that only Spark evaluates are not for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.expressions.vector import Vector
from mullion.kernels.arrival import ARRIVAL
from mullion.planner.plan import Grouping
from mullion.slices.kernels.partial import TIME, Input, Job, partials
from mullion.slices.tally import tally
from mullion.spark.pipeline import Events
from mullion.spark.sharing_set import Found, SharingSet
from mullion.spark.stream import StreamRun
from mullion.storage.marks import Mark

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Batch:
    """Stands for a DataFrame of a batch."""

    stream: Stream
    rows: Rows
    sparkSession: Any = None

    def table(self) -> pa.Table:
        """The events in the order of arrival, with their time as `t`."""
        columns = {n: Vector.of(t, [e[n] for e in self.rows]).to_arrow() for n, t in self.stream.columns}
        times = pa.array([e[self.stream.time_column] for e in self.rows], pa.int64())
        return pa.table({TIME: times, **columns})


def _table(events: Events) -> pa.Table:
    batch: Any = events.batch
    return events.within.of(batch.table())


class LocalRun(StreamRun):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ordered.read = self._in_order  # type: ignore[method-assign]

    def _in_order(self, events: Events) -> pa.Table:
        self.ordered.look_up(events.tables)
        return _table(events).select([TIME, *self.ordered._input.columns])

    def _events(self, batch: Any, number: int) -> Events:
        return Events(batch, self.stream, number=number)

    def _read(self, events: Events, names: Sequence[str], paths: list[str] | None) -> pa.Table:
        return _table(events).select([TIME, *names])

    def _records(self, events: Events) -> pa.Table:
        return _table(events)

    def _count_late(self, one: SharingSet, late: Events, mark: Mark) -> None:
        """Nobody asks here who missed what."""

    def _collect(self, one: SharingSet, events: Events, mark: Mark, paths: list[str] | None) -> list[Found]:
        assert one.plan is not None
        plan, table = one.plan, _table(events)
        arrived = table.append_column(ARRIVAL, pa.array(np.arange(len(table))))
        tables = self._look_up(plan.groupings, mark)
        job = Job(plan.groupings, plan.methods, plan.windows, Input(self.stream.types), plan.slicing, tables)
        made: list[tuple[Grouping, pa.Table]] = list(zip(plan.groupings, partials(arrived, job), strict=True))
        return [(grouping, [table], tally(table, grouping)) for grouping, table in made]


class LocalEngine(Engine):
    """Its streams read nothing: batches are delivered."""

    def _relations_stay_up_to(self) -> int:
        return 1 << 60

    def _run_of(self, name: str) -> StreamRun:
        run = super()._run_of(name)
        run.log = None
        return run

    def _start_feed(self, run: StreamRun, *, close: bool, every: int) -> None:
        """Nothing is read."""

    def deliver(self, stream: str, rows: Rows, number: int) -> None:
        self._process(stream, Batch(self.catalog.streams[stream], rows), number)  # type: ignore[arg-type]

    def end(self, stream: str) -> None:
        """The input has ended."""
        self._own_session.current = self._own_session.current or object()  # type: ignore[assignment]
        self._finish(stream, close=True)
        self._own_session.current = None


@contextmanager
def local_engine(script: str, **options: Any) -> Iterator[LocalEngine]:
    """An engine with a script's streams, queries and synopses."""
    with patch("mullion.engine.StreamRun", LocalRun), LocalEngine(**options) as engine:
        engine.execute(script)
        engine.start()
        yield engine
