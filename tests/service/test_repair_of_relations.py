"""A step of relations that is lost is made again, also if queries had entered with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mullion.spark.repair import Repair
from without_spark import EngineWithoutSpark

STREAM = """CREATE STREAM s (ts TIMESTAMP, k STRING, x BIGINT) USING parquet OPTIONS (path 'never read')
TIMESTAMP BY ts LATENESS '{}'{};"""
OLD = "CREATE QUERY old AS SELECT DISTINCT k FROM s [RANGE 4 s SLIDE 2 s];"
NEW = {
    "a join": "SELECT a.x AS x, b.x AS y FROM s [RANGE 4 s SLIDE 2 s] a, s [RANGE 3 s] b WHERE a.k = b.k",
    "rows as they come": "SELECT a.x AS x, b.x AS y FROM s [RANGE 2 s] a, s [ROWS 3] b WHERE a.k = b.k",
    "what began": "SELECT DISTINCT k FROM s [RANGE 1 s SLIDE 1 s]",
}
SECONDS = [[(1, "a"), (3, "b")], [(4, "a")], [(5, "b"), (6, "a"), (4, "b")], [(9, "a")], [(30, "b")]]
BATCHES = [[{"ts": t * 1_000_000, "k": k, "x": 10 * t + len(k)} for t, k in batch] for batch in SECONDS]


def started(base: Path, script: str) -> EngineWithoutSpark:
    engine = EngineWithoutSpark(out=base / "out", checkpoint=base / "checkpoint")
    engine.execute(script)
    engine.start()
    return engine


def answers(base: Path, stream: str, new: str, *, damaged: bool) -> list[list[dict[str, Any]]]:
    with started(base, stream + OLD) as engine:
        for number in (0, 1):
            engine.deliver("s", BATCHES[number], number)
        engine.execute(new)
        engine.deliver("s", BATCHES[2], 2)
    if damaged:
        newest = max((base / "checkpoint" / "relations" / "s" / "commits").iterdir())
        newest.write_bytes(newest.read_bytes()[:-1])
        (finding,) = Repair(base / "checkpoint").mend()
        assert finding.part == "relations/s" and finding.cannot is None, finding.advice
        assert Repair(base / "checkpoint").findings() == []
    with started(base, stream + OLD + new) as engine:
        for number in (3, 4):
            engine.deliver("s", BATCHES[number], number)
        engine.end("s")
        return [engine.results(name).to_arrow().to_pylist() for name in ("old", "new")]


@pytest.mark.parametrize("keep", ["", " KEEP '1 h'"])
@pytest.mark.parametrize("lateness", ["0 s", "2 s"])
@pytest.mark.parametrize("text", NEW.values(), ids=NEW.keys())
def test_the_step_that_a_query_entered_with_is_made_again(tmp_path: Path, text: str, lateness: str, keep: str) -> None:
    stream, new = STREAM.format(lateness, keep), f"CREATE QUERY new AS {text};"
    whole = answers(tmp_path / "whole", stream, new, damaged=False)
    assert answers(tmp_path / "damaged", stream, new, damaged=True) == whole and all(whole)
