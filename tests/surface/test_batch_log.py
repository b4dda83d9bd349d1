"""What a run says where there is no terminal: a line for each batch, as text or JSON."""

from __future__ import annotations

import json
import logging
import os
import signal
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from mullion.algebra.streams import Stream
from mullion.errors import MullionError
from mullion.language.types import TIMESTAMP
from mullion.spark.feed import Feed
from mullion.surface.batch_log import BatchLog
from mullion.surface.interrupts import Interrupts
from without_spark import EngineWithoutSpark, local_engine

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, x INT) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts LATENESS '1 us';
CREATE STREAM other (ts TIMESTAMP, x INT) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts;
CREATE QUERY counts AS SELECT count(*) AS n FROM s [RANGE 5 us SLIDE 5 us];
CREATE QUERY values AS SELECT DISTINCT x FROM other [RANGE 5 us]
"""


def deliver(engine: EngineWithoutSpark, stream: str, number: int, *times: int) -> None:
    engine.deliver(stream, [{"ts": time, "x": time} for time in times], number)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_for_each_batch(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a run that goes on: what earlier runs read is not told again."""
    monkeypatch.setattr("os.fsync", lambda handle: None)
    lines: list[str] = []
    place: dict[str, Any] = {"checkpoint": tmp_path / "state", "out": tmp_path / "out"}
    for part in (0, 1):
        log = BatchLog(lines.append, form, clock=lambda: 1_767_323_045.0)
        with local_engine(SCRIPT, on_batch=log.update, **place) as engine:
            log.begin(Path("/log"))
            base = 100 * part
            deliver(engine, "s", 3 * part, *range(base, base + 11))
            deliver(engine, "other", part, base, base + 1)
            deliver(engine, "s", 3 * part + 1, base + 5, base + 20)
            deliver(engine, "s", 3 * part + 2)
            assert engine.failed_callbacks == {}
    assert len(lines) == 10 and all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    if form == "json":
        told = [json.loads(line) for line in lines]
        assert [t["event"] for t in told] == ["start", *["batch"] * 4] * 2
        assert told[0] == {"time": "2026-01-02T03:04:05Z", "event": "start", "spark_log": "/log"}
        batches = [[t["stream"], t["batch"], t["events"], t["late"]] for t in told if t["event"] == "batch"]
        assert batches[:4] == [["s", 1, 11, 0], ["other", 1, 2, 0], ["s", 2, 1, 1], ["s", 3, 0, 0]]
        assert batches[4:] == [["s", 4, 11, 0], ["other", 2, 2, 0], ["s", 5, 1, 1], ["s", 6, 0, 0]]
        assert told[1]["watermark"] == "1970-01-01T00:00:00.000009Z" and told[1]["answers"] == 1
        assert told[2]["answers"] == 1
    else:
        assert lines[0] == "2026-01-02 03:04:05 UTC reading; Spark's log is /log\n"
        assert lines[3].startswith(
            "2026-01-02 03:04:05 UTC batch 2 of s: 1 event, 2 answers, 1 late, watermark 1970-01-01 00:00:00 UTC, "
        )


@pytest.mark.parametrize("form", ["text", "json"])
def test_warnings_are_lines_too(form: str) -> None:
    lines: list[str] = []
    log = BatchLog(lines.append, form, clock=lambda: 0.0)
    logger = logging.getLogger("mullion.a_test")
    logger.addHandler(log.warned)
    logger.warning("mind the %s", "gap")
    log.warned.warn("mind the gap")
    logger.removeHandler(log.warned)
    said = {"time": "1970-01-01T00:00:00Z", "event": "warning", "message": "mind the gap"}
    assert lines == [json.dumps(said) + "\n" if form == "json" else "warning: mind the gap\n"]


class TestEvery:
    @pytest.mark.parametrize(
        ("follow", "every", "trigger"),
        [
            (True, 0, {"processingTime": "0 milliseconds"}),
            (True, 10_000_000, {"processingTime": "10000 milliseconds"}),
            (False, 10_000_000, {"availableNow": True}),
        ],
    )
    def test_spark_is_told(self, follow: bool, every: int, trigger: dict[str, Any], tmp_path: Path) -> None:
        frame: Any = MagicMock(isStreaming=True)
        stream = Stream("s", (("ts", TIMESTAMP),), "ts")
        feed = Feed(stream, frame, lambda: frame, tmp_path, MagicMock(), MagicMock(), follow, every)
        feed.start()
        writer = frame.writeStream.foreachBatch.return_value.option.return_value
        writer.trigger.assert_called_once_with(**trigger)

    @pytest.mark.parametrize(
        ("every", "follow", "sentence"),
        [
            ("10 s", False, "'every' is for runs that follow their sources"),
            ("10 us", True, "a batch every '10 us' is too often"),
            ("ten", True, "."),
            (10, True, "every is a duration such as '10 s' or None, not the int 10"),
        ],
    )
    def test_wrong_durations_are_refused(self, every: Any, follow: bool, sentence: str) -> None:
        with local_engine(SCRIPT) as engine, pytest.raises(MullionError, match=sentence):
            engine.start(follow=follow, every=every)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_decides_the_exit_code(number: signal.Signals, code: int) -> None:
    asked: Any = MagicMock()
    with Interrupts(MagicMock(), Path("out"), None) as interrupts:
        interrupts.now_stop(asked)
        os.kill(os.getpid(), number)
        assert interrupts.code == code
    asked.request_stop.assert_called_once_with()
