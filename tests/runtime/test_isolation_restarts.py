"""Questions for the latest state beside runs that end and go on, with and without shards: each is answered with the
state at its commit, whatever run has made it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.algebra.streams import Stream
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from mullion.runtime import sharding_choice
from mullion.slices import pieces
from runtime.test_isolation import QUESTIONS, STANDING, batch, check_latest
from without_spark import EngineWithoutSpark, engine_without_spark, write_events

EVENTS = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT), ("v", DOUBLE)), "ts")
SOURCE = """
CREATE STREAM s (ts TIMESTAMP, k STRING, x INT, v DOUBLE) USING parquet OPTIONS (path '{}')
TIMESTAMP BY ts LATENESS '0 s' AHEAD UNBOUNDED KEEP 40 ROWS;
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few events are many pieces, and many groups."""
    monkeypatch.setattr(pieces, "LEAST_ROWS", 0)
    monkeypatch.setattr(pieces, "MOST_ROWS", 3)
    monkeypatch.setattr(sharding_choice, "SHARDS", 2)
    yield


class Course:
    """Runs over a directory that grows, one after the other."""

    def __init__(self, base: Path, *, sharded: bool) -> None:
        self.base, self.files, self.sharded = base, 0, sharded

    def engine(self) -> Any:
        return engine_without_spark(
            out=self.base / "out", checkpoint=self.base / "state", shard_above=0 if self.sharded else 200_000
        )

    def come(self, size: int, late: bool) -> None:
        made = batch(self.files, 6)[:size]
        made = [*made, {**made[0], "ts": made[0]["ts"] - 9}] if late else made
        write_events(self.base / "s", self.files, EVENTS, made)
        self.files += 1

    def begun(self, engine: EngineWithoutSpark) -> None:
        engine.execute(SOURCE.format(self.base / "s") + STANDING)
        engine.start(follow=True)
        engine.wait(5)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.data())
def test_the_latest_state_is_that_of_the_commit_in_whatever_run(data: st.DataObject) -> None:
    isolation = data.draw(st.sampled_from(["latest", "restarting"]))
    with TemporaryDirectory() as place:
        course = Course(Path(place), sharded=data.draw(st.booleans()))
        course.come(6, late=False)
        for _ in range(data.draw(st.integers(1, 3))):
            with course.engine() as engine:
                course.begun(engine)

                def act(engine: EngineWithoutSpark = engine) -> None:
                    if data.draw(st.sampled_from((True, False, False))):
                        course.come(data.draw(st.integers(1, 6)), data.draw(st.booleans()))
                        engine.wait(5)

                for question in data.draw(st.permutations(QUESTIONS))[:4]:
                    check_latest(engine, question, isolation, act)
