"""Mullion against Spark's own stateful operators, on the same files in the same micro-batches.

| Mullion | Spark |
|---|---|
| a join of two windows of ten minutes | a stream-stream join with the same condition on times, and watermarks |
| SELECT DISTINCT over a window of ten minutes | dropDuplicatesWithinWatermark, ten minutes |

Both write their results to Parquet and keep a checkpoint that a restart goes on from. Each file is a micro-batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from rich.console import Console

from benchmarks.links import Links
from benchmarks.measuring import Stopwatch, Task
from benchmarks.mullion_runs import quoted
from benchmarks.operators_part import Part
from benchmarks.report import Bar, Grid
from mullion.engine import Engine
from mullion.spark.session import local_session

WINDOW = "10 minutes"


@dataclass(frozen=True)
class Size:
    events: int = 1_000_000
    files: int = 20
    sources: int = 400_000
    queries: int = 100
    repeat: int = 3


FULL = Size()
QUICK = Size(events=20_000, files=4, sources=8_000, queries=10, repeat=1)


def measure(console: Console, *, quick: bool = False) -> Part:
    size = QUICK if quick else FULL
    session = local_session()
    with tempfile.TemporaryDirectory(prefix="mullion-bench-", ignore_cleanup_errors=True) as scratch:
        links = Links(Path(scratch) / "links", size.events, size.files, size.sources)
        links.write()
        lab = _Lab(session, links, Path(scratch), size)
        watch = Stopwatch(console, repeat=size.repeat)
        join, distinct = [JOIN], [DISTINCT]
        many = [restricted(i, size.queries) for i in range(size.queries)]
        tasks = [
            lab.mullion("Mullion: join of two windows", join),
            lab.spark("Spark: stream-stream join", lab.stream_join),
            lab.mullion("Mullion: DISTINCT over a window", distinct),
            lab.spark("Spark: dropDuplicatesWithinWatermark", lab.stream_distinct),
            lab.mullion("Mullion: one query over the join", [many[size.queries // 2]]),
            lab.mullion(f"Mullion: {size.queries} queries over the join", many),
        ]
        found = watch.measure(tasks, warm=1)
    session.stop()
    ours, theirs, our_distinct, their_distinct, one, all_ = (timing.best for timing in found)
    rows = [timing.result for timing in found]
    if rows[0] != rows[1]:
        raise AssertionError(f"the joins differ: Mullion has {rows[0]} rows, Spark {rows[1]}")
    part = Part()
    part.bars = [
        Bar("join of two streams against Spark's stream-stream join", theirs / ours, 5, ">="),
        Bar("DISTINCT over a window against dropDuplicatesWithinWatermark", their_distinct / our_distinct, 3, ">="),
        Bar(f"{size.queries} queries over the same join against one", all_ / one, 5, "<="),
    ]
    header = ("over the same micro-batches", "seconds", "rows")
    part.grids = [Grid(header, [(t.name, f"{t.best:.2f}", f"{r:,}") for t, r in zip(found, rows, strict=True)])]
    part.facts = {"size": vars(size), "seconds": {t.name: t.seconds for t in found}, "rows": rows}
    return part


COLUMNS = "ts TIMESTAMP, src BIGINT, bytes INT"
JOIN = (
    "SELECT a.src AS src, a.bytes AS sent, b.bytes AS received "
    f"FROM link1 [RANGE '{WINDOW}'] a, link2 [RANGE '{WINDOW}'] b WHERE a.src = b.src"
)
DISTINCT = f"SELECT DISTINCT src FROM link1 [RANGE '{WINDOW}']"


def restricted(i: int, count: int) -> str:
    """The same join with a window and a predicate of its own."""
    minutes = 1 + i // 10 % 10
    least = 1400 - 4 * (i % 25)
    return (
        "SELECT a.src AS src, a.bytes AS sent, b.bytes AS received "
        f"FROM link1 [RANGE '{minutes} minutes'] a, link2 [RANGE '{minutes} minutes'] b "
        f"WHERE a.src = b.src AND a.bytes > {least}"
    )


@dataclass
class _Lab:
    session: Any
    links: Links
    scratch: Path
    size: Size
    runs: int = 0

    def _place(self) -> Path:
        self.runs += 1
        place = self.scratch / f"run-{self.runs}"
        place.mkdir()
        return place

    def mullion(self, name: str, texts: Sequence[str]) -> Task:
        def prepare() -> tuple[Engine, Path]:
            place = self._place()
            engine = Engine(spark=self.session, out=place / "answers", checkpoint=place / "checkpoint")
            for link, path in zip(("link1", "link2"), self.links.paths(), strict=True):
                options = f"OPTIONS (path {quoted(path)}, maxFilesPerTrigger '1')"
                engine.execute(f"CREATE STREAM {link} ({COLUMNS}) USING parquet {options} TIMESTAMP BY ts")
            for i, text in enumerate(texts):
                engine.query(text, name=f"q{i}")
            return engine, place

        def run(made: tuple[Engine, Path]) -> int:
            engine, place = made
            engine.run(close=True)
            return sum(rows_below(place / "answers" / f"q{i}") for i in range(len(texts)))

        return Task(name, run, prepare)

    def spark(self, name: str, question: Callable[[], Any]) -> Task:
        def run(place: Path) -> int:
            writer = question().writeStream.format("parquet").option("path", str(place / "answers"))
            writer = writer.option("checkpointLocation", str(place / "checkpoint")).outputMode("append")
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return rows_below(place / "answers")

        return Task(name, run, self._place)

    def _link(self, number: int, watermark: str) -> Any:
        reader = self.session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", "1")
        return reader.parquet(str(self.links.paths()[number])).withWatermark("ts", watermark)

    def stream_join(self) -> Any:
        """Pairs whose events are less than a window apart: those that were once in both windows together."""
        self._link(0, "0 seconds").createOrReplaceTempView("spark_link1")
        self._link(1, "0 seconds").createOrReplaceTempView("spark_link2")
        return self.session.sql(
            "SELECT a.src, a.bytes AS sent, b.bytes AS received, a.ts AS at, b.ts AS bt "
            "FROM spark_link1 a JOIN spark_link2 b ON a.src = b.src "
            f"AND a.ts < b.ts + INTERVAL {WINDOW} AND b.ts < a.ts + INTERVAL {WINDOW}"
        )

    def stream_distinct(self) -> Any:
        return self._link(0, WINDOW).dropDuplicatesWithinWatermark(["src"])


def rows_below(directory: Path) -> int:
    return int(ds.dataset(directory, format="parquet", exclude_invalid_files=True).count_rows())
