"""`mullion advance`: a request in a checkpoint, and what it says."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from mullion.algebra.streams import Stream
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.surface.cli import app
from without_spark import engine_without_spark, write_events

EVENTS = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("v", BIGINT)), "ts")
SCRIPT = """CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT) USING parquet OPTIONS (path '{}') TIMESTAMP BY ts;
CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]"""


def run(base: Path) -> int:
    with engine_without_spark(checkpoint=base / "state", out=base / "out") as engine:
        engine.execute(SCRIPT.format(base / "s"))
        engine.run()
        return len(engine.results("q").to_arrow())


def advance(base: Path, stream: str, time: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["advance", str(base / "state"), stream, time])
    return result.exit_code, result.output


def test_a_request_is_left_for_the_next_run(tmp_path: Path) -> None:
    write_events(tmp_path / "s", 0, EVENTS, [{"ts": 1_000_000, "k": "a", "v": 1}, {"ts": 7_000_000, "k": "a", "v": 1}])
    assert run(tmp_path) == 1
    code, said = advance(tmp_path, "S", "1970-01-01 01:00")
    assert code == 0 and "will move event time of S to 1970-01-01 01:00" in said
    assert run(tmp_path) == 3
    assert run(tmp_path) == 3


def test_refused_with_the_reason(tmp_path: Path) -> None:
    assert "there is no checkpoint" in advance(tmp_path, "s", "1970-01-01")[1]
    write_events(tmp_path / "s", 0, EVENTS, [{"ts": 7_000_000, "k": "a", "v": 1}])
    run(tmp_path)
    for stream, time, why in (
        ("s", "1970-01-01 00:00:07", "it is at 1970-01-01 00:00:07 UTC"),
        ("s", "9000-01-01", "further ahead than AHEAD allows"),
        ("t", "1970-01-01 01:00", "knows no stream 't'"),
        ("s", "noon", "'noon' is not a timestamp"),
    ):
        code, said = advance(tmp_path, stream, time)
        assert code == 1 and why in " ".join(said.split())
