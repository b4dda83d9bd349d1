"""Which tasks run at which updates: Figure 8.6 of golab, and random tasks under any capacity."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.options import Schedule
from mullion.planner.schedules.groups import GroupKey
from mullion.planner.schedules.schedulers import scheduler_of
from mullion.planner.schedules.tasks import Task
from mullion.runtime.timetable import Execution, PassedUpdates, Scheduled, Timetable

G11, G12, G13 = Task(("Q1", "Q2", "Q3"), 2, 9), Task(("Q4", "Q5"), 3, 14), Task(("Q6", "Q7"), 5, 29)


def key(name: str, step: int = 1) -> GroupKey:
    return GroupKey("", name, "", step, "", None)


def timetable(schedule: str, *groups: list[Task], step: int = 1) -> Timetable:
    scheduler = scheduler_of(Schedule(schedule))
    tasks = [
        Scheduled(key(str(i), step), task, step, task.period * step)
        for i, group in enumerate(groups)
        for task in scheduler.tasks(group)
    ]
    return Timetable(scheduler, tasks)


def runs(table: Timetable, executions: list[Execution]) -> list[tuple[int, list[str]]]:
    return [(at, sorted(n for i in tasks for n in table.tasks[i].task.queries)) for at, tasks in executions]


ALL = ["Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7"]
FIRST, SECOND, THIRD = ALL[:3], ALL[3:5], ALL[5:]


def test_figure_8_6_a_aggressive_runs_all_every_two_minutes() -> None:
    table = timetable("aggressive", [G11, G12, G13])
    assert runs(table, table.within(PassedUpdates(0, 8), 1e6)) == [(2, ALL), (4, ALL), (6, ALL), (8, ALL)]


def test_figure_8_6_b_conservative_runs_what_is_due_together() -> None:
    table = timetable("conservative", [G11, G12, G13])
    assert runs(table, table.within(PassedUpdates(0, 10), 1e6)) == [
        (2, FIRST),
        (3, SECOND),
        (4, FIRST),
        (5, THIRD),
        (6, FIRST + SECOND),
        (8, FIRST),
        (9, SECOND),
        (10, FIRST + THIRD),
    ]


def test_figure_8_6_c_hybrid_runs_two_sub_groups_every_two_minutes_and_the_third_every_five() -> None:
    table = timetable("hybrid", [G11, G12, G13])
    assert runs(table, table.within(PassedUpdates(0, 10), 1e6)) == [
        (2, FIRST + SECOND),
        (4, FIRST + SECOND),
        (5, THIRD),
        (6, FIRST + SECOND),
        (8, FIRST + SECOND),
        (10, ALL),
    ]


def test_figure_8_6_d_late_pending_runs_late_and_due_ones_at_once() -> None:
    table = timetable("late-pending", [G11, G12, G13])
    table.tasks[0].deadline, table.tasks[1].deadline = 4, 5  # at update 5: d11 = d12 = -1, d13 = 0
    assert [own.left(5) for own in table.tasks] == [-1, 0]
    assert runs(table, table.within(PassedUpdates(4, 5), 1e6)) == [(5, ALL)]
    for schedule in ("hybrid", "late-sharing"):
        other = timetable(schedule, [G11, G12, G13])
        other.tasks[0].deadline, other.tasks[1].deadline = 4, 5
        assert runs(other, other.within(PassedUpdates(4, 5), 1e6)) == [(5, FIRST + SECOND), (5, THIRD)]


def test_late_sharing_runs_late_ones_of_different_lateness_at_once() -> None:
    table = timetable("late-sharing", [G11, G13])
    table.tasks[0].deadline, table.tasks[1].deadline = 3, 4
    assert runs(table, table.within(PassedUpdates(4, 5), 1e6)) == [(5, FIRST + THIRD)]


def test_a_late_task_is_not_made_up_for() -> None:
    table = timetable("edf", [Task(("a",), 2, 1)])
    table.tasks[0].deadline = 2
    assert runs(table, table.within(PassedUpdates(6, 7), 1e6)) == [(7, ["a"])]
    assert table.tasks[0].deadline == 9


def test_what_is_not_done_before_the_next_update_is_left_for_the_batch_after() -> None:
    table = timetable("edf", [Task(("a",), 1, 10)], [Task(("b",), 1, 10)])
    assert runs(table, table.within(PassedUpdates(0, 1), 10.0)) == [(1, ["a"])]
    assert runs(table, table.within(PassedUpdates(1, 1), 10.0)) == [(1, ["b"])], "no update came: it is still in time"
    assert [own.deadline for own in table.tasks] == [2, 2]


def test_what_was_done_beyond_capacity_is_paid_by_the_next_batch() -> None:
    table = timetable("edf", [Task(("a",), 1, 15)], [Task(("b",), 1, 15)])
    assert len(table.within(PassedUpdates(0, 1), 10.0)) == 1 and table.debt == 5.0
    assert len(table.within(PassedUpdates(1, 2), 10.0)) == 1 and table.debt == 10.0
    assert runs(table, table.within(PassedUpdates(2, 3), 0.0)) == [(3, ["a"])], "one always runs"


# Random tasks

small_tasks = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9), st.sampled_from("ABC")), min_size=1, max_size=6)
schedules = st.sampled_from([str(s) for s in Schedule])


def drawn_table(schedule: str, drawn: list[tuple[int, int, str]], step: int) -> Timetable:
    groups: dict[str, list[Task]] = {}
    for i, (period, access, group) in enumerate(drawn):
        groups.setdefault(group, []).append(Task((f"q{i}",), period, float(access)))
    return timetable(schedule, *groups.values(), step=step)


def played(table: Timetable, cuts: list[int], capacity: float) -> dict[str, list[int]]:
    """The instants of each query over batches that end at these updates; `capacity` is for one update."""
    instants: dict[str, list[int]] = {}
    since, step = 0, table.tasks[0].step
    for until in [cut * step for cut in cuts]:
        stretch = PassedUpdates(since, until)
        if capacity == inf:
            for own, (first, count) in zip(table.tasks, table.on_time(stretch), strict=True):
                for name in own.task.queries if count else ():
                    instants.setdefault(name, []).extend(first + i * own.period for i in range(count))
        else:
            for at, tasks in table.within(stretch, capacity * (until - since) / step):
                for name in (name for i in tasks for name in table.tasks[i].task.queries):
                    instants.setdefault(name, []).append(at)
        since = until
    return instants


increasing = st.lists(st.integers(1, 60), min_size=1, max_size=6).map(sorted)


@given(schedules, small_tasks, st.integers(1, 3), increasing)
def test_every_deadline_is_met_when_capacity_allows(
    schedule: str, drawn: list[tuple[int, int, str]], step: int, cuts: list[int]
) -> None:
    enough = float(sum(access for _, access, _ in drawn))
    instants = played(drawn_table(schedule, drawn, step), cuts, enough)
    for i, (period, _, _) in enumerate(drawn):
        own = [0, *instants.get(f"q{i}", [])]
        assert all(0 < b - a <= period * step for a, b in pairwise(own)), own
        assert cuts[-1] * step - own[-1] < period * step


@given(schedules, small_tasks, st.integers(1, 3), increasing)
def test_without_a_limit_it_is_as_with_enough(
    schedule: str, drawn: list[tuple[int, int, str]], step: int, cuts: list[int]
) -> None:
    enough = float(sum(access for _, access, _ in drawn))
    limited, free = drawn_table(schedule, drawn, step), drawn_table(schedule, drawn, step)
    assert played(limited, cuts, enough) == played(free, cuts, inf)
    assert [own.deadline for own in limited.tasks] == [own.deadline for own in free.tasks]


@given(schedules, small_tasks, st.floats(0.0, 20.0), increasing)
def test_instants_grow_and_nothing_runs_twice_at_one(
    schedule: str, drawn: list[tuple[int, int, str]], capacity: float, cuts: list[int]
) -> None:
    instants = played(drawn_table(schedule, drawn, 1), cuts, capacity)
    assert all(a < b for own in instants.values() for a, b in pairwise(own))
    assert all(0 < at <= cuts[-1] for own in instants.values() for at in own)


@given(schedules, small_tasks, st.floats(0.5, 5.0))
def test_nobody_starves(schedule: str, drawn: list[tuple[int, int, str]], capacity: float) -> None:
    cuts = list(range(1, 121))
    instants = played(drawn_table(schedule, drawn, 1), cuts, capacity)
    all_once = sum(access for _, access, _ in drawn)
    longest = max(period for period, _, _ in drawn) + all_once / capacity + len(drawn) + 1
    for i in range(len(drawn)):
        own = [0, *instants.get(f"q{i}", [])]
        assert max(b - a for a, b in pairwise([*own, 120])) <= 2 * longest + 1


@given(st.sampled_from(["edf", "conservative", "hybrid"]), st.integers(2, 6), st.integers(1, 3), st.integers(2, 5))
def test_under_overload_periods_stretch_evenly(schedule: str, number: int, period: int, over: int) -> None:
    """Tasks that cost alike, `over` times more than there is capacity: all are late by about the same."""
    table = timetable(schedule, *([Task((f"q{i}",), period, 1)] for i in range(number)))
    instants = played(table, list(range(1, 241)), number / (period * over))
    gaps = {name: [b - a for a, b in pairwise(own)][2:] for name, own in instants.items()}
    means = [sum(own) / len(own) for own in gaps.values()]
    assert max(means) - min(means) <= 1.0
    assert all(max(own) - min(own) <= 1 for own in gaps.values())


@given(schedules, small_tasks, st.sampled_from([2.0, 3.0, 5.0]))
def test_under_overload_all_are_late_by_about_the_same(
    schedule: str, drawn: list[tuple[int, int, str]], over: float
) -> None:
    """Whatever their periods, costs and groups: on average by two updates more or less, and by what the longest
    execution takes."""
    table = drawn_table(schedule, drawn, 1)
    capacity = table.load / over
    periods = {name: own.task.period for own in table.tasks for name in own.task.queries}
    longest = max(own.task.access for own in table.tasks) / capacity
    instants = played(table, list(range(1, 241)), capacity)
    late = {name: [b - a - periods[name] for a, b in pairwise(own)] for name, own in instants.items()}
    means = [sum(own[len(own) // 3 :]) / len(own[len(own) // 3 :]) for own in late.values()]
    assert len(means) == len(drawn) and max(means) - min(means) <= 2 + longest


@pytest.mark.parametrize("schedule", Schedule)
def test_a_gap_of_years_takes_no_time(schedule: Schedule) -> None:
    table = timetable(str(schedule), [Task(("a",), 1, 1)], [Task(("b",), 2, 1)])
    year = 31_536_000_000_000
    ((_, count), _) = table.on_time(PassedUpdates(0, year))
    assert count == year
    assert table.within(PassedUpdates(year, 2 * year), 100.0)
