"""What waits in Kafka, from Spark's notes and from what it tells of a stream. Without Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.language.types import STRING, TIMESTAMP
from mullion.options import DEFAULTS
from mullion.runtime.monitor import Monitor, Policy, SourceLag
from mullion.spark.batch import SparkSource
from mullion.spark.waiting_offsets import WaitingOffsets, offsets_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def note(base: Path, batch: int, **partitions: int) -> None:
    (base / "offsets").mkdir(exist_ok=True)
    offsets = {"trades": {name.removeprefix("p"): at for name, at in partitions.items()}}
    (base / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(offsets)}')


def told(**partitions: int) -> dict[str, Any]:
    latest = json.dumps({"trades": {name.removeprefix("p"): at for name, at in partitions.items()}})
    return {"sources": [{"description": "KafkaV2[Subscribe[trades]]", "latestOffset": latest}]}


def test_records_between_two_notes_were_taken_and_those_up_to_the_latest_wait(tmp_path: Path) -> None:
    progress: list[Any] = [None]
    watched = WaitingOffsets(tmp_path, lambda: progress[0])
    note(tmp_path, 0, p0=100, p1=50)
    assert watched.held_by(0) is None and watched.after(0) is None  # where it began is not noted
    note(tmp_path, 1, p0=160, p1=70)
    assert watched.held_by(1) == 80.0 and watched.after(1) == SourceLag(None, 80.0)
    note(tmp_path, 2, p0=200, p1=70)
    note(tmp_path, 3, p0=200, p1=90, p2=5)  # a partition more
    progress[0] = told(p0=1000, p1=80, p2=10)
    assert watched.after(3) == SourceLag(805.0, 65.0)
    progress[0] = told(p0=150)
    assert watched.after(3) == SourceLag(None, 0.0)  # older than the batch: it says nothing


@pytest.mark.parametrize("text", ["12", '{"logOffset":3}', "-", '"x"'])
def test_offsets_of_other_sources_are_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        offsets_in(text)
    (tmp_path / "offsets").mkdir()
    for batch in (0, 1):
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{text}")
    assert WaitingOffsets(tmp_path, dict).after(1) is None


def test_a_limited_batch_tells_the_monitor_of_its_backlog(tmp_path: Path) -> None:
    """80 records took a second, and 805 wait: ten seconds of work."""
    monitor = Monitor(Policy(5.0, heaviest=100.0))
    monitor.observe(0.0, 1.0, 80)
    monitor.look(1.0, SourceLag(805.0, 80.0))
    assert monitor.rates.backlog == 805.0 and monitor.rates.lag == pytest.approx(10.06, abs=0.01)
    monitor.begins(1600.0)  # twenty seconds, and ten are the most
    assert monitor.weight == 2.0
    monitor.observe(1.0, 2.0, 80)
    monitor.look(2.0, SourceLag(None, 80.0))  # unknown: the batch began at once after the one before
    assert (monitor.rates.backlog, monitor.rates.lag) == (None, 1.0)


def test_only_streams_over_kafka_are_watched_by_offsets(tmp_path: Path) -> None:
    note(tmp_path, 0, p0=1)
    note(tmp_path, 1, p0=4)
    for format_, held in (("kafka", 3.0), ("rate", None)):
        stream = Stream("trades", (("ts", TIMESTAMP), ("value", STRING)), "ts", format=format_)
        source = SparkSource(stream, lambda: None, None, True, DEFAULTS)  # type: ignore[arg-type, return-value]
        source.watch(tmp_path, dict)
        assert source.amount(1) == held


@pytest.mark.spark
def test_spark_tells_its_progress_while_a_batch_is_at_work(spark: SparkSession) -> None:
    seen: list[Any] = []

    def look(engine: Engine) -> None:
        seen.extend(feed.progress() for feed in engine._operation._feeds.values())

    with Engine(spark, on_batch=look) as engine:
        engine.stream("r", spark.readStream.format("rate").option("rowsPerSecond", 50).load(), time="timestamp")
        engine.query("SELECT count(*) AS n FROM r [RANGE 1 s SLIDE 1 s]", name="q")
        engine.start(follow=True)
        for _ in range(60):
            engine.wait(0.5)
            if any(seen):
                break
        engine.stop()
    progress = next(one for one in seen if one)
    assert "latestOffset" in progress["sources"][0]
