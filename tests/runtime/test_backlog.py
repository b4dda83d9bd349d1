"""A backlog in several batches answers what it answers in one, whatever the order of its files. Without a JVM."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.algebra.streams import Stream
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.spark import backlog
from mullion.testing import STEPS, Crash, crash_at
from without_spark import engine_without_spark, write_events

EVENTS = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("v", BIGINT)), "ts")
QUERIES = {
    "sums": "SELECT k, count(*) AS n, sum(v) AS total FROM s [RANGE 20 us SLIDE 10 us] GROUP BY k",
    "counts": "SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]",
    "rows": "SELECT sum(v) AS total FROM s [ROWS 3 SLIDE 2]",
    "keys": "SELECT DISTINCT k FROM s [RANGE 10 us SLIDE 10 us]",
}
ONE_FILE = 1
"""A number of bytes that no two files have together."""


def played(
    base: Path,
    *,
    most_bytes: int | None,
    lateness: int = 0,
    kill: tuple[str, int] | None = None,
    queries: dict[str, str] = QUERIES,
    **how: Any,
) -> dict[str, Any]:
    """The answers of a run over the files below `base`, which is killed on the way if told so."""
    before = backlog.batch_size_options
    options = {} if most_bytes is None else {"maxbytespertrigger": str(most_bytes)}
    backlog.batch_size_options = lambda *_: options
    place = base / f"{most_bytes}"
    try:
        for crash in [kill, None] if kill else [None]:
            with engine_without_spark(out=place / "out", checkpoint=place / "state") as engine:
                engine.execute(
                    "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT) USING parquet "
                    f"OPTIONS (path '{base / 's'}') TIMESTAMP BY ts LATENESS '{lateness} us'"
                )
                for name, text in queries.items():
                    engine.query(text if text.startswith("CREATE") else f"CREATE QUERY {name} AS {text}")
                try:
                    with crash_at(*crash) if crash else tempfile.TemporaryDirectory():
                        engine.run(**how)
                except Crash:
                    continue
                rows = {name: engine.results(name).to_arrow().to_pylist() for name in queries}
                counts = engine.counts["s"]
                watermark = engine.runs["s"].watermark
    finally:
        backlog.batch_size_options = before
    answers = {name: sorted(map(repr, found)) for name, found in rows.items()}
    return {"answers": answers, "late": counts.late, "watermark": watermark, "batches": counts.batches}


def add(base: Path, number: int, times: list[int]) -> None:
    events = [{"ts": time, "k": "xyz"[time % 3], "v": time} for time in times]
    path = write_events(base / "s", number, EVENTS, events)
    os.utime(path, (number, number))


def test_files_in_any_order_are_not_late(tmp_path: Path) -> None:
    for number, times in enumerate(([20, 29], [0, 9], [10, 19])):
        add(tmp_path, number, times)
    counts = {"counts": QUERIES["counts"]}
    whole = played(tmp_path, most_bytes=None, queries=counts, close=True)
    parts = played(tmp_path, most_bytes=ONE_FILE, queries=counts, close=True)
    assert (whole.pop("batches"), parts.pop("batches")) == (1, 3)
    assert whole == parts
    assert parts["late"] == 0 and len(parts["answers"]["counts"]) == 3


def test_what_comes_after_the_backlog_may_be_late(tmp_path: Path) -> None:
    """And a query that reads the past again leaves out the same events as the others did."""
    for number, times in enumerate(([20, 29], [0, 9], [10, 19])):
        add(tmp_path, number, times)
    asked = {"counts": QUERIES["counts"]}
    assert played(tmp_path, most_bytes=ONE_FILE, queries=asked)["late"] == 0
    add(tmp_path, 3, [5, 35])
    assert played(tmp_path, most_bytes=ONE_FILE, queries=asked)["late"] == 1
    add(tmp_path, 4, [45])
    wide = "FROM s [RANGE 60 us SLIDE 10 us]"
    asked |= {"back": f"CREATE QUERY back BACKFILL AS SELECT count(*) AS n {wide}"}
    (answer,) = played(tmp_path, most_bytes=ONE_FILE, queries=asked)["answers"]["back"]
    assert "'n': 7" in answer


def test_a_run_that_is_stopped_in_its_backlog_goes_on_holding(tmp_path: Path) -> None:
    for number, times in enumerate(([20, 29], [30, 39], [0, 9], [10, 19])):
        add(tmp_path, number, times)
    whole = played(tmp_path, most_bytes=None, close=True)
    parts = played(tmp_path, most_bytes=ONE_FILE, close=True, kill=("before commit", 3))
    assert whole["answers"] == parts["answers"] and parts["late"] == 0


files = st.lists(st.lists(st.integers(-30, 60), max_size=5), min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=25)
@given(
    before=files,
    after=files | st.just([]),
    lateness=st.sampled_from((0, 5, 40)),
    most_bytes=st.sampled_from((ONE_FILE, 3_000)),
    kill=st.none() | st.tuples(st.sampled_from(STEPS), st.integers(1, 4)),
)
def test_many_batches_are_one(
    before: list[list[int]], after: list[list[int]], lateness: int, most_bytes: int, kill: tuple[str, int] | None
) -> None:
    """Two backlogs, one after the other, and a kill in the second."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        for number, times in enumerate(before):
            add(base, number, times)
        found = [
            played(base, most_bytes=None, lateness=lateness),
            played(base, most_bytes=most_bytes, lateness=lateness),
        ]
        for number, times in enumerate(after):
            add(base, len(before) + number, times)
        whole = played(base, most_bytes=None, lateness=lateness, close=True)
        parts = played(base, most_bytes=most_bytes, lateness=lateness, close=True, kill=kill)
        for one, other in (found, (whole, parts)):
            del one["batches"], other["batches"]
            assert one == other
