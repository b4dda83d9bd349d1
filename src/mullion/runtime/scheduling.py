"""At which instants the queries with SLIDE AT MOST are answered in a batch.

    plans --CS1 to CS3--> groups --scheduler--> tasks --last executions--> deadlines --timetable--> instants of queries

Only three things are remembered from batch to batch, and committed with it: when each query was executed last, on which
step its windows lie, and how far updates have come. All else follows from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from mullion.planner.schedules.deadlines import Deadline
from mullion.planner.schedules.groups import Group, GroupKey, access_cost, finish_cost, groups_of
from mullion.planner.schedules.schedulers import scheduler_of
from mullion.planner.schedules.tasks import Task
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.executions import Decided, counted_apart, counted_together
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
        self._queries: dict[str, SlicedAggregation] = {}
        self._groups: tuple[object, list[Group]] = None, []

    # Queries

    def set_queries(self, queries: Sequence[SlicedAggregation], newest: int | None) -> None:
        """The queries that the next batch answers; `newest` is the newest event of those before."""
        self._queries = {query.name: query for query in queries if query.at_most is not None}
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

    def forget_query(self, name: str) -> None:
        """Another query has taken the name."""
        self.standings.pop(name, None)

    # A batch

    def due(
        self,
        sets: Mapping[str, SharingSet],
        oldest: int,
        newest: int,
        watermark: int | None,
        *,
        waiting: frozenset[str],
        schedule: Any,
    ) -> Decided:
        """The instants of all queries that updates up to the watermark make due; None for the end of the input.
        Queries that are waiting for their past are left out. Event time may go on without events: windows that begin
        after the newest one wait until a later one shows that they lie between two."""
        if not self.standings:
            return Decided()
        since = oldest if self.clock is None else self.clock
        ranges = [query.window.range for query in self._queries.values()]
        until = newest + max(ranges) if watermark is None else min(watermark, newest + max(ranges))
        if until < since:
            return Decided()
        present = [name for name in self._queries if name not in waiting]
        catching_up = {name: first for name in present if (first := self._behind(name, since, oldest)) is not None}
        active = frozenset(name for name in present if name not in catching_up and self._is_active(name, since))
        tasks = [task for task in self._tasks(sets, active, since, oldest, schedule) if self._may_hold(task, newest)]
        timetable = Timetable(scheduler_of(schedule), tasks, self._debt)
        stretch = PassedUpdates(since, until)
        load = timetable.load * (until - since)
        capacity = inf if watermark is None else self.pace.capacity((until - since) / SECOND, load)
        if timetable.is_ample(stretch, capacity):
            decided = counted_apart(timetable, timetable.on_time(stretch))
        else:
            decided = counted_together(timetable, timetable.within(stretch, capacity))
        for name, first in catching_up.items():
            self._catch_up(decided, name, first, until)
        decided.followers = {name: leader for group in self._groups[1] for name, leader in group.followers}
        self._debt = timetable.debt
        if watermark is not None:
            self.clock = max(since, min(watermark, newest + min(ranges)))
        return self._asked(decided, oldest, newest)

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
        new = [(name, query) for name, query in self._queries.items() if self.standings[name].is_new]
        return min([self.clock, *(self._deadline(name, query.at_most or 1, oldest) for name, query in new)])

    def _may_hold(self, own: Scheduled, newest: int) -> bool:
        """Whether a window of the task's next execution may hold the newest event."""
        return own.deadline <= newest + max(self._queries[name].window.range for name in own.task.queries)

    def _is_active(self, name: str, since: int) -> bool:
        stop = self._queries[name].stop
        return stop is None or stop >= since - since % self.standings[name].step

    def _tasks(
        self, sets: Mapping[str, SharingSet], active: frozenset[str], since: int, oldest: int, schedule: Any
    ) -> Iterator[Scheduled]:
        scheduler = scheduler_of(schedule)
        changing = {name for name in active if self._is_changing(name, since)}
        weights = {
            (name, grouping): float(max(1, number))
            for name, own in sets.items()
            for grouping, number in own.groups.items()
        }
        for group in self._groups_of(sets, active - changing):
            weight = weights.get((group.key.cluster, group.key.grouping), 1.0)
            for task in scheduler.tasks(group.subgroups):
                step, period = group.key.step, task.period * group.key.step
                deadline = min(self._deadline(name, period, oldest) for name in task.queries)
                yield Scheduled(group.key, task, step, deadline, weight)
        for name in sorted(changing):
            query = self._queries[name]
            assert query.at_most is not None
            task = Task((name,), 1, access_cost(query), finish_cost(query))
            key = GroupKey("", "", "", query.at_most, "", None, name)
            deadline = self._deadline(name, query.at_most, oldest)
            yield Scheduled(key, task, query.at_most, deadline - deadline % query.at_most)

    def _groups_of(self, sets: Mapping[str, SharingSet], active: frozenset[str]) -> list[Group]:
        """They are only made anew when queries or clusters are others."""
        plans = [(name, own.plan) for name, own in sets.items() if own.plan is not None]
        key = [(name, plan.queries) for name, plan in plans], active
        if self._groups[0] != key:
            self._groups = key, groups_of(plans, active)
        return self._groups[1]

    def _is_changing(self, name: str, since: int) -> bool:
        standing = self.standings[name]
        return standing.free_from is not None and since - since % standing.step < standing.free_from

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
        self.pace.restore(state["pace"])


def _between(run: InstantRun, lowest: int, highest: int) -> InstantRun | None:
    """The part of a run from one instant to another."""
    skipped = max(0, -((run.first - lowest) // run.slide))
    first, count = run.first + skipped * run.slide, run.count - skipped
    count = min(count, (highest - first) // run.slide + 1)
    return InstantRun(first, count, run.slide) if count > 0 else None
