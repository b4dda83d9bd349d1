"""What is read of files: every value under its own name, and nothing lost without a word."""

from __future__ import annotations

import gzip
import json
import os
import random
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.engine import Engine
from mullion.errors import MullionError, SourceError
from mullion.spark import options
from mullion.spark.footers import check_files
from mullion.spark.sources import open_files
from mullion.spark.types import schema_text
from sources_held import ALLOWED, DECLARED, HELD

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
            text = f"# a remark;b\n\n{text}".replace("\n", "\r\n")
        data = text.encode(encoding)
        file = folder / (f"{number}.csv.gz" if packed else f"ä {number} [%20].csv")
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


PARQUET = """
CREATE STREAM s (ts TIMESTAMP, x INT) USING parquet OPTIONS (path '{path}', maxFilesPerTrigger '1') TIMESTAMP BY ts;
CREATE QUERY n AS SELECT count(*) AS n, sum(x) AS x FROM s [RANGE 10 s SLIDE 10 s];
"""


def parquet_files(folder: Path, number: int = 2) -> list[Path]:
    folder.mkdir(parents=True)
    made = []
    for i in range(number):
        times = pa.array([(i * 10 + j) * 1_000_000 for j in range(10)], pa.timestamp("us", "UTC"))
        made.append(folder / f"{i}.parquet")
        pq.write_table(pa.table({"ts": times, "x": pa.array(range(10), pa.int32())}), made[-1])
    return made


def dated(files: list[Path]) -> None:
    for number, file in enumerate(files):
        os.utime(file, (1_000_000 + number, 1_000_000 + number))


def test_what_is_read_as_another_type_keeps_its_values(spark: SparkSession, tmp_path: Path) -> None:
    """All pairs of types that are not refused, in one file; both of Spark's readers."""
    pairs = [(held, name) for held in HELD for name in ALLOWED[held]]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({f"c{i}": HELD[held] for i, (held, _) in enumerate(pairs)}), path)
    columns = tuple((f"c{i}", DECLARED[name]) for i, (_, name) in enumerate(pairs))
    check_files("s", [str(path)], columns)
    for vectorized in ("true", "false"):
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
        read = session.read.schema(schema_text(columns)).parquet(str(path)).toArrow()
        for i, (held, name) in enumerate(pairs):
            values = HELD[held]
            if held in ("ns", "ns_utc"):
                values = values.cast(pa.int64())
            elif held == "dictionary":
                values = values.cast(pa.string())
            wanted = values.cast(read.schema.field(i).type)
            assert read.column(i).to_pylist() == wanted.to_pylist(), (held, name, vectorized)


@pytest.mark.parametrize("way", ["direct", "native"])
@pytest.mark.parametrize("damage", ["type", "empty", "cut off", "page"])
def test_a_later_file_that_cannot_be_read_is_named(damage: str, way: str, spark: SparkSession, tmp_path: Path) -> None:
    files = parquet_files(tmp_path / "s")
    whole = files[1].read_bytes()
    if damage == "type":
        pq.write_table(
            pq.read_table(files[1]).cast(pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", "int64")])), files[1]
        )
    else:
        files[1].write_bytes(
            {"empty": b"", "cut off": whole[:-10], "page": whole[:4] + bytes(150) + whole[154:]}[damage]
        )
    dated(files)
    with Engine(spark, way=way) as engine:
        engine.execute(PARQUET.format(path=tmp_path / "s"))
        with pytest.raises(SourceError, match=r"1\.parquet") as error:
            engine.run()
        assert engine.counts["s"].batches == 1
    assert error.value.hint


def test_a_file_that_is_packed_and_cut_off_is_named(spark: SparkSession, tmp_path: Path) -> None:
    line = b'{"ts": "2024-01-01 00:00:01", "x": 1, "y": "%d"}\n'
    packed = gzip.compress(b"".join(line % i for i in range(1000)))
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.json.gz").write_bytes(packed[: len(packed) // 2])
    with Engine(spark) as engine:
        engine.execute(PARQUET.format(path=tmp_path / "s").replace("parquet", "json"))
        with pytest.raises(SourceError, match=r"a\.json\.gz") as error:
            engine.run()
    assert "write it again" in str(error.value)


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_signs_of_patterns_in_names(
    format_: str, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By itself Spark reads each file of a batch as often as there are files, when their names have such signs, and
    nothing of a folder that has them. What it does not look into is told."""
    folder = tmp_path / "s[1]{x}" / "t*"
    made = parquet_files(folder)
    parquet_files(folder / "below")
    for file, name in zip(made, ("a[0]", "a?1 %20{*}"), strict=True):
        rows = pq.read_table(file)
        file.unlink()
        if format_ == "parquet":
            pq.write_table(rows, folder / f"{name}.parquet")
        else:
            lines = [json.dumps(row, default=str) for row in rows.to_pylist()]
            (folder / f"{name}.json").write_text("\n".join(lines))
    script = PARQUET.format(path=folder).replace(", maxFilesPerTrigger '1'", "").replace("parquet", format_)
    for way in ("auto", "native"):
        with Engine(spark, way=way) as engine:
            engine.execute(script)
            engine.run()
            assert engine.results("n").to_arrow()["n"].to_pylist() == [10, 10]
    told = f"stream s: what lies in {folder / 'below'} is not read; OPTIONS (recursiveFileLookup 'true') reads it"
    assert [record.message for record in caplog.records if "lies in" in record.message] == [told] * 2


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_columns_that_folders_name(format_: str, spark: SparkSession, tmp_path: Path) -> None:
    """In streams, in tables, and where files are read again for the past of a query."""
    for day, order in ((1, ["ts", "x"]), (2, ["x", "ts"])):
        folder = tmp_path / f"Day=2024-01-0{day}"
        folder.mkdir()
        at = [datetime(2024, 1, day, second=second) for second in range(day)]
        rows = pa.table({"ts": pa.array(at, pa.timestamp("us", "UTC")), "x": pa.array([day] * day, pa.int32())})
        if format_ == "parquet":
            pq.write_table(rows.select(order), folder / "a.parquet")
        else:
            texts = [{"ts": str(time), "x": day} for time in at]
            (folder / "a.csv").write_text(csv_of(texts, order))
    source = f"USING {format_} OPTIONS (path '{tmp_path}'{', header true' * (format_ == 'csv')})"
    with Engine(spark) as engine:
        engine.execute(
            f"CREATE STREAM s (ts TIMESTAMP, x INT, day DATE) {source} TIMESTAMP BY ts;"
            f"CREATE TABLE k (ts TIMESTAMP, x INT, day STRING) {source};"
            "CREATE QUERY q AS SELECT s.day AS day, k.day AS found, count(*) AS n FROM s [RANGE 2 d SLIDE 2 d] "
            "JOIN k ON s.x = k.x GROUP BY s.day, k.day"
        )
        engine.run()
        answered = engine.results("q").to_arrow().select(["day", "found", "n"]).to_pylist()
        uris = sorted(file.as_uri() for file in tmp_path.glob("*/*"))
        again = open_files(spark, engine.catalog.streams["s"], uris).select("day", "x").collect()
    days = {day: date(2024, 1, day) for day in (1, 2)}
    wanted = [{"day": days[day], "found": str(days[day]), "n": day**2} for day in (1, 2)]
    assert sorted(answered, key=str) == wanted
    assert sorted(map(tuple, again)) == [(days[1], 1), (days[2], 2), (days[2], 2)]


def test_a_table_of_other_types_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    parquet_files(tmp_path / "s")
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "k.parquet")
    with Engine(spark) as engine:
        engine.execute(
            PARQUET.format(path=tmp_path / "s")
            + f"CREATE TABLE k (k INT) USING parquet OPTIONS (path '{tmp_path / 'k.parquet'}');"
            "CREATE QUERY j AS SELECT count(*) FROM s [RANGE 10 s SLIDE 10 s] JOIN k ON s.x = k.k;"
        )
        with pytest.raises(SourceError, match=r"table k: column 'k' of .*k\.parquet holds BIGINT, and INT is declared"):
            engine.run()


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_a_column_that_no_file_has_is_told_or_refused(
    format_: str, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = parquet_files(tmp_path / "s")
    for file in files:
        rows = pq.read_table(file).rename_columns(["ts", "xx"])
        pq.write_table(rows, file)
        if format_ == "json":
            lines = [json.dumps(row, default=str) for row in rows.to_pylist()]
            file.with_suffix(".json").write_text("\n".join(lines))
            file.unlink()
    dated(sorted((tmp_path / "s").iterdir()))
    script = PARQUET.format(path=tmp_path / "s").replace("parquet", format_)
    with Engine(spark) as engine, caplog.at_level("WARNING", "mullion"):
        engine.execute(script)
        engine.run()
        assert engine.results("n").to_arrow()["n"].to_pylist() == [10, 10]
    said = "stream s: no file has a column 'x' (did you mean 'xx'?)"
    assert [r.getMessage() for r in caplog.records if "no file has" in r.getMessage()] == [f"{said}; NULL throughout"]
    with Engine(spark, strict=True) as engine:
        engine.execute(script)
        with pytest.raises(SourceError) as error:
            engine.run()
    assert error.value.message == said


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("USING parquet OPTIONS (path '{path}')", "a.txt"),
        ("(ts TIMESTAMP) USING orc OPTIONS (path '{path}')", "a.txt"),
        ("(ts TIMESTAMP) USING json OPTIONS (path 'nope://x/y')", 'No FileSystem for scheme "nope"'),
        ("(ts TIMESTAMP) USING json OPTIONS (path '{path}', maxFilesPerTrigger 'x')", "Invalid value 'x' for option"),
        ("(ts TIMESTAMP) USING csv OPTIONS (path '{path}', header 'true', sep '')", "Delimiter cannot be empty"),
        ("(ts TIMESTAMP, value BIGINT) USING rate OPTIONS (rowsPerSecond 'x')", 'For input string: "x"'),
        ("(ts TIMESTAMP, value STRING) USING kafka OPTIONS (subscribe 'x')", "Spark needs a package for it"),
    ],
)
def test_a_source_that_spark_refuses_is_a_sentence(source: str, said: str, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.txt").write_text("no such thing\n" * 10)
    with Engine(spark) as engine, pytest.raises(MullionError) as error:
        engine.execute(
            f"CREATE STREAM s {source.format(path=tmp_path / 's')} TIMESTAMP BY ts;"
            "CREATE QUERY n AS SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"
        )
        engine.run()
    assert said in str(error.value)
    assert "terminated with exception" not in str(error.value) and "org.apache" not in error.value.message


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
