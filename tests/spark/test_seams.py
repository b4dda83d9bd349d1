"""Bounded runs that share a checkpoint, on Spark: what only its sources and DataFrames can show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from mullion.engine import Engine
from mullion.errors import CheckpointError
from mullion.surface.cli import app
from mullion.testing import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNTS = "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"
PAIRS = "SELECT x.k AS k, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] x, t [RANGE 10 s] y WHERE x.k = y.k GROUP BY x.k"


def told(engine: Engine, name: str) -> list[tuple[int, int]]:
    return [(row["window_end"].second, row["n"]) for row in engine.results(name).to_arrow().to_pylist()]


def test_a_static_dataframe_is_read_once_and_is_its_own_end(spark: SparkSession, tmp_path: Path) -> None:
    """So a stream that grows does not wait for it, and another DataFrame is not taken for it."""
    batches = Replay(tmp_path / "in")

    def run(rows: int, **how: Any) -> list[tuple[int, int]]:
        with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "state") as engine:
            frame = spark.sql(f"SELECT timestamp_seconds(id) AS ts, 'x' AS k FROM range({rows})")
            engine.stream("t", frame, time="ts")
            engine.execute(
                f"CREATE STREAM s (ts TIMESTAMP, k STRING) USING json OPTIONS ({batches.options}) TIMESTAMP BY ts"
            )
            engine.query(PAIRS, name="pairs")
            engine.run(**how)
            return told(engine, "pairs")

    batches.add([{"ts": f"1970-01-01 00:00:{second:02d}", "k": "x"} for second in (3, 12)])
    assert run(15) == [(10, 10)]
    batches.add([{"ts": f"1970-01-01 00:00:{second:02d}", "k": "x"} for second in (13, 24)])
    assert run(15) == [(10, 10), (20, 10)]
    with pytest.raises(CheckpointError, match="DataFrame of stream 't' does not hold the rows"):
        run(16)
    assert run(15, close=True) == [(10, 10), (20, 10)]


def test_a_past_that_is_read_again_is_there_when_the_run_ends(spark: SparkSession, tmp_path: Path) -> None:
    """A query with BACKFILL joins with a run of one batch, and is answered by it, not by one that comes after."""
    batches = Replay(tmp_path / "in")

    def run(*names: str, **how: Any) -> dict[str, list[tuple[int, int]]]:
        with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "state") as engine:
            engine.execute(
                f"CREATE STREAM s (ts TIMESTAMP, k STRING) USING json OPTIONS ({batches.options}) TIMESTAMP BY ts"
            )
            for name in names:
                backfill = "BACKFILL " if name == "back" else ""
                slide = COUNTS.replace("SLIDE 10", "SLIDE 5") if name == "back" else COUNTS
                engine.query(f"CREATE QUERY {name} {backfill}AS {slide}")
            engine.run(**how)
            return {name: told(engine, name) for name in names}

    batches.add([{"ts": f"1970-01-01 00:00:{second:02d}", "k": "x"} for second in (3, 12)])
    assert run("counts") == {"counts": [(10, 1)]}
    batches.add([{"ts": f"1970-01-01 00:00:{second:02d}", "k": "x"} for second in (13, 24)])
    assert run("counts", "back") == {"counts": [(10, 1), (20, 2)], "back": [(15, 2), (20, 2)]}
    assert run("counts", "back", close=True)["back"] == [(15, 2), (20, 2), (25, 1), (30, 1)]


def test_what_the_command_line_says_at_the_end(spark: SparkSession, tmp_path: Path) -> None:
    batches = Replay(tmp_path / "in")
    stream = f"CREATE STREAM s (ts TIMESTAMP, k STRING) USING json OPTIONS ({batches.options}) TIMESTAMP BY ts"
    (tmp_path / "script.sql").write_text(f"{stream} LATENESS '2 s';\nCREATE QUERY counts AS {COUNTS};")
    places = ["--out", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "state")]

    def run(*more: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["run", str(tmp_path / "script.sql"), *places, *more])
        return result.exit_code, result.stderr

    batches.add([{"ts": f"2024-01-01 00:00:{second:02d}.5", "k": "x"} for second in (3, 12)])
    stays_open = "windows that end after 2024-01-01 00:00:10.500000 UTC stay open until more comes: "
    stays_open += "run the same command again then, or with --close to answer them"
    code, text = run()
    assert code == 0 and text.splitlines()[-1] == stays_open
    assert run("--quiet") == (0, "")
    code, text = run("--close")
    assert code == 0 and "stay open" not in text and "nothing to do" not in text
    for code, text in (run(), run("--close")):
        assert code == 0
        assert (
            text.splitlines()[-1] == "there was nothing to do: this run was closed before, and nothing has come since"
        )
    batches.add([{"ts": "2024-01-01 00:00:30", "k": "x"}])
    code, text = run()
    assert code == 1 and "error: stream 's' was closed, and there is more to read" in text
    assert "start over the whole input with a new checkpoint" in text
