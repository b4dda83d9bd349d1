"""Streams and tables as DataFrames.

Text formats keep what does not parse: the record comes along in `_corrupt_record`, and with it the file that it
stands in, so that the pipeline can count it and write it aside.
"""

from __future__ import annotations

import glob
import os

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion.catalog.streams import Stream, Table
from mullion.errors import CheckError, Place, SourceError, closest
from mullion.language.types import Type
from mullion.spark.types import columns_from_spark, schema_text

CORRUPT = "_corrupt_record"
SOURCE = "_source"
FILE_FORMATS = ("parquet", "orc", "csv", "json", "text", "avro")
TEXT_FORMATS = ("csv", "json")
ENDLESS_FORMATS = ("kafka", "rate", "rate-micro-batch", "socket")
KNOWN_FORMATS = (*FILE_FORMATS, *ENDLESS_FORMATS)
REFUSED_FORMATS = ("jdbc", "delta-sharing", "binaryfile", "image", "hive", "noop")


def check_format(format_: str, options: dict[str, str], place: Place | None = None) -> str:
    """The format's own spelling; refuses what cannot be a stream or would drop records in silence."""
    name = format_.lower()
    if name in REFUSED_FORMATS or "." in name:
        raise CheckError(f"format '{format_}' is not allowed", place, hint=f"use one of {', '.join(KNOWN_FORMATS)}")
    if name not in KNOWN_FORMATS and (hint := closest(name, KNOWN_FORMATS)):
        raise CheckError(f"unknown format '{format_}'", place, hint=hint)
    if options.get("mode", "permissive").lower() != "permissive":
        hint = "leave the option out: records that do not parse are counted and written aside"
        raise CheckError(f"mode '{options['mode']}' is not allowed", place, hint=hint)
    if name in FILE_FORMATS and not options.get("path"):
        raise CheckError(f"format '{name}' needs OPTIONS (path '...')", place)
    return name


def is_endless(stream: Stream) -> bool:
    """The source never ends by itself."""
    return stream.format in ENDLESS_FORMATS


def is_files(stream: Stream) -> bool:
    return stream.format in FILE_FORMATS


def read_columns(
    spark: SparkSession, name: str, format_: str, options: dict[str, str], columns: tuple[tuple[str, Type], ...]
) -> tuple[tuple[str, Type], ...]:
    """The schema as given, or as the format carries it."""
    if columns:
        return columns
    if format_ in ("csv", "text") and "inferSchema".lower() not in {k.lower() for k in options}:
        hint = f"write it: CREATE STREAM {name} (ts TIMESTAMP, ...) USING {format_} ..."
        raise SourceError(f"{name}: format {format_} does not carry a schema", hint=hint)
    _require_files(name, format_, options)
    try:
        if format_ in FILE_FORMATS:
            frame = (
                spark.read.format(format_).options(**_options(tuple(options.items()))).load(located(options["path"]))
            )
        else:
            frame = spark.readStream.format(format_).options(**options).load()
        return tuple(c for c in columns_from_spark(frame.schema) if c[0] != CORRUPT)
    except PySparkException as problem:
        raise unreadable(name, problem) from None


def located(path: str) -> str:
    """A path as seen from here: Spark's JVM keeps the directory that it was started in, and a cluster may take a path
    without a scheme to be one of its own file system."""
    return path if "://" in path else f"file://{os.path.abspath(path)}"


def _options(options: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {key: value for key, value in options if key.lower() not in ("path", "columnnameofcorruptrecord")}


def open_stream(spark: SparkSession, stream: Stream) -> DataFrame:
    """The stream as a streaming DataFrame."""
    options, path = _options(stream.options), dict(stream.options).get("path")
    reader = spark.readStream.format(stream.format).options(**options)
    try:
        if stream.format not in FILE_FORMATS or path is None:
            frame = reader.load()
            return frame.select(*(F.col(f"`{name}`") for name, _ in stream.columns))
        _require_files(stream.name, stream.format, dict(stream.options), empty_is_fine=True)
        columns = stream.columns
        if stream.format in TEXT_FORMATS:
            reader = reader.option("columnNameOfCorruptRecord", CORRUPT)
            columns = (*columns, (CORRUPT, Type("string")))
        if os.path.isfile(path):
            reader = reader.option("pathGlobFilter", glob.escape(os.path.basename(path)))
            path = os.path.dirname(path) or "."
        frame = reader.schema(schema_text(columns)).load(located(path))
        return frame.withColumn(SOURCE, F.col("_metadata.file_path"))
    except PySparkException as problem:
        raise unreadable(stream.name, problem) from None


def open_files(spark: SparkSession, stream: Stream, paths: list[str]) -> DataFrame:
    """Files that a stream has read before, as it reads them."""
    reader = spark.read.format(stream.format).options(**_options(stream.options))
    columns = stream.columns
    if stream.format in TEXT_FORMATS:
        reader = reader.option("columnNameOfCorruptRecord", CORRUPT)
        columns = (*columns, (CORRUPT, Type("string")))
    try:
        return reader.schema(schema_text(columns)).load(paths)
    except PySparkException as problem:
        raise unreadable(stream.name, problem) from None


def open_table(spark: SparkSession, table: Table) -> DataFrame:
    """The table's rows as they are now; a value that does not parse is NULL."""
    options, path = _options(table.options), dict(table.options).get("path")
    _require_files(table.name, table.format, dict(table.options), empty_is_fine=True)
    reader = spark.read.format(table.format).options(**options).schema(schema_text(table.columns))
    try:
        return reader.load(located(path)) if path is not None else reader.load()
    except PySparkException as problem:
        raise unreadable(table.name, problem) from None


def table_files(table: Table) -> tuple[tuple[str, int, int, int], ...] | None:
    """The table's files with their size, time of change and number on the disk; None where that cannot be known.

    As Spark has it, names that start with a dot or an underscore are no data.
    """
    path = dict(table.options).get("path")
    if table.format not in FILE_FORMATS or path is None or "://" in path:
        return None
    found = []
    for root in [path] if os.path.exists(path) else sorted(glob.glob(path)):
        found += [root] if os.path.isfile(root) else _files_below(root)
    return tuple(seen for file in found if (seen := _seen(file)) is not None)


def _files_below(folder: str) -> list[str]:
    found: list[str] = []
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "_")))
        found += [os.path.join(where, file) for file in sorted(files) if not file.startswith((".", "_"))]
    return found


def _seen(file: str) -> tuple[str, int, int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return file, status.st_size, status.st_mtime_ns, status.st_ino


def _require_files(name: str, format_: str, options: dict[str, str], *, empty_is_fine: bool = False) -> None:
    path = options.get("path", "")
    if format_ not in FILE_FORMATS or "://" in path:
        return
    if not os.path.exists(path) and not glob.glob(path):
        raise SourceError(f"{name}: there is nothing at {os.path.abspath(path)}", hint="check the path in OPTIONS")
    if os.path.isdir(path) and not empty_is_fine and not any(files for _, _, files in os.walk(path)):
        raise SourceError(f"{name}: the directory {os.path.abspath(path)} is empty, so its schema cannot be read")


def unreadable(name: str, problem: PySparkException | Py4JJavaError) -> SourceError:
    """What the user is told when Spark cannot read a stream or table: the innermost cause of a job that failed."""
    lines = str(problem).strip().splitlines()
    causes = [line.partition("Caused by: ")[2].partition(": ")[2] for line in lines if line.startswith("Caused by: ")]
    lines = [cause for cause in causes[-1:] if cause] or lines
    hint = None
    if "TIMESTAMP(NANOS" in str(problem):
        hint = "Spark has no nanoseconds: write microseconds, in pandas by to_parquet(..., coerce_timestamps='us')"
    return SourceError(f"{name} cannot be read: {lines[0] if lines else type(problem).__name__}", hint=hint)
