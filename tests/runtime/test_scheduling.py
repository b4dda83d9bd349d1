"""What scheduling keeps from batch to batch changes nothing: one that knows the last commit alone decides the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hypothesis import given, settings
from hypothesis import strategies as st

from batch_course import STREAM, query
from mullion.options import Options, Schedule
from mullion.planner.plan import Plan
from mullion.planner.rules import make_plan
from mullion.planner.schedules.steps import stepped
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.pace import Conditions
from mullion.runtime.scheduling import Scheduling
from mullion.runtime.sharing_set import SharingSet
from mullion.slices.tier import WindowTier, needed_from

TEXTS = [
    "SELECT max(x) AS n FROM s [RANGE 6 us SLIDE AT MOST 3 us]",
    "SELECT max(x) AS n FROM s [RANGE 6 us SLIDE AT MOST 6 us]",
    "SELECT k, max(x) AS n FROM s [RANGE 9 us SLIDE AT MOST 2 us] GROUP BY k",
    "SELECT k, max(x) AS n FROM s [RANGE 20 us SLIDE AT MOST 5 us] GROUP BY k",
    "SELECT sum(x) AS n FROM s [RANGE 4 us SLIDE AT MOST 4 us]",
    "SELECT sum(x) AS n FROM s [RANGE 4 us SLIDE AT MOST 33 us] WHERE x > 3",
    "SELECT count(*) AS n FROM s [RANGE 2 us SLIDE 2 us]",
]


@dataclass(frozen=True)
class Asking:
    """A query by the number of its text, and when it begins and stops."""

    text: int
    after: int | None = None
    stop: int | None = None


@dataclass(frozen=True)
class Batch:
    changes: dict[int, Asking | None]
    """By the number of a query, what it is from now on; None when it leaves."""
    events: int
    """How much newer the newest one is than that of the batch before."""
    lag: int
    older: bool
    """Whether an event came that is older than all before."""
    waiting: frozenset[int]
    is_last: bool = False


asking = st.builds(
    Asking, st.integers(0, len(TEXTS) - 1), st.none() | st.integers(0, 60), st.none() | st.integers(0, 60)
)
numbers = st.integers(0, 4)
batches = st.builds(
    Batch,
    st.just({}) | st.dictionaries(numbers, st.none() | asking, max_size=2),
    st.integers(0, 15),
    st.integers(-3, 4),
    st.sampled_from((False, False, True)),
    st.frozensets(numbers, max_size=1) | st.just(frozenset()),
)
conditions = st.builds(
    Conditions, st.sampled_from((1.0, 4.0, 15.0, 400.0)), st.booleans(), st.sampled_from((1.0, 1.0, 3.0))
)


def asked_queries(current: dict[int, Asking]) -> list[SlicedAggregation]:
    own = [replace(query(TEXTS[a.text], f"q{i}"), after=a.after, stop=a.stop) for i, a in sorted(current.items())]
    return stepped(own)


@lru_cache(maxsize=512)
def plan_of(queries: tuple[SlicedAggregation, ...], schedule: Schedule) -> Plan:
    return make_plan(STREAM, queries, Options(schedule=schedule))


def sharing_sets(queries: Sequence[SlicedAggregation], schedule: Schedule, groups: int) -> dict[str, SharingSet]:
    """Queries with and without keys apart."""
    sets = {}
    for name, own in (("alone", [q for q in queries if not q.keys]), ("grouped", [q for q in queries if q.keys])):
        if own:
            plan = plan_of(tuple(own), schedule)
            numbers = {grouping.name: groups for grouping in plan.groupings}
            sets[name] = SharingSet(frozenset(q.name for q in own), plan=plan, groups=numbers)
    return sets


def begun(own: Conditions) -> Scheduling:
    scheduling = Scheduling()
    scheduling.pace.conditions, scheduling.pace.unit = own, 1.0
    return scheduling


@settings(max_examples=200)
@given(
    st.dictionaries(numbers, asking, min_size=1),
    st.lists(batches, min_size=1, max_size=8),
    st.sampled_from(list(Schedule)),
    conditions,
)
def test_what_is_kept_decides_as_what_was_committed(
    current: dict[int, Asking], course: list[Batch], schedule: Schedule, own: Conditions
) -> None:
    kept, oldest, newest = begun(own), 5, 5
    course = [*course, Batch({}, 0, 0, older=False, waiting=frozenset(), is_last=True)]
    for number, batch in enumerate(course):
        restored = begun(own)
        restored.restore(json.loads(json.dumps(kept.snapshot())))
        before, current = current, {i: a for i, a in {**current, **batch.changes}.items() if a is not None}
        for scheduling in (kept, restored):
            for i in [i for i in current if i in before and before[i] != current[i]]:
                scheduling.forget_query(f"q{i}")
            scheduling.set_queries(asked_queries(current), newest if number else None)
        oldest, newest = oldest - batch.older, newest + batch.events
        sets = sharing_sets(asked_queries(current), schedule, 1 + number % 3)
        watermark = None if batch.is_last else newest - batch.lag
        waiting = frozenset(f"q{i}" for i in batch.waiting)
        decided = [
            scheduling.due(sets, oldest, newest, watermark, waiting=waiting, schedule=schedule)
            for scheduling in (kept, restored)
        ]
        assert decided[0] == decided[1]
        assert kept.snapshot() == restored.snapshot()
        assert kept.deadlines(oldest) == restored.deadlines(oldest)
        assert kept.needed_from(oldest) == restored.needed_from(oldest)


@given(st.dictionaries(numbers, asking, min_size=1), st.integers(-30, 90), st.none() | st.integers(-30, 90))
def test_what_is_forgotten_of_all_queries_at_once_none_of_them_needs(
    current: dict[int, Asking], watermark: int, scheduled: int | None
) -> None:
    """One with SLIDE AT MOST may still be answered at the last instant that was scheduled."""
    queries = asked_queries(current)
    clock = watermark if scheduled is None else min(watermark, scheduled)
    passed = [watermark if q.at_most is None else clock - q.window.slide for q in queries]
    needed = [needed_from(q.window, q.start, q.after, q.stop, False, at) for q, at in zip(queries, passed, strict=True)]
    plan = plan_of(tuple(queries), Schedule.AUTO)
    assert WindowTier().forget(plan, watermark, scheduled) == min(needed)


def test_the_same_queries_again_are_no_others() -> None:
    """Tasks are made once, until a query comes or goes."""
    scheduling, current = Scheduling(), {0: Asking(0), 1: Asking(2)}
    made = []
    for number in range(4):
        if number == 3:
            current[2] = Asking(4)
        queries = asked_queries(current)
        scheduling.set_queries(queries, 10 * number)
        sets = sharing_sets(queries, Schedule.AUTO, 1)
        now = 10 * (number + 1)
        scheduling.due(sets, 0, now, now, waiting=frozenset(), schedule=Schedule.AUTO)
        made.append(scheduling._tasks[1])
    assert made[0] is made[1] is made[2] is not made[3]
