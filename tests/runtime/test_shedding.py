"""Events that are shed: answers are those of the reference over the kept events with their weights, whatever happens
on the way. Without a JVM."""

from __future__ import annotations

import itertools
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_batch import MemoryBatch, MemorySource, as_events
from mullion import reference
from mullion.algebra.streams import EVENT, WEIGHT, Stream
from mullion.binding.entering import entering_at
from mullion.binding.relations import bind
from mullion.engine import Engine
from mullion.errors import CheckError, MullionError, NotSupported
from mullion.kernels.thinning import WHOLE, Thinning, identity_hash
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.planner.physical import sliced
from mullion.runtime.batch import Batch
from mullion.runtime.monitor import Monitor, SourceLag
from mullion.runtime.overload import Overload
from mullion.testing import STEPS, Crash, crash_at
from operators.test_relations_differential import as_rows, comparable
from runtime.test_core_differential import assert_same, rows_of
from without_spark import engine_without_spark, local_engine, write_events

Event = dict[str, Any]
S = "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING parquet OPTIONS (path 'x') TIMESTAMP BY ts"
ONE_WINDOW = "FROM s [RANGE 100 us SLIDE 100 us]"


def events_of(times: Sequence[int]) -> list[Event]:
    return [{"ts": time, "k": "abc"[time % 3], "x": None if time % 7 == 0 else time % 10} for time in times]


def test_the_smallest_example() -> None:
    """Four events that stand for two each: eight in all."""
    hashes = identity_hash(0, np.arange(8), "s")
    kept = [event for event in range(8) if hashes[event] < 0]
    x = [3, 1, 4, 1, 5, 9, 2, 6]
    weight = [2.0 if event in kept else 0.0 for event in range(8)]
    total, values = sum(weight), sum(w * v for w, v in zip(weight, x, strict=True))
    script = f"{S} WHEN BEHIND SHED RANDOM AT MOST 50 PERCENT; CREATE QUERY q AS SELECT APPROX count(*) AS n, "
    with local_engine(f"{script} sum(x) AS s, avg(x) AS a {ONE_WINDOW}") as engine:
        engine._runs.of("s").overload.monitor.steps["shed"] = 2
        engine.deliver("s", [{"ts": i, "k": "a", "x": v} for i, v in enumerate(x)], 0)
        engine.end("s")
        (row,) = engine.results("q").to_arrow().to_pylist()
        counts = engine.counts["s"]
    mean = values / total
    assert (row["n"], row["s"], row["a"]) == (total, values, pytest.approx(mean))
    assert row["kept_share"] == len(kept) / 8
    assert row["n_error"] == pytest.approx(math.sqrt(2 * len(kept)))
    assert row["s_error"] == pytest.approx(math.sqrt(sum(2 * x[i] ** 2 for i in kept)))
    assert row["a_error"] == pytest.approx(math.sqrt(sum(2 * (x[i] - mean) ** 2 for i in kept)) / total)
    assert (counts.events, counts.shed, counts.shed_by_query) == (len(kept), 8 - len(kept), {"q": 8 - len(kept)})


def test_nothing_shed_is_exact() -> None:
    script = f"{S} WHEN BEHIND SHED RANDOM; CREATE QUERY q AS SELECT APPROX count(*) AS n, sum(x) AS s, avg(x) AS a"
    with local_engine(f"{script} {ONE_WINDOW}") as engine:
        engine.deliver("s", [{"ts": i, "k": "a", "x": i} for i in range(5)], 0)
        engine.end("s")
        (row,) = engine.results("q").to_arrow().to_pylist()
    told = {name: row[name] for name in ("n", "s", "a", "n_error", "s_error", "a_error", "kept_share")}
    assert told == {"n": 5, "s": 10.0, "a": 2.0, "n_error": 0.0, "s_error": 0.0, "a_error": 0.0, "kept_share": 1.0}


def test_shed_by_drops_the_least() -> None:
    script = (
        f"{S} WHEN BEHIND SHED BY x AT MOST 50 PERCENT MARK EXACT; CREATE QUERY q AS SELECT sum(x) AS s, min(x) AS m"
    )
    with local_engine(f"{script} {ONE_WINDOW}") as engine:
        engine._runs.of("s").overload.monitor.steps["shed"] = 2
        engine.deliver("s", [{"ts": i, "k": "a", "x": x} for i, x in enumerate([5, None, 1, 9, 7, 2])], 0)
        engine.end("s")
        (row,) = engine.results("q").to_arrow().to_pylist()
    assert (row["s"], row["m"], row["kept_share"]) == (21, 5, 0.5)


@pytest.mark.parametrize(
    ("behind", "text", "error"),
    [
        ("SHED RANDOM", f"SELECT count(*) AS n {ONE_WINDOW}", CheckError),
        ("SHED RANDOM", f"SELECT APPROX count(DISTINCT x) AS n {ONE_WINDOW}", NotSupported),
        ("SHED RANDOM", f"SELECT APPROX mode(x) AS n {ONE_WINDOW}", NotSupported),
        ("SHED RANDOM", "SELECT APPROX count(*) AS n FROM s [ROWS 3]", NotSupported),
        ("SHED RANDOM MARK EXACT", "SELECT DISTINCT k FROM s [RANGE 10 us SLIDE 10 us]", NotSupported),
        ("WAIT", f"SELECT APPROX count(*) AS n {ONE_WINDOW}", NotSupported),
        ("SHED BY k", f"SELECT APPROX count(*) AS n {ONE_WINDOW}", CheckError),
        ("SHED BY nobody", f"SELECT APPROX count(*) AS n {ONE_WINDOW}", CheckError),
        ("SHED RANDOM AT MOST 100 PERCENT", f"SELECT APPROX count(*) AS n {ONE_WINDOW}", MullionError),
    ],
)
def test_what_is_refused(behind: str, text: str, error: type[MullionError]) -> None:
    with pytest.raises(error), local_engine(f"{S} WHEN BEHIND {behind}; CREATE QUERY q AS {text}"):
        pass


def test_a_synopsis_cannot_tell_of_a_stream_that_sheds() -> None:
    synopsis = "CREATE SYNOPSIS y ON s(x) USING ordered_sharing (rows 8)"
    with pytest.raises(CheckError, match="may shed"), local_engine(f"{S} WHEN BEHIND SHED RANDOM; {synopsis}"):
        pass


def test_questions_are_estimated_too() -> None:
    with local_engine(f"{S} KEEP 1000 ROWS WHEN BEHIND SHED RANDOM MARK EXACT") as engine:
        engine._runs.of("s").overload.monitor.steps["shed"] = 2
        engine.deliver("s", events_of(range(100)), 0)
        (row,) = engine.ask("SELECT APPROX count(*) AS n FROM s [RANGE 1 s]").to_arrow().to_pylist()
        (marked,) = engine.ask("SELECT count(*) AS n FROM s [RANGE 1 s]").to_arrow().to_pylist()
    assert (row["n"], row["kept_share"], marked["kept_share"]) == (2 * marked["n"], 0.5, 0.5)
    assert 30 <= marked["n"] <= 70


@pytest.mark.parametrize("behind", ["WAIT", "SHED RANDOM AT MOST 50 PERCENT MARK EXACT"])
def test_a_run_that_falls_behind_and_recovers(behind: str) -> None:
    """By a clock that goes on a second with every look at it: a batch takes one, and twenty batches wait."""
    ticks = itertools.count()
    script = f"{S} WHEN BEHIND {behind}; CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 100 us SLIDE 100 us]"
    with local_engine(script, behind_after=4) as engine:
        run, shares = engine._runs.of("s"), []
        run.timer = lambda: float(next(ticks))
        source = run.source
        assert isinstance(source, MemorySource)
        for number in range(40):
            source.queued = SourceLag(2000, 100) if number < 8 else SourceLag(0, 100)
            engine.deliver("s", [{"ts": number * 100 + i, "k": "a", "x": i} for i in range(100)], number)
            shares.append(run.overload.thinning.share)
        engine.end("s")
        rows, counts = engine.results("q").to_arrow().to_pylist(), engine.counts["s"]
        told = engine.stats["monitors"]["s"]
    assert not told["behind"] and told["kept_share"] == 1.0 and told["lag"] == 0.0
    if behind == "WAIT":
        assert counts.shed == 0 and [row["n"] for row in rows] == [100] * 40
        assert set(shares) == {1.0} and "kept_share" not in rows[0]
        return
    assert shares[0] == shares[-1] == 1.0 and min(shares) == 0.5
    assert [row["kept_share"] for row in rows] == [row["n"] / 100 for row in rows]
    assert all((row["n"] == 100) == (share == 1.0) for row, share in zip(rows, shares, strict=True))
    assert counts.shed == counts.shed_by_query["q"] == 4000 - sum(row["n"] for row in rows)


# Against the reference

QUERIES = {
    "totals": "SELECT APPROX count(*) AS n, count(x) AS c, sum(x) AS s, avg(x) AS a, max(x) AS m "
    "FROM s [RANGE 20 us SLIDE 10 us]",
    "groups": "SELECT APPROX k, count(*) AS n, sum(x) FILTER (WHERE x > 3) AS s, avg(x * 2) AS a "
    "FROM s [RANGE 15 us SLIDE 5 us] WHERE x > 1 GROUP BY k HAVING count(*) > 2 ORDER BY n DESC, k LIMIT 2",
    "chosen": "SELECT APPROX count(*) AS n, avg(x) AS a FROM s [RANGE 12 us SLIDE 5 us OFFSET 2 us] WHERE x > 6",
    "hops": "SELECT count(*) AS n FROM s [RANGE 3 us SLIDE 7 us]",
    "so_far": "SELECT APPROX count(*) AS n FROM s [RANGE UNBOUNDED SLIDE 10 us]",
    "marked": "SELECT k, count(*) AS n, count(DISTINCT x) AS d FROM s [RANGE 10 us SLIDE 10 us] GROUP BY k",
    "rows": "SELECT sum(x) AS s FROM s [ROWS 3 SLIDE 2]",
    "pairs": "SELECT APPROX count(*) AS n, sum(s.x) AS t FROM s [RANGE 10 us SLIDE 10 us], r [RANGE 10 us SLIDE 10 us] "
    "WHERE s.k = r.k",
    "joined": "SELECT s.x AS x, r.x AS y FROM s [RANGE 8 us], r [RANGE 5 us] WHERE s.k = r.k AND r.x > 2",
    "sharing": "SELECT s.x AS x, r.x AS y FROM s [RANGE 4 us], r [RANGE 9 us] WHERE s.k = r.k AND s.x < r.x",
    "three": "SELECT s.x AS x, r.x AS y, z.x AS z FROM s [RANGE 5 us], r [RANGE 5 us], s [RANGE 3 us] AS z "
    "WHERE s.k = r.k AND r.k = z.k AND s.x + r.x > z.x",
    "row_windows": "SELECT s.x AS x, r.x AS y FROM s [ROWS 3 SLIDE 2], r [RANGE 5 us] WHERE s.k = r.k",
}
JOINS = ("pairs", "joined", "sharing", "three", "row_windows")
PLAIN = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT)), "ts")
SHEDDING = ("WHEN BEHIND SHED RANDOM AT MOST 90 PERCENT MARK EXACT", "WHEN BEHIND SHED BY x MARK EXACT")
PROBES = "WHEN BEHIND SHED PROBES MARK EXACT"


@dataclass(frozen=True)
class Trial:
    files: Mapping[str, list[list[int]]]
    weights: Mapping[str, list[float]]
    """What the monitors would like batches to be kept with, over and over again."""
    behind: Mapping[str, str]
    lateness: int
    at_a_time: int
    queries: tuple[str, ...]
    late_query: str | None
    """One that enters with the second run."""
    first_run: int
    """How many files of each stream the first run finds."""
    kill: tuple[str, int] | None
    sharing: str


class Decisions:
    """What monitors would like, and what was decided for each batch at first."""

    def __init__(self, weights: Mapping[str, list[float]]) -> None:
        self._weights = weights
        self.made: dict[tuple[str, int], Thinning] = {}

    @contextmanager
    def patched(self) -> Iterator[None]:
        """For one run, which keeps its first batch whole as every run does."""
        begun: set[str] = set()
        decided = Overload._decided

        def decide(overload: Overload, batch: Batch) -> Thinning:
            name = overload._stream.name
            choices = self._weights[name]
            wanted = choices[batch.number % len(choices)] if name in begun else 1.0
            begun.add(name)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Monitor, "weight", wanted)
                thinning = decided(overload, batch)
            assert (name, batch.number) not in self.made or thinning == self.made[name, batch.number] == WHOLE
            self.made[name, batch.number] = thinning
            return thinning

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Overload, "_decided", decide)
            yield


def script(trial: Trial, base: Path, *, late: bool) -> str:
    made = []
    for name in ("s", "r"):
        options = f"path '{base / name}', maxFilesPerTrigger '{trial.at_a_time}'"
        made.append(
            f"CREATE STREAM {name} (ts TIMESTAMP, k STRING, x INT) USING parquet OPTIONS ({options}) "
            f"TIMESTAMP BY ts LATENESS '{trial.lateness} us' {trial.behind[name]}"
        )
    made += [f"CREATE QUERY {name} AS {QUERIES[name]}" for name in trial.queries]
    if late and trial.late_query is not None:
        made.append(f"CREATE QUERY late AS {QUERIES[trial.late_query]}")
    return ";".join(made)


class Oracle:
    """The kept events with their weights, by what was decided for each batch."""

    def __init__(self, trial: Trial, streams: Mapping[str, Stream], decisions: Decisions) -> None:
        self.trial, self.streams, self.decisions = trial, streams, decisions
        self.kept: dict[str, list[Event]] = {"s": [], "r": []}
        self.newest: dict[str, int | None] = {"s": None, "r": None}
        self.shed = {"s": 0, "r": 0}
        self.lost: dict[str, list[int]] = {"s": [], "r": []}
        """The times of events that were shed in time."""

    def reads(self, name: str, files: Sequence[list[int]], first: int) -> int:
        """The files in batches, from a number on; returns the next number."""
        for at in range(0, len(files), self.trial.at_a_time):
            rows = [event for times in files[at : at + self.trial.at_a_time] for event in events_of(times)]
            self._sees(name, rows, first)
            first += 1
        return first

    def _sees(self, name: str, rows: list[Event], number: int) -> None:
        stream = self.streams[name]
        whole = MemoryBatch(stream, as_events(stream, rows), number)
        thinned = whole.thinned(self.decisions.made.get((name, number), WHOLE))
        known = self.newest[name]
        limit = None if known is None else known - self.trial.lateness
        self.shed[name] += len(rows) - len(thinned.events)
        kept = thinned.events.select([name for name in ("k", "x", WEIGHT, EVENT) if name in stream.types]).to_pylist()
        for time, event in zip(thinned.events.column("#t").to_pylist(), kept, strict=True):
            if limit is not None and time < limit:
                continue
            self.kept[name].append({"ts": time, **event})
            known = self.newest[name]
            self.newest[name] = time if known is None else max(known, time)
        for time in [] if thinned.lost is None else thinned.lost.column("#t").to_pylist():
            if limit is None or time >= limit:
                known = self.newest[name]
                self.newest[name] = time if known is None else max(known, time)
                self.lost[name].append(time)

    def entrances(self, seen: Sequence[int]) -> list[int | None]:
        """Where a query may start that enters now: with the newest event; where events were shed also after it, unless
        others keep those that were not."""
        if not seen:
            return [None]
        is_whole = all(thinning == WHOLE for thinning in self.decisions.made.values())
        return [max(seen)] if is_whole else [max(seen), max(seen) + 1]

    def check_any(self, engine: Engine, name: str, text: str, starts: Sequence[int | None]) -> None:
        """Its answers are right from one of these times on."""
        for start in starts[:-1]:
            with suppress(AssertionError):
                self.check(engine, name, text, start)
                return
        self.check(engine, name, text, starts[-1])

    def check(self, engine: Engine, name: str, text: str, start: int | None) -> None:
        query = replace(parse_query(text, name=name), start_at=start)
        relation = bind(query, self.streams)
        plan, table = sliced(relation, self.streams), engine.results(name).to_arrow()
        if plan is not None:
            right = reference.answer(query, self.streams["s"], self.kept["s"], shed=self.lost["s"])
            assert_same(plan, rows_of(plan, table), right.rows)
            return
        relation = entering_at(bind(parse_query(text, name=name), self.streams), start, frozenset())
        wanted = reference.answer(relation, self.streams, self.kept)
        found, right = comparable(as_rows(table), wanted.names), comparable(wanted.rows, wanted.names)
        assert found == right, f"{text}\ntoo many: {found - right}\nmissing: {right - found}"


def play(trial: Trial, base: Path) -> dict[str, list[Event]]:
    """What was answered in the end, which is right."""
    decisions, told = Decisions(trial.weights), dict[str, list[Event]]()
    streams: dict[str, Stream] = {}
    oracle: Oracle | None = None
    numbers, entered = {"s": 0, "r": 0}, list[int | None]()
    for run in (0, 1):
        for name, files in trial.files.items():
            (base / name).mkdir(exist_ok=True)
            found = range(trial.first_run) if run == 0 else range(trial.first_run, len(files))
            for number in found:
                path = write_events(base / name, number, PLAIN, events_of(files[number]))
                os.utime(path, (number, number))
        for crash in [trial.kill, None] if run and trial.kill else [None]:
            with engine_without_spark(out=base / "o", checkpoint=base / "c", sharing=trial.sharing) as engine:
                engine.execute(script(trial, base, late=run == 1))
                streams = dict(engine.catalog.streams)
                try:
                    with decisions.patched(), crash_at(*crash) if crash else nullcontext():
                        engine.run(close=run == 1)
                except Crash:
                    continue
                if oracle is None:
                    oracle = Oracle(trial, streams, decisions)
                for name, files in trial.files.items():
                    part = files[: trial.first_run] if run == 0 else files[trial.first_run :]
                    numbers[name] = oracle.reads(name, part, numbers[name])
                if run == 0 and trial.late_query is not None:
                    seen = [t for n in bind_streams(trial.late_query, streams) if (t := oracle.newest[n]) is not None]
                    entered = oracle.entrances(seen)
                if run == 1:
                    for name in trial.queries:
                        oracle.check(engine, name, QUERIES[name], None)
                    if trial.late_query is not None:
                        oracle.check_any(engine, "late", QUERIES[trial.late_query], entered)
                    for name, counts in engine.counts.items():
                        assert counts.shed == oracle.shed[name]
                    told = {name: engine.results(name).to_arrow().to_pylist() for name in trial.queries}
            break
    return told


def bind_streams(query: str, streams: Mapping[str, Stream]) -> Sequence[str]:
    return bind(parse_query(QUERIES[query]), streams).streams


files = st.lists(st.lists(st.integers(0, 60), max_size=12), min_size=2, max_size=6)
weights = st.lists(st.sampled_from((1.0, 1.5, 2.0, 4.0)), min_size=1, max_size=4)


@st.composite
def trials(draw: Any, queries: Sequence[str] = tuple(sorted(QUERIES)), behind: Any = None) -> Trial:
    names = draw(st.lists(st.sampled_from(queries), min_size=1, max_size=3, unique=True))
    both = {"s": draw(files), "r": draw(files)}
    return Trial(
        both,
        {"s": draw(weights), "r": draw(weights)},
        {"s": draw(st.sampled_from(SHEDDING)), "r": SHEDDING[0]} if behind is None else draw(behind),
        draw(st.sampled_from((0, 5, 100))),
        draw(st.integers(1, 2)),
        tuple(names),
        draw(st.none() | st.sampled_from(queries)),
        draw(st.integers(0, min(map(len, both.values())))),
        draw(st.none() | st.tuples(st.sampled_from((*STEPS, "after shedding is decided")), st.integers(1, 4))),
        draw(st.sampled_from(("auto", "on", "off"))),
    )


@pytest.mark.slow
@settings(max_examples=25)
@given(trial=trials())
def test_answers_are_those_of_the_kept_events(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as name:
        play(trial, Path(name))


@pytest.mark.slow
@settings(max_examples=25)
@given(
    trial=trials(
        (*JOINS, "marked", "rows"),
        st.sampled_from([{"s": PROBES, "r": SHEDDING[0]}, {"s": PROBES, "r": PROBES}, {"s": PROBES, "r": ""}]),
    )
)
def test_joins_that_do_not_probe(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as name:
        play(trial, Path(name))


@pytest.mark.parametrize("step", ["after shedding is decided", "before partials", "after answers", "before head"])
def test_a_batch_that_is_played_again_keeps_the_same_events(step: str, tmp_path: Path) -> None:
    """Killed within a batch of which half is kept. The next run would keep all of it, if nothing were noted."""
    files = {"s": [list(range(i * 20, i * 20 + 20)) for i in range(4)], "r": [[1], [2]]}
    weights = {"s": [1.0, 1.0, 2.0, 4.0], "r": [1.0]}
    trial = Trial(files, weights, dict.fromkeys("sr", SHEDDING[0]), 0, 1, ("totals",), None, 0, (step, 3), "auto")
    shares = [row["kept_share"] for row in play(trial, tmp_path)["totals"]]
    assert 1.0 in shares and 0.4 < min(shares) < 0.6
