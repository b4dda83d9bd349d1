"""Queries with SLIDE AT MOST in a run: smallest examples by hand, lateness and its counts, entering and leaving."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from pathlib import Path

import pytest

from batch_course import Course, event, query
from mullion.options import Options
from mullion.planner.schedules.deadlines import Deadline
from mullion.runtime.admission import Admission
from mullion.runtime.monitor import Monitor
from mullion.runtime.pace import Conditions, Pace
from without_spark import local_engine

TWO = "SELECT count(*) AS n FROM s [RANGE 4 us SLIDE AT MOST 2 us]"
THREE = "SELECT max(x) AS n FROM s [RANGE 6 us SLIDE AT MOST 3 us]"

SECOND, NOON = 1_000_000, 1_699_963_200_000_000


def ends(course: Course, name: str = "q") -> list[int]:
    return sorted(row[0] for row in course.answers(name))


def executed(course: Course, name: str) -> dict[str, float]:
    """What is told of a query's executions, but for what there was none of."""
    return {what: number for what, number in course.run.counts.facts()["scheduled"][name].items() if number}


def test_smallest_example() -> None:
    """Alone and with time enough: at the multiples of its period, and at the end while an event is inside."""
    course = Course([query(TWO)])
    course.take(event(1), event(3), event(6))
    assert course.answers() == [(2, 1), (4, 2)], "the watermark is 4"
    course.end()
    assert course.answers() == [(10, 1), (2, 1), (4, 2), (6, 1), (8, 1)]


def test_a_query_runs_earlier_to_run_with_another() -> None:
    asked = [query("SELECT max(x) AS n FROM s [RANGE 20 us SLIDE AT MOST 2 us]", "often"), query(THREE, "rare")]
    course = Course(asked, options=Options.of(schedule="hybrid"))
    course.take(*(event(t) for t in range(1, 15)))
    assert ends(course, "often") == ends(course, "rare") == [2, 4, 6, 8, 10, 12]
    assert executed(course, "rare") == {"executions": 6, "met": 6, "joint": 6}
    apart = Course(asked, options=Options.of(schedule="conservative"))
    apart.take(*(event(t) for t in range(1, 15)))
    assert ends(apart, "rare") == [3, 6, 9, 12]
    assert executed(apart, "rare") == {"executions": 4, "met": 4, "joint": 2, "alone": 2}


def test_candidates_share_an_execution_only_with_what_they_cover() -> None:
    window = "FROM s [RANGE 20 us SLIDE AT MOST {} us] WHERE {} GROUP BY k"
    asked = [(2, "x < 4"), (2, "x >= 4"), (3, "x IS NOT NULL")]
    queries = [query(f"SELECT k, max(x) AS n {window.format(*own)}", f"q{i}") for i, own in enumerate(asked)]
    course = Course(queries, options=Options.of(schedule="conservative"))
    course.take(*(event(t, "ab"[t % 2], t % 7) for t in range(1, 15)))
    assert {name: own["joint"] for name, own in course.run.counts.scheduled.items()} == {"q0": 2, "q1": 2, "q2": 2}
    assert course.run.counts.scheduled["q0"]["executions"] == 6


def with_capacity(course: Course, capacity: float) -> Pace:
    """Every batch may cost so much."""
    pace = course.run.scheduling.pace
    pace.conditions, pace.unit = Conditions(every=capacity, bounded=False), 1.0
    pace.measured = lambda *given: None  # type: ignore[method-assign]
    return pace


def test_under_overload_periods_stretch_and_lateness_is_counted() -> None:
    names = [f"q{i}" for i in range(4)]
    course = Course([query(f"SELECT max(x) AS n FROM s [RANGE {4 + i} us SLIDE AT MOST 1 us] WHERE x > {i}", n)
                     for i, n in enumerate(names)])  # fmt: skip
    with_capacity(course, 8.0)
    for t in range(1, 40):
        course.take(event(t, x=9))
    counted = course.run.counts.scheduled
    assert all(counted[name]["late"] > 0 and counted[name]["executions"] > 5 for name in names)
    gaps = {name: [b - a for a, b in pairwise(ends(course, name))] for name in names}
    means = [sum(own) / len(own) for own in gaps.values()]
    assert min(means) > 1.5 and max(means) - min(means) < 1.0


@pytest.mark.slow
def test_behind_stretches_periods_about_so_much_and_then_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def say(stretch: float) -> None:
        monkeypatch.setattr(Monitor, "stretch", stretch)

    course = Course([query(f"SELECT max(x) AS n FROM s [RANGE 5 us SLIDE AT MOST 1 us] WHERE x > {i}", f"q{i}")
                     for i in range(6)])  # fmt: skip
    with_capacity(course, inf)
    for t in range(1, 11):
        course.take(event(t, x=9))
    assert ends(course, "q0") == list(range(2, 9))
    say(3.0)
    for t in range(11, 71):
        course.take(event(t, x=9))
    number = sum(len([end for end in ends(course, f"q{i}") if end > 8]) for i in range(6))
    assert 6 * 60 / 3 * 0.8 < number < 6 * 60 / 3 * 1.25
    say(1.0)
    for t in range(71, 91):
        course.take(event(t, x=9))
    assert [end for end in ends(course, "q0") if end > 75] == list(range(76, 89))


def test_what_a_batch_could_not_do_is_done_in_the_next_one_for_the_same_instant() -> None:
    window = "FROM s [RANGE 5 us SLIDE AT MOST 5 us]"
    course = Course(
        [query(f"SELECT max(x) AS n {window}", "a"), query(f"SELECT max(x) AS n {window} WHERE x > 0", "b")]
    )
    with_capacity(course, 1.0)
    course.take(event(1), event(7))
    assert (ends(course, "a"), ends(course, "b")) == ([5], [])
    course.take(event(8))
    assert (ends(course, "a"), ends(course, "b")) == ([5], [5])
    assert course.run.counts.scheduled["b"]["late"] == 0


def test_deadlines_count_from_the_last_execution_and_those_missed_are_told() -> None:
    """By turns, since a batch has time for one of them: each is answered every second update."""
    window = "FROM s [RANGE 5 us SLIDE AT MOST 5 us]"
    asked = [query(f"SELECT max(x) AS n {window}", "a"), query(f"SELECT max(x) AS n {window} WHERE x > 0", "b")]
    course = Course(asked)
    assert course.run.deadlines == {}, "nothing was read"
    with_capacity(course, 1.0)
    for t in (1, 7, 8, 13):
        course.take(event(t))
    assert (ends(course, "a"), ends(course, "b")) == ([5, 10], [5])
    assert course.run.deadlines == {"a": Deadline(15, 10), "b": Deadline(10, 5)}
    for t in (18, 23):
        course.take(event(t))
    assert (ends(course, "a"), ends(course, "b")) == ([5, 10, 20], [5, 15])
    told = {"late": 1, "late_updates": 1, "worst_lateness": 5e-6}
    assert executed(course, "a") == told | {
        "executions": 3,
        "met": 2,
        "mean_lateness": pytest.approx(5e-6 / 3),
        "alone": 3,
    }
    assert executed(course, "b") == told | {
        "executions": 2,
        "met": 1,
        "mean_lateness": pytest.approx(5e-6 / 2),
        "alone": 2,
    }
    with_capacity(course, 0.5)
    course.take(event(43))
    assert course.run.deadlines == {"a": Deadline(25, 20, is_late=True), "b": Deadline(45, 40)}, "updates up to 40 came"
    course.end()
    assert course.run.deadlines == {}, "nothing more is due"


def test_explain_tells_deadlines_and_what_was_met() -> None:
    script = """CREATE STREAM s (ts TIMESTAMP, x INT) USING json OPTIONS (path 'x') TIMESTAMP BY ts;
    CREATE QUERY a AS SELECT max(x) AS n FROM s [RANGE 10 s SLIDE AT MOST 2 s];
    CREATE QUERY b AS SELECT max(x) AS n FROM s [RANGE 15 s SLIDE AT MOST 3 s];"""
    with local_engine(script, schedule="conservative") as engine:
        before = engine.explain()
        assert (
            "    └─ deadlines: a within 2 s of the answer before; b within 3 s of the answer before"
            in str(before).splitlines()
        )
        engine.deliver("s", [{"ts": NOON + t * SECOND, "x": t} for t in range(11)], 0)
        told, of_b = engine.explain(), str(engine.explain("b")).splitlines()
    due = (
        "a by 2023-11-14 12:00:12 UTC (2 s after 2023-11-14 12:00:10); "
        "b by 2023-11-14 12:00:12 UTC (3 s after 2023-11-14 12:00:09)"
    )
    assert f"    └─ deadlines: {due}" in str(told).splitlines()
    counted = "b met 3 of 3 deadlines, 1 execution joint, 2 alone"
    assert (
        f"schedule of s so far: a met 5 of 5 deadlines, 1 execution joint, 4 alone; {counted}" in str(told).splitlines()
    )
    assert f"schedule of s so far: {counted}" in of_b
    (group,) = before.to_dict()["plans"][0]["schedule"]
    assert group["deadlines"] == {"a": {"period": "2 s"}, "b": {"period": "3 s"}}
    (group,) = told.to_dict()["plans"][0]["schedule"]
    last = {"last": "2023-11-14 12:00:09", "late": False}
    assert group["deadlines"]["b"] == {"period": "3 s", "due": "2023-11-14 12:00:12"} | last


def test_a_query_that_enters_changes_the_step_and_nobody_is_late() -> None:
    course = Course([query("SELECT max(x) AS n FROM s [RANGE 10 us SLIDE AT MOST 4 us]", "old")])
    course.take(*(event(t) for t in range(1, 15)))
    assert ends(course, "old") == [4, 8, 12]
    course.enter("SELECT min(x) AS n FROM s [RANGE 9 us SLIDE AT MOST 6 us]", "new")
    for t in range(15, 60):
        course.take(event(t, x=t))
    old, new = ends(course, "old"), ends(course, "new")
    assert all(b - a <= 4 for a, b in pairwise(old))
    assert all(end % 4 == 0 for end in old if end < 15 + 10), "the slices before are cut at these alone"
    assert new[0] >= 15 + 9 and all(b - a <= 6 for a, b in pairwise(new))
    assert dict(course.answers("new"))[new[-1]] == new[-1] - 9


@pytest.mark.parametrize("beat", [None, 53, 55, 57, 60, 120, 180])
@pytest.mark.parametrize("old", ["RANGE 100 us SLIDE AT MOST 10 us", "RANGE 4 us SLIDE AT MOST 10 us"])
def test_with_its_past_a_query_answers_from_its_first_instant_on(beat: int | None, old: str) -> None:
    """Also where event time has gone on past it without events: as with SLIDE."""
    answers = []
    for slide in ("SLIDE", "SLIDE AT MOST"):
        course = Course([query(f"SELECT count(*) AS n FROM s [{old}]", "old")])
        course.take(*(event(t) for t in (1, 20, 40, 50)))
        if beat is not None:
            course.run.advance(beat)
        course.enter(f"SELECT count(*) AS n FROM s [RANGE 6 us {slide} 2 us]", "new", backfill=True)
        course.run.bounded = True  # the past is waited for
        course.take(event(max(beat or 0, 53) + 2))
        course.take(event(220))
        course.end()
        answers.append(course.answers("new"))
    assert answers[0] == answers[1] and (52, 1) in answers[1]


def test_a_query_answers_the_instants_that_passed_while_its_past_was_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    course = Course([query("SELECT count(*) AS n FROM s [RANGE 100 us SLIDE AT MOST 10 us]", "old")], place=tmp_path)
    course.take(*(event(t) for t in (1, 20, 40, 50)))
    course.enter("SELECT count(*) AS n FROM s [RANGE 6 us SLIDE AT MOST 2 us]", "new", backfill=True)
    with monkeypatch.context() as patch:
        patch.setattr(Admission, "take_side_jobs", lambda *given, **more: None)
        course.take(event(55))
        course.take(event(70))
        course.begin()
        course.take(event(71))
    assert course.answers("new") == []
    course.run.bounded = True
    course.take(event(75))
    assert course.answers("new")[:5] == [(52, 1), (54, 1), (56, 2), (58, 1), (60, 1)]
    assert ends(course, "new") == list(range(52, 74, 2))


def test_a_restart_with_another_interval_goes_by_the_committed_one_for_a_batch(tmp_path: Path) -> None:
    course = Course([query(TWO)], place=tmp_path)
    with_capacity(course, 0.5)
    course.take(*(event(t) for t in range(1, 20)))
    course.begin()
    pace = course.run.scheduling.pace
    assert pace.in_force == Conditions(every=0.5, bounded=False) and pace.unit == 1.0
    course.take(event(20))
    assert pace.in_force == Conditions(), "from the next one on by what this run says"


def test_the_same_query_with_a_longer_period_has_the_others_answers_until_that_one_leaves() -> None:
    text = "SELECT max(x) AS n FROM s [RANGE 8 us SLIDE AT MOST {} us]"
    course = Course([query(text.format(2), "often"), query(text.format(6), "rare")])
    course.take(*(event(t, x=t) for t in range(1, 15)))
    assert course.answers("rare") == course.answers("often") != []
    alone = Course([query(text.format(2), "often")])
    alone.take(*(event(t, x=t) for t in range(1, 15)))
    assert course.run.counts.final_operations == alone.run.counts.final_operations, "nothing is made twice"
    assert course.run.counts.answers == 2 * alone.run.counts.answers
    course.queries = course.queries[1:]
    course.take(*(event(t, x=t) for t in range(15, 41)))
    late = [end for end in ends(course, "rare") if end > 18]
    assert [b - a for a, b in pairwise(late)] == [6] * (len(late) - 1)


def test_stats_and_questions_beside_scheduled_queries() -> None:
    script = """CREATE STREAM s (ts TIMESTAMP, x INT) USING json OPTIONS (path 'x') TIMESTAMP BY ts KEEP '1 h';
    CREATE QUERY a AS SELECT max(x) AS n FROM s [RANGE 10 s SLIDE AT MOST 2 s];
    CREATE QUERY b AS SELECT max(x) AS n FROM s [RANGE 15 s SLIDE AT MOST 3 s];"""
    second, noon = 1_000_000, 1_700_000_000_000_000
    with local_engine(script) as engine:
        for batch in range(3):
            engine.deliver("s", [{"ts": noon + t * second, "x": t} for t in range(batch * 10, batch * 10 + 10)], batch)
        counted = engine.stats["streams"]["s"]["scheduled"]
        assert counted["a"]["executions"] == engine.counts["s"].answers_by_query["a"]
        assert counted["b"]["joint"] > 0 and counted["b"]["late"] == 0
        assert engine.ask("SELECT max(x) AS n FROM s [RANGE 7 s]").to_arrow().column("n").to_pylist() == [29]
        engine.end("s")
        last = engine.results("a").to_arrow().column("window_end").to_pylist()[-1]
        assert last.timestamp() * second >= noon + 30 * second
