"""The relations over some streams at work: events in, answers out, exactly once.

    stream a --intake--> ReorderBuffer --.                       .--> Result of query 1 --.
                                          >--before now--> Network                         >--> sink, under mark i
    stream b --intake--> ReorderBuffer --'                       '--> Result of query 2 --'     then one commit, i

What is known of all streams reaches up to `now`, the least of their watermarks. A step takes every event before it, in
the order of time, and answers what became due. Since nothing before a watermark is taken in later, `now` alone says
which events a commit stands on: what comes after it is found again in the streams' intakes, and a step that a crash
interrupted is simply made again, perhaps with more events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from mullion.algebra.lookups import READ
from mullion.algebra.nodes import Aggregated, Node, Scan, nodes
from mullion.algebra.relation import Relation
from mullion.expressions.vector import arrow_type
from mullion.instants import EVER_BEFORE, THE_END
from mullion.kernels.table_versions import with_batch
from mullion.operators.closed_keys import ClosedKeys
from mullion.operators.network import StepEvents
from mullion.operators.planning import entering_plans, recorded_plan
from mullion.planner.optimiser import Chosen
from mullion.planner.partitioning import relation_keys
from mullion.planner.relation_stats import NO_STATS
from mullion.runtime.backfill import PastEvents
from mullion.runtime.counts import add_counts
from mullion.runtime.past_read import PastRead
from mullion.runtime.portions import Portions
from mullion.runtime.put_off import answered_and_put_off
from mullion.runtime.relation_commits import RelationCommits
from mullion.runtime.relation_state import RelationState
from mullion.slices.kernels.events import TIME
from mullion.slices.limits import PORTION
from mullion.slices.order import ReorderBuffer, times_of
from mullion.storage.event_log import EventLog, LoggedBatch
from mullion.storage.fault_points import fault_point
from mullion.storage.manifest import quoted
from mullion.storage.marks import Mark


class RelationRun(RelationState):
    """All relations that read the same streams. May be called from the threads of several streams."""

    @cached_property
    def _commits(self) -> RelationCommits:
        return RelationCommits(self)

    # Relations

    def set_relations(self, relations: Sequence[Relation]) -> None:
        """The relations from now on. A new one sees the events that no step has taken yet."""
        with self.lock:
            wanted = {relation.name: relation for relation in self.admitted(relations)}
            before, self.relations = self.relations, wanted
            if wanted == before and wanted.keys() >= self.known.keys():
                return
            stays = {name for name, relation in wanted.items() if before.get(name) == relation}
            self.plans = {name: self.plans[name] for name in wanted if name in stays}
            self.plans |= self._plans_of([relation for name, relation in wanted.items() if name not in stays])
            self._place()
            self._commits.restore_operators()
            self._note()
            self._commits.show()

    def stop(self, reason: str) -> None:
        """Answer nothing more."""
        for relation in self.relations.values():
            self.limits.stop(relation.name, relation.text, reason)
        self.set_relations(list(self.relations.values()))

    def _note(self) -> None:
        """Write down which relations take part and since when, before the first event that they see can be lost."""
        self.known = {r.name: self._entry(r) for r in self.relations.values()}
        if self.journal is not None:
            self.journal.begin(self.next_number, [{"name": name, **entry} for name, entry in self.known.items()])

    def _entry(self, relation: Relation) -> dict[str, Any]:
        entry: dict[str, Any] = {"text": relation.text, "start": relation.start, "plan": self.plans[relation.name].name}
        entry |= {"after": relation.after} if self.tag else {}
        entry |= {"entering": self.entering} if self.entering else {}
        return entry | ({"pasts": self.pasts} if self.pasts or self.tag else {})

    def _place(self) -> None:
        """Give the relations to the shards, if there are any, and those that can't be split to the driver."""
        own = list(self.relations.values())
        if self.shards is not None:
            self.shards.set_relations(own, self.plans)
            own = [relation for relation in own if relation.name not in self.shards.names]
        self.own.set_relations(own, self.plans)

    def _plans_of(self, relations: Sequence[Relation]) -> dict[str, Node]:
        """The plans of relations that are new here: as recorded, of those that a run before this one had."""
        known = [r for r in relations if self.manifest is not None and r.name in self.known]
        plans = {r.name: recorded_plan(r, self.known[r.name]["plan"]) for r in known}
        new = [relation for relation in relations if relation.name not in plans]
        chosen = self.entering_plans(new, {**self.plans, **plans})
        return plans | {relation.name: plan.root for relation, plan in zip(new, chosen, strict=True)}

    def entering_plans(self, relations: Sequence[Relation], plans: Mapping[str, Node]) -> list[Chosen]:
        """The plans of relations that enter beside those which have these plans."""
        may_shard = self.sharding is not None and self.committed is None
        in_shards = () if self.shards is None else self.shards.names
        standing = [
            plan
            for name, plan in plans.items()
            if name in self.relations
            and name not in in_shards
            and not (may_shard and relation_keys(self.relations[name]) is not None)
        ]
        stats = self.stats if relations else NO_STATS
        return entering_plans(relations, standing, stats, self.options, may_shard=may_shard)

    # Events

    def enter(self, streams: Collection[str], since: int) -> None:
        """A relation is about to enter that needs all events of streams from a time on, which may have come."""
        with self.lock:
            self.entering |= {stream: min(since, self.entering.get(stream, since)) for stream in streams}

    def take_past(
        self, stream: str, seen: PastRead | None, past: PastEvents, handed: Sequence[LoggedBatch] = ()
    ) -> None:
        """Begin to hear of a stream, with the events that it took before: `seen` says how many there are now, `handed`
        are those that it has handed on. To be called before the batch from which on the stream hands events on. After a
        restart the past is what it was then, and it is read again as long as no step has passed it."""
        with self.lock:
            if self.relations and not self.tag:
                self._take_newest(stream, seen, past, handed)
            if stream not in self.awaited or not self.relations:
                return
            seen = self.pasts.get(stream, seen)
            if seen is not None:
                log = self._past_log(stream, seen, past)
                seen = seen._replace(files=log.names)
                for batch in log.batches:
                    self.incoming[stream].add(batch, self.now)
                self.incoming[stream].taken = Mark(seen.batch)
            self.pasts[stream] = seen
            self._note()
            self.awaited.discard(stream)

    def _take_newest(self, stream: str, seen: PastRead | None, past: PastEvents, handed: Sequence[LoggedBatch]) -> None:
        """Take the events of a stream from a time on in place of those that it handed on: relations have entered with
        them that need more of them. What a restart finds in the intake of the stream is as it was, so that these have
        files of their own until a step has passed them. Those of relations that entered before are among them."""
        incoming, before, since = self.incoming[stream], self.pasts.get(stream), self.entering.pop(stream, None)
        log = EventLog(None if self.journal is None else self.journal.files, f"intake/{quoted(stream)}", TIME)
        if stream in self.awaited:
            self.awaited.discard(stream)
            if before is not None and self.now <= before.newest:
                log.restore(before.files)
                incoming.replace([batch.events for batch in log.batches], before, self.now)
                log.forget_all()
                for batch in handed:
                    incoming.add(batch, self.now)
        if since is None:
            return
        if seen is not None and seen.newest >= since:
            rows = ReorderBuffer(incoming.read_again(self._past_rows(stream, seen, past, since)))
            if before is not None and before.since is not None and self.now <= before.newest:
                rows, read = ReorderBuffer(incoming.waiting_between(before.since, since)), rows.waiting
                rows.add(read)
                since = min(before.since, since)
            log.add(Mark(seen.batch), rows.waiting)
            self.pasts[stream] = taken = seen._replace(files=log.names, since=since)
            incoming.replace([rows.waiting], taken, self.now)
        self._note()

    def _past_log(self, stream: str, seen: PastRead, past: PastEvents) -> EventLog:
        """The events of a stream's past that no step has passed. What the stream keeps it may let go of before a
        restart, so that this has files of its own."""
        may_go = past.kept is not None or seen.files
        files = self.journal.files if may_go and self.journal is not None else None
        log = EventLog(files, f"intake/{quoted(stream)}", TIME)
        if self.now > seen.newest:
            return log
        if seen.files:
            log.restore(seen.files)
        else:
            starts = [None if relation.backfill else relation.start for relation in self.relations.values()]
            log.add(Mark(seen.batch), self._past_rows(stream, seen, past, *starts))
        return log

    def _past_rows(self, stream: str, seen: PastRead, past: PastEvents, *since: int | None) -> pa.Table:
        """Events that were read before. Tables that they are looked up in have not changed since."""
        columns = self.columns_needed(stream)
        rows = past.rows(seen.batch, columns, *since)
        return with_batch(rows, seen.batch) if READ in columns else rows

    def receive(
        self,
        stream: str,
        batches: Sequence[LoggedBatch],
        watermark: int | None,
        *,
        events: int | None = None,
        ended: bool = False,
    ) -> None:
        """What a stream has handed on, and up to when that is complete; answers what this makes due. `events`: how many
        it has taken in all, also before anybody heard of them."""
        with self.lock:
            if self.is_interrupted or stream in self.awaited:
                return
            incoming = self.incoming[stream]
            for batch in batches:
                incoming.add(batch, self.now)
            if events is not None and not any(relation.backfill for relation in self.relations.values()):
                incoming.count(events)
            incoming.reach(watermark, ended=ended)
            marks = [i.watermark for i in self.incoming.values()]
            goal = min([EVER_BEFORE if mark is None else mark for mark in marks] + list(self.entering.values()))
            self.limits.begin()
            while self.relations and goal > self.now:
                now = self._next(goal)
                self._step(now)
                self.set_relations(list(self.relations.values()))
                if now == goal:
                    break

    def _next(self, goal: int) -> int:
        """Up to when the next step goes: to the goal, unless totals of too many instants lie on the way. None do before
        the first event, however far a heartbeat before it lies back."""
        plans = [node for plan in self.plans.values() for node in nodes(plan) if isinstance(node, Aggregated)]
        slides = [node.slide for node in plans if node.slide is not None and not node.keys]
        waiting = [
            int(times_of(w).min()) for i in self.incoming.values() if (w := i.order.waiting) is not None and len(w)
        ]
        begin = min(waiting, default=goal) if self.oldest is None else self.now
        if not slides or self.newest is None:
            return goal
        portion = begin + PORTION * min(slides)
        return portion if portion < min(goal, self.newest) else goal

    def _step(self, now: int) -> None:
        began = self.timer()
        self.is_interrupted = True
        mark = Mark(self.next_number, end=now == THE_END)
        fault_point("before operators")
        taken = {stream: events for stream, i in self.incoming.items() if (events := i.settle(now)) is not None}
        settled = {stream: self._with_all_columns(stream, events) for stream, events in taken.items()}
        for stream, keys in self._closing().items():
            events = self.incoming[stream].with_ends(settled.get(stream), keys, now)
            settled |= {} if events is None else {stream: self._with_all_columns(stream, events)}
        if self.committed is None:
            self._shard_if_large(settled)
        self._answer(settled, now, mark)
        self._commits.commit_up_to(now, mark)
        took = self.timer() - began
        self.counts.seconds += took
        self.own.measured(took)

    def _closing(self) -> dict[str, ClosedKeys]:
        """What tells the ends of keys, of streams with PUNCTUATE."""
        scans = [node for plan in self.plans.values() for node in nodes(plan) if isinstance(node, Scan)]
        return {s.stream: ClosedKeys(s.punctuation, s.types) for s in scans if s.punctuation is not None}

    def _with_all_columns(self, stream: str, events: StepEvents) -> StepEvents:
        """Events that came before a relation did lack what only it needs, and it needs none of them."""
        lacking = sorted(self.columns_needed(stream) - {*events.rows.column_names, READ})
        if not lacking:
            return events
        scans = [node for plan in self.plans.values() for node in nodes(plan) if isinstance(node, Scan)]
        types = {name: type_ for scan in scans if scan.stream == stream for name, type_ in scan.types.items()}
        rows = events.rows
        for name in lacking:
            rows = rows.append_column(name, pa.nulls(len(rows), arrow_type(types[name])))
        return replace(events, rows=rows)

    def _answer(self, settled: Mapping[str, StepEvents], now: int, mark: Mark) -> None:
        """Write what became due, but for what shards have written by themselves."""
        written = Portions(self, mark)

        def table(name: str) -> pa.Table:
            return self.tables.at(name, mark.batch)

        def read_now(stream: str, name: str, batch: int) -> pa.Table:
            return table(name)

        read_with, newest, stretch = self.read_with or read_now, self.newest, self.pace.stretch
        for answers in self.own.step(
            settled, self.now, now, table, newest=newest, ended=mark.end, read_with=read_with, stretch=stretch
        ):
            written.add(answers)
        if self.shards is not None and self.shards.groups:
            from_shards, rows = self.shards.step(settled, self.now, now, mark, read_with, newest, stretch)
            written.count(rows)
            for answers in from_shards:
                written.write(answers)
        written.finish()
        self._count_instants(1 if mark.end else stretch, now)
        for bad in (self.own.take_bad(), *(() if self.shards is None else self.shards.take_bad())):
            add_counts(self.counts.bad_by_query, bad)

    @property
    def has_scheduled(self) -> bool:
        """Whether one of the relations has SLIDE AT MOST."""
        return any(relation.at_most for relation in self.relations.values())

    def _count_instants(self, stretch: int, now: int) -> None:
        oldest, newest = self.oldest, self.newest
        for relation in self.relations.values() if oldest is not None and newest is not None else ():
            if relation.at_most:
                assert oldest is not None and newest is not None
                more = answered_and_put_off(relation, self.now, now, stretch, oldest=oldest, newest=newest)
                add_counts(self.counts.scheduled.setdefault(relation.name, {}), more)

    def _shard_if_large(self, settled: Mapping[str, StepEvents]) -> None:
        """Where the first step has much to do, what can be split is, from then on."""
        events = sum(len(of_stream.times) for of_stream in settled.values())
        if self.sharding is not None and events > self.sharding.above():
            self.begin_shards(self.sharding)
            self._place()

    def restore(self) -> None:
        """Go on from the last commit."""
        self._commits.restore()
