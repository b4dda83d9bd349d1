"""What is left of an engine: of one that nobody closed when its program ends, and of one that was closed."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mullion import Engine

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PROGRAM = """
import sys
from pathlib import Path
from mullion import Engine

engine = Engine(checkpoint=Path(sys.argv[1]) / "state", out=Path(sys.argv[1]) / "out")
engine.execute(
    "CREATE STREAM s (timestamp TIMESTAMP, value BIGINT) USING rate OPTIONS (rowsPerSecond '1000') "
    "TIMESTAMP BY timestamp; CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 100 ms]"
)
engine.start()
while not engine.counts["s"].batches:
    engine.wait(0.1)
raise RuntimeError("nobody catches this")
"""


def test_an_exception_is_all_that_is_told(tmp_path: Path) -> None:
    """And a new engine finds the lock free and the checkpoint whole."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    for _ in range(2):
        command = [sys.executable, str(program), str(tmp_path)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert ended.returncode == 1, ended.stderr
        assert ended.stderr.rstrip().endswith("RuntimeError: nobody catches this"), ended.stderr
        assert "Fatal" not in ended.stderr and "py4j" not in ended.stderr


def test_an_engine_that_was_closed_holds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Java knows the callback of a stream for as long as it likes."""
    pq.write_table(pa.table({"ts": [datetime(2026, 1, 1, tzinfo=UTC)], "x": [1]}), tmp_path / "a.parquet")
    engine = Engine(spark)
    engine.execute(
        f"CREATE STREAM s (ts TIMESTAMP, x BIGINT) USING parquet OPTIONS (path '{tmp_path}') TIMESTAMP BY ts;"
        "CREATE QUERY q AS SELECT sum(x) AS total FROM s [RANGE 1 s SLIDE 1 s]"
    )
    engine.run()
    assert engine.results("q").to_arrow()["total"].to_pylist() == [1]
    engine.close()
    left = weakref.ref(engine)
    del engine
    gc.collect()
    assert left() is None
