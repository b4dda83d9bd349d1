"""Groups, periods and costs of queries with SLIDE AT MOST: the example of golab 8.4.3 and 8.4.4, and random ones."""

from __future__ import annotations

from itertools import pairwise
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_course import STREAM, query
from mullion.engine import Engine
from mullion.options import Options, Schedule
from mullion.planner.plan import Plan
from mullion.planner.rules import make_plan
from mullion.planner.schedules import groups
from mullion.planner.schedules.cost import separate_cost, shared_cost
from mullion.planner.schedules.explained import _task_text
from mullion.planner.schedules.groups import groups_of
from mullion.planner.schedules.hybrid import MOST_PARTITIONED, _partitions, shortened
from mullion.planner.schedules.schedulers import SCHEDULERS, DueTask, scheduler_of
from mullion.planner.schedules.steps import common_steps, stepped
from mullion.planner.schedules.tasks import Access, Task, joint_cost, one_task

EXAMPLE = [(10, 2), (5, 2), (6, 2), (15, 3), (12, 3), (20, 5), (30, 5)]
"""WINDOW and SLIDE of Q1 to Q7, in minutes."""
G11, G12, G13 = Task(("Q1", "Q2", "Q3"), 2, 9), Task(("Q4", "Q5"), 3, 14), Task(("Q6", "Q7"), 5, 29)


def test_cost_of_two_sub_groups_apart_and_merged() -> None:
    assert shared_cost([G11, G12]) == pytest.approx(46 / 6)
    assert shared_cost([one_task([G11, G12])]) == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("blocks", "cost"),
    [
        ([[G11], [G12], [G13]], 358 / 30),  # the thesis prints 11.63
        ([[G11, G12], [G13]], 11.4),
        ([[G11, G12, G13]], 14.5),
        ([[G11], [G12, G13]], 38 / 3),
        ([[G11, G13], [G12]], 16.8333333),
    ],
)
def test_cost_of_each_partition_of_the_example(blocks: list[list[Task]], cost: float) -> None:
    assert shared_cost([one_task(block) for block in blocks]) == pytest.approx(cost)


def test_cost_of_no_sharing() -> None:
    assert separate_cost([G11, G12, G13]) == pytest.approx(14.9666667)


def test_hybrid_shortens_the_period_of_one_sub_group() -> None:
    assert shortened((G11, G12, G13)) == (one_task([G11, G12]), G13)


def test_groups_of_the_example_are_those_of_the_thesis() -> None:
    (group,) = groups_of(
        [("", plan_of([f"max(x) AS n FROM s [WINDOW {w} us SLIDE AT MOST {s} us]" for w, s in EXAMPLE]))]
    )
    assert group.rule == "CS2" and group.key.step == 1
    assert [(t.queries, t.period, t.access) for t in group.subgroups] == [
        (("Q1", "Q2", "Q3"), 2, 9),
        (("Q4", "Q5"), 3, 14),
        (("Q6", "Q7"), 5, 29),
    ]


def plan_of(selects: list[str], **options: str) -> Plan:
    queries = [query(f"SELECT {select}", f"Q{i}") for i, select in enumerate(selects, 1)]
    return make_plan(STREAM, stepped(queries), Options.of(**options))


def rules(selects: list[str]) -> list[tuple[str, list[str]]]:
    groups = groups_of([("", plan_of(selects))])
    return sorted((g.rule, sorted(n for t in g.subgroups for n in t.queries)) for g in groups)


def test_prefixes_run_together_over_one_length_and_walks_over_any() -> None:
    window = "FROM s [RANGE {} us SLIDE AT MOST {} us]"
    assert rules(["sum(x) AS n " + window.format(8, 2), "count(x) AS n " + window.format(8, 4)]) == [
        ("CS1", ["Q1", "Q2"])
    ]
    assert rules(["sum(x) AS n " + window.format(8, 2), "sum(x) AS n " + window.format(6, 2)]) == [
        ("CS1", ["Q1"]),
        ("CS1", ["Q2"]),
    ]
    assert rules(["sum(x) AS n " + window.format(8, 2), "avg(x) AS n " + window.format(8, 4)]) == [
        ("CS3", ["Q1", "Q2"])
    ]
    assert rules(["max(x) AS n " + window.format(8, 2), "max(x) AS m " + window.format(6, 2)]) == [
        ("CS2", ["Q1", "Q2"])
    ]
    apart = ["min(x) AS n " + window.format(8, 2), "max(x) AS n " + window.format(6, 2)]
    assert rules(apart) == [("CS2", ["Q1"]), ("CS2", ["Q2"])], "two states are two walks"
    counted = ["top_k(x, 3) AS n " + window.format(8, 2), "median(x) AS n " + window.format(6, 2)]
    assert rules(counted) == [("CS2", ["Q1", "Q2"])], "both walk over counts of x"


def test_queries_with_other_predicates_keys_or_steps_do_not_run_together() -> None:
    window = "FROM s [RANGE 64 us SLIDE AT MOST 32 us]"
    assert len(rules([f"max(x) AS n {window}", f"max(x) AS n {window} WHERE x > 1"])) == 2
    assert len(rules([f"max(x) AS n {window}", f"k, max(x) AS n {window} GROUP BY k"])) == 2
    other = "FROM s [RANGE 64 us SLIDE AT MOST 33 us]"
    assert len(rules([f"max(x) AS n {window}", f"max(x) AS n {other}"])) == 2


def covering(items: str, periods: tuple[int, int, int], third: str = "x = 6 OR x = 17", length: int = 60) -> list[str]:
    """Two queries and one that they cover."""
    return [
        f"{items} FROM s [RANGE {own} us SLIDE AT MOST {period} us] WHERE {where}"
        for where, period, own in zip(("x = 6", "x = 17", third), periods, (60, 60, length), strict=True)
    ]


@pytest.mark.parametrize(("items", "rule"), [("sum(x) AS n", "CS6"), ("max(x) AS n", "CS7")])
def test_a_covered_query_runs_with_its_candidates(items: str, rule: str) -> None:
    (group,) = groups_of([("", plan_of(covering(items, (2, 2, 3))))])
    assert group.rule == rule
    assert [(own.query.name, [c.name for c in own.candidates]) for own in group.covered] == [("Q3", ["Q1", "Q2"])]
    assert [(task.queries, task.period) for task in group.subgroups] == [(("Q1", "Q2"), 2), (("Q3",), 3)]
    for asked in (covering(items, (2, 2, 3), length=40), covering(items, (2, 2, 3), "x = 6 OR x = 18")):
        assert all(not own.covered for own in groups_of([("", plan_of(asked))]))


def test_overlapping_candidates_cover_extremes_alone() -> None:
    """Q4 to Q6 of golab 8.3.3."""
    wheres = ("x = 6", "k = 'U'", "x = 6 OR k = 'U'")
    asked = [f"{{}}(x) AS n FROM s [RANGE 60 us SLIDE AT MOST 2 us] WHERE {where}" for where in wheres]
    assert rules([text.format("max") for text in asked]) == [("CS7", ["Q1", "Q2", "Q3"])]
    assert rules([text.format("sum") for text in asked]) == [("CS1", ["Q1"]), ("CS1", ["Q2"]), ("CS1", ["Q3"])]


def test_cost_of_a_covered_query_is_its_own_unless_all_candidates_run() -> None:
    (group,) = groups_of([("", plan_of(covering("max(x) AS n", (2, 2, 3))))])
    both, third = group.subgroups
    assert (both.access, third.access) == (59 * 2, 59)
    assert shared_cost([both, third]) == pytest.approx((59 * 2 * 3 + 59 + 0.5) / 6 + 2 / 2 + 1 / 3)
    assert shared_cost([one_task([both, third])]) == pytest.approx((59 * 2 + 0.5 + 3) / 2)
    assert shortened((both, third)) == (one_task([both, third]),)


WALKS = [
    f"max(x) AS n FROM s [RANGE {60 + 20 * i} us SLIDE AT MOST {period} us] WHERE x = 6"
    for i, period in enumerate((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37))
]


def test_one_covered_query_leaves_the_walks_of_others_as_they_were() -> None:
    """Twelve walks in three tasks. Two more by themselves would take (279 + 1) / 37 each."""
    (alone,) = groups_of([("", plan_of(WALKS))])
    more = [f"max(x) AS n FROM s [RANGE 280 us SLIDE AT MOST 37 us] WHERE {w}" for w in ("x = 17", "x = 6 OR x = 17")]
    (covered,) = groups_of([("", plan_of([*WALKS, *more]))])
    tasks, before = shortened(covered.subgroups), shortened(alone.subgroups)
    assert {frozenset(task.queries) for task in before} <= {frozenset(task.queries) for task in tasks}
    assert shared_cost(tasks) < shared_cost(before) + 2 * 280 / 37
    told = "; ".join(_task_text(covered, task) for task in tasks)
    assert all(told.count(name) == 1 for name in ("Q2 ", "Q3 ", "Q13", "Q14"))


@given(
    st.sampled_from(["max(x) AS n", "sum(x) AS n"]),
    st.lists(
        st.tuples(
            st.sampled_from(["x = 6", "x = 6", "x = 17", "x = 6 OR x = 17"]),
            st.sampled_from([20, 30, 40, 60]),
            st.sampled_from([2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ),
        min_size=3,
        max_size=14,
    ),
)
def test_covers_make_no_schedule_dearer(items: str, asked: list[tuple[str, int, int]]) -> None:
    plan = plan_of([f"{items} FROM s [RANGE {r} us SLIDE AT MOST {p} us] WHERE {where}" for where, r, p in asked])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "covered_queries", lambda *given: [])
        without = [shortened(group.subgroups) for group in groups_of([("", plan)])]
    covered = [shortened(group.subgroups) for group in groups_of([("", plan)])]
    assert sum(map(shared_cost, covered)) <= sum(map(shared_cost, without)) + 1e-9
    names = [name for tasks in covered for task in tasks for name in task.queries]
    assert sorted(names) == sorted(f"Q{i}" for i in range(1, len(asked) + 1))


def test_the_same_query_with_a_longer_period_takes_the_others_answers() -> None:
    selects = [f"max(x) AS n FROM s [RANGE 8 us SLIDE AT MOST {s} us]" for s in (2, 6, 4)]
    (group,) = groups_of([("", plan_of(selects))])
    assert group.followers == (("Q2", "Q1"), ("Q3", "Q1"))
    assert [(t.queries, t.period) for t in group.subgroups] == [(("Q1", "Q2", "Q3"), 1)]
    (without,) = groups_of([("", plan_of(selects))], frozenset({"Q2", "Q3"}))
    assert without.followers == (("Q2", "Q3"),) and [t.period for t in without.subgroups] == [2]


def test_steps_are_what_periods_have_in_common_unless_that_is_too_fine() -> None:
    assert common_steps([120, 180, 300]) == {120: 60, 180: 60, 300: 60}
    assert common_steps([1_000_000, 1_000_001]) == {1_000_000: 1_000_000, 1_000_001: 1_000_001}
    assert common_steps([]) == {}


def test_without_sharing_a_query_has_its_own_step() -> None:
    queries = [query(f"SELECT max(x) AS n FROM s [RANGE 8 us SLIDE AT MOST {s} us]", f"q{s}") for s in (4, 6)]
    assert [q.window.slide for q in stepped(queries, shared=False)] == [4, 6]
    assert [q.window.slide for q in stepped(queries)] == [2, 2]


subgroups = st.lists(
    st.builds(
        Task,
        st.just(("q",)),
        st.integers(1, 12),
        st.integers(1, 40).map(float),
        st.integers(0, 3).map(float),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda task: task.period,
)
accesses = st.sampled_from(
    (Access("tcp", 9.0), Access("udp", 4.0), Access("either", 12.0, ("tcp", "udp"), 0.5), Access("tcp", 2.0))
)


def of_slots(period: int, slots: list[Access]) -> Task:
    """The queries of a period, one of each slot."""
    asked = [slot._replace(queries=(f"{slot.slot} {period}",), finish=1.0) for slot in slots]
    return one_task([Task(slot.queries, period, slot.cost, 1.0, (slot,)) for slot in asked])


by_slot = st.builds(
    of_slots, st.integers(1, 10), st.lists(accesses, min_size=1, max_size=3, unique_by=lambda a: a.slot)
)
covering_subgroups = st.lists(by_slot, min_size=1, max_size=4, unique_by=lambda task: task.period)


def laid_out(tasks: list[Task]) -> float:
    """The cost by looking at every update up to the least common multiple."""
    span = lcm(*(task.period for task in tasks))
    due = ([task for task in tasks if update % task.period == 0] for update in range(1, span + 1))
    return sum(joint_cost(together) for together in due if together) / span


@given(subgroups | covering_subgroups)
def test_cost_is_that_of_all_updates_laid_out(tasks: list[Task]) -> None:
    assert shared_cost(tasks) == pytest.approx(laid_out(tasks))


@given(subgroups | covering_subgroups)
def test_hybrid_is_the_cheapest_partition(tasks: list[Task]) -> None:
    """Where there are several slots, those of a sub-group may also go apart."""
    best = min(laid_out([one_task(block) for block in blocks]) for blocks in _partitions(tasks))
    found = shortened(tuple(tasks))
    assert shared_cost(found) == pytest.approx(laid_out(list(found)))
    if any(task.slots for task in tasks):
        assert shared_cost(found) <= best + 1e-9
        assert sorted(n for task in found for n in task.queries) == sorted(n for task in tasks for n in task.queries)
    else:
        assert shared_cost(found) == pytest.approx(best)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(20, 100)), min_size=MOST_PARTITIONED + 1, max_size=30))
def test_of_many_sub_groups_hybrid_is_no_dearer_than_the_others(drawn: list[tuple[int, int]]) -> None:
    by_period = {period: Task((f"q{period}",), period, float(window)) for period, window in drawn}
    tasks = tuple(by_period.values())
    found = shortened(tasks)
    assert shared_cost(found) <= min(shared_cost(tasks), shared_cost([one_task(tasks)])) + 1e-9
    assert sorted(name for task in found for name in task.queries) == sorted(name for t in tasks for name in t.queries)
    asked = {name: task.period for task in tasks for name in task.queries}
    assert all(task.period <= asked[name] for task in found for name in task.queries)


# The contract of the family


@pytest.mark.parametrize("schedule", Schedule)
@given(tasks=subgroups)
def test_tasks_hold_every_query_at_no_longer_a_period(schedule: Schedule, tasks: list[Task]) -> None:
    named = [Task((f"q{i}",), t.period, t.access, t.finish) for i, t in enumerate(tasks)]
    made = scheduler_of(schedule).tasks(named)
    periods = {name: task.period for task in made for name in task.queries}
    assert periods.keys() == {f"q{i}" for i in range(len(tasks))}
    assert all(periods[f"q{i}"] <= task.period for i, task in enumerate(tasks))


@pytest.mark.parametrize("schedule", Schedule)
@given(waiting=st.lists(st.builds(DueTask, st.sampled_from("AB"), st.integers(-4, 0)), min_size=1, max_size=6))
def test_what_runs_together_is_of_one_group_and_has_the_earliest_deadline(
    schedule: Schedule, waiting: list[DueTask]
) -> None:
    chosen = scheduler_of(schedule).together(waiting)
    assert chosen and all(a < b for a, b in pairwise(chosen))
    assert len({waiting[i].group for i in chosen}) == 1
    assert min(w.left for w in waiting) == min(waiting[i].left for i in chosen)


def test_how_schedulers_differ_when_some_are_late() -> None:
    waiting = [DueTask("G", -2), DueTask("G", -1), DueTask("G", 0), DueTask("H", -1)]
    together = {schedule: kind().together(waiting) for schedule, kind in SCHEDULERS.items()}
    assert together == {
        Schedule.EDF: [0],
        Schedule.AGGRESSIVE: [0],
        Schedule.CONSERVATIVE: [0],
        Schedule.HYBRID: [0],
        Schedule.LATE_SHARING: [0, 1],
        Schedule.LATE_PENDING: [0, 1, 2],
    }


def test_explain_shows_groups_sub_groups_periods_and_costs() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, x INT) USING rate TIMESTAMP BY ts")
    for i, (window, slide) in enumerate(EXAMPLE, 1):
        engine.execute(f"CREATE QUERY Q{i} AS SELECT max(x) AS n FROM s [RANGE {window} min SLIDE AT MOST {slide} min]")
    engine.execute("CREATE QUERY same AS SELECT max(x) AS n FROM s [RANGE 30 min SLIDE AT MOST 10 min]")
    told = engine.explain()
    at = str(told).splitlines().index("  schedule auto (hybrid, while late late-pending): 8 queries in 1 group")
    assert str(told).splitlines()[at + 1 : at + 4] == [
        "    ├─ CS2 over max(x) by slice only, updated every 1 min: Q1, Q2, Q3 with Q4, Q5 (asked every "
        "3 min) every 2 min; Q6, Q7, same every 5 min; 14.3 an update, alone 17.53",
        "    ├─ deadlines: Q1, Q2, Q3 within 2 min of the answer before; Q4, Q5 within 3 min of the answer before; "
        "Q6, Q7 within 5 min of the answer before; same within 10 min of the answer before",
        "    └─ CS8: same takes the answers of Q7",
    ]
    (group,) = told.to_dict()["plans"][0]["schedule"]
    assert (
        group["tasks"][0]["period"] == "2 min"
        and group["combined_from"] == {}
        and group["takes_answers_of"] == {"same": "Q7"}
    )
    assert Engine().explain().to_dict()["plans"] == []


def test_a_query_that_takes_the_answers_of_another_did_not_ask_for_its_period() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, x INT) USING rate TIMESTAMP BY ts")
    for name, (window, slide) in {"a": (10, 2), "b": (15, 3), "c": (15, 9)}.items():
        engine.execute(f"CREATE QUERY {name} AS SELECT max(x) AS n FROM s [RANGE {window} s SLIDE AT MOST {slide} s]")
    assert "updated every 1 s: a with b (asked every 3 s), c every 2 s;" in str(engine.explain())


def test_explain_names_the_rules_of_covers_and_both_costs() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, x INT) USING rate TIMESTAMP BY ts")
    for i, where in enumerate(("x = 6", "x = 17", "x IN (6, 17)"), 1):
        window = "[RANGE 30 min SLIDE AT MOST 2 min]"
        engine.execute(f"CREATE QUERY Q{i} AS SELECT max(x) AS n FROM s {window} WHERE {where}")
    told = engine.explain()
    covered = "SS4, CS7: Q3 may be combined from the answers of Q1, Q2, at the instants of all"
    assert f"    └─ {covered}: 0.5 an execution, alone 14" in str(told).splitlines()
    (group,) = told.to_dict()["plans"][0]["schedule"]
    assert group["rule"] == "CS7" and group["combined_from"] == {"Q3": ["Q1", "Q2"]}
    for i, where in enumerate(("x = 6", "x = 17", "x IN (6, 17)"), 1):
        engine.execute(f"CREATE QUERY E{i} AS SELECT sum(x) AS n FROM s [RANGE 9 min SLIDE 3 min] WHERE {where}")
    told = engine.explain()
    exact = "SS4, CS6: E3 may be combined from the answers of E1, E2: 0.5 an execution, alone 1"
    assert any(line.endswith(exact) for line in str(told).splitlines())
    assert told.to_dict()["plans"][0]["groupings"][0]["combined_from"] == {"E3": ["E1", "E2"]}
