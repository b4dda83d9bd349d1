"""One stream at work: batches in, answers out, exactly once.

    batch k --late? malformed?--> aside
            --partials--> window tiers --due?--> answers --> sink, under mark k
            --then one commit, under mark k: sub-windows, cursors, counts

The order is the guarantee: what a commit stands on is written before it, and a batch whose commit is there is not
played again.

| step | in |
|---|---|
| which queries, and how they share work | `planning` |
| one read for all that is asked of the events | `ingest`, `partials` |
| records that count in no answer | `late` |
| queries that enter, and their past | `admission`, `backfill` |
| what is due | `answers` |
| the commit, and what a restart goes on from | `commits` |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from mullion.catalog.closing import more_after_the_end
from mullion.catalog.summaries import StreamStructure
from mullion.language.query import TIME_AXIS
from mullion.planner.schedules.deadlines import Deadline
from mullion.planner.sliced import SlicedAggregation
from mullion.questions_first import give_way
from mullion.runtime.admission import Admission
from mullion.runtime.answers import AnswersStage
from mullion.runtime.batch import Batch
from mullion.runtime.batch_input import Notes
from mullion.runtime.commits import Commits
from mullion.runtime.ingest import Ingest
from mullion.runtime.intake import new_intake
from mullion.runtime.late import SetAside
from mullion.runtime.overload import PlayedBatch
from mullion.runtime.planning import Planning
from mullion.runtime.sharding_choice import ShardingChoice
from mullion.runtime.state_memory import StateMemory
from mullion.runtime.stream_state import StreamState
from mullion.slices.tally import Tally
from mullion.storage.fault_points import fault_point
from mullion.storage.marks import BEFORE_ALL, Mark
from mullion.storage.scratch import Scratch


class StreamRun(StreamState):
    """The state of a stream, and the order of the steps of a batch."""

    @cached_property
    def _planning(self) -> Planning:
        return Planning(self)

    @cached_property
    def admission(self) -> Admission:
        return Admission(self)

    @cached_property
    def _ingest(self) -> Ingest:
        return Ingest(self, self._planning)

    @cached_property
    def _answering(self) -> AnswersStage:
        return AnswersStage(self, self.state_memory.make_room)

    @cached_property
    def _commits(self) -> Commits:
        return Commits(self)

    @cached_property
    def state_memory(self) -> StateMemory:
        return StateMemory(self, Scratch(), ShardingChoice(self).move_too_large)

    # Queries

    def set_queries(self, queries: Sequence[SlicedAggregation], synopses: Sequence[StreamStructure] = ()) -> None:
        """The queries that the next batch answers, and the synopses that it feeds."""
        if self._planning.set_queries(queries, synopses, self.admission.read_newest):
            if self.is_restored:
                self._commits.show()
            self.is_restored = False
        standing = {**self.texts, **self.relations}
        self.counts.keep_missed(self.texts_counted, standing)
        self.texts_counted = standing

    def set_relations(
        self, columns: frozenset[str] | None, texts: Mapping[str, str], tables: Collection[str] = ()
    ) -> None:
        """What relations want of the next batch's events, the texts of the queries that they answer, and the tables
        that they look these events up in."""
        self.wanted, self.relations, self.tables_of_relations = columns, dict(texts), tuple(tables)

    # Batches

    def process(self, batch: Batch) -> None:
        """Answer what the batch makes due."""
        mark = Mark(batch.number)
        if self.static and self.journal is not None:
            self._commits.check_rows(batch)
        if self.has_played(batch.number):
            self._commits.check_replayed(batch.number)
            return
        if self.closed:
            raise more_after_the_end(self.stream.name, has_checkpoint=self.journal is not None)
        self._commits.check_follows(batch.number)
        began = self.began = self.timer()
        batch = self.overload.thinned(batch, self.counts)
        aside = SetAside(self, batch)
        self.admission.start_side_jobs()
        fault_point("before partials")
        seen = self._ingest.take(batch, aside)
        give_way()
        aside.warn_of_odd_times(seen)
        aside.malformed(seen.malformed)
        shed = self._tally_shed(batch, aside, seen)
        came = self.overload.count(self.counts, [*(query.name for query in self.queries), *self.relations], shed)
        self.counts.batches += 1
        self._advance(seen, batch.number)
        self.admission.take_side_jobs(wait=self.bounded)
        self.state_memory.make_room()
        if not self._is_answered_at_the_end(batch):
            self._answering.answer(mark, self.watermark)
            self.state_memory.make_room()  # what was merged meanwhile is in memory
        give_way()
        self._commits.commit(mark)
        self.counts.seconds += self.timer() - began
        self.began = None
        self.played = PlayedBatch(batch.number, began, came)

    def take_stock(self) -> None:
        """Relations have taken what the batch handed on: the monitor hears how long all of it took, and sees what
        waits now."""
        if self.played is None:
            return
        self.overload.monitor.acts = not self.bounded
        self.overload.monitor.can_stretch = bool(self.scheduling.standings) or self.has_scheduled_relations
        self.overload.observe(self.played, self.timer(), self._due)
        self.played = None
        self.scheduling.pace.behind(self.overload.monitor.stretch)

    def _is_answered_at_the_end(self, batch: Batch) -> bool:
        """Whether all that a batch makes due can wait for the end of the stream, which follows it: what is answered
        then is gone through once and not twice. With SLIDE AT MOST, what is due is chosen batch by batch."""
        is_last = self.static or self.source.ends_with(batch.number)
        return is_last and self.journal is None and not self.scheduling.standings

    def _tally_shed(self, batch: Batch, aside: SetAside, seen: Tally) -> int:
        """Note when the events were that are not kept: as others do, they make windows due and let event time go on.
        Returns how many there are."""
        if self.overload.keeps_all:
            return 0
        windows = tuple({query.window for query in self.queries if query.axis == TIME_AXIS})
        shed = batch.shed(aside.bounds, windows)
        if shed.oldest is None or shed.newest is None:
            return shed.number
        self.overload.tally.add(batch.number, shed)
        for sharing_set in self.sets.values():
            assert sharing_set.plan is not None
            sharing_set.tier.add_slices(shed.cut(sharing_set.plan.windows).slices)
        seen.oldest = shed.oldest if seen.oldest is None else min(seen.oldest, shed.oldest)
        seen.newest = shed.newest if seen.newest is None else max(seen.newest, shed.newest)
        return shed.number

    @property
    def _due(self) -> int:
        """What waits to be done with events that were taken: batches for relations, and the past of queries."""
        waiting = sum(len(sharing_set.tier.waiting) for sharing_set in self.sets.values())
        return waiting + (0 if self.intake is None else len(self.intake.batches))

    def _advance(self, seen: Tally, batch: int) -> None:
        """Let event time go on to what a batch held, but not past what the source knows to come."""
        is_plain = self.holding.until is None and self.heartbeat is None
        offsets = () if is_plain else self.source.offsets_of(batch)
        self.holding.advance(self.watermark, offsets, self.source.still_to_come(batch))
        if seen.newest is None or seen.oldest is None:
            return
        if self.newest is None or seen.newest > self.newest:
            self.newest, self.newest_since = seen.newest, batch
        self.oldest = min(seen.oldest, seen.oldest if self.oldest is None else self.oldest)
        for sharing_set in self.sets.values():
            sharing_set.kept_stretches.note(sharing_set.plan, seen.newest)

    def finish(self) -> None:
        """The end of the input is the end of the stream: answer every window that holds an event."""
        if self.closed:
            return
        if self.committed is None or self.committed.batch < 0:
            self._commits.commit(Mark(0, end=True))
            return
        self.admission.start_side_jobs()
        self.admission.take_side_jobs(wait=True)
        mark = Mark(self.committed.batch, end=True)
        self._answering.answer(mark, None)
        self._commits.commit(mark)

    @property
    def deadlines(self) -> dict[str, Deadline]:
        """By when each query with SLIDE AT MOST should be answered next; none before the first event, nor after the end
        of the input."""
        return {} if self.closed or self.oldest is None else self.scheduling.deadlines(self.oldest)

    # What is told from outside

    def advance(self, time: int) -> None:
        """Let event time go on without events: nothing before `time` comes any more. This is committed first, so that
        what it makes due is the same however often a crash interrupts it."""
        self.heartbeat, self.is_behind = time, True
        self._commits.commit((self.committed or BEFORE_ALL).next_beat)
        self.catch_up()

    def catch_up(self) -> None:
        """Answer what a committed heartbeat made due."""
        assert self.committed is not None
        mark = self.committed.next_beat
        self.admission.start_side_jobs()
        self.admission.take_side_jobs()
        self._answering.answer(mark, self.watermark)
        self.is_behind = False
        self._commits.commit(mark)

    def punctuate(self, keys: pa.Table) -> None:
        """Keys are over, from the newest time on that the stream knows of: nothing of them comes any more."""
        assert self.punctuations is not None
        mark = (self.committed or BEFORE_ALL).next_beat
        at = max(time for time in (self.newest, self.watermark) if time is not None)
        offset = None if self.source.cannot_read_again() is not None else self._offset(mark.batch)
        ended = self.punctuations.close(keys, at, offset)
        if self.wanted is not None:
            if self.intake is None:
                self.intake = new_intake(None if self.journal is None else self.journal.files)
            self.intake.add(mark, ended)
        self._commits.commit(mark)

    def _offset(self, batch: int) -> int:
        """The last offset of the source that a batch took."""
        return max(self.source.offsets_of(batch), default=-1) if batch >= 0 else -1

    def close(self) -> None:
        self.admission.close()

    # A restart

    def go_on_from(self, notes: Notes) -> None:
        """What the source has noted of the stream, as it is or as the last commit knows it."""
        self._commits.go_on_from(notes)

    def restore(self) -> None:
        """Go on from the last commit."""
        self._commits.restore()

    def show_restored(self, synopses: Sequence[StreamStructure]) -> None:
        """Let questions see what the last commit left, before the first batch comes."""
        self._commits.show_restored(synopses)
