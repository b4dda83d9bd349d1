"""How much of a backlog a batch takes: bytes, derived from the memory limit; options that the user gives win.

Spark counts the bytes of files as they lie on the disk, memory those of columns. How many of one are one of the other
is estimated before anything is read: for Parquet from the rows that some footers tell, for other formats by what text
and compression usually take. Answers do not depend on it, so an estimate will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.errors import SourceError
from mullion.expressions.vector import arrow_type, has_arrow_type
from mullion.language.types import Type
from mullion.memory import Memory
from mullion.spark.footers import footer

T = TypeVar("T")

WIDE = 16
"""Bytes that are reckoned for a value whose length varies: a short text, and where it begins."""
TEXTS = 3
"""How much oftener than other values a long text is there while rows are put in order and aggregated: as it was read,
in order, as an object of Python's, in what is made of it. 300,000 texts of a kilobyte take 4.7 GB at the most."""
RECORD = 256
"""Bytes that are reckoned for a record of Kafka, before anybody has seen one."""
FOOTERS = 16
"""Files whose footers are looked into."""
ON_DISK = {"parquet": 8.0, "orc": 8.0, "avro": 2.0, "csv": 1.0, "json": 0.5, "text": 1.0}
"""Bytes in memory for one on the disk, where nothing is known of the files."""
COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate", ".xz")
PACKED = 5.0
"""Bytes of text in one byte of a compressed file."""
_FILES = ("maxfilespertrigger", "maxbytespertrigger")
_KAFKA = "maxoffsetspertrigger"


def row_bytes(columns: Iterable[Type]) -> int:
    """About how many bytes an event has in memory."""
    return sum(_width(type_) for type_ in columns)


def event_bytes(columns: Mapping[str, Type], paths: Sequence[str]) -> int:
    """About how many bytes an event has in memory, with texts as long as the footers of Parquet files tell. Texts that
    a file holds as codes are codes in memory too."""
    return row_bytes(columns.values()) + _longer(columns, paths)


def held_bytes(columns: Mapping[str, Type], paths: Sequence[str]) -> int:
    """The same of an event that the driver holds as a row."""
    return row_bytes(columns.values()) + TEXTS * _longer(columns, paths)


def _longer(columns: Mapping[str, Type], paths: Sequence[str]) -> int:
    """Bytes of the texts of an event beyond those that are reckoned for any."""
    varying = [name for name, type_ in columns.items() if _is_varying(type_)]
    told = [found for path in _spread(paths) if (found := _lengths(path, varying)) is not None] if varying else []
    rows = sum(number for number, _ in told)
    longer = (sum(sizes.get(name, 0) for _, sizes in told) // max(1, rows) - WIDE for name in varying)
    return sum(max(0, more) for more in longer)


def _lengths(path: str, columns: Sequence[str]) -> tuple[int, dict[str, int]] | None:
    """The rows of a row group, and the bytes of some columns in it; None where that cannot be told."""
    try:
        metadata = footer(path)[0]
    except (OSError, pa.ArrowException):
        return None
    if not metadata.num_row_groups:
        return None
    group = metadata.row_group(0)
    held = [group.column(i) for i in range(group.num_columns)]
    return group.num_rows, {c.path_in_schema: c.total_uncompressed_size for c in held if c.path_in_schema in columns}


def _is_varying(type_: Type) -> bool:
    """Whether a value is as long as it likes."""
    if not has_arrow_type(type_):
        return True
    try:
        return not arrow_type(type_).bit_width
    except ValueError:
        return True


def _width(type_: Type) -> int:
    return WIDE if _is_varying(type_) else max(1, arrow_type(type_).bit_width // 8)


def batch_size_options(
    stream: Stream, files: Sequence[tuple[str, int]], memory: Memory, partials: float = 0.0
) -> dict[str, str]:
    """The options that make batches fit, for a source that has such options and a user who has not chosen. An event
    leaves about so many partials."""
    given: Mapping[str, str] = dict(stream.options)
    if stream.format == "kafka":
        least = int(given.get("minoffsetspertrigger", "0")) if given.get("minoffsetspertrigger", "0").isdigit() else 0
        return {} if _KAFKA in given else {_KAFKA: str(max(1, least, memory.batch // RECORD))}
    if stream.format not in ON_DISK or any(option in given for option in _FILES):
        return {}
    size = memory.batch_of(_stored_bytes(stream, files), partials)
    return {"maxbytespertrigger": str(max(1, int(size / expansion(stream, files))))}


def _stored_bytes(stream: Stream, files: Sequence[tuple[str, int]]) -> int:
    """About how many bytes an event of these files has in memory, with all columns that the stream reads."""
    paths = [path for path, _ in files] if stream.format == "parquet" else []
    return event_bytes(dict(stream.columns), paths)


def expansion(stream: Stream, files: Sequence[tuple[str, int]]) -> float:
    """Bytes in memory for one on the disk. Files come with their sizes."""
    spread = _spread(files)
    if stream.format == "parquet":
        known = [(rows, size) for path, size in spread if (rows := _rows(path)) is not None]
        on_disk, rows = sum(size for _, size in known), sum(rows for rows, _ in known)
        if on_disk and rows:
            return max(0.1, rows * _stored_bytes(stream, files) / on_disk)
    packed = bool(spread) and all(path.lower().endswith(COMPRESSED) for path, _ in spread)
    return ON_DISK[stream.format] * (PACKED if packed else 1)


def _spread(files: Sequence[T]) -> Sequence[T]:
    """Some of many files, from all over them."""
    return files[:: max(1, len(files) // FOOTERS)][:FOOTERS]


def _rows(path: str) -> int | None:
    """The rows of a file; None where that cannot be told, which reading it will."""
    try:
        return int(footer(path)[0].num_rows)
    except (OSError, pa.ArrowException):
        return None


def check_rows(rows: int | None, most: int | None, stream: Stream) -> None:
    """Refuse more rows than the driver can hold, before they are read."""
    if rows is not None and most is not None and rows > most:
        raise SourceError(
            f"a batch of stream '{stream.name}' has {rows:,} events, and memory has room for {most:,}: "
            "joins, row windows, KEEP and the like take all events of a batch at once",
            hint="write smaller files, give more memory by --memory (Engine: memory), or read fewer files at once "
            "by OPTIONS (maxFilesPerTrigger '1')",
        )
