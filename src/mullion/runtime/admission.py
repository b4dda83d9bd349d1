"""Queries that enter a stream that has begun: from when on they answer, and how they come by their past."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from hashlib import sha256

from mullion.binding.entering import Entrance
from mullion.errors import MullionError
from mullion.instants import EVERYTHING
from mullion.language.query import TIME_AXIS
from mullion.planner.rules import make_plan
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.backfill import Backfill, Past, PastEvents, SideJobs
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
        """How the query enters after the last batch, and how its BACKFILL is served.

        Its windows start after the newest event, because what the stream held up to it is gone. With BACKFILL they end
        after it: from sub-windows that others keep, or by reading the source again.
        """
        state = self._state
        entrance = Entrance(query.start, query.after, query.tag, query.entered_after)
        if state.newest is None:
            return entrance, "it joins before the first event"
        if not query.backfill:
            start = self._start_of(query)
            return entrance._replace(start=start if query.start is None else max(start, query.start)), ""
        from_now_on = entrance._replace(start=state.newest + 1, after=None)
        if query.axis != TIME_AXIS or query.window.range == EVERYTHING:
            return from_now_on, "not possible: its windows stand on all events before, or on their order"
        after = state.newest if query.after is None else query.after
        since = first_end(after, query.window) - query.window.range
        entrance = entrance._replace(after=after)
        if since > state.newest:
            return entrance, "no event came before its first window"
        shared = list(state.sets.values()) if state.options.is_shared else []
        if len(shared) == 1 and shared[0].coverage.serves(query, since):
            return entrance, "from the sub-windows that other queries keep"
        reason = self.no_past([lookup.table for lookup in query.lookups], since) or self._not_from_kept(query)
        if reason is None and state.committed is not None:
            how = "the events that the stream keeps"
            how = f"from {how}" if self.is_from_kept else "by reading the stream's files again, beside the stream"
            batch = state.committed.batch  # in the tag, since a query of the name may have been here before
            return entrance._replace(tag=f"{query.name} after {batch}", entered_after=batch), how
        return from_now_on, f"not possible any more: {reason}"

    def _start_of(self, query: SlicedAggregation) -> int:
        """Where the windows begin of a query that enters now: after all that was seen."""
        seen = self._state.newest
        assert seen is not None
        newest = self._state.newest_on(query.axis.order) if query.axis.order else seen
        return (seen if newest is None else newest) + 1

    def refuses(self, query: SlicedAggregation) -> tuple[str, str] | None:
        """Why the query cannot enter any more, and what to do instead; None when it can."""
        since, order = query.frame.since, query.axis.order
        if self._state.newest is None or query.backfill:
            return None
        if order and self._state.newest_on(order) is None:
            why = f"nobody knows where the stream is on '{order}', since no query goes over it yet"
            return why, "start the stream with the query"
        if since is not None and not query.frame.unbounded and since < self._start_of(query):
            why = f"the stream has passed the start of query '{query.name}', and the events before now are gone"
            return why, "take a later time, or RANGE UNBOUNDED, which counts from when the query joins"
        return None

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
        changed = [table for table in tables if state.has_changed(table)]
        if changed:
            return f"table '{changed[0]}' has changed since, and its rows of that time are gone"
        return None

    def _not_from_kept(self, query: SlicedAggregation) -> str | None:
        """Kept events are on the driver, where Spark does not look at them. So are those of a stream with PUNCTUATE."""
        state = self._state
        if not self.is_from_kept and state.promises is None:
            return None
        if kernel_columns(make_plan(state.stream, [query]).groupings) is not None:
            return None
        why = "the source of the stream cannot be read twice" if self.is_from_kept else "the stream has PUNCTUATE"
        return f"{why}, and only Spark computes what it asks for"

    def can_backfill(self, query: SlicedAggregation) -> str | None:
        """Why the query's past cannot be answered; None when it can."""
        entrance, how = self.enter(query)
        return how if query.backfill and entrance.after is None and self._state.newest is not None else None

    def past(self) -> PastEvents:
        """What the stream has read, to be read again."""
        state = self._state
        late, limits, holds = bool(state.counts.late), state.ahead.by_offset(), dict(state.holding.by_offset)
        kept = state.keeper.shown() if state.keeper is not None and self.is_from_kept else None
        return PastEvents(state.stream, state.source, late, limits, holds, kept)

    def start_side_jobs(self) -> None:
        """Begin to read the past of queries that have entered; their answers wait for it."""
        state = self._state
        waiting = [query for query in state.queries if query.tag and query.name not in state.backfilled]
        for query in waiting:
            if query.tag not in self._side_jobs:
                assert query.after is not None
                since = first_end(query.after, query.window) - query.window.range
                job = Backfill(self.past(), query, since, state.lookups.table)
                self._side_jobs.start(query.tag, job.run)
        for sharing_set in state.sets.values():
            sharing_set.tier.waiting = {query.name for query in waiting}

    def take_side_jobs(self, *, wait: bool = False) -> None:
        """Take in the past of queries whose side job is done. What is kept now is there now: the next commit may let go
        of it, so that it is waited for."""
        queries = {query.tag: query for query in self._state.queries if query.tag}
        wait = wait or (any(tag in self._side_jobs for tag in queries) and self.is_from_kept)
        for tag, future in self._side_jobs.done(queries, wait=wait):
            self._take_past(queries[tag], future)

    def _take_past(self, query: SlicedAggregation, future: Future[Past]) -> None:
        state = self._state
        sharing_set = next(own for own in state.sets.values() if query.name in own.members)
        tier = sharing_set.tier
        state.backfilled.add(query.name)
        tier.waiting.discard(query.name)
        failures: tuple[type[BaseException], ...] = (*state.source.failures, MullionError, OSError)
        try:
            past = future.result()
        except failures as problem:
            assert query.after is not None
            log.warning("the past of query '%s' could not be read: %s", query.name, problem)
            missed = max(query.after, state.newest or query.after)
            tier.cursors[query.name] = Cursor(first_end(missed + query.window.range, query.window))
            return
        tier.saw_before(query.name, past.slices)
        for i, entry in enumerate(past.entries):
            if entry.grouping in sharing_set.shards:
                self._adopt(sharing_set, entry, f"past-{sha256(query.tag.encode()).hexdigest()[:16]}-{i}")
            else:
                tier.absorb(entry)

    def _adopt(self, sharing_set: SharingSet, entry: PartialSubWindows, name: str) -> None:
        """Let shards keep what they answer from. The next commit names their files, and says that the past is here."""
        assert sharing_set.plan is not None
        grouping = next(g for g in sharing_set.plan.groupings if g.name == entry.grouping)
        shards = sharing_set.shards[entry.grouping]
        shards.adopt(entry, name, dict(self._state.source.adopt(shards, entry, grouping, name)))

    def close(self) -> None:
        self._side_jobs.close()


__all__ = ["Admission"]
