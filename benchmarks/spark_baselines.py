"""The same questions asked of plain Spark: SQL over the session that Mullion uses, with the same settings."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.aggregate_questions import RowWindow, ValueQuestion
from benchmarks.answers import Answer, answer
from benchmarks.questions import JOINED, TABLES, Question
from benchmarks.workloads import Window
from mullion.surface.trades import SECOND

Session = Any
"""A SparkSession; only mullion.spark knows pyspark."""

_numbers = count()


def read_trades(session: Session, directory: Path) -> Any:
    """The files as a static DataFrame, which the other functions know as the view `trades`."""
    frame = session.read.parquet(str(directory))
    frame.createOrReplaceTempView("trades")
    return frame


def tumbling(session: Session) -> list[Any]:
    """T1: one tumbling sum of ten minutes."""
    text = "SELECT window, sum(price * volume) AS total FROM trades GROUP BY window(ts, '10 minutes')"
    return list(session.sql(text).collect())


def read_tables(session: Session, close: Path, index: Path) -> None:
    """The files as the views `close` and `idx`."""
    session.read.parquet(str(close)).createOrReplaceTempView("close")
    session.read.parquet(str(index)).createOrReplaceTempView("idx")


def tumbling_by_symbol(session: Session) -> list[Any]:
    """One tumbling sum of ten minutes for each symbol."""
    text = "SELECT symbol, window, sum(price * volume) AS total FROM trades GROUP BY symbol, window(ts, '10 minutes')"
    return list(session.sql(text).collect())


def jobs(session: Session, questions: Sequence[Question]) -> list[Answer]:
    """One Spark job for each question."""
    return [_answer(session.sql(_question_text(question)).collect()) for question in questions]


def _question_text(question: Question) -> str:
    total = "sum(t.price * t.volume) AS total"
    source = f"trades t, {TABLES} WHERE {question.condition()}"
    return f"SELECT unix_micros(window.start) AS start, {total} FROM {source} GROUP BY {_call(question.window)}"


def conditional_sums(session: Session, questions: Sequence[Question]) -> list[Answer]:
    """One Spark job for questions that differ in their predicates only: a sum with a filter for each."""
    (window,) = {question.window for question in questions}
    filters = [question.predicate.text() for question in questions if question.predicate is not None]
    sums = ", ".join(f"sum(t.price * t.volume) FILTER (WHERE {text}) AS total{i}" for i, text in enumerate(filters))
    source = f"trades t, {TABLES} WHERE {JOINED}"
    text = f"SELECT unix_micros(window.start) AS start, {sums} FROM {source} GROUP BY {_call(window)}"
    rows = session.sql(text).collect()
    return [_column(rows, f"total{i}") for i in range(len(filters))]


def _column(rows: Sequence[Any], name: str) -> Answer:
    held = [row for row in rows if row[name] is not None]
    return answer([row["start"] for row in held], [row[name] for row in held])


def empty_triggers(session: Session, directory: Path) -> list[float]:
    """When each batch of the files came to a foreachBatch that does nothing, a file a batch."""
    stamps: list[float] = []
    frame = session.readStream.schema(session.table("trades").schema).option("maxFilesPerTrigger", "1")
    with tempfile.TemporaryDirectory(prefix="mullion-bench-", ignore_cleanup_errors=True) as checkpoint:
        writer = frame.parquet(str(directory)).writeStream.foreachBatch(lambda *_: stamps.append(time.perf_counter()))
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
    return stamps


def sliding(session: Session, windows: Sequence[Window]) -> list[Answer]:
    """One Spark job for each window."""
    return [_answer(session.sql(_sliding_text(window, "trades")).collect()) for window in windows]


def _sliding_text(window: Window, view: str) -> str:
    total = "sum(price * volume) AS total"
    return f"SELECT unix_micros(window.start) AS start, {total} FROM {view} GROUP BY {_call(window)}"


def _call(window: Window) -> str:
    """Spark's windows start at multiples of the slide; shifted, they end there as Mullion's do."""
    range_, slide = window
    return f"window(ts, '{range_} microseconds', '{slide} microseconds', '{-range_ % slide} microseconds')"


def _answer(rows: Sequence[Any]) -> Answer:
    return answer([row["start"] for row in rows], [row["total"] for row in rows])


def panes(session: Session, windows: Sequence[Window]) -> list[Answer]:
    """What an expert writes by hand for windows of whole seconds: Spark sums up seconds, prefixes do the rest."""
    text = f"SELECT unix_micros(ts) DIV {SECOND} AS second, sum(price * volume) AS total FROM trades GROUP BY second"
    found = _answer([{"start": row["second"], "total": row["total"]} for row in session.sql(text).collect()])
    starts, prefix = found.starts * SECOND, np.concatenate(([0.0], np.cumsum(found.totals)))
    answers = []
    for range_, slide in windows:
        ends = np.arange(starts[0] // slide + 1, (starts[-1] + range_) // slide + 1) * slide
        low, high = np.searchsorted(starts, ends - range_), np.searchsorted(starts, ends)
        holds = high > low
        answers.append(answer((ends - range_)[holds], (prefix[high] - prefix[low])[holds]))
    return answers


def streaming(session: Session, directory: Path, window: Window) -> Answer:
    """One StreamingQuery with one sliding window, a file a batch, to the end of the files; answers kept in memory."""
    name = f"answers_{next(_numbers)}"
    frame = session.readStream.schema(session.table("trades").schema).option("maxFilesPerTrigger", "1")
    frame.parquet(str(directory)).withWatermark("ts", "0 seconds").createOrReplaceTempView("trades_stream")
    asked = session.sql(_sliding_text(window, "trades_stream"))
    with tempfile.TemporaryDirectory(prefix="mullion-bench-", ignore_cleanup_errors=True) as checkpoint:
        writer = asked.writeStream.outputMode("append").format("memory").queryName(name)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
    found = _answer(session.table(name).collect())
    session.catalog.dropTempView(name)
    return found


# Other aggregates and windows


def value_jobs(session: Session, questions: Sequence[ValueQuestion]) -> list[list[tuple[int, Any]]]:
    """One Spark job for each question: the start of every window and its answer."""
    texts = [question.measure.spark(question.column, _call(question.window)) for question in questions]
    return [[(row["start"], row["total"]) for row in session.sql(text).collect()] for text in texts]


def wide_jobs(session: Session, window: Window, calls: Sequence[str]) -> list[list[tuple[int, Any]]]:
    """Aggregates over one window, all in one job."""
    named = ", ".join(f"{call} AS total{i}" for i, call in enumerate(calls))
    text = f"SELECT unix_micros(window.start) AS start, {named} FROM trades GROUP BY {_call(window)}"
    rows = session.sql(text).collect()
    return [[(row["start"], row[f"total{i}"]) for row in rows] for i in range(len(calls))]


def row_jobs(session: Session, windows: Sequence[RowWindow]) -> list[Any]:
    """One Spark job for each window over the last events. Every event is copied to the windows that hold it.

    Spark's own ROWS BETWEEN adds up the whole frame anew for every event, which takes far longer.
    """
    found = []
    numbered = "SELECT price * volume AS value, row_number() OVER (ORDER BY ts) - 1 AS number FROM trades"
    whole = "SELECT count(*) FROM trades"
    for window in windows:
        last = f"(number + {window.rows}) DIV {window.slide} - 1"
        copied = f"SELECT value, explode(sequence(number DIV {window.slide}, {last})) AS place FROM ({numbered})"
        filled = f"(place + 1) * {window.slide} <= ({whole})"
        text = f"SELECT place, sum(value) AS total FROM ({copied}) WHERE {filled} GROUP BY place ORDER BY place"
        found.append(np.array([row["total"] for row in session.sql(text).collect()]))
    return found


def after_events(session: Session, call: str, range_: int, events: int) -> list[Any]:
    """An answer after each of the first events, over those that are at most so many microseconds old."""
    first = f"SELECT * FROM trades ORDER BY ts LIMIT {events}"
    frame = f"ORDER BY unix_micros(ts) RANGE BETWEEN {range_ - 1} PRECEDING AND CURRENT ROW"
    rows = session.sql(f"SELECT ts, {call} OVER ({frame}) AS total FROM ({first})").collect()
    return [row["total"] for row in rows]
