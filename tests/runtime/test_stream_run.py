"""The course of batches without a JVM: how often events are read, late events, restarts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from batch_course import BY_KEY, LAST_TWO, STREAM, TOTAL, Course, event, query
from memory_batch import MemorySource
from mullion.errors import CheckpointError
from mullion.options import Options
from mullion.planner import few
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime import planning


class TestTheEnd:
    def test_what_the_last_batch_makes_due_is_answered_at_the_end(self) -> None:
        course = Course([query(TOTAL)], source=MemorySource(STREAM, last=1))
        course.take(event(1), event(14))
        assert course.answers() == [(10, 1)], "others may follow"
        course.take(event(25))
        assert course.answers() == [(10, 1)], "the end follows"
        course.end()
        assert course.answers() == [(10, 1), (20, 1), (30, 1)]

    def test_with_a_journal_a_batch_is_answered_before_it_is_committed(self, tmp_path: Path) -> None:
        course = Course([query(TOTAL)], source=MemorySource(STREAM, last=0), place=tmp_path)
        course.take(event(1), event(14))
        assert course.answers() == [(10, 1)]


class TestReads:
    """How often the events of a batch are gone through."""

    def test_partials_alone_are_one_pass(self) -> None:
        course = Course([query(TOTAL), query(BY_KEY, "k")])
        assert course.take(event(1), event(12)).passes == {"partials": 1, "sample": 1}, "how many groups, once"
        assert course.take(event(14)).passes == {"partials": 1}

    def test_nothing_but_times_when_nobody_asks(self) -> None:
        assert Course().take(event(1)).passes == {"times": 1}

    @pytest.mark.parametrize("sized", [True, False])
    def test_all_that_needs_rows_shares_one_read(self, sized: bool) -> None:
        kept = replace(STREAM, keep=50)
        asked = [query(TOTAL), query(LAST_TWO, "rows")]
        course = Course(asked, stream=kept, wanted=frozenset({"k"}), source=MemorySource(kept, sized=sized))
        first = course.take(event(1), event(12))
        assert first.passes == ({"rows": 1} if sized else {"rows": 1, "statistics": 1}), "a sample tells that it is few"
        assert course.take(event(14), event(25)).passes == {"rows": 1}, "few, as the batch before"
        assert course.answers() == [(10, 1), (20, 2)]
        assert course.run.intake is not None and course.run.keeper is not None
        assert [batch.events.schema.names for batch in course.run.intake.batches] == [["#t", "k"]] * 2
        assert course.run.keeper.shown().rows == 4

    def test_late_events_come_from_the_same_read_where_it_has_all_columns(self) -> None:
        course = Course([query(TOTAL), query(LAST_TWO, "rows")], stream=replace(STREAM, keep=50))
        course.take(event(31))
        batch = course.take(event(5, "late"), event(33), event(5_000, "ahead"))
        assert batch.passes == {"rows": 1}
        assert [row["k"] for row in course.aside("late")] == ["late"]
        assert [row["k"] for row in course.aside("ahead")] == ["ahead"]

    def test_late_events_and_those_ahead_are_one_read_more_otherwise(self) -> None:
        course = Course([query(TOTAL), query(f"{TOTAL} WHERE x > 5", "none")])
        course.take(event(31))
        batch = course.take(event(28), event(5), event(33), event(5_000))
        assert batch.passes == {"partials": 1, "outside": 1}
        assert course.run.counts.late_by_query == {"q": 2}
        assert (course.run.counts.late, course.run.counts.ahead, course.run.counts.events) == (2, 1, 2)
        assert [row["watermark"].microsecond for row in course.aside("late")] == [29, 29]
        assert [row["latest_allowed"].microsecond for row in course.aside("ahead")] == [1100]

    @pytest.mark.parametrize("clusters", ["auto", "off"])
    def test_all_that_is_set_aside_is_one_read_however_many_ask(self, clusters: str) -> None:
        bad = query("SELECT sum(x / (x - 1)) AS n FROM s [RANGE 10 us SLIDE 10 us]", "bad")
        asked = [query(TOTAL), query(BY_KEY, "k"), query(f"{TOTAL} WHERE x > 5", "none"), bad]
        course = Course(asked, options=Options.of(sharing=clusters))
        course.take(event(31), event(32, x=7))
        batch = course.take(event(5), event(33, x=2), event(None), event(34), event(5_000), event(6, "b"))
        assert batch.passes == {"partials": 1, "outside": 1}
        counts = course.run.counts
        assert (counts.late, counts.ahead, counts.malformed, counts.events) == (2, 1, 1, 4)
        assert counts.late_by_query == {"q": 2, "k": 2, "bad": 2} and counts.bad_by_query == {"bad": 2}
        assert [len(course.aside(kind)) for kind in ("late", "ahead", "malformed")] == [2, 1, 1]

    def test_shards_write_once_where_it_is_known_what_is_late(self) -> None:
        """The groups of k are in shards, the total is not. That some events are late, its pass has shown."""
        course = Course([query(BY_KEY), query(TOTAL, "t")], options=Options.of(shard_above=2))
        course.take(*(event(31, k=str(i)) for i in range(5)))
        assert course.take(event(33), event(34, "b")).passes == {"partials": 1, "shards": 1}
        late = course.take(event(5), event(35), event(5_000))
        assert late.passes == {"partials": 1, "outside": 1, "partials within": 1, "shards": 1}
        assert course.run.counts.late_by_query == {"q": 1, "t": 1}

    def test_shards_alone_write_again_where_some_events_are_late(self) -> None:
        course = Course([query(BY_KEY)], options=Options.of(shard_above=2))
        course.take(*(event(31, k=str(i)) for i in range(5)))
        assert course.take(event(33), event(34, "b")).passes == {"shards": 1}
        late = course.take(event(5), event(35), event(5_000))
        assert late.passes == {"shards": 2, "outside": 1, "partials within": 1}
        assert course.run.counts.late_by_query == {"q": 1}

    def test_malformed_records_are_one_read_more(self) -> None:
        course = Course([query(TOTAL)])
        assert course.take(event(1), event(None)).passes == {"partials": 1, "outside": 1}
        assert course.run.counts.malformed == len(course.aside("malformed")) == 1

    def test_with_sharing_off_the_read_is_shared_still(self) -> None:
        course = Course([query(TOTAL), query(TOTAL, "p")], options=Options.of(sharing="off"))
        assert course.take(event(1)).passes == {"partials": 1}


class TestBounds:
    @pytest.mark.parametrize("others", [[], [query(LAST_TWO, "rows")]], ids=["partials", "rows"])
    @pytest.mark.parametrize("partitions", [1, 3])
    def test_late_events_change_no_answer(self, others: list[SlicedAggregation], partitions: int) -> None:
        course = Course([query(BY_KEY), *others], source=MemorySource(STREAM, partitions=partitions))
        course.take(event(3), event(15))
        course.take(event(12, "a", 100), event(13, "b"), event(9_999), event(19))
        course.end()
        assert course.answers() == [(10, "a", 1), (20, "a", 2), (20, "b", 1)]
        assert course.run.counts.late_by_query["q"] == 1
        assert course.run.newest == 19

    def test_nobody_asks_and_event_time_goes_on(self) -> None:
        course = Course()
        course.take(event(20))
        assert course.take(event(1), event(25), event(9_999)).passes == {"times": 1, "outside": 1}
        assert (course.run.newest, course.run.counts.events) == (25, 2)


class TestRestart:
    def asked(self) -> list[SlicedAggregation]:
        return [query(BY_KEY), query(LAST_TWO, "rows"), query(TOTAL, "total")]

    @pytest.mark.parametrize("at", [1, 2, 3])
    def test_a_run_goes_on_from_its_last_commit(self, tmp_path: Path, at: int) -> None:
        batches = [[event(3, "a"), event(4, "b")], [event(9), event(6)], [event(14, "c"), event(13)], [event(31)]]
        whole, parts = Course(self.asked()), Course(self.asked(), place=tmp_path)
        for i, batch in enumerate(batches):
            whole.take(*batch)
            if i == at:
                parts.begin()
            parts.take(*batch)
        for course in (whole, parts):
            course.end()
        for name in ("q", "rows", "total"):
            assert parts.answers(name) == whole.answers(name) != []
        work = {"seconds": 0.0, "final_operations": 0}  # synopses are built anew
        assert replace(parts.run.counts, **work) == replace(whole.run.counts, **work)  # type: ignore[arg-type]

    def test_a_batch_whose_commit_is_there_is_not_played_again(self, tmp_path: Path) -> None:
        course = Course(self.asked(), place=tmp_path)
        batch = course.take(event(3), event(15))
        course.begin()
        before = course.answers("total")
        again = course.source.batch(batch.events, 0)
        course.run.set_queries(course.queries)
        course.run.process(again)
        assert not again.passes and course.answers("total") == before

    def test_a_batch_that_no_commit_knows_is_not_passed_over(self, tmp_path: Path) -> None:
        course = Course(self.asked(), place=tmp_path)
        course.take(event(3))
        course.run.set_queries(course.queries)
        with pytest.raises(CheckpointError, match="there is no commit of batch 1"):
            course.run.process(course.source.batch([event(9)], 2))


@pytest.mark.parametrize("looked_at", [False, True])
def test_a_plan_that_expected_far_fewer_groups_says_so(looked_at: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if looked_at:
        monkeypatch.setattr(few, "FEW", 0)
    course = Course([query(BY_KEY), query(TOTAL, "t")])
    for at in (1, 12, 23):
        course.take(*(event(at, k=str(i % 3)) for i in range(1500)))
    assert course.run.counts.misjudged == {}
    course.take(*(event(34, k=str(i)) for i in range(1500)))
    assert course.run.counts.misjudged == {
        "k of q": "1,500 partials instead of about 3, 1,500 groups instead of about 3"
    }


@pytest.mark.parametrize("looked_at", [False, True])
def test_a_larger_batch_of_more_groups_is_as_expected(looked_at: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if looked_at:
        monkeypatch.setattr(few, "FEW", 0)
        monkeypatch.setattr(planning, "OTHER", 100)
    course = Course([query(BY_KEY)])
    course.take(*(event(1, k=str(i)) for i in range(1500)))
    course.take(*(event(12, k=str(i)) for i in range(9000)))
    course.take(*(event(23, k=str(i % 1500)) for i in range(9000)))
    assert course.run.counts.misjudged == {}
