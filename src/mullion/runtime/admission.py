"""Queries that enter a stream that has begun: from when on they answer, and how they come by their past."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256

import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.binding.entering import Entrance, Past, entrance, gone, no_past, read_once_more
from mullion.errors import CheckError, Place
from mullion.expressions.vector import has_arrow_type
from mullion.instants import EVERYTHING
from mullion.kernels.table_versions import with_batch
from mullion.language.query import TIME_AXIS
from mullion.planner.rules import groupings_of
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.backfill import Backfill, PastEvents, PastPartials, SideJobs
from mullion.runtime.batch import reading_failures
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.stream_state import StreamState
from mullion.slices.due import Cursor, first_end
from mullion.slices.inputs import kernel_columns
from mullion.slices.subwindow import PartialSubWindows

log = logging.getLogger("mullion")


class Admission:
    def __init__(self, state: StreamState) -> None:
        self._state = state
        self._side_jobs = SideJobs()

    def enter(self, query: SlicedAggregation) -> tuple[Entrance, str]:
        """How the query enters after the last batch, and how its BACKFILL is served."""
        newest = self._state.newest
        if newest is None:
            return Entrance(query.start, query.after), "it enters before the first event"
        past, at_newest = lambda after: self._past_of(query, after), lambda: self._at_newest(query, newest)
        return entrance(query, newest, self._start_of(query), past, at_newest)

    def _past_of(self, query: SlicedAggregation, after: int) -> Past:
        """From where the events come that the query's windows need which end after a time."""
        state = self._state
        if query.axis != TIME_AXIS or query.window.range == EVERYTHING:
            return Past("not possible: its windows stand on all events before, or on their order", is_gone=True)
        assert state.newest is not None
        since = first_end(after, query.window) - query.window.range
        if since > state.newest:
            return Past("no event came before its first window")
        if self._is_kept_by_others(query, since):
            return Past("from the sub-windows that other queries keep")
        reason = self.no_past([lookup.table for lookup in query.lookups], since) or self._not_from_kept(query)
        if reason is not None or state.committed is None:
            return gone(reason or "nothing is committed yet")
        batch = state.committed.batch  # in the tag, since a query of the name may have been here before
        return Past(self._how, tag=f"{query.name} after {batch}", entered_after=batch)

    def _at_newest(self, query: SlicedAggregation, newest: int) -> Past:
        """From where the events of the newest time come, for a window that starts with it."""
        state = self._state
        if state.committed is None or not starts_at(query, newest):
            return Past("", is_gone=True)
        if query.axis != TIME_AXIS:
            return self._in_order_at_newest(query, newest, state.committed.batch)
        if query.window.range != EVERYTHING and self._is_kept_by_others(query, newest):
            return Past("from the sub-windows that other queries keep")
        reason = self.no_newest([lookup.table for lookup in query.lookups], newest) or self._not_from_kept(query)
        if reason is not None:
            return gone(reason)
        # One slot for all that enter here. The mark is another one when their past is read.
        tag = f"at {newest} after {state.committed.text}"
        return Past(self._how, tag=tag, entered_after=state.committed.batch)

    def _in_order_at_newest(self, query: SlicedAggregation, newest: int, batch: int) -> Past:
        """As `_at_newest`, where the order of events counts: those of the newest time still wait for their place in it,
        unless event time went on without events."""
        state = self._state
        reason = self.no_newest([lookup.table for lookup in query.lookups], newest) or self._not_from_kept(query)
        if state.watermark is not None and state.watermark > newest:
            reason = "event time has passed them"
        elif not state.order_holds(newest):
            reason = "other queries count rows without these events, or without the columns that Spark computes of them"
        return Past(self._how, entered_after=batch) if reason is None else gone(reason)

    def read_newest(self, queries: Sequence[SlicedAggregation]) -> tuple[int, pa.Table] | None:
        """The events of the newest time when queries entered that stand on the order of events, and that time, if these
        have not got them yet."""
        state = self._state
        waiting = [query for query in queries if awaits_newest(query) and query.name not in state.backfilled]
        if not waiting:
            return None
        one, columns = waiting[0], {name for name, type_ in state.stream.columns if has_arrow_type(type_)}
        assert one.start is not None and one.entered_after is not None
        events = self.past().rows(one.entered_after, columns, one.start)
        state.backfilled |= {query.name for query in waiting}
        return one.start, with_batch(events, one.entered_after)

    def _is_kept_by_others(self, query: SlicedAggregation, since: int) -> bool:
        shared = list(self._state.sets.values()) if self._state.options.is_shared else []
        return len(shared) == 1 and shared[0].kept_stretches.serves(query, since)

    @property
    def _how(self) -> str:
        return read_once_more({self._state.name: self.is_from_kept})

    def no_newest(self, tables: Sequence[str], newest: int) -> str | None:
        """Why the events of the newest time cannot be read again; None when they can. What was shed stays shed."""
        state = self._state
        batches = range(state.newest_since, -1 if state.committed is None else state.committed.batch + 1)
        if state.stream.shedding is not None and any(state.overload.notes.of(number) for number in batches):
            return "events of that time were shed"
        return self.no_past(tables, newest)

    def _start_of(self, query: SlicedAggregation) -> int:
        """Where the windows begin of a query that enters now: after all that was seen."""
        seen = self._state.newest
        assert seen is not None
        newest = self._state.newest_on(query.axis.order) if query.axis.order else seen
        return (seen if newest is None else newest) + 1

    def check(self, query: SlicedAggregation, place: Place | None = None) -> None:
        """Raise why the query cannot enter any more, and what to do instead."""
        newest = self._state.newest
        if newest is None:
            return
        if query.backfill:
            entered, how = self.enter(query)
            if entered.after is None:
                raise no_past(query.name, how, place)
            return
        since, order = query.frame.since, query.axis.order
        if order and self._state.newest_on(order) is None:
            why = f"query '{query.name}' comes late, and the position of the stream on '{order}' is not known"
            raise CheckError(why, place, hint="start the stream with the query")
        start = self.enter(query)[0].start
        if since is not None and not query.frame.unbounded and start is not None and since < start:
            why = f"the stream has passed the start of query '{query.name}', and the events before now are gone"
            hint = "use a later time, or RANGE UNBOUNDED, which counts from when the query enters"
            raise CheckError(why, place, hint=hint)

    @property
    def is_from_kept(self) -> bool:
        """Whether the past is what the stream keeps, since the source cannot be read again."""
        return self._state.keeper is not None and self._state.source.cannot_read_again() is not None

    def no_past(self, tables: Sequence[str], since: int | None) -> str | None:
        """Why the events that came before, from a time on or all of them, cannot be looked up in these tables once
        more; None when they can."""
        state = self._state
        reason = state.source.cannot_read_again()
        if reason is not None and state.keeper is None:
            return f"{reason}, and it keeps no events: see KEEP"
        if reason is not None and not (state.keeper is not None and state.keeper.reach_back_to(since)):
            return f"{reason}, and what it keeps (KEEP) does not reach back far enough"
        changed = [table for table in tables if state.tables.has_changed(table)]
        if changed:
            return f"table '{changed[0]}' has changed since, and its rows of that time are gone"
        return None

    def _not_from_kept(self, query: SlicedAggregation) -> str | None:
        """Kept events are on the driver, where Spark does not look at them. So are those of a stream with PUNCTUATE,
        and those whose order counts."""
        state = self._state
        if not self.is_from_kept and state.punctuations is None and query.axis == TIME_AXIS:
            return None
        if _is_for_kernel(query, state.stream):
            return None
        why = "the stream has PUNCTUATE" if state.punctuations is not None else "the order of events counts"
        why = "the source of the stream cannot be read twice" if self.is_from_kept else why
        return f"{why}, and only Spark computes what it asks for"

    def past(self) -> PastEvents:
        """What the stream has read, to be read again."""
        state = self._state
        late, limits, holds = bool(state.counts.late), state.ahead.by_offset(), dict(state.holding.by_offset)
        kept = state.keeper.shown() if state.keeper is not None and self.is_from_kept else None
        reached = state.newest, state.newest_since
        said = () if state.punctuations is None else state.punctuations.said
        return PastEvents(state.stream, state.source, late, limits, holds, kept, reached=reached, said=said)

    def start_side_jobs(self) -> None:
        """Begin to read the past of queries that have entered; their answers wait for it."""
        state = self._state
        waiting = [query for query in state.queries if query.tag and query.name not in state.backfilled]
        for tag, queries in by_tag(waiting).items():
            if tag not in self._side_jobs:
                self._side_jobs.start(tag, self._job(queries).run)
        for sharing_set in state.sets.values():
            sharing_set.tier.waiting = {query.name for query in waiting}

    def take_side_jobs(self, *, wait: bool = False) -> None:
        """Take in the past of queries whose side job is done. What is kept now is there now: the next commit may let go
        of it, so that it is waited for."""
        queries = by_tag(query for query in self._state.queries if query.tag)
        wait = wait or (any(tag in self._side_jobs for tag in queries) and self.is_from_kept)
        for tag, future in self._side_jobs.done(queries, wait=wait):
            try:
                pasts = future.result()
            except reading_failures(self._state.source) as problem:
                self._has_no_past(queries[tag], problem)
                continue
            for past in pasts:
                self._take_past(past, [query for query in queries[tag] if query.name in past.names])

    def _job(self, queries: Sequence[SlicedAggregation]) -> Backfill:
        """What reads the past of queries that entered together: with BACKFILL that of one, otherwise the events of the
        newest time when they did."""
        state, first = self._state, queries[0]
        sets = [[query for query in queries if query.name in own.members] for own in state.sets.values()]
        together = [own for own in sets if own]
        if first.backfill:
            assert first.after is not None
            since = first_end(first.after, first.window) - first.window.range
            return Backfill(self.past(), together, since, state.tables.read_with, state.options)
        assert first.start is not None
        return Backfill(self.past(), together, first.start, state.tables.read_with, state.options)

    def _has_no_past(self, queries: Sequence[SlicedAggregation], problem: BaseException) -> None:
        """It was promised and cannot be read: nothing is answered that would lack it."""
        state = self._state
        for query in queries:
            log.warning("the past of query '%s' could not be read: %s", query.name, problem)
            state.backfilled.add(query.name)
            tier = self._set_of(query).tier
            tier.waiting.discard(query.name)
            if query.window.range == EVERYTHING:
                state.limits.stop(query.name, query.text, f"its past could not be read: {problem}")
            missed = query.start if query.after is None else max(query.after, state.newest or query.after)
            assert missed is not None
            tier.cursors[query.name] = Cursor(first_end(missed + query.window.range, query.window))

    def _set_of(self, query: SlicedAggregation) -> SharingSet:
        return next(own for own in self._state.sets.values() if query.name in own.members)

    def _take_past(self, past: PastPartials, queries: Sequence[SlicedAggregation]) -> None:
        sets = {id(own): own for own in map(self._set_of, queries)}
        for sharing_set in sets.values():
            own = [query for query in queries if query.name in sharing_set.members]
            for query in own:
                self._state.backfilled.add(query.name)
                sharing_set.tier.waiting.discard(query.name)
                sharing_set.tier.inherit_slices(query.name, past.slices)
            for i, entry in enumerate(past.entries):
                if entry.grouping in sharing_set.shards:
                    self._adopt(sharing_set, entry, f"past-{sha256(own[0].tag.encode()).hexdigest()[:16]}-{i}")
                else:
                    sharing_set.tier.absorb(entry)

    def may_share(self, query: SlicedAggregation) -> bool:
        """Whether a query that entered has answered all windows that need a slot of its own."""
        if not query.is_newcomer or query.name not in self._state.backfilled:
            return False
        found = (own.tier.cursors.get(query.name) for own in self._state.sets.values() if query.name in own.members)
        cursor = next(found, None)
        assert query.start is not None
        first = query.start + query.window.range
        return cursor is not None and cursor.next_end is not None and cursor.next_end > first

    def _adopt(self, sharing_set: SharingSet, entry: PartialSubWindows, name: str) -> None:
        """Let shards keep what they answer from. The next commit names their files, and says that the past is here."""
        assert sharing_set.plan is not None
        grouping = next(g for g in sharing_set.plan.groupings if g.name == entry.grouping)
        shards = sharing_set.shards[entry.grouping]
        shards.adopt(entry, name, dict(self._state.source.adopt(shards, entry, grouping, name)))

    def close(self) -> None:
        self._side_jobs.close()


@lru_cache(maxsize=1 << 12)
def _is_for_kernel(query: SlicedAggregation, stream: Stream) -> bool:
    """Whether the kernel computes all that the query asks for. Remembered, since it is asked when a query is added and
    again when it enters."""
    return kernel_columns(groupings_of(stream, [query])) is not None


def starts_at(query: SlicedAggregation, time: int) -> bool:
    """Whether one of its windows starts exactly then, and is answered. The instants of SLIDE AT MOST are chosen for it,
    and on another column nobody knows which events are the newest."""
    if query.axis.order or query.at_most is not None:
        return False
    if query.axis != TIME_AXIS or query.window.range == EVERYTHING:
        return query.frame.unbounded or query.frame.since in (None, time)
    end = time + query.window.range
    return first_end(end - 1, query.window) == end and (query.stop is None or end <= query.stop)


def awaits_newest(query: SlicedAggregation) -> bool:
    """Whether it entered with the events of the newest time, and stands on the order of events."""
    return query.axis != TIME_AXIS and query.entered_after is not None


def by_tag(queries: Iterable[SlicedAggregation]) -> dict[str, list[SlicedAggregation]]:
    found: dict[str, list[SlicedAggregation]] = {}
    for query in queries:
        found.setdefault(query.tag, []).append(query)
    return found
