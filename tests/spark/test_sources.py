"""What is read of files: every value under its own name, and nothing lost without a word."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mullion.engine import Engine
from mullion.errors import MullionError, SourceError
from mullion.spark import options
from mullion.spark.sources import open_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = """
CREATE QUERY sums AS SELECT a, sum(b) AS b, sum(c) AS c, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] GROUP BY a;
CREATE QUERY rows_of AS SELECT a, b, c FROM s [ROWS 1];
CREATE QUERY found AS SELECT v, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] JOIN k ON s.a = k.a GROUP BY v;
"""


def csv_of(rows: list[dict[str, Any]], order: list[str], sep: str = ",", quote: str = '"') -> str:
    """CSV with every text in quotes."""
    lines = [sep.join(f"{quote}{name}{quote}" for name in order)]
    for row in rows:
        cells = (row[name] for name in order)
        lines.append(sep.join(f"{quote}{v}{quote}" if isinstance(v, str) else str(v) for v in cells))
    return "\n".join(lines) + "\n"


def events(number: int, seed: int) -> list[dict[str, Any]]:
    rnd = random.Random(seed)
    made = []
    for i in range(number):
        time = f"2024-01-01 00:00:{(seed * 12 + i) % 60:02d}"
        made.append({"ts": time, "a": rnd.choice("xyz"), "b": rnd.randrange(100), "c": rnd.randrange(100)})
    return made


def answers(engine: Engine) -> dict[str, list[str]]:
    return {
        name: sorted(map(str, engine.results(name).to_arrow().to_pylist())) for name in ("sums", "rows_of", "found")
    }


DIALECTS = {
    "plain": ("", {}, "utf-8", False),
    "other signs": (
        ", SEP ';', quote '~', comment '#', encoding 'ISO-8859-1'",
        {"sep": ";", "quote": "~"},
        "latin1",
        False,
    ),
    "packed": (", multiLine 'true'", {}, "utf-8", True),
}
GIVEN = [[{**row, "a": row["a"] + "ä"} for row in events(12, seed)] for seed in range(5)]


def write_csv(folder: Path, dialect: str, *, shuffled: bool) -> str:
    """Files of events, and a table of keys; returns the statements that read them."""
    said, signs, encoding, packed = DIALECTS[dialect]
    rnd = random.Random(dialect)
    folder.mkdir()
    for number, rows in enumerate(GIVEN):
        order = ["ts", "a", "b", "c"]
        if shuffled and number != 2:
            rnd.shuffle(order)
        text = csv_of(rows, order, **signs)
        if "#" in said:
            text = f"# a remark;b\n\n{text}"
        data = text.encode(encoding)
        file = folder / (f"{number}.csv.gz" if packed else f"{number}.csv")
        file.write_bytes(gzip.compress(data) if packed else b"\xef\xbb\xbf" * (dialect == "plain") + data)
        os.utime(file, (1_000_000 + number // 3, 1_000_000 + number // 3))
    (folder / "empty.csv").touch()
    table = folder.parent / "keys.csv"
    keys = [{"a": f"{name}ä", "v": value} for name, value in zip("xyz", (1, 2, 2), strict=True)]
    table.write_text(csv_of(keys, ["v", "a"] if shuffled else ["a", "v"]))
    return (
        "CREATE STREAM s (ts TIMESTAMP, a STRING, b INT, c INT) USING csv "
        f"OPTIONS (path '{folder}', Header 'TRUE', maxFilesPerTrigger '3'{said}) TIMESTAMP BY ts LATENESS '1 hour';"
        f"CREATE TABLE k (a STRING, v INT) USING csv OPTIONS (path '{table}', HEADER 'true');"
    )


@pytest.fixture(scope="module")
def in_declared_order(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    with Engine(spark) as engine:
        engine.execute(write_csv(tmp_path_factory.mktemp("declared") / "s", "plain", shuffled=False) + QUERIES)
        engine.run()
        found = answers(engine)
    assert all(found.values())
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_in_csv_headers_decide_in_streams_and_tables(
    dialect: str, spark: SparkSession, in_declared_order: dict[str, list[str]], tmp_path: Path
) -> None:
    """Every file in an order of its own gives what files in the declared order give, also where they are read again
    for the past of a query."""
    with Engine(spark) as engine:
        engine.execute(write_csv(tmp_path / "s", dialect, shuffled=True) + QUERIES)
        engine.run()
        assert engine.counts["s"].malformed == 0
        assert answers(engine) == in_declared_order
        uris = sorted(file.as_uri() for file in (tmp_path / "s").iterdir())
        again = open_files(spark, engine.catalog.streams["s"], uris).select("a", "b", "c").collect()
    assert sorted(map(tuple, again)) == sorted((row["a"], row["b"], row["c"]) for rows in GIVEN for row in rows)


def test_a_later_csv_file_with_another_header_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(3):
        order = ["ts", "a", "b", "c"] if number < 2 else ["ts", "a", "b"]
        file = data / f"{number}.csv"
        file.write_text(csv_of(events(3, number), order))
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    with Engine(spark) as engine:
        engine.execute(
            "CREATE STREAM s (ts TIMESTAMP, a STRING, b INT, c INT) USING csv "
            f"OPTIONS (path '{data}', header 'true', maxFilesPerTrigger '1') TIMESTAMP BY ts LATENESS '1 hour';"
            "CREATE QUERY n AS SELECT count(*) FROM s [RANGE 10 s SLIDE 10 s]"
        )
        with pytest.raises(SourceError, match=r"2\.csv") as error:
            engine.run()
        assert engine.counts["s"].batches == 2
    assert "not in the header: c" in str(error.value)


def test_every_option_that_spark_knows_is_known(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    datasources = jvm.org.apache.spark.sql.execution.datasources
    catalyst = jvm.org.apache.spark.sql.catalyst
    theirs = {
        "csv": catalyst.csv.CSVOptions,
        "json": catalyst.json.JSONOptions,
        "parquet": datasources.parquet.ParquetOptions,
        "orc": datasources.orc.OrcOptions,
        "text": datasources.text.TextOptions,
    }
    for format_, found in theirs.items():
        names = {name.lower() for name in found.getAllOptions().mkString(" ").split() if "." not in name}
        assert names <= options.KNOWN[format_], format_


def test_a_session_that_ignores_files_is_not_used(spark: SparkSession) -> None:
    other = spark.newSession()
    for key, value in (("spark.sql.ansi.enabled", "false"), ("spark.sql.session.timeZone", "UTC")):
        other.conf.set(key, value)
    other.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    with Engine(other) as engine:
        assert engine.session.conf.get("spark.sql.files.ignoreCorruptFiles") == "false"
    assert other.conf.get("spark.sql.files.ignoreCorruptFiles") == "true"


def test_settings_that_ignore_files_are_refused() -> None:
    from mullion.spark.session import settings

    with pytest.raises(MullionError, match="ignoreMissingFiles"):
        settings(config={"spark.sql.files.ignoreMissingFiles": "true"})


def test_an_old_file_that_comes_late_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """By its own rules Spark leaves out files that are a week older than the newest, in every batch but the first."""
    import json

    def add(name: str, when: int, second: int) -> None:
        file = tmp_path / name
        file.write_text(json.dumps({"ts": f"2024-01-01 00:00:{second:02d}", "x": second}))
        os.utime(file, (when, when))

    add("new.json", 1_700_000_000, 1)
    with Engine(spark) as engine:
        engine.execute(
            "CREATE STREAM s (ts TIMESTAMP, x INT) USING json "
            f"OPTIONS (path '{tmp_path}') TIMESTAMP BY ts LATENESS '1 hour';"
            "CREATE QUERY n AS SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"
        )
        engine.start(follow=True)
        while engine.counts.get("s") is None or not engine.counts["s"].events:
            engine.wait(0.1)
        add("old.json", 1_600_000_000, 2)
        for _ in range(100):
            if engine.counts["s"].events == 2:
                break
            engine.wait(0.2)
        engine.stop()
        assert engine.counts["s"].events == 2
