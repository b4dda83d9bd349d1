"""The direct way: which files a batch consists of, of which the kernel reads just the needed columns (`reading`).

Spark decides what a batch is. Where it consists of Parquet files alone, Spark's Python workers get the names of files
and row groups instead of rows, since handing over rows takes longer than computing with them (design decision 2). Files
that pyarrow may read otherwise than Spark are left to Spark: other types than declared, old calendars, partition
columns in paths.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError

from mullion.algebra.streams import HIDDEN, Stream
from mullion.expressions.vector import arrow_type, has_arrow_type
from mullion.language.types import Type
from mullion.spark.footers import footer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_FILES = 2000
"""Files of a batch whose footers the driver looks into."""
LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file."""

    path: str
    group: int
    rows: int
    first: int = 0
    """How many rows of the batch come before it."""
    row: int = 0
    """How many rows of the file come before it."""


def local_files(uris: Sequence[str], order: Sequence[str]) -> list[str] | None:
    """The local files that a batch consists of, in their order; None where some lie elsewhere."""
    paths, known = {local(uri) for uri in uris}, [local(uri) for uri in order]
    local_paths = [path for path in known if path is not None and path in paths]
    return local_paths if local_paths and len(local_paths) == len(paths) else None


def by_change(uris: Sequence[str]) -> list[str]:
    """Files by the time of their last change, then by path, as a stream takes them; those that lie elsewhere by path
    alone."""

    def changed(uri: str) -> int:
        path = local(uri)
        # Spark compares milliseconds.
        return 0 if path is None or not os.path.exists(path) else os.stat(path).st_mtime_ns // 1_000_000

    return sorted(uris, key=lambda uri: (changed(uri), unquote(uri)))


def uris_of(batch: DataFrame) -> list[str]:
    """The files that a static DataFrame consists of, whole and unfiltered; none where that cannot be told."""
    try:
        plan = batch._jdf.queryExecution().analyzed()
        return list(batch.inputFiles()) if plan.getClass().getSimpleName() == "LogicalRelation" else []
    except (Py4JError, TypeError, AttributeError):
        return []


def local(uri: str) -> str | None:
    """The path of a file on this machine."""
    parsed = urlparse(uri)
    return unquote(parsed.path) if parsed.scheme in ("", "file") and parsed.netloc in ("", "localhost") else None


def row_groups_of(paths: Sequence[str], stream: Stream, columns: Iterable[str]) -> list[RowGroup] | None:
    """The row groups of the files in their order; None where Spark had better read them."""
    types = {name: stream.types[name] for name in {*columns, stream.time_column} - HIDDEN}
    pieces = []
    before = 0
    for path in paths if len(paths) <= MOST_FILES else ():
        metadata = _metadata(path, types)
        if metadata is None:
            return None
        start = before
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            pieces.append(RowGroup(path, group, rows, before, before - start))
            before += rows
    return pieces if len(paths) <= MOST_FILES else None


def are_as_declared(paths: Sequence[str], types: Mapping[str, Type]) -> bool:
    """Whether pyarrow reads the files as Spark does."""
    return len(paths) <= MOST_FILES and all(_metadata(path, types) is not None for path in paths)


def _metadata(path: str, types: Mapping[str, Type]) -> pq.FileMetaData | None:
    """What a file says of itself, if its columns are as declared."""
    if "=" in path:
        return None
    try:
        metadata, schema = footer(path)
    except (OSError, pa.ArrowException):
        return None
    if any(key in LEGACY for key in metadata.metadata or {}) or not _is_as_declared(schema, types):
        return None
    return metadata


def _is_as_declared(schema: pa.Schema, types: Mapping[str, Type]) -> bool:
    for name, type_ in types.items():
        at = schema.get_all_field_indices(name)
        if len(at) != 1:
            return False
        stored = schema.field(at[0]).type
        if type_.kind in ("timestamp", "timestamp_ntz"):
            aware = type_.kind == "timestamp"
            if not pa.types.is_timestamp(stored) or stored.unit not in ("us", "ms") or (stored.tz is not None) != aware:
                return False
        elif not has_arrow_type(type_) or stored != arrow_type(type_):
            return False
    return True


def can_tell_time(stream: Stream) -> bool:
    return stream.time is None and stream.types[stream.time_column].kind in ("timestamp", "timestamp_ntz")


def shares(pieces: Sequence[RowGroup], tasks: int) -> list[list[RowGroup]]:
    """The pieces for so many tasks, neighbours together and about equal in rows."""
    total = sum(piece.rows for piece in pieces)
    parts: list[list[RowGroup]] = [[] for _ in range(max(1, tasks))]
    done = 0
    for piece in pieces:
        parts[min(len(parts) - 1, (done + piece.rows // 2) * len(parts) // max(1, total))].append(piece)
        done += piece.rows
    return [part for part in parts if part]
