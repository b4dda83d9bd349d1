"""Streams whose join is promising, in whole runs: files that grow from run to run, and batches that are delivered."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from mullion.algebra.streams import Stream
from mullion.language.types import BIGINT, TIMESTAMP
from mullion.testing import STEPS, Crash, crash_at
from without_spark import EngineOfFiles, engine_without_spark, write_events

EVENTS = Stream("s", (("ts", TIMESTAMP), ("k", BIGINT), ("v", BIGINT)), "ts")
STREAMS = "CREATE STREAM {0} (ts TIMESTAMP, k BIGINT, v BIGINT) USING parquet OPTIONS (path '{1}') TIMESTAMP BY ts"
JOIN = "SELECT s.k, s.v AS v, t.v AS w FROM s [RANGE 20 us{0}], t [RANGE 20 us] WHERE s.k = t.k"
OF_THREE = """SELECT s.k, s.v AS v, t.v * 10000 + u.v AS w FROM s [RANGE 20 us{0}], t [RANGE 20 us], t [RANGE 9 us] u
WHERE s.k = t.k AND t.k = u.k"""
SUMMARY = "CREATE SUMMARY keys ON t(k) WITH GRANULARITY '5 us' AND COLLAPSE (2, 3) MEMORY '{} B'"
Rows = list[tuple[Any, ...]]


class World:
    """Streams s and t in a directory that grows by a file of each with every run."""

    exact = JOIN.format("")
    """What a promising query tells a part of."""

    def __init__(
        self, base: Path, memory: int | None = None, *, sharded: bool = False, exact: str | None = None
    ) -> None:
        """`memory`: bytes that promising joins may keep. `sharded`: joins leave the driver, if they may."""
        self.exact = exact or self.exact
        self.base, self.files, self.memory, self.sharded = base, 0, memory, sharded

    def add(self, *streams: Sequence[tuple[int, int]]) -> None:
        for name, events in zip("st", streams, strict=True):
            rows = [{"ts": at, "k": key, "v": 1000 * self.files + i} for i, (at, key) in enumerate(events)]
            write_events(self.base / name, self.files, EVENTS, rows)
        self.files += 1

    def answers(self, engine: EngineOfFiles, name: str) -> Any:
        return told(engine, name)

    def run(self, queries: dict[str, str], crash: tuple[str, int] | None = None, **how: Any) -> dict[str, Any] | None:
        """What queries have answered after one more run; None if it crashed."""
        places = {"out": self.base / "out", "checkpoint": self.base / "state"}
        with engine_without_spark(**places, shard_above=0 if self.sharded else 200_000) as engine:
            for name in "st":
                engine.execute(STREAMS.format(name, self.base / name))
            if self.memory is not None:
                engine.execute(SUMMARY.format(self.memory))
            for name, text in queries.items():
                engine.query(f"CREATE QUERY {name} AS {text}")
            try:
                with crash_at(*crash) if crash else nullcontext():
                    engine.run(**how)
            except Crash:
                return None
            for facts in engine.relations.promising.values():
                parts = (facts["told"], facts["waiting"], facts["expired"], facts["shed"])
                assert facts["offered"] == sum(part or 0 for part in parts)
                assert self.memory is None or (facts["bytes"] or 0) <= self.memory
            return {name: self.answers(engine, name) for name in queries}

    def run_cut_and_crashed(self, text: str, parts: Sequence[Any], data: st.DataObject) -> Any:
        """What a query has answered after a run for each part, any of which may crash and is then run again."""
        found = None
        for number, (s, t) in enumerate(parts):
            self.add(*(sorted((10 * number + at, key) for at, key in events) for events in (s, t)))
            crash = data.draw(st.sampled_from((None, *((step, n) for step in STEPS for n in (1, 2, 3)))))
            close = number == len(parts) - 1
            found = self.run({"part": text}, crash, close=close)
            while found is None:
                found = self.run({"part": text}, close=close)
        assert found is not None
        return found["part"]

    def whole(self) -> Any:
        """What the exact query answers, in a run by itself: beside it, a promising one would be complete."""
        with engine_without_spark(out=self.base / "whole") as engine:
            for name in "st":
                engine.execute(STREAMS.format(name, self.base / name))
            engine.query(f"CREATE QUERY whole AS {self.exact}")
            engine.run()
            return self.answers(engine, "whole")


def told(engine: EngineOfFiles, name: str) -> Rows:
    rows = engine.results(name).to_arrow().to_pylist()
    return sorted((row["k"], row["v"], row["w"], row["inserted_at"], row["expires_at"]) for row in rows)


batches = st.lists(
    st.tuples(*[st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=5)] * 2),
    min_size=1,
    max_size=4,
)


SCRIPT = f"{STREAMS.format('s', 'nowhere')}; {STREAMS.format('t', 'nowhere')};"


def deliver(engine: Any, number: int, at: int, keys: Sequence[int]) -> None:
    for name in "st":
        engine.deliver(name, [{"ts": at, "k": key, "v": 100 * number + i} for i, key in enumerate(keys)], number)
