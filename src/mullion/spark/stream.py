"""One stream at work: batches in, answers out, exactly once.

    batch k --late? malformed?--> aside
            --partials--> window tiers --due?--> answers --> sink, under mark k
            --then one commit, under mark k: sub-windows, cursors, counts

The order is the guarantee: what a commit stands on is written before it, and a batch whose commit is there is not
played again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mullion.algebra.lookups import Lookup
from mullion.algebra.sliced import SlicedAggregation, entering_at
from mullion.algebra.streams import Stream
from mullion.catalog.closing import more_after_the_end, other_rows
from mullion.catalog.restart import to_journal
from mullion.catalog.synopses import Synopsis
from mullion.errors import CheckpointError, MullionError
from mullion.expressions.evaluate import is_kernel_only
from mullion.expressions.vector import has_arrow_type
from mullion.instants import EVERYTHING
from mullion.kernels.arrival import FileOrder
from mullion.kernels.lookup import Prepared, prepare
from mullion.language.query import TIME_AXIS, Axis
from mullion.options import Options, Way
from mullion.planner.cost import NOTHING_SEEN, Observed
from mullion.planner.plan import Grouping, Plan
from mullion.planner.rules import make_plan, reconsider
from mullion.runtime.ahead import Ahead
from mullion.runtime.counts import Counts, add_counts
from mullion.runtime.intake import new_intake
from mullion.runtime.kept_events import Keeper
from mullion.runtime.relation_shards import SHARDS
from mullion.runtime.sink import Sink
from mullion.slices.answered import count_rows, still_counted
from mullion.slices.axis import axis_name
from mullion.slices.bounds import Sifted, Stretch, sift
from mullion.slices.column_synopses import Fed
from mullion.slices.coverage import Coverage
from mullion.slices.due import Cursor, Due, Runs, first_end, shown, slices_within
from mullion.slices.finalize import Answers, Work
from mullion.slices.limits import Limits
from mullion.slices.odd_times import count_far, odd_times
from mullion.slices.portions import Portions
from mullion.slices.subwindow import SubWindows
from mullion.slices.tally import Tally, late_for, tally
from mullion.slices.tier import check_complete, is_endless
from mullion.spark.aside import behind, beyond, malformed_records, records
from mullion.spark.asking import Sharing, View
from mullion.spark.backfill import Backfill, Past, SideJobs
from mullion.spark.expressions import identifier
from mullion.spark.files import by_change, can_tell_time, files_of, pieces_of, read, uris_of
from mullion.spark.options import reads_alike
from mullion.spark.ordered import Ordered, restored_synopses
from mullion.spark.pipeline import (
    TIME,
    Events,
    collect_partials,
    columns_of,
    groups_in_files,
    groups_in_sample,
    kernel_columns,
    partials_frame,
    table_columns,
)
from mullion.spark.progress import RECORDED, Input, Progress
from mullion.spark.shards import Shards, arranged_across
from mullion.spark.sharing_set import Found, SharingSet, observed
from mullion.spark.source_log import SourceLog
from mullion.spark.sources import SOURCE, as_declared, look_for_columns, tells_files, with_source
from mullion.spark.unseen import Unseen
from mullion.storage.event_log import EventLog
from mullion.storage.fault_points import fault_point
from mullion.storage.files import REPAIR, CommittedFiles
from mullion.storage.journal import Commit, Journal, Standings
from mullion.storage.marks import Mark
from mullion.storage.scratch import Scratch

log = logging.getLogger("mullion")


def no_table(name: str, batch: int) -> pa.Table:
    raise AssertionError(f"no table '{name}'")


class StreamRun:
    def __init__(
        self,
        stream: Stream,
        sink: Sink,
        options: Options,
        *,
        journal: Journal | None = None,
        plain: bool = False,
        static: bool = False,
        table: Callable[[str, int], pa.Table] = no_table,
        table_files: Callable[[], Sequence[str]] = tuple,
        relations_stand: Callable[[], Standings] = dict,
        has_changed: Callable[[str], bool] = lambda name: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`plain`: the stream reads files and does nothing else to them. `static`: all its events are one batch, which
        the end follows. `table` gives a table's rows as a batch sees them, `table_files` the files in which they are
        kept, `relations_stand` how far those over the stream are."""
        self._table, self._table_files, self._has_changed = table, table_files, has_changed
        self._relations_stand = relations_stand
        self.relations_stood: Standings = {}
        """Where relations stood at the last commit, at the least: what they had taken may be gone here."""
        self._prepared: dict[Lookup, tuple[pa.Table, frozenset[str], Prepared]] = {}
        self.stream, self.sink, self.options, self.journal, self.plain = stream, sink, options, journal, plain
        self.static = static
        self._rows: list[int | None] | None = None
        """What a static DataFrame held when it was read."""
        self.bounded = False
        """The source is read to its end, and nobody waits for an answer before that."""
        self._restored = False
        self._restored_order: tuple[dict[str, Any], list[tuple[str, pa.Table]]] = {}, []
        self._unseen = Unseen(stream.stored, strict=options.strict)
        self.counts = Counts()
        self.limits = Limits(options.most_answers)
        self.oldest: int | None = None
        self.newest: int | None = None
        self.sets: dict[str, SharingSet] = {}
        self.ordered = Ordered(stream)
        self.queries: tuple[SlicedAggregation, ...] = ()
        self.synopses: tuple[Synopsis, ...] = ()
        self.keeper: Keeper | None = None
        self.wanted: frozenset[str] | None = None
        """The columns that relations want of the events; None while no relation reads the stream."""
        self.relations: tuple[str, ...] = ()
        """The names of the queries that they answer."""
        self.intake: EventLog | None = None
        self.view: View | None = None
        """What the last commit left, for questions: replaced as a whole."""
        self.committed: Mark | None = None
        self.begun = False
        """A batch has begun; who joins from now on may have missed events."""
        self.progress: Progress | None = None
        """Where Spark notes how far it has read, if it does."""
        self.inputs: list[Input] = []
        """What the last batches held, the newest last."""
        self.log: SourceLog | None = None
        """What Spark notes of the files that it has read, if the source is files."""
        self.ahead = Ahead(stream, clock, None if journal is None else journal.files)
        self._paths: list[str] | None = None
        """The files of the batch, where the kernel may read them itself."""
        self._bounds = Stretch()
        """What the batch takes of its events."""
        self._far_ahead = 0
        """Events of the batch that are more than ten years ahead."""
        self._put_aside: set[str] = set()
        """What of the batch was written aside."""
        self.backfilled: set[str] = set()
        self._side_jobs = SideJobs()
        self._scratch = Scratch()
        self._session: SparkSession

    @property
    def watermark(self) -> int | None:
        return None if self.newest is None else self.newest - self.stream.lateness

    @property
    def closed(self) -> bool:
        """The end of the input was the end of the stream: everything is answered, and nothing may come after it."""
        return self.committed is not None and self.committed.end

    @property
    def reads_files(self) -> bool:
        """Whether the kernel may read the last batch's files itself."""
        return any(one.plan is not None and one.plan.files for one in self.sets.values())

    @property
    def observed(self) -> Observed:
        """What the last batch showed."""
        return next((one.seen for one in self.sets.values()), NOTHING_SEEN)

    def use(self, queries: Sequence[SlicedAggregation], synopses: Sequence[Synopsis] = ()) -> None:
        """The queries that the next batch answers, and the synopses that it feeds."""
        queries = [query for query in queries if not self.limits.is_stopped(query.name, query.text)]
        if tuple(queries) == self.queries and tuple(synopses) == self.synopses and (self.sets or self.ordered):
            return
        self._forget_namesakes(queries)
        self.synopses = tuple(synopses)
        self.ordered.feed(synopses, self.newest)
        texts = [{query.name: query.text for query in some} for some in (self.queries, queries)]
        self.counts.answers_by_query = still_counted(self.counts.answers_by_query, *texts)
        self.queries = tuple(queries)
        self.backfilled &= {query.name for query in queries}
        shared = self.options.is_shared
        if self._restored:
            self.ordered.restore(*self._restored_order, queries)
        self.ordered.use(queries, self.options, before=self.counts.events)
        queries = [query for query in queries if query.axis == TIME_AXIS]
        names = ["shared"] if shared and queries else [q.name for q in queries]
        newest = self.newest
        for name in names:
            if name not in self.sets:
                self.sets[name] = SharingSet(coverage=Coverage(None if newest is None else newest + 1))
        self.sets = {name: self.sets[name] for name in names}
        for name, one in self.sets.items():
            one.plan = self._plan(one, [q for q in queries if shared or q.name == name])
            if self._restored:
                check_complete(one.tier.entries, one.plan)
        if self._restored:
            self._show()
        self._restored = False

    def _forget_namesakes(self, queries: Sequence[SlicedAggregation]) -> None:
        """A query that has taken the name of one that left goes on from nothing of it."""
        before = {query.name: to_journal(query) for query in self.queries}
        for name in [q.name for q in queries if q.name in before and before[q.name] != to_journal(q)]:
            self.backfilled.discard(name)
            self.ordered.forget_query(name)
            for one in self.sets.values():
                one.tier.forget_query(name)

    def _plan(self, one: SharingSet, queries: Sequence[SlicedAggregation]) -> Plan:
        return make_plan(self.stream, queries, self.options, seen=one.seen)

    # Joining

    def join(self, query: SlicedAggregation) -> tuple[SlicedAggregation, str]:
        """The query as it joins after the last batch, and how it comes by its past.

        Its windows start after the newest event, because what the stream held up to it is gone. With BACKFILL they end
        after it: from sub-windows that others keep, or by reading the source again.
        """
        if self.newest is None:
            return query, "it joins before the first event"
        if not query.backfill:
            start = self._start_of(query)
            return entering_at(query, start if query.start is None else max(start, query.start), self.stream), ""
        if query.axis != TIME_AXIS or query.window.range == EVERYTHING:
            told = "not possible: its windows stand on all events before, or on their order"
            return entering_at(replace(query, after=None), self.newest + 1, self.stream), told
        after = self.newest if query.after is None else query.after
        since = first_end(after, query.window) - query.window.range
        query = replace(query, after=after)
        if since > self.newest:
            return query, "no event came before its first window"
        shared = self.sets.get("shared")
        if shared is not None and shared.coverage.serves(query, since):
            return query, "from the sub-windows that other queries keep"
        reason = self.unreadable_again(query)
        if reason is None and self.committed is not None:
            told = "by reading the stream's files again, beside the stream"
            return replace(query, tag=query.name, entered_after=self.committed.batch), told
        return replace(query, after=None, start=self.newest + 1), f"not possible any more: {reason}"

    def _start_of(self, query: SlicedAggregation) -> int:
        """Where the windows begin of a query that joins now: after all that was seen."""
        assert self.newest is not None
        newest = self._newest_on(query.axis.order) if query.axis.order else self.newest
        return (self.newest if newest is None else newest) + 1

    def _newest_on(self, column: str) -> int | None:
        """The newest value of a column that windows go over, now or when the run was left."""
        found = self.ordered.newest_on(column)
        if found is None and self._restored:
            sets = self._restored_order[0]["sets"].values()
            names = {axis_name(Axis(kind, column)) for kind in ("column", "events")}
            found = max((s["newest"] for s in sets if s["axis"] in names and s["newest"] is not None), default=None)
        return found

    def refuses(self, query: SlicedAggregation) -> tuple[str, str] | None:
        """Why the query cannot join any more, and what to do instead; None when it can."""
        since, order = query.frame.since, query.axis.order
        if self.newest is None or query.backfill:
            return None
        if order and self._newest_on(order) is None:
            why = f"nobody knows where the stream is on '{order}', since no query goes over it yet"
            return why, "start the stream with the query"
        if since is not None and not query.frame.unbounded and since < self._start_of(query):
            why = f"the stream has passed the start of query '{query.name}', and the events before now are gone"
            return why, "take a later time, or RANGE UNBOUNDED, which counts from when the query joins"
        return None

    def unreadable_again(self, query: SlicedAggregation) -> str | None:
        """Why the events that were read before cannot be read for the query once more; None when they can."""
        if self.log is None or not self.plain:
            return "the source of the stream cannot be read twice"
        changed = [lookup.table for lookup in query.lookups if self._has_changed(lookup.table)]
        if changed:
            return f"table '{changed[0]}' has changed since, and its rows of that time are gone"
        return None

    def can_backfill(self, query: SlicedAggregation) -> str | None:
        """Why the query's past cannot be answered; None when it can."""
        joined, told = self.join(query)
        return told if joined.backfill and joined.after is None and self.newest is not None else None

    def _start_side_jobs(self) -> None:
        for query in self.queries:
            if query.tag and query.name not in self.backfilled and query.name not in self._side_jobs:
                assert self.log is not None and query.after is not None
                since = first_end(query.after, query.window) - query.window.range
                some_were_late, limits = bool(self.counts.late), self.ahead.by_offset()
                self._side_jobs.start(
                    Backfill(self._session, self.stream, query, self.log, since, some_were_late, limits, self._table)
                )
        waiting = {q.name for q in self.queries if q.tag and q.name not in self.backfilled}
        for one in self.sets.values():
            one.tier.waiting = waiting

    def _take_side_jobs(self, *, wait: bool = False) -> None:
        """Take in the past of queries whose side job is done."""
        queries = {query.name: query for query in self.queries}
        for name, future in self._side_jobs.done(queries, wait=wait):
            self._take_past(queries[name], future)

    def _take_past(self, query: SlicedAggregation, future: Future[Past]) -> None:
        one = self.sets.get("shared") or self.sets[query.name]
        self.backfilled.add(query.name)
        one.tier.waiting.discard(query.name)
        try:
            past = future.result()
        except (PySparkException, Py4JJavaError, MullionError, OSError) as problem:
            assert query.after is not None
            log.warning("the past of query '%s' could not be read: %s", query.name, problem)
            missed = max(query.after, self.newest or query.after)
            one.tier.cursors[query.name] = Cursor(first_end(missed + query.window.range, query.window))
            return
        one.tier.saw(past.slices)
        for entry in past.entries:
            one.tier.absorb(entry)

    # A batch

    def process(self, batch: DataFrame, number: int) -> None:
        """Answer what the batch makes due."""
        mark = Mark(number)
        if self.static and self.journal is not None:
            self._check_rows(Events(batch, self.stream, number=number))
        if self.committed is not None and mark <= self.committed and self.counts.batches:
            self._check_replayed(number)
            return
        if self.closed:
            raise more_after_the_end(self.stream.name, kept=self.journal is not None)
        self._check_follows(number)
        began = time.perf_counter()
        self._session = batch.sparkSession
        self._bounds = Stretch(self.watermark, self.ahead.limit(number, self.newest))
        self._put_aside.clear()
        self._far_ahead = 0
        self._start_side_jobs()
        events = self._events(batch, number)
        fault_point("before partials")
        seen = self._absorb(events, mark)
        self._tell_odd_times(seen)
        if seen.malformed:
            self.sink.aside("malformed", self.stream.name, mark, malformed_records(events))
        self.counts.batches += 1
        self.counts.malformed += seen.malformed
        if seen.newest is not None and seen.oldest is not None:
            self.newest = max(seen.newest, seen.newest if self.newest is None else self.newest)
            self.oldest = min(seen.oldest, seen.oldest if self.oldest is None else self.oldest)
            for one in self.sets.values():
                one.coverage.note(one.plan, seen.newest)
        self._take_side_jobs(wait=self.bounded)
        self._answer(mark, self.watermark)
        self.counts.seconds += time.perf_counter() - began

    def go_on_from(self, progress: Progress) -> None:
        """What Spark has noted of the stream, as it is or as the last commit knows it."""
        self.progress = progress
        if self.journal is not None:
            progress.put_right(self.inputs, self.committed, self.journal.directory / "commits")

    def _check_replayed(self, number: int) -> None:
        """A batch that is played again holds what it held when it was committed."""
        recorded = next((one for one in self.inputs if one.batch == number and one.offsets), None)
        if recorded is not None and self.progress is not None and not self.progress.has(recorded):
            message = f"batch {number} of stream '{self.stream.name}' is not the one that was committed"
            raise CheckpointError(f"{message}: see {self.progress.directory / 'offsets' / str(number)}", hint=REPAIR)

    def _taken_in(self, mark: Mark, *, whole: bool) -> list[dict[str, Any]]:
        """What the batch held, for its commit; or what the last batches held."""
        before = self.inputs[-1] if self.inputs else None
        fresh = None
        if self.progress is not None and (before is None or before.batch < mark.batch):
            fresh = self.progress.input_of(mark.batch, before)
        if fresh is not None:
            older = [*self.inputs[-RECORDED:-1], *([] if before is None else [before])]
            self.inputs = [*(replace(one, offsets="") for one in older[:-1]), *older[-1:], fresh]
        return [asdict(one) for one in (self.inputs if whole else [] if fresh is None else [fresh])]

    def _check_follows(self, number: int) -> None:
        """A batch that the source takes for done and that no commit knows would be lost."""
        expected = 0 if self.committed is None else self.committed.batch + 1
        if self.journal is not None and number > expected:
            lost = f"batch {expected}" if number == expected + 1 else f"batches {expected} to {number - 1}"
            message = f"stream '{self.stream.name}' goes on with batch {number}, but there is no commit of {lost}"
            raise CheckpointError(f"{message} in {self.journal.directory / 'commits'}", hint=REPAIR)

    def _check_rows(self, events: Events) -> None:
        """Nobody notes how far a static DataFrame was read, so a restart must find the same one."""
        told = times_in(events)
        rows = [told.events, told.malformed, told.oldest, told.newest]
        if self._rows not in (None, rows):
            raise other_rows(self.stream.name)
        self._rows = rows

    def _events(self, batch: DataFrame, number: int) -> Events:
        """The batch with every column's values under its name and of its type, and what is known of its files; refuses
        files that hold others."""
        if self.log is not None and tells_files(batch):
            order = self.log.files_of(number)
        elif not self.plain and not batch.isStreaming and SOURCE not in batch.columns:
            order = by_change(uris_of(batch, plain=False) or [])
        else:
            order = []
        self._paths = files_of(uris_of(batch, plain=self.plain) or [], order) if self._may_read_files else None
        if order and SOURCE not in batch.columns:
            batch = with_source(batch)
        if self.plain and self.log is not None:
            batch = as_declared(self.stream.stored, batch, order)
            look_for_columns(self._unseen, batch, order)
        return Events(batch, self.stream, number=number, files=FileOrder(tuple(order)) if order else None)

    @property
    def _may_read_files(self) -> bool:
        """Whether the kernel may read a batch's files itself."""
        if self.options.way not in (Way.AUTO, Way.DIRECT) or not can_tell_time(self.stream):
            return False
        return not self.plain or (self.stream.format == "parquet" and reads_alike(self.stream.options))

    def finish(self, session: SparkSession) -> None:
        """The end of the input is the end of the stream: answer every window that holds an event."""
        self._session = session
        if self.closed:
            return
        if self.committed is None:
            self._commit(Mark(0, end=True))
            return
        self._start_side_jobs()
        self._take_side_jobs(wait=True)
        self.ordered.look_up(self._look_up(self.ordered.groupings, self.committed))
        self._answer(Mark(self.committed.batch, end=True), None)

    def close(self) -> None:
        self._side_jobs.close()

    def discard(self) -> None:
        """Remove the files that were for this run alone."""
        self._scratch.discard()

    def _absorb(self, events: Events, mark: Mark) -> Tally:
        """Take the batch's partials into every tier; late events are put aside first."""
        seen: Tally | None = None
        paths = self._paths
        kept = self._keep(events, mark, paths)
        handed = self._hand_on(events, mark, paths)
        if not self.sets and not self.ordered:
            told = handed or kept or self._times_only(events, mark)
            self.counts.events += told.events
            return told
        if self.ordered:
            seen = self._order(events, mark, paths)
        for one in self.sets.values():
            found = self._collect(one, events, mark, paths)
            oldest = min((t.oldest for _, _, t in found if t.oldest is not None), default=None)
            newest = max((t.newest for _, _, t in found if t.newest is not None), default=None)
            late, ahead = self._bounds.is_passed_by(oldest, newest)
            if late or ahead:
                self._set_aside(events, mark, late=late, ahead=ahead)
                if late:
                    self._count_late(one, events.of(self._bounds.late), mark)
                found = self._collect(one, events.of(self._bounds), mark, paths)
            first = self._take(one, found)
            seen = seen or first
        return seen or Tally()

    def _keep(self, events: Events, mark: Mark, paths: list[str] | None) -> Tally | None:
        """Keep the batch's events for questions, but for those that are late or ahead or have no time."""
        if self.stream.keep is None and self.stream.keep_rows is None:
            return None
        if self.keeper is None:
            self.keeper = Keeper(self.stream, self.files)
        usable = [name for name, type_ in self.stream.columns if has_arrow_type(type_)]
        table = self._read(events, usable, paths)
        found = self._sifted(sift(table, self._bounds), events, mark)
        self.keeper.add(mark, found.taken)
        return found.told

    def _hand_on(self, events: Events, mark: Mark, paths: list[str] | None) -> Tally | None:
        """Hand the batch's events on to relations, but for those that are late or ahead or have no time."""
        if self.wanted is None:
            return None
        if self.intake is None:
            self.intake = new_intake(None if self.journal is None else self.journal.files)
        table = self._read(events, [name for name, _ in self.stream.columns if name in self.wanted], paths)
        found = self._sifted(sift(table, self._bounds), events, mark)
        if len(found.late):
            add_counts(self.counts.late_by_query, dict.fromkeys(self.relations, len(found.late)))
        self.intake.add(mark, found.taken)
        return found.told

    def _read(self, events: Events, names: Sequence[str], paths: list[str] | None) -> pa.Table:
        """Columns of the batch's events in the order of arrival, with their time as `t`; from the files themselves
        where that is possible."""
        pieces = None if paths is None else pieces_of(paths, self.stream, names)
        if pieces:
            return pa.concat_tables(read(pieces, names, self.stream.time_column, []))
        return events.read([TIME, *map(identifier, names)])

    def _order(self, events: Events, mark: Mark, paths: list[str] | None) -> Tally:
        """Let the batch's events wait for their place in the order; late events are put aside."""
        columns = self.ordered.columns()
        if paths is not None and columns is not None:
            pieces = pieces_of(paths, self.stream, columns)
            events = replace(events, pieces=None if pieces is None else tuple(pieces))
        events = replace(events, tables=self._look_up(self.ordered.groupings, mark))
        found = self._sifted(self.ordered.take(self.ordered.read(events), self._bounds), events, mark)
        if len(found.late):
            for missed in self.ordered.missed(found.late):
                add_counts(self.counts.late_by_query, missed)
        if not self.sets:
            self.counts.events += found.told.events
        return found.told

    def _times_only(self, events: Events, mark: Mark) -> Tally:
        """What a batch tells while nobody asks anything of the stream."""
        told = times_in(events)
        late, ahead = self._bounds.is_passed_by(told.oldest, told.newest)
        if not late and not ahead:
            return told
        self._set_aside(events, mark, late=late, ahead=ahead)
        return times_in(events.of(self._bounds))

    def _settle(self, watermark: int | None) -> None:
        for told in self.ordered.settle(watermark):
            self._count(told)
        self.counts.late += self.ordered.late()

    def _count(self, told: Tally) -> None:
        add_counts(self.counts.bad_by_query, told.bad)
        self.counts.partials += told.partials
        self.counts.partial_operations += told.added
        self.counts.fragments = max(self.counts.fragments, told.fragments)
        self.counts.groups = max(self.counts.groups, told.groups)

    def _collect(self, one: SharingSet, events: Events, mark: Mark, paths: list[str] | None) -> list[Found]:
        """Partials of each grouping: tables on the driver, or tallies of what the shards wrote."""
        assert one.plan is not None
        needed = kernel_columns(one.plan.groupings) if paths is not None else None
        if paths is not None and needed is not None:
            pieces = pieces_of(paths, self.stream, needed)
            events = replace(events, pieces=None if pieces is None else tuple(pieces))
        events = replace(events, tables=self._look_up(one.plan.groupings, mark))
        plan = one.plan = reconsider(replace(one.plan, files=events.pieces is not None), one.seen)
        self._shard_the_large(one, plan, events)
        found: list[Found] = []
        small = _with_groupings(plan, [g for g in plan.groupings if g.name not in one.shards])
        expected = None if one.seen is NOTHING_SEEN else one.seen.events
        if small.groupings:
            collected = collect_partials(events, small, expected=expected)
            for grouping, tables in zip(small.groupings, collected, strict=True):
                told = Tally()
                for table in tables:
                    told.add(tally(table, grouping))
                found.append((grouping, tables, told))
        for grouping in plan.groupings:
            if grouping.name in one.shards:
                shards = one.shards[grouping.name]
                shards.entries = [e for e in shards.entries if e.mark != mark.text]
                found.append((grouping, None, shards.absorb(partials_frame(events, plan, grouping), grouping, mark)))
        return found

    def _look_up(self, groupings: Sequence[Grouping], mark: Mark) -> tuple[Prepared, ...]:
        """The tables that events are looked up in, as this batch finds them, prepared once for each version."""
        needed: dict[Lookup, set[str]] = {}
        for grouping in groupings:
            for lookup in grouping.lookups:
                needed.setdefault(lookup, set()).update(table_columns(grouping))
        found = []
        for lookup, columns in needed.items():
            rows = self._table(lookup.table, mark.batch)
            known = self._prepared.get(lookup)
            if known is None or known[0] is not rows or not columns <= known[1]:
                known = self._prepared[lookup] = rows, frozenset(columns), prepare(lookup, rows, columns)
            found.append(known[2])
        return tuple(found)

    def _take(self, one: SharingSet, found: list[Found]) -> Tally:
        for grouping, tables, told in found:
            self.counts.slices += one.tier.saw(told.slices)
            for table in tables or ():
                one.tier.absorb(SubWindows.of(table, grouping))
            one.groups[grouping.name] = max(told.groups, one.groups.get(grouping.name, 0) if tables is None else 0)
            self._count(told)
        first = found[0][2]
        if one is next(iter(self.sets.values())):
            self.counts.events += first.events
        if first.events and first.newest is not None and first.oldest is not None:
            one.seen = observed(one.seen, found, max(first.newest - first.oldest, 1))
        return first

    def _shard_the_large(self, one: SharingSet, plan: Plan, events: Events) -> None:
        """Move groupings with very many groups to executors, before their partials would come to the driver."""
        for grouping in plan.answering:
            family = (grouping, *plan.counting(grouping))
            if not grouping.keys or all(g.name in one.shards for g in family):
                continue
            if any(g.name in one.shards or self._is_large(one, g, plan, events) for g in family):
                for one_of_it in family:
                    if one_of_it.name not in one.shards:
                        one.shards[one_of_it.name] = self._move_to_shards(one, one_of_it, events)

    def _is_large(self, one: SharingSet, grouping: Grouping, plan: Plan, events: Events) -> bool:
        limit = self.options.shard_above
        if grouping.name not in one.groups:
            one.groups[grouping.name] = 2 * self._sampled_groups(events, plan, grouping)
        held = sum(len(e.slices) for e in one.tier.entries if e.grouping == grouping.name)
        return one.groups[grouping.name] > limit or held > 4 * limit

    def _sampled_groups(self, events: Events, plan: Plan, grouping: Grouping) -> int:
        """How many groups the first events of a batch have; few when the batch is small."""
        limit = self.options.shard_above
        own = all(columns_of(key) <= self.stream.types.keys() for key in grouping.keys)
        if events.pieces and own:
            return groups_in_files(events, grouping, limit)
        sample = events.first(limit)
        if own and not any(map(is_kernel_only, grouping.keys)):
            return groups_in_sample(sample, grouping)
        keys = [f"k{i}" for i in range(len(grouping.keys))]
        return int(partials_frame(sample, plan, grouping).select(*keys).distinct().count())

    def _move_to_shards(self, one: SharingSet, grouping: Grouping, events: Events) -> Shards:
        name = sha256(grouping.name.encode()).hexdigest()[:16]
        shards = Shards(self.files, f"shards/{name}", SHARDS)
        mine = [e for e in one.tier.entries if e.grouping == grouping.name]
        one.tier.entries = [e for e in one.tier.entries if e.grouping != grouping.name]
        for i, entry in enumerate(mine):
            shards.adopt(self._session, entry, grouping, f"moved-{i}")
        return shards

    @property
    def files(self) -> CommittedFiles:
        """Files of the stream: kept with the checkpoint, or as long as the run lasts."""
        if self.journal is not None:
            return self.journal.files
        return CommittedFiles(self._scratch.path)

    # Answers and the commit

    def _answer(self, mark: Mark, watermark: int | None) -> None:
        self.limits.begin()
        work = Work(over=self.limits.over)
        texts = {query.name: query.text for query in self.queries}
        written = Portions(self.sink, self.stream.name, mark)
        for answers in self._due_answers(mark, watermark, work):
            self.limits.count([answers], texts)
            count_rows(self.counts.answers_by_query, [answers], {})
            written.add(answers)
        written.finish()
        self.limits.count_written(work.written, texts)
        add_counts(self.counts.bad_by_query, work.bad)
        self.counts.final_operations += work.final
        self.counts.answers += written.rows + count_rows(self.counts.answers_by_query, (), work.written)
        if self.newest is not None:
            self._forget()
        self._commit(mark)

    def _due_answers(self, mark: Mark, watermark: int | None, work: Work) -> Iterator[Answers]:
        """What is due, some at a time."""
        if self.newest is None or self.oldest is None:
            return
        for one in self.sets.values():
            assert one.plan is not None
            for grouping in one.plan.answering:
                due = one.tier.due(grouping, self.oldest, self.newest, watermark, self.limits.most_answers)
                yield from self._answer_grouping(one, grouping, due, mark, work)
        self._settle(watermark)
        yield from self.ordered.answer(watermark, work, self.limits)

    def _answer_grouping(
        self, one: SharingSet, grouping: Grouping, due: Runs, mark: Mark, work: Work
    ) -> Iterable[Answers]:
        shards = one.shards.get(grouping.name)
        if shards is None:
            portions = self._counted_slices(one, self.limits.portions(due))
            assert one.plan is not None
            return one.tier.answer(grouping, portions, work, one.plan.counting(grouping))
        self.limits.note(due)
        whole = [shown(due.whole(), due.queries)] if len(due) else []
        found = (
            self._answer_in_shards(one, grouping, shards, some, mark, work) for some in self._counted_slices(one, whole)
        )
        return [answers for some in found for answers in some]

    def _counted_slices(self, one: SharingSet, portions: Iterable[Due]) -> Iterator[Due]:
        assert one.plan is not None
        for due in portions:
            self.counts.window_slices += slices_within(due, one.plan.windows, one.plan.slicing)
            yield due

    def _answer_in_shards(
        self, one: SharingSet, grouping: Grouping, shards: Shards, due: Due, mark: Mark, work: Work
    ) -> list[Answers]:
        """Shards write their answers under one mark, all at once."""
        assert one.plan is not None
        counting = one.plan.counting(grouping)
        counted = [(other, one.shards[other.name]) for other in counting]
        back = shards.answer(self._session, grouping, due, mark, work, self.sink.shard_writer(), counted)
        return arranged_across(back, grouping)

    def _forget(self) -> None:
        watermark = self.watermark
        assert watermark is not None
        for one in self.sets.values():
            assert one.plan is not None
            horizon = one.tier.forget(one.plan, watermark)
            one.coverage.forget(horizon)
            for shards in () if is_endless(one.plan) else one.shards.values():
                shards.forget(horizon)
        self.ordered.forget(watermark)

    def _commit(self, mark: Mark) -> None:
        self.committed = mark
        new = {name: one.tier.saved() for name, one in self.sets.items()}
        if self.keeper is not None and self.newest is not None:
            self.keeper.forget(self.newest)
        if self.journal is not None:
            self._record(self.journal, mark, new)
        self._show()
        self._sweep()
        self.sink.committed(self.stream.name, mark)

    def _record(self, journal: Journal, mark: Mark, new: dict[str, list[SubWindows]]) -> None:
        """Write down everything that the next batch goes on from."""
        snapshot = journal.wants_snapshot
        if snapshot:
            new = {name: one.tier.entries for name, one in self.sets.items()}
        tables = [_labelled(entry.table, f"set {name}") for name, entries in new.items() for entry in entries]
        tables += [_labelled(table, label) for label, table in self.ordered.tables(whole=snapshot)]
        state = {
            "oldest": self.oldest,
            "newest": self.newest,
            "counts": asdict(self.counts),
            "backfilled": sorted(self.backfilled),
            "rows": self._rows,
            "stopped": self.limits.snapshot(),
            "sets": {name: one.snapshot() for name, one in self.sets.items()},
            "ordered": self.ordered.snapshot(),
            "kept": None if self.keeper is None else self.keeper.snapshot(),
            "intake": None if self.intake is None else self.intake.names,
            "relations": self._relations_stand(),
            "inputs": self._taken_in(mark, whole=snapshot),
        }
        journal.commit(Commit(mark, state, tuple(tables), snapshot, self._named()))

    def _sweep(self) -> None:
        """Remove the files that neither a commit names any more nor a reader."""
        if self.journal is not None or self._scratch:
            self.files.sweep({*self._named(), *(set() if self.keeper is None else self.keeper.held)})

    def _named(self) -> tuple[str, ...]:
        """The files that a commit stands on."""
        shards = [name for one in self.sets.values() for some in one.shards.values() for name in some.names]
        kept = [] if self.keeper is None else self.keeper.names
        handed = [] if self.intake is None else self.intake.names
        return (*shards, *kept, *handed, *self.ahead.names, *self._table_files())

    def restore(self) -> None:
        """Go on from the last commit."""
        chain = self.journal.load() if self.journal is not None else []
        if not chain:
            return
        commit, tables = chain[-1], [table for one in chain for table in one.tables]
        self.committed = commit.at
        self.relations_stood = commit.state["relations"]
        self.inputs = [Input(**told) for one in chain for told in one.state["inputs"]][-RECORDED:]
        self._restored = True
        self.oldest, self.newest = commit.state["oldest"], commit.state["newest"]
        self.counts = Counts(**commit.state["counts"])
        self.backfilled = set(commit.state["backfilled"])
        self._rows = commit.state["rows"]
        self.limits.restore(commit.state["stopped"])
        labelled = [(t.schema.metadata[b"set"].decode(), t) for t in tables]
        self._restored_order = commit.state["ordered"], labelled
        if commit.state["kept"] is not None:
            self.keeper = Keeper(self.stream, self.files)
            self.keeper.restore(commit.state["kept"])
        if commit.state.get("intake") is not None:
            self.intake = new_intake(None if self.journal is None else self.journal.files)
            self.intake.restore(commit.state["intake"])
        for name, state in commit.state["sets"].items():
            one = self.sets.setdefault(name, SharingSet())
            mine = [t for label, t in labelled if label == f"set {name}"]
            one.restore(state, mine, self.files)
            one.coverage = Coverage(None if self.newest is None else self.newest + 1)

    # Questions

    def _show(self) -> None:
        """Let questions see what is there now. Nothing of it is changed by a later batch."""
        if self.newest is None:
            return
        sets = tuple((tuple(one.tier.entries), one.coverage.copy()) for one in self.sets.values() if not one.shards)
        tables = {lookup.table: rows for lookup, (rows, _, _) in self._prepared.items()}
        self.view = self._view(self.ordered.order.waiting, self.ordered.synopses, sets, tables)

    def show_restored(self, synopses: Sequence[Synopsis]) -> None:
        """Let questions see what the last commit left, before the first batch comes. Where its sub-windows were cut is
        not known any more."""
        if self._restored and self.newest is not None:
            fed, waiting = restored_synopses(synopses, *self._restored_order, self.newest)
            self.view = self._view(waiting, fed)

    def _view(
        self,
        waiting: pa.Table | None,
        synopses: Mapping[str, Fed],
        sets: tuple[Sharing, ...] = (),
        tables: Mapping[str, pa.Table] | None = None,
    ) -> View:
        assert self.newest is not None
        kept = None if self.keeper is None else self.keeper.shown()
        return View(self.stream, self.newest, self.counts.events, sets, kept, waiting, dict(synopses), tables or {})

    # Records that answer nobody

    def _sifted(self, found: Sifted, events: Events, mark: Mark) -> Sifted:
        self._set_aside(events, mark, late=bool(len(found.late)), ahead=bool(len(found.ahead)))
        return found

    def _set_aside(self, events: Events, mark: Mark, *, late: bool, ahead: bool) -> None:
        """Write the batch's late events and those that are ahead aside, each once however many meet them."""
        bounds = self._bounds
        if ahead and "ahead" not in self._put_aside and bounds.high is not None:
            offsets = range(0) if self.log is None else self.log.offsets_of(mark.batch)
            self.ahead.note(mark.batch, bounds.high, offsets)
            rows = beyond(self._records(events.of(bounds.ahead)), bounds.high)
            self.counts.ahead += len(rows)
            self._far_ahead = count_far(rows.column(self.stream.time_column), bounds.high)
            self._write_aside("ahead", mark, rows)
        if late and "late" not in self._put_aside and bounds.low is not None:
            rows = behind(self._records(events.of(bounds.late)), bounds.low)
            self.counts.late += len(rows)
            self._write_aside("late", mark, rows)

    def _tell_odd_times(self, seen: Tally) -> None:
        """Once for each stream."""
        found = (
            None if self.counts.odd_times else odd_times(self.stream.name, seen.events, seen.newest, self._far_ahead)
        )
        if found is not None:
            self.counts.odd_times = found
            log.warning("%s", found)

    def _records(self, events: Events) -> pa.Table:
        return records(events)

    def _write_aside(self, kind: str, mark: Mark, rows: pa.Table) -> None:
        self._put_aside.add(kind)
        self.sink.aside(kind, self.stream.name, mark, rows)

    def _count_late(self, one: SharingSet, late: Events, mark: Mark) -> None:
        assert one.plan is not None
        late = replace(late, tables=self._look_up(one.plan.groupings, mark))
        for grouping, tables in zip(one.plan.groupings, collect_partials(late, one.plan), strict=True):
            for table in () if grouping.counted else tables:
                add_counts(self.counts.late_by_query, late_for(table, grouping))


def times_in(events: Events) -> Tally:
    """What is known of events without looking at anything but their times."""
    row = events.select([f"count({TIME})", "count(1)", f"min({TIME})", f"max({TIME})"]).first()
    assert row is not None
    return Tally(events=row[0], malformed=row[1] - row[0], oldest=row[2], newest=row[3])


def _labelled(table: pa.Table, name: str) -> pa.Table:
    return table.replace_schema_metadata({**(table.schema.metadata or {}), b"set": name.encode()})


def _with_groupings(plan: Plan, groupings: Sequence[Grouping]) -> Plan:
    if len(groupings) == len(plan.groupings):
        return plan
    kept = {g.name for g in groupings}
    methods = tuple(m for g, m in zip(plan.groupings, plan.methods, strict=True) if g.name in kept)
    return replace(plan, groupings=tuple(groupings), methods=methods)
