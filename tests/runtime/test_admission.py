"""Queries that enter and leave between batches, and their past. Without a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from batch_course import BY_KEY, TOTAL, Course, event, query
from mullion.options import Options
from mullion.planner.plan import Plan
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.backfill import Backfill, PastPartials
from mullion.testing import Crash, crash_at


class TestAdmission:
    def test_a_query_that_enters_answers_what_starts_after_the_newest_event(self) -> None:
        course = Course([query(TOTAL)])
        course.take(event(5), event(12))
        course.enter(TOTAL, "new")
        course.take(event(15), event(25), event(35))
        course.end()
        assert course.answers("new") == [(30, 1), (40, 1)]
        assert course.answers() == [(10, 1), (20, 2), (30, 1), (40, 1)]

    @pytest.mark.parametrize("way", ["beside what others keep", "from what others keep", "by reading again"])
    def test_a_query_that_enters_answers_the_window_that_starts_with_the_newest_event(self, way: str) -> None:
        """Events come at 20 before it enters and after it; what came before 20 it has missed."""
        before = {
            "beside what others keep": "SELECT max(x) AS n FROM s [RANGE 10 us SLIDE 10 us]",
            "from what others keep": TOTAL,
            "by reading again": "SELECT sum(x) AS n FROM s [RANGE 7 us SLIDE 7 us]",
        }
        course = Course([query(before[way])])
        course.run.bounded = True
        course.take(event(5), event(19), event(20, x=2))
        how = course.enter(TOTAL, "new")
        assert how.startswith("from the sub-windows" if way == "from what others keep" else "by reading")
        course.take(event(20, x=4), event(25), event(30))
        course.take(event(35), event(45))
        course.end()
        assert course.answers("new") == [(30, 7), (40, 2), (50, 1)]

    def test_one_that_leaves_and_comes_back_goes_on_from_nothing(self) -> None:
        course = Course([query(TOTAL)])
        course.take(event(5), event(12))
        course.queries = []
        course.enter("SELECT max(x) AS n FROM s [RANGE 10 us SLIDE 10 us] WHERE x > 7", "q")
        course.take(event(15, x=9), event(25, x=8), event(36))
        course.end()
        assert course.answers() == [(10, 1), (30, 8), (40, None)]

    @pytest.mark.parametrize("backfill", [False, True])
    def test_one_that_comes_back_with_a_batch_that_dies_goes_on_from_nothing(
        self, tmp_path: Path, backfill: bool
    ) -> None:
        course = Course([query(BY_KEY, "other"), query("SELECT count(*) AS n FROM s [RANGE 5 us SLIDE 5 us]")])
        course.place = tmp_path
        course.begin()
        course.take(event(5), event(12))
        course.queries = course.queries[:1]
        first = "CREATE QUERY q BACKFILL AS" if backfill else ""
        course.enter(f"{first} SELECT max(x) AS m FROM s [RANGE 10 us SLIDE 10 us]", "q")
        with crash_at("before commit"), pytest.raises(Crash):
            course.take(event(15, x=9), event(25, x=8))
        course.sink.forget("q")
        course.run.close()
        course.begin()
        course.take(event(15, x=9), event(25, x=8))
        course.end()
        course.run.close()
        assert course.answers() == [*([(20, 9)] if backfill else []), (30, 8)]

    @pytest.mark.parametrize("late", [False, True])
    def test_backfill_reads_what_the_stream_had_read(self, late: bool) -> None:
        course = Course([query(TOTAL)])
        course.run.bounded = True
        course.take(event(5), event(12))
        course.take(*([event(1, "a", 70)] if late else []), event(14), event(16))
        how = course.enter("CREATE QUERY p BACKFILL AS SELECT count(x) AS n FROM s [RANGE 20 us SLIDE 10 us]", "p")
        assert how == "by reading the files of s again"
        course.take(event(17), event(25))
        course.end()
        course.run.close()
        assert course.answers("p") == [(20, 5), (30, 5), (40, 1)]

    @pytest.mark.parametrize("chosen", [{"slicing": "paned"}, {"method": "rows"}, {"way": "native"}])
    def test_a_past_is_read_as_the_user_chose(self, chosen: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        plans: list[Plan] = []
        plan_of = Backfill._plan

        def noted(job: Backfill, queries: Sequence[SlicedAggregation]) -> Plan:
            plans.append(plan_of(job, queries))
            return plans[-1]

        monkeypatch.setattr(Backfill, "_plan", noted)
        course = Course([query(TOTAL)], options=Options.of(**chosen))
        course.run.bounded = True
        course.take(event(5), event(12, x=3), event(14))
        text = "SELECT count(x) AS n FROM s [RANGE 25 us SLIDE 10 us] WHERE x < 3"
        course.enter(f"CREATE QUERY p BACKFILL AS {text}", "p")
        course.take(event(17), event(25))
        course.end()
        course.run.close()
        assert course.answers("p") == [(20, 3), (30, 4), (40, 2), (50, 1)]
        (plan,) = plans
        assert {name: getattr(plan.options, name) for name in chosen} == chosen

    def test_a_past_is_cut_for_its_query_alone(self) -> None:
        """The past of p lies in slices of 5, and that from 25 on holds an event; a window of q that ends at 28 does
        not."""
        course = Course([query("SELECT count(*) AS n FROM s [RANGE 3 us SLIDE 7 us]")])
        course.run.bounded = True
        course.take(event(0), event(28))
        course.enter("CREATE QUERY p BACKFILL AS SELECT k, sum(x) AS n FROM s [RANGE 10 us SLIDE 5 us] GROUP BY k", "p")
        course.take(event(28))
        course.end()
        course.run.close()
        assert course.answers("p") == [(30, "a", 2), (35, "a", 2)]
        assert course.answers() == []

    def test_the_past_of_one_that_comes_back_is_read_once(self) -> None:
        course, text = (
            Course([query(BY_KEY)]),
            "CREATE QUERY p BACKFILL AS SELECT count(x) AS n FROM s [RANGE 20 us SLIDE 10 us]",
        )
        course.run.bounded = True
        course.take(event(5))
        course.enter(text, "p")
        course.take(event(6))
        course.queries = course.queries[:1]
        how = course.enter(text, "p")
        assert how == "by reading the files of s again"
        course.take(event(7), event(25))
        course.end()
        course.run.close()
        assert course.answers("p") == [(10, 3), (20, 3), (30, 1), (40, 1)]

    def test_the_past_of_one_that_left_is_not_that_of_its_namesake(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read, may_read = Backfill.run, Event()

        def waits(job: Backfill) -> PastPartials:
            may_read.wait()
            return read(job)

        monkeypatch.setattr(Backfill, "run", waits)
        course = Course([query(BY_KEY)])
        course.take(event(5, x=3))
        course.enter("CREATE QUERY p BACKFILL AS SELECT count(x) AS n FROM s [RANGE 20 us SLIDE 10 us]", "p")
        course.take(event(6))
        course.queries = course.queries[:1]
        course.enter("CREATE QUERY p BACKFILL AS SELECT max(x) AS n FROM s [RANGE 20 us SLIDE 20 us]", "p")
        course.take(event(7))
        may_read.set()
        course.end()
        course.run.close()
        assert course.answers("p") == [(20, 3)]

    def test_backfill_from_what_others_keep(self) -> None:
        course = Course([query("SELECT count(*) AS n FROM s [RANGE 40 us SLIDE 10 us]")])
        course.take(event(5), event(12))
        course.take(event(16))
        how = course.enter("CREATE QUERY p BACKFILL AS SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]", "p")
        assert how == "from the sub-windows that other queries keep"
        course.take(event(35))
        assert course.answers("p") == [(20, 2), (30, 0)]

    def test_a_past_that_cannot_be_read_is_told(self, caplog: pytest.LogCaptureFixture) -> None:
        course = Course([query(TOTAL)])
        course.run.bounded = True
        course.take(event(5), event(12))
        course.enter("CREATE QUERY p BACKFILL AS SELECT count(x) AS n FROM s [RANGE 20 us SLIDE 10 us]", "p")
        course.source.given = {0: 3}  # type: ignore[dict-item]
        course.source.failures = (TypeError,)
        course.take(event(55))
        course.run.close()
        assert "the past of query 'p' could not be read" in caplog.text
