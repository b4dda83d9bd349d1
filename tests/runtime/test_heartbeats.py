"""Event time goes on without events: heartbeats, idle streams, requests in a checkpoint. Without a JVM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.errors import MullionError
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.service import heartbeats
from mullion.service.requesting import request
from mullion.storage.manifest import stream_folder
from mullion.storage.requests import request_advance
from mullion.testing import Crash, crash_at
from without_spark import engine_without_spark, local_engine, write_events

EVENTS = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("v", BIGINT)), "ts")
FILES = "CREATE STREAM {} (ts TIMESTAMP, k STRING, v BIGINT) USING parquet OPTIONS (path '{}') TIMESTAMP BY ts"
SECONDS = "CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]"

STREAM = "CREATE STREAM {} (ts TIMESTAMP, k STRING, v BIGINT) USING rate TIMESTAMP BY ts LATENESS '{} us'"
COUNTS = "CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 5 us]"
KEYS = "CREATE QUERY q AS SELECT k, sum(v) AS n FROM s [RANGE 10 us SLIDE 5 us] GROUP BY k"
JOIN = "CREATE QUERY q AS SELECT a.v AS n FROM a [RANGE 10 us] a, b [RANGE 10 us] b WHERE a.k = b.k"


def at(time: int) -> str:
    return f"1970-01-01 00:00:00.{time:06d}"


def rows(*times: int) -> list[dict[str, Any]]:
    return [{"ts": time, "k": "x", "v": time} for time in times]


def ends(engine: Engine) -> list[int]:
    return [row["window_end"].second for row in engine.results("q").to_arrow().to_pylist()]


def told(engine: Engine) -> list[tuple[int, int]]:
    return [(row["window_end"].microsecond, row["n"]) for row in engine.results("q").to_arrow().to_pylist()]


def test_the_smallest_heartbeat() -> None:
    """Events at 1 and 7. Windows of 10 us end at 5, 10 and 15; without a heartbeat only the first is answered."""
    with local_engine(f"{STREAM.format('s', 0)}; {COUNTS}") as engine:
        engine.deliver("s", rows(1, 7), 0)
        assert told(engine) == [(5, 1)]
        engine.advance("s", at(12))
        assert told(engine) == [(5, 1), (10, 2)]
        engine.advance("s", at(100))
        assert told(engine) == [(5, 1), (10, 2), (15, 1)]
        engine.deliver("s", rows(99, 100, 121), 1)
        assert engine.counts["s"].late == 1 and engine.counts["s"].late_by_query == {"q": 1}
        assert told(engine)[3:] == [(end, 0) for end in range(20, 105, 5)] + [(105, 1), (110, 1), (115, 0), (120, 0)]
        assert engine.aside("late")[0].column("v").to_pylist() == [99]


def test_queries_with_slide_at_most_wait_for_later_events_too() -> None:
    """As above, every 5 us at most. The windows that end at 20 to 105 lie between two events once 100 has come."""
    counts = COUNTS.replace("SLIDE", "SLIDE AT MOST")
    with local_engine(f"{STREAM.format('s', 0)}; {counts}", most_answers=50) as engine:
        engine.deliver("s", rows(1, 7), 0)
        for heartbeat in (12, 100, 900, 1000):
            engine.advance("s", at(heartbeat))
        assert told(engine) == [(5, 1), (10, 2), (15, 1)] and not engine.stopped
        engine.deliver("s", rows(1001), 1)
        assert engine.stopped  # as a run that had no heartbeats


def test_windows_between_two_events_are_answered_though_a_heartbeat_came_between() -> None:
    """Two queries of different lengths: at 100 the shorter one waits from 20 on, the longer one from 40 on."""
    longer = COUNTS.replace("QUERY q", "QUERY r").replace("RANGE 10", "RANGE 30")
    script = f"{STREAM.format('s', 0)}; {COUNTS}; {longer}".replace("SLIDE", "SLIDE AT MOST")
    with local_engine(script) as engine:
        engine.deliver("s", rows(1, 7), 0)
        engine.advance("s", at(50))
        assert told(engine) == [(5, 1), (10, 2), (15, 1)]
        engine.advance("s", at(60))
        engine.deliver("s", rows(60, 71), 1)
        assert told(engine)[3:] == [(end, 0) for end in range(20, 65, 5)] + [(65, 1), (70, 1)]
        ends = [row["window_end"].microsecond for row in engine.results("r").to_arrow().to_pylist()]
        assert ends == list(range(5, 75, 5))


def test_a_silent_stream_stops_no_join() -> None:
    with local_engine(f"{STREAM.format('a', 0)}; {STREAM.format('b', 0)}; {JOIN}") as engine:
        engine.deliver("a", rows(1, 3), 0)
        engine.deliver("b", rows(2), 0)
        engine.deliver("a", rows(30), 1)
        assert len(told(engine)) < 2
        engine.advance("b", at(20))
        assert sorted(n for _, n in told(engine)) == [1, 3]


def test_refused() -> None:
    clock = 50e-6
    with local_engine(f"{STREAM.format('s', 0)} AHEAD '100 us'; {COUNTS}", clock=lambda: clock) as engine:
        with pytest.raises(MullionError, match="unknown stream 'r'"):
            engine.advance("r", at(1))
        engine.deliver("s", rows(1, 7), 0)
        for time in (1, 7):
            with pytest.raises(MullionError, match=r"cannot go on to .*: it is at 1970-01-01 00:00:00.000007 UTC"):
                engine.advance("s", at(time))
        with pytest.raises(MullionError, match="further ahead than AHEAD allows"):
            engine.advance("s", at(151))
        engine.advance("s", at(150))
        engine.end("s")
        with pytest.raises(MullionError, match="stream 's' has ended"):
            engine.advance("s", at(150))


def test_a_heartbeat_from_a_callback_is_refused(tmp_path: Path) -> None:
    raised: list[str] = []

    def call(query: str, table: pa.Table) -> None:
        try:
            engine.advance("s", at(90))
        except MullionError as problem:
            raised.append(problem.message)

    with engine_without_spark(checkpoint=tmp_path / "state") as engine:
        engine.execute(f"{FILES.format('s', tmp_path / 's')}; {COUNTS}")
        engine.on_answer(call)
        write_events(tmp_path / "s", 0, EVENTS, rows(1, 7))
        engine.run()
    assert raised == ["stream 's' is running a batch in this thread"]


@dataclass
class Clock:
    now: float

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at idle streams by himself."""
    monkeypatch.setattr(heartbeats.Heartbeats, "start", lambda self: None)


@pytest.mark.usefixtures("calm")
def test_an_idle_stream_goes_with_the_clock(tmp_path: Path) -> None:
    clock = Clock(1000)
    with engine_without_spark(checkpoint=tmp_path / "state") as engine:
        engine.execute(f"{FILES.format('s', tmp_path / 's')} IDLE AFTER '10 s'; {SECONDS}")
        beats = engine._operation.heartbeats
        beats.clock = clock
        write_events(tmp_path / "s", 0, EVENTS, rows(1_000_000, 7_000_000))
        engine.start(follow=True)
        engine.wait(5)
        assert ends(engine) == [5]
        for clock.now, expected in ((1000, 7), (1009.9, 7), (1010, 17), (1010.5, 17), (1012, 19), (1100, 107)):
            beats.look()
            assert engine.runs["s"].watermark == expected * 1_000_000
        assert ends(engine) == [5, 10, 15]
        write_events(tmp_path / "s", 1, EVENTS, rows(106_999_999, 107_000_000))
        engine.wait(5)
        assert engine.counts["s"].late == 1
        for clock.now, expected in ((1100, 107), (1109, 107), (1111, 118)):
            beats.look()
            assert engine.runs["s"].watermark == expected * 1_000_000
    with engine_without_spark(checkpoint=tmp_path / "state") as engine:  # the time between two runs is no silence
        engine.execute(f"{FILES.format('s', tmp_path / 's')} IDLE AFTER '10 s'; {SECONDS}")
        beats = engine._operation.heartbeats
        beats.clock = clock
        clock.now = 9000
        engine.start(follow=True)
        for clock.now, expected in ((9000, 118), (9009, 118), (9010, 128)):
            beats.look()
            assert engine.runs["s"].watermark == expected * 1_000_000


@pytest.mark.usefixtures("calm")
def test_a_stream_without_any_event_stops_no_join(tmp_path: Path) -> None:
    clock = Clock(0)
    both = "SELECT v FROM a [RANGE 9 s] UNION ALL SELECT v FROM b [RANGE 9 s]"
    streams = f"{FILES.format('a', tmp_path / 'a')}; {FILES.format('b', tmp_path / 'b')} IDLE AFTER '5 s'"
    write_events(tmp_path / "a", 0, EVENTS, rows(1_000_000, 7_000_000))
    write_events(tmp_path / "b", 0, EVENTS, [])
    for late in (0, 1):
        with engine_without_spark(checkpoint=tmp_path / "state", out=tmp_path / "out") as engine:
            engine.execute(f"{streams}; CREATE QUERY q AS SELECT DISTINCT v AS n FROM ({both}) u")
            beats = engine._operation.heartbeats
            beats.clock = clock
            engine.start(follow=True)
            engine.wait(5)
            assert engine.counts["b"].late == late
            assert len(engine.results("q").to_arrow()) == late
            for clock.now in (0, 5):
                beats.look()
            assert engine.runs["b"].watermark == (12_000_000 if late else 7_000_000)
            assert engine.results("q").to_arrow()["n"].to_pylist() == [1_000_000]
        write_events(tmp_path / "b", 1, EVENTS, rows(6_000_000))


KILLS = (("before head", 3), ("before answers", 2), ("after answers", 2), ("before commit", 3))


@pytest.mark.parametrize("kill", KILLS)
def test_a_heartbeat_that_is_interrupted_is_completed_first(tmp_path: Path, kill: tuple[str, int]) -> None:
    write_events(tmp_path / "s", 0, EVENTS, rows(1, 7))
    script = f"{FILES.format('s', tmp_path / 's')}; {COUNTS}"
    with engine_without_spark(checkpoint=tmp_path / "state", out=tmp_path / "out") as engine:
        engine.execute(script)
        with pytest.raises(Crash), crash_at(*kill):
            engine.run()
            engine.advance("s", at(100))
    write_events(tmp_path / "s", 1, EVENTS, rows(9, 99))  # behind the heartbeat, which had been committed
    with engine_without_spark(checkpoint=tmp_path / "state", out=tmp_path / "out") as engine:
        engine.execute(script)
        engine.run()
        assert told(engine) == [(5, 1), (10, 2), (15, 1)]
        assert engine.counts["s"].late == 2


def test_a_request_is_done_by_the_next_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state, script = tmp_path / "state", f"{FILES.format('s', tmp_path / 's')}; {COUNTS}"
    write_events(tmp_path / "s", 0, EVENTS, rows(1, 7))

    def run() -> list[tuple[int, int]]:
        with engine_without_spark(checkpoint=state, out=tmp_path / "out") as engine:
            engine.execute(script)
            engine.run()
            return told(engine)

    with pytest.raises(MullionError, match="there is no checkpoint"):
        request(state, "s", 12)
    assert run() == [(5, 1)]
    with pytest.raises(MullionError, match="knows no stream 'r'"):
        request(state, "r", 12)
    with pytest.raises(MullionError, match=r"it is at 1970-01-01 00:00:00\.000007 UTC"):
        request(state, "s", 7)
    with pytest.raises(MullionError, match="further ahead than AHEAD allows"):
        request(state, "s", 200_000_000_000, clock=lambda: 0.0)
    request(state, "S", 12)
    write_events(tmp_path / "s", 1, EVENTS, rows(9))  # the run reads it first
    assert run() == [(5, 1), (10, 3)]
    request_advance(state / stream_folder("s"), 3)
    assert run() == [(5, 1), (10, 3)] and "dropped" in caplog.text
    assert not list((state / stream_folder("s") / "advance").iterdir())
