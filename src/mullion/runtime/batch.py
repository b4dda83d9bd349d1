"""What a run asks of a batch of events and of the source that the batches come from. Spark implements it, and so do
tests in memory.

Each method of a batch is one pass over its events, or less. A run makes as few calls as it can: one `read` for all that
needs rows, and one `partials` for all plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.errors import MullionError
from mullion.kernels.arrival import FileOrder
from mullion.kernels.lookup import Prepared
from mullion.kernels.thinning import Thinning
from mullion.language.query import Period
from mullion.planner.plan import Grouping, Pass, Plan
from mullion.planner.statistics import Statistics
from mullion.runtime.monitor import SourceLag
from mullion.runtime.sharding import Shards, ShardTask
from mullion.slices.bounds import Stretch
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.layout import partial_schema
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.shed_tally import ShedEvents
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import Tally
from mullion.storage.marks import Mark

BatchTables = tuple[Prepared, ...]
"""The tables that events are looked up in, as a batch finds them."""

ByGrouping = list[list[pa.Table]]
"""The tables of partials of each grouping of a plan."""


class Portion(NamedTuple):
    """The partials of some events, one table for each grouping."""

    taken: list[pa.Table]
    late: list[pa.Table]
    """Of the events before the bounds; no tables when there are none."""
    ahead: bool
    """Whether there are events after the bounds."""


class Collected(NamedTuple):
    """The partials of a batch for one plan."""

    taken: ByGrouping
    late: ByGrouping
    ahead: bool


class Outside(NamedTuple):
    """The records of a batch that count in no answer."""

    events: pa.Table
    """Before or after the bounds: the stream's columns, and the time as `#t`."""
    malformed: pa.Table
    """Without a time: where they are from, what they hold, and why they have none."""


class Timed(NamedTuple):
    """What the times of a batch are."""

    taken: Tally
    """How many events lie within the bounds, from when to when, and how many records have no time."""
    late: bool
    ahead: bool


class Batch(Protocol):
    """The events of a stream that came together, in the order of arrival."""

    @property
    def number(self) -> int: ...

    @property
    def size(self) -> int | None:
        """How many records it holds, where that is known without a pass."""

    def thinned(self, thinning: Thinning) -> Batch:
        """The batch of a stream that may shed, as far as its events are kept."""

    def shed(self, bounds: Stretch, windows: Sequence[Period]) -> ShedEvents:
        """Of a batch that was thinned, the events within the bounds that are not kept, in the slices of windows."""

    def worths(self, most: int) -> npt.NDArray[np.float64]:
        """What SHED BY says of about so many of its events, taken from all over it where that can be had."""

    def reads_files(self, groupings: Sequence[Grouping]) -> bool:
        """Whether the kernel may read all that these groupings need from the batch's files by itself."""

    def read(self, inputs: Input, texts: Collection[str] = ()) -> pa.Table:
        """The columns of the input and the time as `#t`, in the order of arrival. `texts` may come as dictionaries."""

    def partials(self, together: Pass, tables: BatchTables, bounds: Stretch) -> list[Collected]:
        """The partials of each plan of the pass, made where the plans say."""

    def partials_within(self, plan: Plan, tables: BatchTables, stretch: Stretch) -> ByGrouping:
        """The partials of the events of a stretch of time."""

    def to_shards(
        self, shards: Shards, plan: Plan, grouping: Grouping, tables: BatchTables, stretch: Stretch, mark: Mark
    ) -> Tally:
        """Write the partials of a grouping as those of a mark, each where its group is kept."""

    def groups(self, plan: Plan, grouping: Grouping, tables: BatchTables, most: int) -> int:
        """How many groups the first `most` events have."""

    def open_ahead(self) -> None:
        """Begin to find out what the batch is, beside other work."""

    def read_ahead(self, groupings: Sequence[Grouping]) -> None:
        """Begin to read what the partials of these groupings will need, if that can be done beside other work."""

    def statistics(self, groupings: Sequence[Grouping], tables: BatchTables = ()) -> Statistics:
        """What can be known of the batch before it is read, for all queries of the groupings: from its files without
        reading much of them, from the first events of other sources. Groupings that look up tables need these."""

    def times(self, bounds: Stretch) -> Timed:
        """What is known of the events by their times alone."""

    def outside(self, bounds: Stretch) -> Outside:
        """The records that lie before or after the bounds, or nowhere."""


class BatchSource(Protocol):
    """Where the batches of a stream come from, and what runs the work of shards."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What reading may raise that is no fault of ours; asked for when something was raised."""

    def offsets_of(self, batch: int) -> Sequence[int]:
        """The offsets of the source that a batch took; none where the source has no such notes."""

    def still_to_come(self, batch: int) -> int | None:
        """When the oldest event lies that the source knows to come after a batch; None when it knows of none."""

    def ends_with(self, batch: int) -> bool:
        """Whether it is known that a batch is the last one, and that the end of the stream follows it."""

    def waiting(self, batch: int) -> SourceLag | None:
        """What waits after a batch, and what the batch took; None where the source does not tell."""

    def amount(self, batch: int) -> float | None:
        """How much a batch holds, counted as `waiting` does; None where the source does not tell."""

    @property
    def tasks(self) -> int:
        """How many tasks of shards run beside each other."""

    @property
    def can_enlarge(self) -> bool:
        """Whether batches are smaller than memory allows, because the user chose so."""

    def cannot_read_again(self) -> str | None:
        """Why the events of earlier batches cannot be read again; None when they can."""

    def past(self, batch: int, *, apart: bool, first: int = 0) -> Iterable[tuple[int, Batch]]:
        """All events up to a batch, once more, with their offset: those of each offset apart, or all together. Nobody
        needs those of batches before the `first`."""

    def adopt(self, shards: Shards, entry: PartialSubWindows, grouping: Grouping, name: str) -> Mapping[int, str]:
        """Write sub-windows of the driver into the shards of their groups: the files by shard."""

    def run_shards(self, count: int, task: ShardTask) -> Iterable[Any]:
        """What a task returns for each shard."""


def reading_failures(source: BatchSource) -> tuple[type[Exception], ...]:
    """What the past of a query may fail with, while others go on; to be asked when something was raised."""
    return *source.failures, MullionError, OSError


def partials_of(events: pa.Table, job: Job, bounds: Stretch) -> Portion:
    """The partials of some events, by what the bounds make of them, from one look at their times."""
    extremes = pc.min_max(events.column(TIME)).as_py()
    late, ahead = bounds.is_passed_by(extremes["min"], extremes["max"])
    if not late and not ahead:
        return Portion(partials(events, job), [], ahead=False)
    before = partials(bounds.late.of(events), job) if late else []
    return Portion(partials(bounds.of(events), job), before, ahead)


def collected(portions: Sequence[Portion], together: Pass) -> list[Collected]:
    """The partials of a batch that came in portions, for each plan."""
    ahead = any(portion.ahead for portion in portions)
    taken = by_grouping([portion.taken for portion in portions], together)
    missed = [portion.late for portion in portions if portion.late]
    if not missed:
        return [Collected(own, [], ahead) for own in together.by_plan(taken)]
    late = by_grouping(missed, together)
    both = zip(together.by_plan(taken), together.by_plan(late), strict=True)
    return [Collected(own, before, ahead) for own, before in both]


def by_grouping(portions: Sequence[Sequence[pa.Table]], together: Pass) -> ByGrouping:
    """The tables of each grouping of the pass."""
    grouped = []
    for g, (grouping, method) in enumerate(zip(together.groupings, together.methods, strict=True)):
        grouped.append(_alike([tables[g] for tables in portions], partial_schema(grouping, method)))
    return grouped


def job_of(together: Pass, inputs: Input, tables: BatchTables, batch: int, files: FileOrder | None = None) -> Job:
    """What the kernel is to make of a batch's events."""
    slim = tuple(g.for_workers(method) for g, method in zip(together.groupings, together.methods, strict=True))
    return Job(slim, together.methods, together.windows, inputs, together.slicing, tables, batch, files)


def _alike(tables: Sequence[pa.Table], schema: pa.Schema) -> list[pa.Table]:
    """The tables of each layout together; at least one, perhaps empty."""
    by_layout: dict[pa.Schema, list[pa.Table]] = {}
    for table in tables:
        by_layout.setdefault(table.schema, []).append(table)
    return [pa.concat_tables(alike) for alike in by_layout.values()] or [schema.empty_table()]
