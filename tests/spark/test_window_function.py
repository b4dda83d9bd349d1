"""GROUP BY window(...), HOP and TUMBLE against Spark's own `window()`, on random ranges and slides."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from language.test_window_function import texts
from mullion.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = 10


def test_every_answer_is_sparks(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(4)
    times = [rng.randint(-400, 400) for _ in range(60)] + [-1, 0, 1, -400, 400]
    symbols = [rng.choice(("A", "B", None)) for _ in times]
    volumes = [rng.randint(0, 3) for _ in times]
    table = pa.table(
        {"ts": pa.array(times, pa.timestamp("us", "UTC")), "symbol": symbols, "volume": pa.array(volumes, pa.int32())}
    )
    folder = tmp_path / "trades"
    folder.mkdir()
    for part in range(2):
        pq.write_table(table.take(list(range(part, len(times), 2))), folder / f"{part}.parquet")
    spark.read.parquet(str(folder)).createOrReplaceTempView("trades_of_spark")
    columns = "ts TIMESTAMP, symbol STRING, volume INT"
    script = [f"CREATE STREAM trades ({columns}) USING parquet OPTIONS (path '{folder}') TIMESTAMP BY ts LATENESS 1 h"]
    asked: dict[str, str] = {}
    for number in range(QUERIES):
        # Spark refuses slides longer than the window and starts beyond a slide.
        slide = rng.randint(1, 120)
        size = slide if number % 4 == 0 else slide + rng.randint(0, 200)
        start = rng.choice((0, rng.randint(1 - slide, slide - 1)))
        keyed, least = rng.random() < 0.5, rng.randint(0, 2)
        ways = texts(size, slide, start, keyed=keyed, least=least)
        script.append(f"CREATE QUERY q{number} AS {rng.choice(ways)}")
        key = "symbol, " if keyed else ""
        window = f"window(ts, '{size} microseconds', '{slide} microseconds', '{start} microseconds')"
        asked[f"q{number}"] = (
            f"SELECT '{number}' AS q, window.start, window.end, {'symbol' if keyed else 'NULL'} AS k, count(*), "
            f"sum(volume) FROM trades_of_spark WHERE volume >= {least} GROUP BY {key}{window}"
        )
    expected: dict[str, list[Any]] = {name: [] for name in asked}
    for name, *row in map(tuple, spark.sql(" UNION ALL ".join(asked.values())).toArrow().to_pandas().to_numpy()):
        expected[f"q{name}"].append(row)
    for way in ("native", "kernel"):
        with Engine(spark, way=way) as engine:
            engine.execute(";\n".join(script))
            engine.run()
            for name in asked:
                found = [list(row.values()) for row in engine.results(name).to_arrow().to_pylist()]
                keyless = [[*row[:2], None, *row[2:]] if len(row) == 4 else row for row in found]
                assert sorted(map(repr, map(plain, keyless))) == sorted(map(repr, map(plain, expected[name]))), name


def plain(row: list[Any]) -> tuple[Any, ...]:
    return (*(int(t.timestamp() * 1e6) for t in row[:2]), *row[2:])
