"""At which instants the queries with SLIDE AT MOST are answered in a batch.

    plans --CS1 to CS3--> groups --scheduler--> tasks --last executions--> deadlines --timetable--> instants of queries

Only three things are remembered from batch to batch, and committed with it: when each query was executed last, on which
step its windows lie, and how far updates have come. All else follows from them, and is kept until queries change: in a
batch nothing is done for those that are not executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

import numpy as np

from mullion.options import Schedule
from mullion.planner.query_set import QuerySet
from mullion.planner.schedules.deadlines import Deadline
from mullion.planner.schedules.groups import GroupKey, access_cost, finish_cost, groups_of
from mullion.planner.schedules.schedulers import scheduler_of
from mullion.planner.schedules.tasks import Task
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.executions import Decided, counted_apart, counted_together
from mullion.runtime.kept_tasks import KeptTasks
from mullion.runtime.pace import Pace
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.timetable import PassedUpdates, Scheduled, Timetable
from mullion.slices.due import InstantRun

SECOND = 1_000_000


@dataclass
class ScheduledQuery:
    """What is remembered of a query."""

    step: int
    last: int | None = None
    """The instant that it was executed for last."""
    free_from: int | None = None
    """Its windows were cut on another step before: up to this instant it is answered at multiples of its period,
    which lie on both."""
    is_new: bool = False
    """It has come, or got its past, when updates were past its first instants: it is answered at multiples of its
    period until it has caught up with them."""


class Scheduling:
    """A state machine with `snapshot` and `restore`; the instants of a batch are those of `due`."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.standings: dict[str, ScheduledQuery] = {}
        self.clock: int | None = None
        """Updates up to here have come, and no window that ends before waits for a later event."""
        self._debt = 0.0
        self._given: tuple[SlicedAggregation, ...] | None = None
        """The queries that standings are up to date with."""
        self._queries: dict[str, SlicedAggregation] = {}
        self._names: frozenset[str] = frozenset()
        self._shortest = self._longest = 0
        """Of their windows."""
        self._stopping: list[str] = []
        self._new: list[str] = []
        """Those that have not caught up yet, in the order of queries."""
        self._changed_until: int | None = None
        """No query is changing its step any longer when updates are past this."""
        self._tasks: tuple[object, KeptTasks | None] = None, None

    # Queries

    def set_queries(self, queries: Sequence[SlicedAggregation], newest: int | None) -> None:
        """The queries that the next batch answers; `newest` is the newest event of those before."""
        given = QuerySet.of(queries)
        if given == self._given:
            return
        self._queries = {given[at].name: given[at] for at in np.flatnonzero(given.is_scheduled).tolist()}
        standings = {}
        for name, query in self._queries.items():
            known, step = self.standings.get(name), query.window.slide
            if known is None:
                standings[name] = ScheduledQuery(step, is_new=True)
                is_free = newest is None or query.after is None
            else:
                standings[name] = ScheduledQuery(step, known.last, known.free_from, known.is_new)
                is_free = newest is None or known.step == step
            if not is_free and newest is not None:
                standings[name].free_from = newest + 1 + query.window.range
        self.standings = standings
        self._note(given)

    def _note(self, given: tuple[SlicedAggregation, ...]) -> None:
        """Note what follows from queries and their standings."""
        own, standings = self._queries, self.standings
        self._given, self._names = given, frozenset(own)
        ranges = [query.window.range for query in own.values()]
        self._shortest, self._longest = min(ranges, default=0), max(ranges, default=0)
        self._stopping = [name for name, query in own.items() if query.stop is not None]
        self._new = [name for name in own if standings[name].is_new]
        changed = [s.free_from + s.step for s in standings.values() if s.free_from is not None]
        self._changed_until = max(changed, default=None)
        self._tasks = None, None

    def forget_query(self, name: str) -> None:
        """Another query has taken the name."""
        self.standings.pop(name, None)
        self._given = None

    # A batch

    def due(
        self,
        sets: Mapping[str, SharingSet],
        oldest: int,
        newest: int,
        watermark: int | None,
        *,
        waiting: frozenset[str],
        schedule: Schedule,
    ) -> Decided:
        """The instants of all queries that updates up to the watermark make due; None for the end of the input.
        Queries that are waiting for their past are left out. Event time may go on without events: windows that begin
        after the newest one wait until a later one shows that they lie between two."""
        if not self.standings:
            return Decided()
        since = oldest if self.clock is None else self.clock
        until = newest + self._longest if watermark is None else min(watermark, newest + self._longest)
        if until < since:
            return Decided()
        catching_up = self._catching_up(since, oldest, waiting)
        active = self._names.difference(waiting, catching_up, self._stopped(since))
        changing = self._changing(active, since)
        kept = self._kept_tasks(sets, active.difference(changing), schedule)
        kept.find_deadlines(oldest, lambda name, period: self._deadline(name, period, oldest))
        apart = [task for task in self._tasks_apart(changing, oldest) if self._may_hold(task, newest)]

        def timetable_of(until: int | None) -> Timetable:
            return Timetable(scheduler_of(schedule), kept.scheduled(sets, newest, until) + apart, self._debt)

        stretch, span, capacity = PassedUpdates(since, until), until - since, inf
        if watermark is not None:
            capacity = self.pace.capacity(span / SECOND, lambda: timetable_of(None).load * span)
        # Without a limit nobody waits for another, so that those alone count that are due.
        timetable = timetable_of(until if isinf(capacity) else None)
        if timetable.is_ample(stretch, capacity):
            decided = counted_apart(timetable, timetable.on_time(stretch))
        else:
            decided = counted_together(timetable, timetable.within(stretch, capacity))
        for name, first in catching_up.items():
            self._catch_up(decided, name, first, until)
        decided.followers = kept.followers
        self._debt = timetable.debt
        if watermark is not None:
            self.clock = max(since, min(watermark, newest + self._shortest))
        kept.execute(decided.runs)
        return self._asked(decided, oldest, newest)

    def _catching_up(self, since: int, oldest: int, waiting: frozenset[str]) -> dict[str, int]:
        """The next instants of new queries that updates have gone past."""
        behind = {name: self._behind(name, since, oldest) for name in self._new if name not in waiting}
        self._new = [name for name in self._new if self.standings[name].is_new]
        return {name: first for name, first in behind.items() if first is not None}

    def _behind(self, name: str, since: int, oldest: int) -> int | None:
        """The next instant of a new query, where updates have gone past it; None once it has caught up."""
        query, standing = self._queries[name], self.standings[name]
        assert query.at_most is not None
        first = self._deadline(name, query.at_most, oldest)
        standing.is_new &= first <= since and (query.stop is None or first <= query.stop)
        return first if standing.is_new else None

    def _catch_up(self, decided: Decided, name: str, first: int, until: int) -> None:
        """Answer a query every period of its own, from an instant on."""
        query = self._queries[name]
        assert query.at_most is not None
        count = (until - first) // query.at_most + 1
        if count > 0:
            decided.runs[name] = [InstantRun(first, count, query.at_most)]
            decided.cost += count * (access_cost(query) + finish_cost(query))

    def needed_from(self, oldest: int) -> int | None:
        """No instant before it is to come; None before the first."""
        if self.clock is None:
            return None
        periods = [(name, self._queries[name].at_most or 1) for name in self._new]
        return min([self.clock, *(self._deadline(name, period, oldest) for name, period in periods)])

    def _may_hold(self, own: Scheduled, newest: int) -> bool:
        """Whether a window of the task's next execution may hold the newest event."""
        return own.deadline <= newest + self._longest_of(own.task.queries)

    def _longest_of(self, names: Sequence[str]) -> int:
        return max(self._queries[name].window.range for name in names)

    def _stopped(self, since: int) -> list[str]:
        """Those that have answered their last window."""
        own = [(name, self._queries[name].stop, self.standings[name].step) for name in self._stopping]
        return [name for name, stop, step in own if stop is not None and stop < since - since % step]

    def _kept_tasks(self, sets: Mapping[str, SharingSet], names: frozenset[str], schedule: Schedule) -> KeptTasks:
        """They are only made anew when queries or clusters are others."""
        plans = [(name, own.plan) for name, own in sets.items() if own.plan is not None]
        key = [(name, plan.queries) for name, plan in plans], names, schedule
        before, kept = self._tasks
        if kept is None or before != key:
            kept = KeptTasks(groups_of(plans, names), scheduler_of(schedule), self._longest_of)
            self._tasks = key, kept
        return kept

    def _changing(self, names: frozenset[str], since: int) -> list[str]:
        """Those whose windows were cut on another step not long ago."""
        if self._changed_until is None or since >= self._changed_until:
            return []
        free = [(name, self.standings[name]) for name in sorted(names)]
        return [name for name, s in free if s.free_from is not None and since - since % s.step < s.free_from]

    def _tasks_apart(self, names: Sequence[str], oldest: int) -> Iterator[Scheduled]:
        """Of each of these queries one by itself."""
        for name in names:
            query = self._queries[name]
            assert query.at_most is not None
            task = Task((name,), 1, access_cost(query), finish_cost(query))
            key = GroupKey("", "", "", query.at_most, "", None, name)
            deadline = self._deadline(name, query.at_most, oldest)
            yield Scheduled(key, task, query.at_most, deadline - deadline % query.at_most)

    def _deadline(self, name: str, period: int, oldest: int) -> int:
        """When a query that runs every `period` is to run next; at first at a multiple of it."""
        last = self.standings[name].last
        if last is not None:
            return last + period
        return -(-self._lowest(name, oldest) // period) * period

    def _lowest(self, name: str, oldest: int) -> int:
        """The query is answered at no instant before this."""
        query = self._queries[name]
        lowest = oldest + 1
        if query.start is not None:
            lowest = max(lowest, query.start + query.window.range)
        if query.after is not None:
            lowest = max(lowest, query.after + 1)
        return lowest

    def _asked(self, decided: Decided, oldest: int, newest: int) -> Decided:
        """The instants that queries may be answered at, each once; they are noted as executed. After the newest event
        those whose window may hold it."""
        for name, runs in decided.runs.items():
            query, standing = self._queries[name], self.standings[name]
            lowest = self._lowest(name, oldest)
            if standing.last is not None:
                lowest = max(lowest, standing.last + 1)
            held = newest + query.window.range
            highest = held if query.stop is None else min(query.stop, held)
            kept = [cut for run in runs if (cut := _between(run, lowest, highest)) is not None]
            decided.runs[name] = kept
            if kept:
                decided.count(name, kept, standing.last, query)
                standing.last = kept[-1].first + (kept[-1].count - 1) * kept[-1].slide
        return decided

    def deadlines(self, oldest: int) -> dict[str, Deadline]:
        """By when each query should be executed next, going by its own period; not of those that are over."""
        deadlines = {}
        for name, query in list(self._queries.items()):
            assert query.at_most is not None
            standing, due = self.standings[name], self._deadline(name, query.at_most, oldest)
            is_late = self.clock is not None and self.clock - self.clock % standing.step > due
            if query.stop is None or due <= query.stop:
                deadlines[name] = Deadline(due, standing.last, is_late)
        return deadlines

    # A restart

    def snapshot(self) -> dict[str, Any]:
        return {
            "standings": {name: [s.step, s.last, s.free_from, s.is_new] for name, s in self.standings.items()},
            "clock": self.clock,
            "debt": self._debt,
            "pace": self.pace.snapshot(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.standings = {name: ScheduledQuery(*fields) for name, fields in state["standings"].items()}
        self.clock, self._debt = state["clock"], state["debt"]
        self._given = None
        self.pace.restore(state["pace"])


def _between(run: InstantRun, lowest: int, highest: int) -> InstantRun | None:
    """The part of a run from one instant to another."""
    if lowest <= run.first and run.first + (run.count - 1) * run.slide <= highest:
        return run
    skipped = max(0, -((run.first - lowest) // run.slide))
    first, count = run.first + skipped * run.slide, run.count - skipped
    count = min(count, (highest - first) // run.slide + 1)
    return InstantRun(first, count, run.slide) if count > 0 else None
