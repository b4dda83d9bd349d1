"""All that a stream's run knows between two batches. The steps of a batch read it and change it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.catalog.summaries import StreamStructure
from mullion.kernels.table_versions import oldest_batch
from mullion.memory import Memory
from mullion.options import Options
from mullion.planner.observed import NOTHING_SEEN, Observed
from mullion.planner.query_set import QuerySet
from mullion.planner.statistics import Statistics
from mullion.runtime.ahead import Ahead
from mullion.runtime.batch import BatchSource
from mullion.runtime.batch_input import BatchInput, Notes
from mullion.runtime.counts import StreamCounts
from mullion.runtime.holding import Holding
from mullion.runtime.kept_events import Keeper
from mullion.runtime.lookup_tables import NO_TABLES, LookupTables, RunTables
from mullion.runtime.ordered import Ordered
from mullion.runtime.overload import Overload, PlayedBatch
from mullion.runtime.published import Published
from mullion.runtime.punctuations import Punctuations
from mullion.runtime.run_state import RunState
from mullion.runtime.scheduling import Scheduling
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.sink import Sink
from mullion.runtime.state_memory import StateMemory
from mullion.runtime.view import View
from mullion.storage.event_log import EventLog
from mullion.storage.journal import Journal, Standings
from mullion.storage.marks import Mark
from mullion.storage.scratch import Scratch


class StreamState(RunState):
    has_scheduled_relations: bool = False
    """Whether relations over the stream have SLIDE AT MOST."""
    probing: tuple[str, ...] = ()
    """The queries whose joins may leave out probes with its events."""

    texts_counted: Mapping[str, str] = MappingProxyType({})
    """Of all queries over the stream that were there last, by name, those of relations too."""

    tables_of_relations: tuple[str, ...] = ()
    """The tables that relations look its events up in, as these are read."""

    clusters: int = 0
    """How many sharing sets were made after the first."""
    began: float | None = None
    """When the batch at work began, by the clock that measures it."""
    played: PlayedBatch | None = None
    """The last batch, until the monitor has heard of it."""
    begun: bool = False
    """A batch has begun, or a checkpoint was taken up: a query that comes from now on may have missed events."""
    statistics: Statistics | None = None
    is_misjudged: bool = False
    """Whether the last batch was far from what its plan expected."""
    """What was known of the last batch that was looked at before it was read."""
    heartbeat: int | None = None
    """Nothing before this time comes any more: somebody said so, or the clock of an idle stream."""
    is_behind: bool = False
    """A heartbeat is committed, and what it made due is not."""

    counts: StreamCounts

    def __init__(
        self,
        stream: Stream,
        sink: Sink,
        options: Options,
        source: BatchSource,
        *,
        journal: Journal | None = None,
        static: bool = False,
        tables: RunTables = NO_TABLES,
        relations_stand: Callable[[], Standings] = dict,
        clock: Callable[[], float] = time.time,
        memory: Callable[[], Memory] | None = None,
        summary_share: Callable[[], int | None] = lambda: None,
        published: Published | None = None,
        relations_read: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`static`: all events are one batch, which the end follows. `relations_stand` tells how far those over the
        stream are, `relations_read` the oldest batch with events that these have yet to look up, `summary_share` the
        bytes for a summary without MEMORY."""
        super().__init__(stream.name, sink, options, journal=journal, tables=tables, published=published)
        self.stream, self.source, self.static, self.lookups = stream, source, static, LookupTables(tables)
        self.memory = memory or (lambda: Memory.divided(options.memory_limit))
        self.relations_stand, self.relations_read = relations_stand, relations_read
        self.relations_stood: Standings = {}
        """Where relations stood at the last commit, at the least: what they had taken may be gone here."""
        self.rows_of_static: list[int | None] | None = None
        """What a static stream held when it was read."""
        self.bounded = False
        """The source is read to its end, and no answer is awaited before that."""
        self.is_restored = False
        """The state is that of a commit, and no queries have been set since."""
        self.restored_order: tuple[Mapping[str, Any], list[tuple[str, pa.Table]]] = {}, []
        self.counts = StreamCounts()
        self.oldest: int | None = None
        self.newest: int | None = None
        self.newest_since = 0
        """The first batch that held an event of the newest time."""
        self.holding = Holding()
        self.sets: dict[str, SharingSet] = {}
        self.ordered = Ordered(stream, summary_share)
        self.scheduling = Scheduling()
        self.queries = QuerySet()
        self.synopses: tuple[StreamStructure, ...] = ()
        self.keeper: Keeper | None = None
        self.wanted: frozenset[str] | None = None
        """The columns that relations want of the events; None while no relation reads the stream."""
        self.relations: dict[str, str] = {}
        """The texts of the queries that they answer, by name."""
        self.intake: EventLog | None = None
        self.view: View | None = None
        """What the last commit left, for questions: replaced as a whole, when it is published."""
        self.notes: Notes | None = None
        """Where the source notes how far it has read, if it does."""
        self.inputs: list[BatchInput] = []
        """What the last batches held, the newest last."""
        self.time_of_day = clock
        self.ahead = Ahead(stream, clock, None if journal is None else journal.files)
        self.backfilled: set[str] = set()
        """The queries with BACKFILL whose past is here."""

    def has_played(self, number: int) -> bool:
        """Whether the batch was committed, and is given once more."""
        return self.committed is not None and Mark(number) <= self.committed and bool(self.counts.batches)

    @property
    def needs_rows(self) -> bool:
        """Whether the events themselves are needed: for questions, relations, their order or the ends of keys."""
        is_kept = self.stream.keep is not None or self.stream.keep_rows is not None
        return is_kept or self.wanted is not None or bool(self.ordered) or self.punctuations is not None

    @property
    def oldest_read(self) -> int | None:
        handed = None
        if self.intake is not None and self.tables_of_relations and self.intake.batches:
            handed = self.intake.batches[0].mark.batch
        known = (oldest_batch(self.ordered.order.waiting), handed, self.relations_read())
        return min((batch for batch in known if batch is not None), default=None)

    @cached_property
    def state_memory(self) -> StateMemory:
        return StateMemory(self.memory, Scratch())

    def make_room(self) -> None:
        """Let what does not fit into memory go to disk."""
        self.state_memory.make_room([*self.sets.values(), *self.ordered.sets.values()], self.ordered.order)

    @cached_property
    def punctuations(self) -> Punctuations | None:
        """What the stream has said of its keys, if it says when they are over."""
        if self.stream.punctuation is None:
            return None
        return Punctuations(self.stream, None if self.journal is None else self.journal.files)

    @cached_property
    def overload(self) -> Overload:
        """Whether the run is behind, and what it does about that."""
        return Overload(self.stream, self.options, self.source, None if self.journal is None else self.journal.files)

    @property
    def watermark(self) -> int | None:
        """Nothing before it is taken any more: by the newest event, or by a heartbeat that is further."""
        by_events = None if self.newest is None else self.newest - self.stream.lateness
        marks = [mark for mark in (by_events, self.heartbeat) if mark is not None]
        return self.holding.bounded(max(marks)) if marks else None

    @property
    def closed(self) -> bool:
        """The end of the input was the end of the stream: everything is answered, and nothing may come after it."""
        return self.committed is not None and self.committed.end

    @property
    def reads_files(self) -> bool:
        """Whether the kernel may read the last batch's files itself."""
        return any(sharing_set.plan is not None and sharing_set.plan.files for sharing_set in self.sets.values())

    @property
    def observed(self) -> Observed:
        """What the last batch showed."""
        return next((sharing_set.seen for sharing_set in self.sets.values()), NOTHING_SEEN)

    def order_holds(self, time: int) -> bool:
        """Whether events that wait for their place may be replaced by what is read of the stream from a time on: nobody
        counts rows without these, and Spark has made nothing of them."""
        if self.is_restored:
            return self.ordered.restored_holds(*self.restored_order, time)
        return self.ordered.holds(time)

    def newest_on(self, column: str) -> int | None:
        """The newest value of a column that windows go over, now or when the run was left."""
        newest = self.ordered.newest_on(column)
        if newest is None and self.is_restored:
            newest = self.ordered.restored_newest(self.restored_order[0], column)
        return newest
