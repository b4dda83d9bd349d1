"""The relations over some streams at work: events in, answers out, exactly once.

    stream a --intake--> Order --.                       .--> Result of query 1 --.
                                  >--before now--> Network                         >--> sink, under mark i
    stream b --intake--> Order --'                       '--> Result of query 2 --'     then one commit, i

What is known of all streams reaches up to `now`, the least of their watermarks. A step takes every event before it, in
the order of time, and answers what became due. Since nothing before a watermark is taken in later, `now` alone says
which events a commit stands on: what comes after it is found again in the streams' intakes, and a step that a crash
interrupted is simply made again, perhaps with more events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.nodes import Aggregated, Node, Scan, nodes
from mullion.algebra.relation import Relation
from mullion.expressions.vector import arrow_type
from mullion.instants import EVER_BEFORE, THE_END
from mullion.operators.answering import Answering
from mullion.operators.materialized import KeptResult
from mullion.operators.network import Events
from mullion.operators.planning import chosen_plans, recorded_plan
from mullion.operators.state_files import StateFiles, files_of
from mullion.options import DEFAULTS, Options
from mullion.planner.relation_stats import Stats
from mullion.runtime.lookup_tables import no_table
from mullion.runtime.relation_shards import InShards, Sharding
from mullion.runtime.sink import Sink
from mullion.slices.answered import count_rows, still_counted
from mullion.slices.finalize import Answers
from mullion.slices.kernels.partial import TIME
from mullion.slices.limits import Limits
from mullion.slices.most import PORTION
from mullion.slices.order import Order, times_of
from mullion.slices.portions import Portions
from mullion.storage.event_log import LoggedBatch
from mullion.storage.fault_points import fault_point
from mullion.storage.files import CommittedFiles
from mullion.storage.journal import Commit, Journal
from mullion.storage.manifest import quoted
from mullion.storage.marks import Mark


def run_name(streams: Sequence[str]) -> str:
    """What relations over these streams are called: no stream has such a name, and a directory may.

    >>> run_name(["orders", "payments"])
    'relations/orders+payments'
    """
    return "relations/" + "+".join(map(quoted, streams))


@dataclass
class Incoming:
    """What one stream has handed on, and how far it is."""

    order: Order = field(default_factory=Order)
    taken: Mark | None = None
    """The newest batch that is in the order."""
    watermark: int | None = None
    oldest: int | None = None
    newest: int | None = None
    settled: int = 0
    """How many events have left the order: the number that the next one gets."""

    def take(self, batch: LoggedBatch, since: int) -> None:
        """Take the events of a batch that no step has taken."""
        if self.taken is not None and batch.mark <= self.taken:
            return
        self.taken = batch.mark
        self.newest = batch.newest if self.newest is None else max(self.newest, batch.newest)
        events = batch.events
        if since != EVER_BEFORE:
            events = events.filter(pc.greater_equal(events.column(TIME), since))
        if len(events):
            self.order.add(events)

    def settle(self, now: int) -> Events | None:
        """The events before `now`, in their order, each with its number."""
        rows = self.order.settle(None if now == THE_END else now)
        if rows is None:
            return None
        times, first = times_of(rows), self.settled
        self.settled += len(times)
        if self.oldest is None:
            self.oldest = int(times[0])
        return Events(rows, times, np.arange(first, self.settled))

    def snapshot(self) -> dict[str, Any]:
        return {"oldest": self.oldest, "newest": self.newest, "settled": self.settled}


class RelationRun:
    """All relations that read the same streams. May be called from the threads of several streams."""

    def __init__(
        self,
        streams: Sequence[str],
        sink: Sink,
        options: Options = DEFAULTS,
        *,
        journal: Journal | None = None,
        table: Callable[[str, int], pa.Table] = no_table,
        table_files: Callable[[], Sequence[str]] = tuple,
        sharding: Sharding | None = None,
        scratch: Callable[[], Path] | None = None,
    ) -> None:
        """`table` gives a table's rows as a step sees them, `table_files` the files in which they are kept, `scratch` a
        directory for what need not survive. Without `sharding` everything is computed here."""
        self.name = run_name(streams)
        self.sink, self.options, self.journal, self._table = sink, options, journal, table
        self.incoming = {stream: Incoming() for stream in streams}
        self.relations: dict[str, Relation] = {}
        self.plans: dict[str, Node] = {}
        self.limits = Limits(options.most_answers, options.most_held)
        self.own = Answering(options.expiry, shared=options.is_shared, base=self._base, limits=self.limits)
        """What is computed here."""
        self.shards: InShards | None = None
        """What is computed in shards, if anything is."""
        self._sharding, self._scratch, self._table_files = sharding, scratch, table_files
        self.now = EVER_BEFORE
        self.committed: Mark | None = None
        self.answers = 0
        self.bad: dict[str, int] = {}
        """How many bad values each relation met, taken as NULL."""
        self.answered: dict[str, int] = {}
        """The rows that each relation has answered."""
        self.seconds = 0.0
        self.known: dict[str, dict[str, Any]] = {}
        """The relations of the last commit, with when they joined."""
        self.shown: Mapping[str, KeptResult] = {}
        """The materialised results as the last commit left them, for questions: replaced as a whole."""
        self._lock = threading.RLock()
        self._interrupted = False
        """A step has failed half-way: what is in memory is of no use, only a restart goes on, from the last commit."""
        self._state_files = None if journal is None else StateFiles(journal.files)
        self._manifest: Mapping[str, Any] | None = None
        """The state of a run before this one, until the first relations are known."""

    # Relations

    def use(self, relations: Sequence[Relation]) -> None:
        """The relations from now on. Who is new sees the events that no step has taken yet."""
        with self._lock:
            asked = [r for r in relations if not self.limits.is_stopped(r.name, r.text)]
            wanted = {relation.name: relation for relation in asked}
            before, self.relations = self.relations, wanted
            if wanted == before:
                return
            texts = [{name: relation.text for name, relation in some.items()} for some in (before, wanted)]
            self.answered = still_counted(self.answered, *texts)
            stays = {name for name, relation in wanted.items() if before.get(name) == relation}
            self.plans = {name: self.plans[name] for name in wanted if name in stays}
            self.plans |= self._plans_of([relation for name, relation in wanted.items() if name not in stays])
            self._place()
            self._restore_operators()
            self._note()
            self._show()

    def _note(self) -> None:
        """Write down who takes part and since when, before the first event that they see can be lost."""
        self.known = {r.name: self._entry(r) for r in self.relations.values()}
        if self.journal is not None:
            number = 0 if self.committed is None else self.committed.batch + 1
            self.journal.begin(number, [{"name": name, **entry} for name, entry in self.known.items()])

    def _entry(self, relation: Relation) -> dict[str, Any]:
        return {"text": relation.text, "start": relation.start, "plan": self.plans[relation.name].name}

    def _place(self) -> None:
        """Give the relations to the shards, if there are any, and those that can't be split to the driver."""
        own = list(self.relations.values())
        if self.shards is not None:
            self.shards.use(own, self.plans)
            own = [relation for relation in own if relation.name not in self.shards.names]
        self.own.use(own, self.plans)

    def placed(self, name: str) -> str:
        """Where a relation is computed."""
        return self.shards.placed if self.shards is not None and name in self.shards.names else "on the driver"

    def _plans_of(self, relations: Sequence[Relation]) -> dict[str, Node]:
        """The plans of relations that are new here: as recorded, of those that a run before this one had."""
        stats = self.stats
        known = [r for r in relations if self._manifest is not None and r.name in self.known]
        found = {r.name: recorded_plan(r, self.known[r.name]["plan"]) for r in known}
        new = [relation for relation in relations if relation.name not in found]
        together = [new] if self.options.is_shared else [[relation] for relation in new]
        for some in together:
            found |= chosen_plans(some, stats, self.options.expiry)
        return found

    def columns_needed(self, stream: str) -> set[str]:
        own = self.own.columns_needed(stream)
        return own if self.shards is None else own | self.shards.columns_needed(stream)

    @property
    def oldest(self) -> int | None:
        return min((i.oldest for i in self.incoming.values() if i.oldest is not None), default=None)

    @property
    def newest(self) -> int | None:
        return max((i.newest for i in self.incoming.values() if i.newest is not None), default=None)

    @property
    def stats(self) -> Stats:
        """What was seen of the streams."""
        return self.own.stats

    @property
    def held(self) -> int:
        """Rows in all states."""
        return self.own.held + (0 if self.shards is None else self.shards.held)

    @property
    def counts(self) -> dict[str, Any]:
        """What was counted. Times are of this process."""
        steps = 0 if self.committed is None else self.committed.batch + 1
        return {
            "steps": steps,
            "answers": self.answers,
            "rows_held": self.held,
            "seconds": self.seconds,
            "bad_by_query": dict(self.bad),
        }

    # Events

    def take(self, stream: str, batches: Sequence[LoggedBatch], watermark: int | None, *, ended: bool = False) -> None:
        """What a stream has handed on, and up to when that is complete; answers what this makes due."""
        with self._lock:
            if self._interrupted:
                return
            incoming = self.incoming[stream]
            for batch in batches:
                incoming.take(batch, self.now)
            incoming.watermark = THE_END if ended else watermark
            marks = [i.watermark for i in self.incoming.values()]
            known = [mark for mark in marks if mark is not None]
            self.limits.begin()
            while self.relations and len(known) == len(marks) and min(known) > self.now:
                now = self._next(min(known))
                self._step(now)
                self.use(list(self.relations.values()))
                if now == min(known):
                    break

    def _next(self, goal: int) -> int:
        """Up to when the next step goes: to the goal, unless totals of too many instants lie on the way."""
        plans = [node for plan in self.plans.values() for node in nodes(plan) if isinstance(node, Aggregated)]
        slides = [node.slide for node in plans if node.slide is not None and not node.keys]
        waiting = [
            int(times_of(w).min()) for i in self.incoming.values() if (w := i.order.waiting) is not None and len(w)
        ]
        begin = min(waiting, default=goal) if self.now == EVER_BEFORE else self.now
        if not slides or self.newest is None:
            return goal
        portion = begin + PORTION * min(slides)
        return portion if portion < min(goal, self.newest) else goal

    def _step(self, now: int) -> None:
        began = time.perf_counter()
        self._interrupted = True
        mark = Mark(0 if self.committed is None else self.committed.batch + 1, end=now == THE_END)
        fault_point("before operators")
        taken = {stream: events for stream, i in self.incoming.items() if (events := i.settle(now)) is not None}
        settled = {stream: self._with_all_columns(stream, events) for stream, events in taken.items()}
        if self.committed is None:
            self._shard_if_large(settled)
        written = Portions(self.sink, self.name, mark)
        for some in self._answers(settled, now, mark):
            written.add(some)
        written.finish()
        self._commit(mark, now)
        self._interrupted = False
        self._show()
        self.sink.committed(self.name, mark)
        self.seconds += time.perf_counter() - began

    def _with_all_columns(self, stream: str, events: Events) -> Events:
        """Events that came before a relation did lack what only it needs, and it needs none of them."""
        lacking = sorted(self.columns_needed(stream) - set(events.rows.column_names))
        if not lacking:
            return events
        scans = [node for plan in self.plans.values() for node in nodes(plan) if isinstance(node, Scan)]
        types = {name: type_ for scan in scans if scan.stream == stream for name, type_ in scan.types.items()}
        rows = events.rows
        for name in lacking:
            rows = rows.append_column(name, pa.nulls(len(rows), arrow_type(types[name])))
        return replace(events, rows=rows)

    def _answers(self, settled: Mapping[str, Events], now: int, mark: Mark) -> list[Answers]:
        """What became due, but for what shards have written by themselves."""

        def table(name: str) -> pa.Table:
            return self._table(name, mark.batch)

        answers = self.own.step(settled, self.now, now, table, newest=self.newest, ended=mark.end)
        self.answers += count_rows(self.answered, answers, {})
        texts = {name: relation.text for name, relation in self.relations.items()}
        self.limits.count(answers, texts)
        if self.shards is not None and self.shards.groups:
            more, told = self.shards.step(settled, self.now, now, mark, table, self.newest)
            answers += more
            self.answers += count_rows(self.answered, (), told)
            self.limits.count_written(told, texts)
        for bad in (self.own.take_bad(), *(() if self.shards is None else self.shards.take_bad())):
            for name, number in bad.items():
                self.bad[name] = self.bad.get(name, 0) + number
        return answers

    # Shards

    def _shard_if_large(self, settled: Mapping[str, Events]) -> None:
        """Where the first step has much to do, what can be split is, from then on."""
        events = sum(len(some.times) for some in settled.values())
        if self._sharding is not None and events > self._sharding.above():
            self._begin_shards(self._sharding)
            self._place()

    def _begin_shards(self, sharding: Sharding) -> InShards:
        self.shards = InShards(sharding, self._base() / "shards", self.options)
        return self.shards

    def _base(self) -> Path:
        """Where files are kept: with the checkpoint, or as long as the run lasts."""
        if self.journal is not None:
            return self.journal.directory
        assert self._scratch is not None
        return self._scratch() / self.name

    def _show(self) -> None:
        """Let questions see what is kept now. What a step that failed has left is not shown."""
        if not self._interrupted:
            self.shown = {name: kept.shown() for name, kept in self.own.materialized.items()}

    # What a restart needs

    def _commit(self, mark: Mark, now: int) -> None:
        """`now` and the mark hold for others only when the commit is there: streams let go what was taken before it."""
        manifest = {} if self._state_files is None else self._state_files.save(self.own.state(), mark.text)
        files = self._files(manifest)
        if self.journal is not None:
            self._record(mark, now, self.journal, manifest, files)
        self.committed, self.now = mark, now
        if self.journal is not None or self.shards is not None:
            CommittedFiles(self._base()).sweep(files)

    def _record(
        self, mark: Mark, now: int, journal: Journal, manifest: Mapping[str, Any], files: tuple[str, ...]
    ) -> None:
        header = {
            "now": now,
            "incoming": {stream: incoming.snapshot() for stream, incoming in self.incoming.items()},
            "answers": self.answers,
            "answered": self.answered,
            "stopped": self.limits.snapshot(),
            "bad": self.bad,
            "state": manifest,
            "shards": None if self.shards is None else self.shards.snapshot(),
        }
        journal.commit(Commit(mark, header, (), snapshot=True, files=files))

    def _files(self, manifest: Mapping[str, Any]) -> tuple[str, ...]:
        """The files that a commit stands on."""
        shards = () if self.shards is None else self.shards.named
        return (*files_of(manifest), *(f"shards/{name}" for name in shards), *self.own.files, *self._table_files())

    def restore(self) -> None:
        """Go on from the last commit."""
        if self.journal is None:
            return
        self.known = {entry["name"]: entry for entry in self.journal.last_queries()}
        chain = self.journal.load()
        if not chain:
            return
        commit = chain[-1]
        self.committed, self.now, self.answers = commit.at, commit.state["now"], commit.state["answers"]
        self.answered, self.bad = commit.state["answered"], commit.state["bad"]
        self.limits.restore(commit.state["stopped"])
        for stream, state in commit.state["incoming"].items():
            self.incoming[stream] = Incoming(**state)
        self._manifest = commit.state["state"]
        shards = commit.state["shards"]
        if shards is not None:
            assert self._sharding is not None, "relations in shards go on in shards"
            self._begin_shards(self._sharding).restore(shards)

    def _restore_operators(self) -> None:
        manifest, self._manifest = self._manifest, None
        if manifest is not None and self._state_files is not None:
            self.own.restore(self._state_files.load(manifest))


__all__ = ["RelationRun", "run_name"]
