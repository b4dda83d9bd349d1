"""An event finds what its table had when the event was read, however long it then waits for its turn, in every query.

The oracle is a table that never changes: it holds the rows of all versions, each with the number of its version, and
events have the number of the version that they were read with.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion import reference
from mullion.algebra.streams import Stream, Table
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.testing import Crash, crash_at
from without_spark import EngineWithoutSpark

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", BIGINT), ("v", BIGINT)), "ts", lateness=10 * SECOND)
NAMES = Table("names", (("k", STRING), ("name", STRING), ("v", BIGINT)), "parquet")
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, x BIGINT, v BIGINT) USING parquet OPTIONS (path 'never read')
TIMESTAMP BY ts LATENESS '10 s';
CREATE TABLE names (k STRING, name STRING) USING parquet OPTIONS (path '{names}');
"""
QUERIES = {
    "slices": "SELECT name, count(*) AS n FROM s [RANGE 4 s SLIDE 4 s], names WHERE s.k = names.k{} GROUP BY name",
    "rows": "SELECT name, count(*) AS n FROM s [ROWS 4 SLIDE 2], names WHERE s.k = names.k{} GROUP BY name",
    "tuples": "SELECT sum(x) AS n FROM s [RANGE 9 s SLIDE 1 TUPLE] LEFT JOIN names ON s.k = names.k{} WHERE name > 'b'",
    "partitions": "SELECT name, count(*) AS n FROM s [PARTITION BY k ROWS 2], names "
    "WHERE s.k = names.k{} GROUP BY name",
    "relation": "SELECT x, name FROM s [RANGE 4 s SLIDE 4 s], names WHERE s.k = names.k{}",
    "last_rows": "SELECT x, name FROM s [ROWS 4 SLIDE 3], names WHERE s.k = names.k{}",
    "joined": "SELECT s.x AS x, name, b.x AS y FROM s [RANGE 4 s SLIDE 2 s] s, s [RANGE 9 s] b, names "
    "WHERE s.k = b.k AND s.k = names.k{}",
    "grouped": "SELECT name, count(DISTINCT b.x) AS y FROM s [RANGE 4 s SLIDE 2 s] s, s [RANGE 9 s] b, names "
    "WHERE s.k = b.k AND s.k = names.k{} GROUP BY name",
}
Event = dict[str, Any]
Version = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Trial:
    """Batches of events, each with the version of the table that is there when it comes, and how it is disturbed."""

    batches: Sequence[tuple[Sequence[tuple[int, str, int]], Version]]
    restarts: frozenset[int] = frozenset()
    """Batches before which the engine begins again."""
    kill: tuple[str, int] | None = None
    beats: frozenset[int] = frozenset()
    """Batches after which event time goes on to the first event that is still to come."""
    shard_above: int = 200_000

    @property
    def events(self) -> list[list[Event]]:
        return [
            [{"ts": second * SECOND, "k": k, "x": x, "v": v} for second, k, x in batch]
            for v, (batch, _) in enumerate(self.batches)
        ]

    def answers(self, base: Path) -> dict[str, pa.Table]:
        engine, killed = self._engine(base), self.kill is None
        for number, (batch, (_, version)) in enumerate(zip(self.events, self.batches, strict=True)):
            if number in self.restarts:
                engine.close()
                engine = self._engine(base)
            columns = {"k": [k for k, _ in version], "name": [name for _, name in version]}
            rows = pa.table(columns, pa.schema([("k", pa.string()), ("name", pa.string())]))
            pq.write_table(rows, base / "new.parquet")
            (base / "new.parquet").replace(base / "names.parquet")
            try:
                with nullcontext() if killed or self.kill is None else crash_at(*self.kill):
                    engine.deliver("s", batch, number)
            except Crash:
                killed = True
                engine.close()
                engine = self._engine(base)
                engine.deliver("s", batch, number)
            if number in self.beats and number + 1 < len(self.batches):
                self._beat(engine, number)
        engine.end("s")
        answers = {name: engine.results(name).to_arrow() for name in QUERIES}
        engine.close()
        return answers

    def _beat(self, engine: EngineWithoutSpark, number: int) -> None:
        time = min((event["ts"] for batch in self.events[number + 1 :] for event in batch), default=0)
        watermark = engine.runs["s"].watermark
        if watermark is not None and watermark < time:
            engine.advance("s", EPOCH + timedelta(microseconds=time))

    def _engine(self, base: Path) -> EngineWithoutSpark:
        places = {"checkpoint": base / "checkpoint"} if self.restarts or self.kill else {}
        engine = EngineWithoutSpark(out=base / "out", shard_above=self.shard_above, **places)
        engine.execute(SCRIPT.format(names=base / "names.parquet"))
        engine.execute("".join(f"CREATE QUERY {name} AS {text.format('')};" for name, text in QUERIES.items()))
        engine.start()
        return engine

    def check(self, base: Path) -> None:
        columns = {name: pa.array([], pa.string()) for name in ("k", "name")}
        pq.write_table(pa.table(columns), base / "names.parquet")
        versions = [{"k": k, "name": n, "v": v} for v, (_, rows) in enumerate(self.batches) for k, n in rows]
        events = [event for batch in self.events for event in batch]
        found = self.answers(base)
        for name, text in QUERIES.items():
            query = parse_query(text.format(" AND s.v = names.v"), name=name)
            wanted = reference.answer(query, STREAM, events, {"names": (NAMES, versions)})
            rows = [tuple(map(_plain, row.values())) for row in found[name].to_pylist()]
            assert sorted(rows, key=repr) == sorted(wanted.rows, key=repr), name


def _plain(value: Any) -> Any:
    return round(value.timestamp() * SECOND) if hasattr(value, "timestamp") else value


BY_HAND = [
    ([(1, "a", 1), (3, "b", 2)], [("a", "a1"), ("b", "b1")]),
    ([(2, "a", 3)], [("a", "a2"), ("a", "A2"), ("b", "b2")]),
    ([(30, "a", 4)], [("a", "a3")]),
]


@pytest.mark.parametrize("restarts", [(), (1, 2)])
def test_an_event_that_waits_finds_what_its_table_had_when_it_was_read(tmp_path: Path, restarts: Sequence[int]) -> None:
    Trial(BY_HAND, frozenset(restarts)).check(tmp_path)


EVENTS = st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.integers(0, 3))
ROWS = st.lists(st.tuples(st.sampled_from("abd"), st.sampled_from(["a", "b", "c"])), max_size=4)


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    """Events come up to ten seconds late. The table changes with some of the batches."""
    batches: list[tuple[Sequence[tuple[int, str, int]], Version]] = []
    version, first = draw(ROWS), 0
    for _ in range(draw(st.integers(1, 7))):
        version = draw(ROWS) if draw(st.booleans()) else version
        batches.append(([(first + late, k, x) for late, k, x in draw(st.lists(EVENTS, max_size=6))], version))
        first += draw(st.integers(0, 6))
    restarts = draw(st.frozensets(st.integers(1, 6), max_size=3))
    steps = ["before partials", "before operators", "before commit", "after commit"]
    kill = draw(st.none() | st.tuples(st.sampled_from(steps), st.integers(1, 6)))
    beats = draw(st.frozensets(st.integers(0, 6), max_size=2))
    return Trial(batches, restarts, kill, beats, draw(st.sampled_from((200_000, 0))))


@given(trials())
def test_whatever_changes_and_whenever_an_event_finds_what_its_table_had_then(trial: Trial) -> None:
    with TemporaryDirectory() as base:
        trial.check(Path(base))
