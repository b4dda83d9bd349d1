"""Groups in shards as batches come: moved there, joined by queries, read again. Without a JVM."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from batch_course import BY_KEY, STREAM, TOTAL, Course, event, query
from moving_clusters import moving_clusters
from mullion import memory
from mullion.errors import MullionError
from mullion.language.parse import parse_punctuation
from mullion.memory import Memory
from mullion.options import Options
from mullion.runtime import sharding_choice
from mullion.testing import Crash, crash_at
from without_spark import EngineWithoutSpark, local_engine


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

    @pytest.mark.parametrize("above", [0, 1])
    def test_a_first_batch_with_many_groups_goes_to_shards(self, above: int) -> None:
        course = Course([query(BY_KEY)], options=Options.of(shard_above=above))
        course.take(event(3, "a"), event(4, "b"))
        assert course.run.sets["shared"].shards

    @pytest.mark.parametrize("at", [None, "before commit", "after commit"])
    @pytest.mark.parametrize("window", ["RANGE 10 us SLIDE 10 us", "RANGE 20 us SLIDE 10 us"])
    @pytest.mark.parametrize("items", ["max(x) AS m", "max(x) AS m, count(DISTINCT x) AS d"])
    @pytest.mark.slow
    def test_a_past_that_was_read_again_is_kept_in_shards(
        self, tmp_path: Path, items: str, window: str, at: str | None
    ) -> None:
        answers = []
        for above in (1, 100):
            course = Course([query(BY_KEY)], options=Options.of(shard_above=above), place=tmp_path / str(above))
            course.take(event(3, "a", 7), event(4, "b"))
            course.take(event(5, "a", 2), event(8, "c", 5))
            how = course.enter(f"CREATE QUERY p BACKFILL AS SELECT k, {items} FROM s [{window}] GROUP BY k", "p")
            assert how == "by reading the files of s again"
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

    @pytest.mark.parametrize("restart", [False, True])
    @pytest.mark.parametrize("items", ["sum(x) AS n", "sum(x) AS n, median(x) AS m"])
    def test_what_does_not_fit_on_the_driver_moves_to_shards(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, items: str, restart: bool
    ) -> None:
        """Also sub-windows of the batch with which they became too many; a commit before it still has the others."""
        text = f"SELECT k, {items} FROM s [RANGE 10 us SLIDE 10 us] GROUP BY k"
        answers = []
        for few in (False, True):
            course = Course([query(text)], options=Options(), place=tmp_path / str(few))
            course.take(event(3, "a", 7), event(4, "b"))
            if few:
                monkeypatch.setattr(Memory, "answering", property(lambda self: 100))
            with crash_at("before commit"), pytest.raises(Crash):
                course.take(event(5, "a", 2), event(6, "c", 5))
            course.run.close()
            course.begin()
            course.take(event(5, "a", 2), event(6, "c", 5))
            (own,) = course.run.sets.values()
            assert (bool(own.shards), bool(own.tier.entries)) == (few, not few)
            if restart:
                course.run.close()
                course.begin()
                (own,) = course.run.sets.values()
                assert bool(own.tier.entries) != few
            course.take(event(7, "a", 4), event(16, "a"))
            course.end()
            answers.append(course.answers())
        assert answers[0] == answers[1]
        assert [row[:3] for row in answers[0]] == [(10, "a", 13), (10, "b", 1), (10, "c", 5), (20, "a", 1)]

    def test_what_cannot_be_in_shards_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Memory, "answering", property(lambda self: 10))
        ends = replace(STREAM, punctuation=parse_punctuation("ON k WHEN x = 0")).check()
        for text, stream in [(TOTAL, STREAM), (BY_KEY, ends)]:
            course = Course([query(text)], stream=stream)
            with pytest.raises(MullionError, match="query 'q' keeps about"):
                course.take(event(3, "a"), event(4, "b"))


class TestShedding:
    SCRIPT = (
        "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING parquet OPTIONS (path 'x') TIMESTAMP BY ts "
        "WHEN BEHIND SHED RANDOM AT MOST 50 PERCENT MARK EXACT; "
        "CREATE QUERY q AS SELECT k, count(*) AS n, percentile(x, 0.5) AS m FROM s [RANGE 40 us SLIDE 20 us] GROUP BY k"
    )

    def take(self, engine: EngineWithoutSpark, number: int, *, sheds: bool) -> bool:
        """Let the engine take a batch; whether anything is in shards then."""
        run = engine._runs.of("s")
        run.overload.monitor.steps["shed"] = 2 if sheds else 0
        engine.deliver("s", [event(20 * number + at, "abcdefgh"[at % 8], at) for at in range(20)], number)
        assert run.overload.thinning.is_whole != sheds
        return any(own.shards for own in run.sets.values())

    def test_nothing_is_moved_while_events_are_shed(self) -> None:
        answers = []
        for above in (0, 200_000):
            with local_engine(self.SCRIPT, shard_above=above) as engine:
                moved = [self.take(engine, number, sheds=number < 3) for number in range(5)]
                assert moved == [False] * 3 + [above == 0] * 2
                engine.end("s")
                answers.append(
                    engine.results("q").to_arrow().sort_by([("window_end", "ascending"), ("k", "ascending")])
                )
        assert answers[0].to_pylist() == answers[1].to_pylist()

    def test_what_is_in_shards_stays_there(self) -> None:
        with local_engine(self.SCRIPT, shard_above=0) as engine:
            assert [self.take(engine, number, sheds=number > 0) for number in range(3)] == [True] * 3

    @pytest.mark.parametrize(("times", "moved"), [(4, True), (10, True), (20, False)])
    def test_what_might_not_fit_is_moved_all_the_same(
        self, monkeypatch: pytest.MonkeyPatch, times: int, moved: bool
    ) -> None:
        """A batch may leave a quarter of Python's memory, and all together three times over must fit into it."""
        with local_engine(self.SCRIPT) as engine:
            assert not self.take(engine, 0, sheds=True)
            (own,) = engine.runs["s"].sets.values()
            most = max(entry.size for entry in own.tier.entries)
            monkeypatch.setattr(memory, "PROCESS", 0)
            monkeypatch.setattr(Memory, "python", property(lambda self: times * most))
            assert self.take(engine, 1, sheds=True) == moved
