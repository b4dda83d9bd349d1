"""Random runs in which events are shed: what comes, how it is cut into files and runs, what is kept of each batch, who
enters and who leaves, where a run is killed, and what is right in the end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from memory_batch import MemoryBatch, as_events
from mullion import reference
from mullion.algebra.streams import EVENT, WEIGHT, Stream
from mullion.binding.entering import entering_at
from mullion.binding.relations import bind
from mullion.engine import Engine
from mullion.kernels.thinning import WHOLE, Thinning
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.planner.physical import sliced
from mullion.runtime.batch import Batch
from mullion.runtime.monitor import Monitor
from mullion.runtime.overload import Overload
from mullion.testing import STEPS, Crash, crash_at
from operators.test_relations_differential import as_rows, comparable
from runtime.test_core_differential import assert_same, rows_of
from without_spark import EngineOfFiles, engine_without_spark, write_events

Event = dict[str, Any]
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
TIMED = ("totals", "groups", "chosen", "hops", "so_far", "marked")
"""Whose windows end when the watermark passes them."""
QUESTIONS = (
    "SELECT count(*) AS n, max(x) AS m FROM s [RANGE 7 us]",
    "SELECT APPROX k, count(*) AS n, sum(x) AS s, avg(x) AS a FROM s [RANGE 20 us] GROUP BY k",
    "SELECT APPROX count(*) AS n FROM s [RANGE 30 us] WHERE x > 2",
)
PLAIN = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT)), "ts")
SHEDDING = ("WHEN BEHIND SHED RANDOM AT MOST 90 PERCENT MARK EXACT", "WHEN BEHIND SHED BY x MARK EXACT")
PROBES = "WHEN BEHIND SHED PROBES MARK EXACT"


def events_of(times: Sequence[int]) -> list[Event]:
    return [{"ts": time, "k": "abc"[time % 3], "x": None if time % 7 == 0 else time % 10} for time in times]


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
    found: tuple[int, int]
    """How many files of each stream there are when the first run begins, and when the second does."""
    kill: tuple[str, int] | None
    """Where the last run is killed."""
    sharing: str
    leaves: str | None = None
    """One that leaves before the third run."""
    heir: str | None = None
    """One that then takes its name, if the engine goes on."""
    goes_on: bool = False
    """Whether the third run is one of the same engine as the second."""
    keeps: str = ""

    def part(self, run: int, files: Sequence[list[int]]) -> range:
        """Which files come with a run: the first, the second, or the last one."""
        ends = (0, *self.found, len(files))
        return range(ends[run], max(ends[run], ends[run + 1]))


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


class Oracle:
    """The kept events with their weights, by what was decided for each batch."""

    def __init__(self, trial: Trial, streams: Mapping[str, Stream], decisions: Decisions) -> None:
        self.trial, self.streams, self.decisions = trial, streams, decisions
        self.kept: dict[str, list[Event]] = {"s": [], "r": []}
        self.newest: dict[str, int | None] = {"s": None, "r": None}
        self.shed = {"s": 0, "r": 0}
        self.missed: dict[str, dict[str, int]] = {"s": {}, "r": {}}
        """Of the shed events, those that came while a query stood."""
        self.lost: dict[str, list[int]] = {"s": [], "r": []}
        """The times of events that were shed in time."""

    def reads(self, name: str, files: Sequence[list[int]], first: int, standing: Mapping[str, str]) -> int:
        """The files in batches, from a number on, while these queries stand; returns the next number."""
        before = self.shed[name]
        for at in range(0, len(files), self.trial.at_a_time):
            rows = [event for times in files[at : at + self.trial.at_a_time] for event in events_of(times)]
            self._sees(name, rows, first)
            first += 1
        for query, text in standing.items():
            if name in self.streams_of(text) and self.shed[name] > before:
                self.missed[name][query] = self.missed[name].get(query, 0) + self.shed[name] - before
        return first

    def forget(self, name: str) -> None:
        """A query has left: another of its name has missed nothing yet."""
        for missed in self.missed.values():
            missed.pop(name, None)

    def streams_of(self, text: str) -> Sequence[str]:
        return bind(parse_query(text), self.streams).streams

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

    def entrances(self, text: str) -> list[int | None]:
        """Where a query may start that enters now: with the newest event; where events were shed also after it, unless
        others keep those that were not."""
        seen = [time for name in self.streams_of(text) if (time := self.newest[name]) is not None]
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

    def check_so_far(self, engine: Engine, name: str, text: str) -> None:
        """All windows that the watermark has passed are answered, and right."""
        query = parse_query(text, name=name)
        plan = sliced(bind(query, self.streams), self.streams)
        assert plan is not None
        newest = self.newest["s"]
        passed = -1 if newest is None else newest - self.trial.lateness
        right = reference.answer(query, self.streams["s"], self.kept["s"], shed=self.lost["s"])
        due = [row for row in right.rows if row[1] <= passed]
        assert_same(plan, rows_of(plan, engine.results(name).to_arrow()), due)

    def check_questions(self, engine: Engine) -> None:
        """Questions see the kept events, with their weights. Where none is lost, there is nothing to estimate."""
        may_lose = "PROBES" not in self.trial.behind["s"]
        for text in QUESTIONS if may_lose else QUESTIONS[:1]:
            query = parse_query(text, name="asked")
            plan = sliced(bind(query, self.streams), self.streams)
            right = reference.ask(query, self.streams["s"], self.kept["s"], event_time=self.newest["s"])
            assert_same(plan, rows_of(plan, engine.ask(text).to_arrow()), right.rows)


@dataclass
class Play:
    """A trial at work: runs one after the other, over files that grow."""

    trial: Trial
    base: Path
    decisions: Decisions = field(init=False)
    oracle: Oracle | None = None
    numbers: dict[str, int] = field(default_factory=lambda: {"s": 0, "r": 0})
    waiting: dict[str, list[list[int]]] = field(default_factory=lambda: {"s": [], "r": []})
    """Files that nobody has read: no query reads the stream, and it keeps no events."""
    standing: dict[str, str] = field(default_factory=dict)
    """The queries that stand, with their texts."""
    starts: dict[str, list[int | None]] = field(default_factory=dict)
    """Where those that came later may have started."""

    def __post_init__(self) -> None:
        self.decisions = Decisions(self.trial.weights)
        self.standing = {name: QUERIES[name] for name in self.trial.queries}

    def play(self) -> dict[str, list[Event]]:
        """What was answered in the end, which is right."""
        trial = self.trial
        with self._engine() as engine:
            self._run(engine, 0)
        if trial.late_query is not None:
            self._enters("late", QUERIES[trial.late_query])
        if not trial.goes_on:
            with self._engine() as engine:
                self._run(engine, 1)
                self._leaves(engine)
            if trial.kill is not None:
                with suppress(Crash), self._engine() as engine:
                    self._run(engine, 2, kill=trial.kill)
                    return self._check(engine)
            with self._engine() as engine:
                self._run(engine, 2)
                return self._check(engine)
        with self._engine() as engine:
            self._run(engine, 1)
            self._leaves(engine)
            self._run(engine, 2)
            return self._check(engine)

    @contextmanager
    def _engine(self) -> Iterator[EngineOfFiles]:
        options = {"out": self.base / "o", "checkpoint": self.base / "c", "sharing": self.trial.sharing}
        with engine_without_spark(**options) as engine:
            engine.execute(self._script())
            yield engine

    def _script(self) -> str:
        trial, made = self.trial, []
        for name in ("s", "r"):
            options = f"path '{self.base / name}', maxFilesPerTrigger '{trial.at_a_time}'"
            made.append(
                f"CREATE STREAM {name} (ts TIMESTAMP, k STRING, x INT) USING parquet OPTIONS ({options}) "
                f"TIMESTAMP BY ts LATENESS '{trial.lateness} us' {trial.keeps} {trial.behind[name]}"
            )
        return ";".join(made + [f"CREATE QUERY {name} AS {text}" for name, text in self.standing.items()])

    def _run(self, engine: EngineOfFiles, run: int, kill: tuple[str, int] | None = None) -> None:
        """The files of a run come and are read. Its last one is the end of the input."""
        trial = self.trial
        for name, files in trial.files.items():
            (self.base / name).mkdir(exist_ok=True)
            for number in trial.part(run, files):
                path = write_events(self.base / name, number, PLAIN, events_of(files[number]))
                os.utime(path, (number, number))
        with self.decisions.patched(), crash_at(*kill) if kill else nullcontext():
            engine.run(close=run == 2)
        if self.oracle is None:
            self.oracle = Oracle(trial, dict(engine.catalog.streams), self.decisions)
        for name, files in trial.files.items():
            self.waiting[name] += [files[number] for number in trial.part(run, files)]
            if trial.keeps or any(name in self.oracle.streams_of(text) for text in self.standing.values()):
                self.numbers[name] = self.oracle.reads(name, self.waiting[name], self.numbers[name], self.standing)
                self.waiting[name] = []
        if trial.keeps:
            self.oracle.check_questions(engine)

    def _enters(self, name: str, text: str) -> None:
        assert self.oracle is not None
        self.starts[name] = self.oracle.entrances(text)
        self.standing[name] = text

    def _leaves(self, engine: EngineOfFiles) -> None:
        """A query leaves after the second run; another one may take its name."""
        name, oracle = self.trial.leaves, self.oracle
        assert oracle is not None
        if name is None:
            return
        if name in TIMED:
            oracle.check_so_far(engine, name, self.standing[name])
        del self.standing[name]
        engine.drop(name)
        oracle.forget(name)
        if self.trial.heir is not None and self.trial.goes_on:
            self._enters(name, QUERIES[self.trial.heir])
            engine.execute(f"CREATE QUERY {name} AS {QUERIES[self.trial.heir]}")

    def _check(self, engine: Engine) -> dict[str, list[Event]]:
        assert self.oracle is not None
        for name, text in self.standing.items():
            if name in self.starts:
                self.oracle.check_any(engine, name, text, self.starts[name])
            else:
                self.oracle.check(engine, name, text, None)
        for name, counts in engine.counts.items():
            assert counts.shed == self.oracle.shed[name]
            reading = {query for query, text in self.standing.items() if name in self.oracle.streams_of(text)}
            missed = {query: number for query, number in counts.shed_by_query.items() if query in reading}
            right = {query: own for query, own in self.oracle.missed[name].items() if query in reading}
            assert missed == right, f"of {name}: {missed} are told, {right} are right"
        from_the_start = [name for name in self.standing if name not in self.starts]
        return {name: engine.results(name).to_arrow().to_pylist() for name in from_the_start}


def play(trial: Trial, base: Path) -> dict[str, list[Event]]:
    """What was answered in the end, which is right."""
    return Play(trial, base).play()


files = st.lists(st.lists(st.integers(0, 60), max_size=12), min_size=2, max_size=6)
weights = st.lists(st.sampled_from((1.0, 1.5, 2.0, 4.0)), min_size=1, max_size=4)


@st.composite
def trials(draw: Any, queries: Sequence[str] = tuple(sorted(QUERIES)), behind: Any = None) -> Trial:
    names = draw(st.lists(st.sampled_from(queries), min_size=1, max_size=3, unique=True))
    both = {"s": draw(files), "r": draw(files)}
    least, leaves = min(map(len, both.values())), draw(st.none() | st.sampled_from(names[1:] or [None]))
    heirs = [name for name in queries if name != leaves]
    first = draw(st.integers(0, least))
    return Trial(
        both,
        {"s": draw(weights), "r": draw(weights)},
        {"s": draw(st.sampled_from(SHEDDING)), "r": SHEDDING[0]} if behind is None else draw(behind),
        draw(st.sampled_from((0, 5, 100))),
        draw(st.integers(1, 2)),
        tuple(names),
        draw(st.none() | st.sampled_from(queries)),
        (first, draw(st.integers(first, least))),
        draw(st.none() | st.tuples(st.sampled_from((*STEPS, "after shedding is decided")), st.integers(1, 4))),
        draw(st.sampled_from(("auto", "on", "off"))),
        leaves=leaves,
        heir=draw(st.none() | st.sampled_from(heirs)),
        goes_on=draw(st.booleans()),
        keeps=draw(st.sampled_from(("", "KEEP '1 s'"))),
    )
