"""Streams and tables as DataFrames.

Text formats keep what does not parse: the record comes along in `_corrupt_record`, and with it the file that it
stands in, so that the pipeline can count it and write it aside.
"""

from __future__ import annotations

import glob
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial, reduce
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

from py4j.protocol import Py4JError

from mullion.algebra.nodes.base import Columns
from mullion.algebra.streams import Stream, Table
from mullion.errors import CheckError, NothingThere, Place, SourceError, closest
from mullion.language.types import Type
from mullion.spark.failures import source_error, spark_failures
from mullion.spark.files import local
from mullion.spark.footers import check_files
from mullion.spark.hadoop import head
from mullion.spark.headers import has_header, orders
from mullion.spark.listed_files import is_data, is_recursive, listed_files
from mullion.spark.options import checked_options
from mullion.spark.types import columns_from_spark, schema_text
from mullion.spark.unseen import HEAD, Unseen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

log = logging.getLogger("mullion")

CORRUPT = "_corrupt_record"
SOURCE, BLOCK = "_source", "_block"
"""The file of an event, and where in it the piece begins that Spark reads it in."""
PARTITION, OFFSET = "_partition", "_offset"
"""The place of an event in a source that has partitions instead of files."""
ROW = "_row"
"""The number of an event in its file, where events are told apart and the format counts its rows."""
FILE_FORMATS = ("parquet", "orc", "csv", "json", "text", "avro")
TEXT_FORMATS = ("csv", "json")
ENDLESS_FORMATS = ("kafka", "rate", "rate-micro-batch", "socket")
ANY_AGE = "36500d"
_PATTERN = re.compile(r"[\[\]{}*?\\]")
SparkReader = TypeVar("SparkReader", "DataFrameReader", "DataStreamReader")
KNOWN_FORMATS = (*FILE_FORMATS, *ENDLESS_FORMATS)
REFUSED_FORMATS = ("jdbc", "delta-sharing", "binaryfile", "image", "hive", "noop")


def check_format(
    format_: str, options: Iterable[tuple[str, str]], place: Place | None = None, places: Iterable[Place] = ()
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The format and its options in their own spelling; refuses what cannot be a stream or would drop records in
    silence. `place` and `places`: where the format stands, and its options."""
    name = format_.lower()
    if name in REFUSED_FORMATS or "." in name:
        raise CheckError(f"format '{format_}' is not allowed", place, hint=f"use one of {', '.join(KNOWN_FORMATS)}")
    if name not in KNOWN_FORMATS and (hint := closest(name, KNOWN_FORMATS)):
        raise CheckError(f"unknown format '{format_}'", place, hint=hint)
    checked = checked_options(name, options, places)
    if name in FILE_FORMATS and not dict(checked).get("path"):
        raise CheckError(f"format '{name}' needs OPTIONS (path '...')", place)
    return name, checked


def never_ends(stream: Stream) -> bool:
    """The source never ends by itself."""
    return stream.format in ENDLESS_FORMATS


def is_files(stream: Stream) -> bool:
    return stream.format in FILE_FORMATS


def check_carries(name: str, format_: str, options: Mapping[str, str], place: Place | None = None) -> None:
    """Refuse a format that carries no schema, and files that are not there. `place`: where their path is written."""
    if format_ in ("csv", "text") and options.get("inferschema", "false").lower() != "true":
        hint = f"write it: CREATE STREAM {name} (ts TIMESTAMP, ...) USING {format_} ..."
        raise SourceError(f"{name}: format {format_} does not carry a schema", hint=hint)
    _require_files(name, format_, options, place)


def check_there(sources: Iterable[Stream | Table], places: Mapping[str, Place]) -> None:
    """Refuse streams and tables with nothing at their paths; `places`: where these are written. A folder may be
    empty."""
    for source in sources:
        _require_files(source.name, source.format, dict(source.options), places.get(source.name), empty_is_fine=True)


def read_columns(spark: SparkSession, name: str, format_: str, options: dict[str, str]) -> Columns:
    """The schema as the format carries it."""
    try:
        if format_ in FILE_FORMATS:
            frame = spark.read.format(format_).options(**_options(format_, options)).load(_for_spark(options["path"]))
        else:
            frame = spark.readStream.format(format_).options(**options).load()
        return tuple(c for c in columns_from_spark(frame.schema) if c[0] != CORRUPT)
    except spark_failures() as problem:
        raise source_error(name, problem) from None


def located(path: str) -> str:
    """A path as seen from here: Spark's JVM keeps the directory that it was started in, and a cluster may take a path
    without a scheme to be one of its own file system."""
    return path if "://" in path else f"file://{os.path.abspath(path)}"


def _for_spark(path: str) -> str:
    """A path as Spark reads it, which takes every path for a pattern. What lies there under this name is meant."""
    if "://" in path or (os.path.isabs(path) and not os.path.exists(path)):
        return located(path)
    if os.path.exists(path):
        return f"file://{_escaped(os.path.abspath(path))}"
    return f"file://{_escaped(os.getcwd())}/{path}"


def _escaped(path: str) -> str:
    return _PATTERN.sub(r"\\\g<0>", path)


def _options(format_: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options as Spark gets them. Where names in a header decide, Spark is told to check that they did."""
    given = {key: value for key, value in options.items() if key != "path"}
    if has_header(format_, options):
        given["enforceschema"] = "false"
    return given


def open_stream(spark: SparkSession, stream: Stream, more: Mapping[str, str]) -> DataFrame:
    """The stream as a streaming DataFrame, with some more options."""
    options = dict(stream.options)
    path = options.get("path")
    reader = spark.readStream.format(stream.format).options(**_options(stream.format, {**options, **more}))
    try:
        if stream.format not in FILE_FORMATS or path is None:
            frame = reader.load()
            from pyspark.sql import functions as F

            columns = [F.col(f"`{name}`") for name, _ in stream.columns]
            if stream.format == "kafka":
                columns += [F.col("partition").alias(PARTITION), F.col("offset").alias(OFFSET)]
            return frame.select(*columns)
        _require_files(stream.name, stream.format, options, empty_is_fine=True)
        _warn_of_folders(f"stream {stream.name}", options)
        # By default Spark leaves out files that are a week older than the newest.
        reader = reader.option("maxFileAge", ANY_AGE)
        if os.path.isfile(path):
            reader = reader.option("pathGlobFilter", glob.escape(os.path.basename(path)))
            path = os.path.dirname(path) or "."
        if _PATTERN.search(os.path.abspath(path)) and os.path.isdir(path):
            reader = reader.option("basePath", located(path))  # Spark looks for no partitions below a pattern
        frame = _reporting(reader, stream.format, stream.columns).load(_for_spark(path))
        return with_source(frame, rows=counts_rows(stream))
    except spark_failures() as problem:
        raise source_error(stream.name, problem) from None


def open_files(spark: SparkSession, stream: Stream, uris: list[str]) -> DataFrame:
    """Files that a stream reads, as it reads them."""
    try:
        return _read_parts(spark, stream, _parts(spark, stream, uris) or [(stream.columns, uris)])
    except spark_failures() as problem:
        raise source_error(stream.name, problem) from None


def as_declared(stream: Stream, batch: DataFrame, uris: list[str]) -> DataFrame:
    """A batch of files with every value under its own column's name, whatever the order in their headers. Refuses
    files that do not hold what is declared."""
    if stream.format == "parquet":
        check_files(stream.name, [path for uri in uris if (path := local(uri)) is not None], stream.columns)
    parts = _parts(batch.sparkSession, stream, uris)
    odd = len(uris) > 1 and any(_is_pattern(uri) for uri in uris)
    if not parts or (all(columns == stream.columns for columns, _ in parts) and not odd):
        return batch
    try:
        return _read_parts(batch.sparkSession, stream, parts)
    except spark_failures() as problem:
        raise source_error(stream.name, problem) from None


def open_table(spark: SparkSession, table: Table) -> DataFrame:
    """The table's rows as they are now; a value that does not parse is NULL."""
    options = dict(table.options)
    path = options.get("path")
    _require_files(table.name, table.format, options, empty_is_fine=True)
    _warn_of_folders(f"table {table.name}", options)
    reader = spark.read.format(table.format).options(**_options(table.format, options))
    try:
        frame = reader.schema(schema_text(table.columns)).load(None if path is None else _for_spark(path))
        if not has_header(table.format, options):
            return frame
        parts = _parts(spark, table, list(frame.inputFiles()))
        if all(columns == table.columns for columns, _ in parts):
            return frame
        return _read_parts(spark, table, parts)
    except spark_failures() as problem:
        raise source_error(table.name, problem) from None


def _parts(spark: SparkSession, source: Stream | Table, uris: list[str]) -> list[tuple[Columns, list[str]]]:
    """The files with the columns in the order in which they have them; those without any record are left out."""
    options = dict(source.options)
    if not has_header(source.format, options):
        return [(source.columns, uris)]
    return orders(spark, source.name, uris, options, source.columns, partial(_columns_of_folders, _base(source)))


def _base(source: Stream | Table) -> str | None:
    """Below which folder Spark takes the names of folders, such as date=2024-01-01, for values of columns; None where
    it does not. A stream has an option for it only where its path is a pattern."""
    options = dict(source.options)
    path, given = options.get("path", ""), options.get("basepath")
    if is_recursive(options):
        return None
    plain = os.path.isdir(path) or ("://" in path and not _PATTERN.search(path))
    if given is not None and not (plain and isinstance(source, Stream)):
        return located(given).rstrip("/")
    return located(path).rstrip("/") if plain else None


def _columns_of_folders(base: str | None, uri: str) -> frozenset[str]:
    """The columns, in lower case, that the folders of a file name.

    >>> sorted(_columns_of_folders("file:///data", "file:///data/Day=1/hour=2/a=b.csv"))
    ['day', 'hour']
    """
    path = unquote(uri)
    if base is None or not path.startswith(f"{base}/"):
        return frozenset()
    folders = path[len(base) :].split("/")[:-1]
    return frozenset(folder.split("=", 1)[0].lower() for folder in folders if "=" in folder)


def _read_parts(spark: SparkSession, source: Stream | Table, parts: list[tuple[Columns, list[str]]]) -> DataFrame:
    """The files one after the other, with the columns as declared; a stream's with what does not parse, and where it
    stands."""
    names = [f"`{name.replace('`', '``')}`" for name, _ in source.columns]
    frames = []
    for columns, uris in _alone(parts):
        reader = spark.read.format(source.format).options(**_options(source.format, dict(source.options)))
        reader, paths = reader.option("__globPaths__", "false"), [unquote(uri) for uri in uris]
        base = _base(source)
        if base is not None and any(_columns_of_folders(base, uri) for uri in uris):
            reader = reader.option("basePath", base)
        if isinstance(source, Stream):
            read = _reporting(reader, source.format, columns).load(paths)
            unparsed = [CORRUPT] if source.format in TEXT_FORMATS else []
            rows = counts_rows(source)
            places = [SOURCE, BLOCK, *([ROW] if rows else [])]
            frames.append(with_source(read, rows=rows).select(*names, *unparsed, *places))
        else:
            frames.append(reader.schema(schema_text(columns)).load(paths).select(*names))
    from pyspark.sql import DataFrame

    return reduce(DataFrame.unionAll, frames)


def _is_pattern(uri: str) -> bool:
    """Whether a file's name looks like a pattern. Spark, given such a file and others, reads it once for each."""
    return _PATTERN.search(unquote(uri)) is not None


def _alone(parts: list[tuple[Columns, list[str]]]) -> Iterator[tuple[Columns, list[str]]]:
    """The parts with every file whose name looks like a pattern by itself."""
    for columns, uris in parts:
        for odd, group in groupby(uris, _is_pattern):
            neighbours = list(group)
            yield from ((columns, [uri]) for uri in neighbours) if odd else [(columns, neighbours)]


def _reporting(reader: SparkReader, format_: str, columns: Columns) -> SparkReader:
    """A reader that hands on records that do not parse."""
    if format_ in TEXT_FORMATS:
        reader = reader.option("columnNameOfCorruptRecord", CORRUPT)
        columns = (*columns, (CORRUPT, Type("string")))
    return reader.schema(schema_text(columns))


def with_places(frame: DataFrame) -> DataFrame:
    """A caller's streaming DataFrame, with the places of its rows where it reads files and leaves them in their
    order."""
    if not frame.isStreaming or {SOURCE, BLOCK} & set(frame.columns):
        return frame
    try:
        plan = frame._jdf.queryExecution().analyzed()
        while plan.getClass().getSimpleName() in ("Project", "Filter", "SubqueryAlias"):
            plan = plan.child()
        return with_source(frame) if plan.toString().startswith("FileSource[") else frame
    except (Py4JError, *spark_failures()):
        return frame


def tells_files(columns: Collection[str]) -> bool:
    """Whether rows with these columns come with the files that they stand in."""
    return SOURCE in columns and BLOCK in columns


def counts_rows(stream: Stream) -> bool:
    """Whether events are told apart by their row in a file: they may be shed, and the format counts them."""
    return stream.shedding is not None and stream.format == "parquet"


def with_source(frame: DataFrame, *, rows: bool = False) -> DataFrame:
    """The rows of files with the file that they stand in, and where their piece of it begins."""
    from pyspark.sql import functions as F

    origin = [F.col("_metadata.file_path").alias(SOURCE), F.col("_metadata.file_block_start").alias(BLOCK)]
    if rows:
        origin.append(F.col("_metadata.row_index").alias(ROW))
    return frame.select("*", *origin)


def table_files(table: Stream | Table) -> tuple[tuple[str, int, int, int], ...] | None:
    """The files at a path with their size, time of change and number on the disk; None where that cannot be known."""
    paths = listed_files(dict(table.options)) if table.format in FILE_FORMATS else None
    if paths is None:
        return None
    return tuple(seen for file in paths if (seen := _seen(file)) is not None)


def look_for_columns(
    unseen: Unseen, opened: Callable[[], DataFrame], uris: list[str], session: Callable[[], SparkSession]
) -> None:
    """Tell once which declared columns neither the files of a batch have nor the others that lie there."""
    if not unseen.left:
        return
    others = (Path(path).absolute().as_uri() for path, *_ in table_files(unseen.source) or ())

    def has_values(columns: list[str]) -> list[str]:
        quoted = (f"`{column.replace('`', '``')}`" for column in columns)
        (counts,) = opened().selectExpr(*(f"count({name}) > 0" for name in quoted)).collect()
        return [column for column, has_any in zip(columns, counts, strict=True) if has_any]

    def read(uri: str) -> bytes:
        return head(session(), uri, HEAD)

    unseen.look(chain(uris, others), head=read, local=local, has_values=has_values)


def _warn_of_folders(name: str, options: Mapping[str, str]) -> None:
    """Tell of a folder with files that Spark does not look into, since its name is no partition."""
    path = options.get("path", "")
    if is_recursive(options) or not os.path.isdir(path):
        return
    folders = sorted(entry.name for entry in os.scandir(path) if entry.is_dir() and is_data(entry.name))
    if any("=" in folder for folder in folders):
        return
    for folder in (os.path.join(path, folder) for folder in folders):
        if any(files for _, _, files in os.walk(folder)):
            log.warning("%s: what lies in %s is not read; OPTIONS (recursiveFileLookup 'true') reads it", name, folder)
            return


def _seen(file: str) -> tuple[str, int, int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return file, status.st_size, status.st_mtime_ns, status.st_ino


def _require_files(
    name: str, format_: str, options: Mapping[str, str], place: Place | None = None, *, empty_is_fine: bool = False
) -> None:
    path = options.get("path", "")
    if format_ not in FILE_FORMATS or "://" in path:
        return
    if not os.path.exists(path) and not glob.glob(path):
        hint = "check the path in OPTIONS"
        raise NothingThere(f"{name}: there is nothing at {os.path.abspath(path)}", place, hint=hint)
    if os.path.isdir(path) and not empty_is_fine and not any(files for _, _, files in os.walk(path)):
        message = f"{name}: the directory {os.path.abspath(path)} is empty, so its schema cannot be read"
        raise NothingThere(message, place)
