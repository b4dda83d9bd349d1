"""The course of batches without a JVM: how often events are read, late events, queries that enter, shards, restarts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from by_slices import bind
from memory_batch import MemoryBatch, MemorySource
from moving_clusters import moving_clusters
from mullion.algebra.streams import Stream
from mullion.binding import relations
from mullion.binding.entering import entered
from mullion.catalog.restart import to_journal
from mullion.catalog.synopses import Synopsis
from mullion.errors import CheckpointError
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.options import Options
from mullion.planner.expected import Expected
from mullion.planner.physical import sliced_of
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime import sharding_choice
from mullion.runtime.backfill import Backfill, Past
from mullion.runtime.stream_run import StreamRun
from mullion.sinks.memory import MemorySink
from mullion.storage.journal import Journal
from mullion.testing import Crash, crash_at

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT)), "ts", lateness=2, ahead=100)
TOTAL = "SELECT sum(x) AS n FROM s [RANGE 10 us SLIDE 10 us]"
BY_KEY = "SELECT k, sum(x) AS n FROM s [RANGE 10 us SLIDE 10 us] GROUP BY k"
LAST_TWO = "SELECT sum(x) AS n FROM s [ROWS 2]"
NOW = 1e-3
"""What the clock says, in seconds: events at 1,101 us and after are ahead."""


def query(text: str, name: str = "q") -> SlicedAggregation:
    return bind(parse_query(text, name=name), {"s": STREAM})


def event(ts: int | None, k: str = "a", x: int | None = 1) -> dict[str, Any]:
    return {"ts": ts, "k": k, "x": x}


@dataclass
class Course:
    """A run, and the batches that it has taken."""

    queries: Sequence[SlicedAggregation] = ()
    stream: Stream = STREAM
    options: Options = field(default_factory=Options)
    synopses: Sequence[Synopsis] = ()
    wanted: frozenset[str] | None = None
    place: Path | None = None
    source: MemorySource = field(default_factory=lambda: MemorySource(STREAM))
    sink: MemorySink = field(default_factory=MemorySink)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A new run, which goes on from what the last one left."""
        journal = None if self.place is None else Journal(self.place)
        self.run = StreamRun(self.stream, self.sink, self.options, self.source, journal=journal, clock=lambda: NOW)
        self.run.restore()

    def take(self, *events: dict[str, Any]) -> MemoryBatch:
        number = 0 if self.run.committed is None else self.run.committed.batch + 1
        batch = self.source.batch(events, number)
        if self.run.journal is not None:
            self.run.journal.begin(number, [to_journal(query) for query in self.queries])
        self.run.set_relations(self.wanted, ("r",))
        self.run.set_queries(self.queries, self.synopses)
        self.run.process(batch)
        return batch

    def enter(self, text: str, name: str) -> str:
        """Let a query enter; how it comes by its past."""
        relation = relations.bind(parse_query(text, name=name), {"s": STREAM})
        (plan,) = sliced_of([relation], {"s": STREAM})
        entrance, how = self.run.enter(plan)
        self.queries = [*self.queries, *sliced_of([entered(relation, entrance)], {"s": STREAM})]
        return how

    def end(self) -> None:
        self.run.set_queries(self.queries, self.synopses)
        self.run.finish()

    def answers(self, name: str = "q") -> list[tuple[Any, ...]]:
        """The ends of windows, in microseconds, with the items."""
        found = []
        for table in self.sink.tables(name):
            columns = [table.column("window_end").cast("int64").to_pylist()]
            columns += [table.column(i).to_pylist() for i in range(2, table.num_columns)]
            found += list(zip(*columns, strict=True))
        return sorted(found, key=repr)

    def aside(self, kind: str) -> list[Any]:
        return [row for table in self.sink.aside_tables(kind) for row in table.to_pylist()]


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

    def test_malformed_records_are_one_read_more(self) -> None:
        course = Course([query(TOTAL)])
        assert course.take(event(1), event(None)).passes == {"partials": 1, "malformed": 1}
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
        assert course.take(event(1), event(25), event(9_999)).passes == {"times": 2, "outside": 1}
        assert (course.run.newest, course.run.counts.events) == (25, 2)


class TestAdmission:
    def test_a_query_that_enters_answers_what_starts_after_the_newest_event(self) -> None:
        course = Course([query(TOTAL)])
        course.take(event(5), event(12))
        course.enter(TOTAL, "new")
        course.take(event(15), event(25), event(35))
        course.end()
        assert course.answers("new") == [(30, 1), (40, 1)]
        assert course.answers() == [(10, 1), (20, 2), (30, 1), (40, 1)]

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
        assert how == "by reading the stream's files again, beside the stream"
        course.take(event(17), event(25))
        course.end()
        course.run.close()
        assert course.answers("p") == [(20, 5), (30, 5), (40, 1)]

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
        assert how == "by reading the stream's files again, beside the stream"
        course.take(event(7), event(25))
        course.end()
        course.run.close()
        assert course.answers("p") == [(10, 3), (20, 3), (30, 1), (40, 1)]

    def test_the_past_of_one_that_left_is_not_that_of_its_namesake(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read, may_read = Backfill.run, Event()

        def waits(job: Backfill) -> Past:
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


class TestShards:
    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sharding_choice, "SHARDS", 3)

    @pytest.mark.parametrize("restart", [False, True])
    def test_very_many_groups_are_kept_in_shards(self, tmp_path: Path, restart: bool) -> None:
        course = Course([query(BY_KEY)], options=Options.of(shard_above=2), place=tmp_path)
        course.take(event(3, "a"), event(4, "b"))
        course.take(*(event(5, key) for key in "abcdefgh"), event(8, "a", 5))
        if restart:
            course.begin()
        course.take(event(1, "z"), event(15, "a"))
        assert course.run.sets["shared"].shards
        course.end()
        assert course.answers() == [(10, "a", 7), (10, "b", 2), *((10, key, 1) for key in "cdefgh"), (20, "a", 1)]
        assert course.run.counts.late_by_query == {"q": 1}

    @pytest.mark.parametrize("at", [None, "before commit", "after commit"])
    @pytest.mark.parametrize("window", ["RANGE 10 us SLIDE 10 us", "RANGE 20 us SLIDE 10 us"])
    @pytest.mark.parametrize("items", ["max(x) AS m", "max(x) AS m, count(DISTINCT x) AS d"])
    def test_a_past_that_was_read_again_is_kept_in_shards(
        self, tmp_path: Path, items: str, window: str, at: str | None
    ) -> None:
        answers = []
        for above in (1, 100):
            course = Course([query(BY_KEY)], options=Options.of(shard_above=above), place=tmp_path / str(above))
            course.take(event(3, "a", 7), event(4, "b"))
            course.take(event(5, "a", 2), event(8, "c", 5))
            how = course.enter(f"CREATE QUERY p BACKFILL AS SELECT k, {items} FROM s [{window}] GROUP BY k", "p")
            assert how == "by reading the stream's files again, beside the stream"
            course.run.bounded = True
            batch = event(9, "b", 4), event(13, "a")
            with nullcontext() if at is None else crash_at(at), nullcontext() if at is None else pytest.raises(Crash):
                course.take(*batch)
            if at is not None:
                course.run.close()
                course.begin()
            if at == "before commit":
                course.run.bounded = True
                course.take(*batch)
            assert bool(course.run.sets["shared"].shards) == (above == 1)
            course.take(event(25, "a"))
            course.end()
            course.run.close()
            answers.append(course.answers("p"))
        assert answers[0] == answers[1]
        assert answers[0][0][:3] == (10, "a", 7)

    def test_one_that_enters_before_the_end_counts_values_in_shards_too(self) -> None:
        course = Course([query(BY_KEY)], options=Options.of(shard_above=1))
        course.take(event(3, "a", 7), event(4, "b"), event(5, "a"))
        text = "SELECT k, count(DISTINCT x) AS d FROM s [RANGE 10 us SLIDE 10 us] GROUP BY k"
        course.enter(f"CREATE QUERY p BACKFILL AS {text}", "p")
        course.enter(text, "from_now_on")
        course.end()
        course.run.close()
        assert course.answers("p") == [(10, "a", 2), (10, "b", 1)]
        assert course.answers() == [(10, "a", 8), (10, "b", 1)]

    @pytest.mark.parametrize("restart", [False, True])
    def test_what_queries_brought_along_from_another_cluster_is_theirs_in_shards_too(
        self, tmp_path: Path, restart: bool
    ) -> None:
        text = "SELECT k, {} AS n FROM s [RANGE {} us SLIDE 5 us] GROUP BY k"
        asked = [query(text.format(item, range_), f"q{range_}") for range_, item in ((10, "sum(x)"), (15, "count(*)"))]
        answers = []
        for seed in range(6):
            place, how = tmp_path / str(seed), {"shard_above": 2 if seed else 100, "sharing": "auto"}
            course = Course(asked, options=Options.of(**how), place=place)
            with moving_clusters(seed):
                course.take(event(3, "a"))
                course.take(event(4, "a"), event(6, "a"))
                course.take(*(event(7, key) for key in "abcd"))
                if restart:
                    course.begin()
                course.take(*(event(9, key) for key in "bcd"), event(25, "a"))
                assert any(own.shards for own in course.run.sets.values()) == bool(seed)
            course.end()
            answers.append([course.answers(own.name) for own in asked])
        assert answers[0][0][0] == (10, "a", 4)
        assert all(own == answers[0] for own in answers)


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


def test_a_plan_that_expected_far_fewer_groups_says_so() -> None:
    course = Course([query(BY_KEY), query(TOTAL, "t")])
    course.take(event(1))
    course.run.sets["shared"].expected = {"k": Expected(partials=3.0, groups=3.0), "()": Expected(1.0, 1.0)}
    course.take(*(event(2, k=str(i)) for i in range(1500)))
    assert course.run.counts.misjudged == {
        "k of q": "1,500 partials instead of about 3, 1,500 groups instead of about 3"
    }
    assert course.run.sets["shared"].expected == {}, "the next batch is expected anew"
