"""The least memory that is allowed, and a backlog that is larger in memory than the limit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mullion.memory import LEAST

pytestmark = pytest.mark.slow

FILES, ROWS, LENGTH = 2, 1_000_000, 1000
HOUR = 3_600_000_000
BEGIN = 10**15 // HOUR * HOUR
STREAM = """
CREATE STREAM s (ts TIMESTAMP, k STRING, x BIGINT, who BIGINT, note STRING) USING parquet OPTIONS (path '{path}')
TIMESTAMP BY ts;
"""
QUERIES = {
    "grouped": ("k, count(*) AS n, sum(x) AS t", 1, 1, "k"),
    "sliding": ("k, max(note) AS last_note, avg(x) AS mean", 3, 1, "k"),
    "holistic": ("median(x) AS middle, count(DISTINCT who) AS people", 2, 1, ""),
}
"""Items, hours of RANGE and SLIDE, GROUP BY."""


@pytest.fixture(scope="module")
def backlog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts that all differ, so that nobody can keep codes for them; on the disk they are small."""
    folder, dice = tmp_path_factory.mktemp("backlog"), np.random.default_rng(6)
    size = 0
    for file in range(FILES):
        times = pa.array(BEGIN + (np.arange(ROWS) + file * ROWS) * 10_000).cast(pa.timestamp("us", "UTC"))
        different = pa.array(dice.integers(10**11, 10**12, ROWS)).cast(pa.string())
        columns = {
            "ts": times,
            "k": pa.array([f"k{i}" for i in range(50)]).take(pa.array(dice.integers(0, 50, ROWS))),
            "x": dice.integers(0, 1000, ROWS),
            "who": dice.integers(0, 100_000, ROWS),
            "note": pc.binary_join_element_wise(different, "n" * (LENGTH - 12), ""),
        }
        size += pa.table(columns).nbytes
        dictionaries, encodings = ["k", "x", "who"], {"ts": "DELTA_BINARY_PACKED"}
        pq.write_table(
            pa.table(columns),
            folder / f"{file}.parquet",
            use_dictionary=dictionaries,
            column_encoding=encodings,
            compression="zstd",
        )
    assert size > 1.2 * LEAST
    return folder


def run(script: str, place: Path) -> subprocess.CompletedProcess[str]:
    (place / "script.sql").write_text(script)
    command = [sys.executable, "-m", "mullion.surface.cli", "run", "script.sql", "--memory", "1.5GB"]
    command += ["--out", "answers", "--stats", "stats.json"]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, check=False)


def test_a_backlog_that_is_larger_than_the_limit(backlog: Path, tmp_path: Path) -> None:
    script = STREAM.format(path=backlog)
    for name, (items, length, slide, keys) in QUERIES.items():
        grouped = f" GROUP BY {keys}" if keys else ""
        window = f"[RANGE '{length} hours' SLIDE '{slide} hours']"
        script += f"CREATE QUERY {name} AS SELECT {items} FROM s {window}{grouped};\n"
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    memory = json.loads((tmp_path / "stats.json").read_text())["memory"]
    assert memory["limit"] == LEAST
    assert memory["peak"]["all"] <= LEAST, memory
    for name, (items, length, slide, keys) in QUERIES.items():
        found = duckdb.read_parquet(f"{tmp_path}/answers/{name}/*.parquet")
        by = f"w{', ' + keys if keys else ''}"
        wanted = duckdb.sql(f"""
            WITH ends AS (
                SELECT unnest(range({BEGIN}::BIGINT, {BEGIN + 12 * HOUR}::BIGINT, {slide * HOUR}::BIGINT)) AS w
            )
            SELECT to_timestamp(w / 1e6) AS window_end, {items}
            FROM read_parquet('{backlog}/*.parquet') s JOIN ends
            ON epoch_us(ts) >= w - {length * HOUR} AND epoch_us(ts) < w GROUP BY {by}""")
        own = found.project(", ".join(wanted.columns))
        assert own.except_(wanted).fetchall() == wanted.except_(own).fetchall() == []
        assert len(own) == len(wanted) > 5


def test_state_that_does_not_fit_names_the_query(backlog: Path, tmp_path: Path) -> None:
    script = STREAM.format(path=backlog)
    script += "CREATE QUERY little AS SELECT count(*) AS n FROM s [RANGE '1 hour' SLIDE '1 hour'];"
    script += "CREATE QUERY much AS SELECT count(DISTINCT note) AS n FROM s [RANGE '1 day' SLIDE '1 hour'];"
    done = run(script, tmp_path)
    assert done.returncode == 1
    assert "error: query 'much' keeps about" in done.stderr
    assert "Python has 640 MB of 1.5 GB" in done.stderr
    assert "needs at least --memory " in done.stderr


def test_groups_that_do_not_fit_are_answered_in_shards(backlog: Path, tmp_path: Path) -> None:
    script = STREAM.format(path=backlog)
    script += "CREATE QUERY much AS SELECT who, max(note) AS m FROM s [RANGE '1 day' SLIDE '1 day'] GROUP BY who;"
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = duckdb.sql(f"SELECT who, max(note) AS m FROM read_parquet('{backlog}/*.parquet') GROUP BY who")
    found = duckdb.sql(f"SELECT who, max(m) AS m FROM read_parquet('{tmp_path}/answers/much/*.parquet') GROUP BY who")
    assert found.except_(wanted).fetchall() == wanted.except_(found).fetchall() == []
    assert len(found) < 200_000, "more groups would be in shards anyway"
    assert json.loads((tmp_path / "stats.json").read_text())["memory"]["peak"]["workers"] > 0
