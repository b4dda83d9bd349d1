"""EXPLAIN before the first batch: by what the files of a stream hold."""

from __future__ import annotations

import json
from pathlib import Path

from mullion.algebra.streams import Stream
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from without_spark import engine_without_spark, write_events

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", BIGINT)), "ts")
SECOND = 1_000_000


def script(folder: Path, format_: str = "parquet") -> str:
    return (
        f"CREATE STREAM s (ts TIMESTAMP, k STRING, x BIGINT) USING {format_} OPTIONS (path '{folder}') TIMESTAMP BY ts;"
        "CREATE QUERY q AS SELECT k, sum(x) AS n FROM s [RANGE 10 s SLIDE 5 s] WHERE x > 3 GROUP BY k;"
        "CREATE QUERY rows AS SELECT sum(x) AS n FROM s [ROWS 10];"
    )


def test_files_that_are_there_decide(tmp_path: Path) -> None:
    events = [{"ts": at * SECOND, "k": "abc"[at % 3], "x": at % 10} for at in range(600)]
    write_events(tmp_path / "in", 0, STREAM, events)
    with engine_without_spark(out=tmp_path / "out") as engine:
        engine.execute(script(tmp_path / "in"))
        told = engine.explain()
        assert str(told).endswith(
            "now in s: 600 events from 1970-01-01 00:00:00 to 1970-01-01 00:09:59 (counted), 3 groups of k (counted)"
        )
        assert "600 events over 599 s" in str(told)
        held = json.loads(told.to_json())["held"]["s"]
        assert (held["events"], held["events_from"], held["groups"]["k"]["number"]) == (600, "counted", 3)
        engine.run()
        assert "now in s" not in str(engine.explain()), "it was read since"
        assert json.loads(engine.explain().to_json())["held"] == {}


def test_where_nothing_can_be_known_it_is_assumed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with engine_without_spark(out=tmp_path / "out") as engine:
        engine.execute(script(tmp_path / "in"))
        told = str(engine.explain())
        assert "now in" not in told
        assert "1,080,000 events over 3600 s assumed" in told


def test_each_cluster_is_told_by_its_own_predicates(tmp_path: Path) -> None:
    events = [{"ts": at * SECOND, "k": "abc"[at % 3], "x": at % 3} for at in range(600)]
    write_events(tmp_path / "in", 0, STREAM, events)
    query = "CREATE QUERY {} AS SELECT {} count(*) AS n FROM s [RANGE 10 s SLIDE 5 s] WHERE {};"
    with engine_without_spark(out=tmp_path / "out", sharing="off") as engine:
        engine.execute(script(tmp_path / "in").split("CREATE QUERY")[0])
        engine.execute(query.format("third", "", "x = 1") + query.format("every", "", "x < 9"))
        told, third = str(engine.explain()), str(engine.explain("third"))
        assert told.count("for all 2 clusters") == 2 and "alpha 0.333," in told and "alpha 1," in told
        assert "for all 2 clusters" in third and "alpha 0.333," in third and "alpha 1," not in third
