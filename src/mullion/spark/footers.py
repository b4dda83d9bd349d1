"""What the footers of Parquet files tell before anything is read: whether they hold what is declared, and how much.

Spark checks less than one would think. It reads 300 as the TINYINT 44, 4294967295 of an unsigned column as the DOUBLE
-1, a date as the INT of its days, and leaves out a file of zero bytes. So a file is read only where every value comes
out as it is, for both readers, Spark's and the kernel's; otherwise the error names the file, the column, both types and
what to write.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from mullion.errors import SourceError
from mullion.expressions.vector import has_arrow_type
from mullion.language.limits import FIRST_TIME, LAST_TIME
from mullion.language.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    decimal,
)
from mullion.planner.statistics import FOOTERS

NANOSECONDS = Type("timestamp in nanoseconds")
NOTHING = Type("nothing but NULLs, without a type")
_INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
_SIGNED = {8: TINYINT, 16: SMALLINT, 32: INT, 64: BIGINT}
_UNSIGNED = {"uint8": SMALLINT, "uint16": INT, "uint32": BIGINT, "uint64": decimal(20, 0)}
"""What an unsigned number is in Spark: as wide a type as its own would make large ones negative."""
_PHYSICAL = {
    "BOOLEAN": BOOLEAN,
    "INT32": INT,
    "INT64": BIGINT,
    "INT96": TIMESTAMP,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "BYTE_ARRAY": BINARY,
    "FIXED_LEN_BYTE_ARRAY": BINARY,
}
WHOLE = "remove the file or write it again; a writer should make it elsewhere and move it here when it is whole"


def check_files(name: str, paths: Iterable[str], columns: Sequence[tuple[str, Type]]) -> None:
    """Refuse a file that is no whole Parquet file, or that holds another type than is declared for a column."""
    for path in paths:
        stored = held_types(read_footer(name, path).schema)
        for column, declared in columns:
            type_ = stored.get(column.lower(), declared)
            if has_arrow_type(declared) and type_ != declared and not widens(type_, declared):
                raise _mismatch(name, path, column, declared, type_)


def read_footer(name: str, path: str) -> pq.FileMetaData:
    try:
        return footer(path)[0]
    except FileNotFoundError:
        raise SourceError(f"{name}: {path} is gone", hint="put the file back: a batch was about to read it") from None
    except (OSError, pa.ArrowException) as problem:
        raise SourceError(f"{name}: {path} {_damage(path, problem)}", hint=WHOLE) from None


def footer(path: str) -> tuple[pq.FileMetaData, pa.Schema]:
    """What a file says of itself, and the schema that it is read with; remembered as long as it does not change."""
    status = os.stat(path)
    return _footer(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=2048)
def _footer(path: str, size: int, changed: int) -> tuple[pq.FileMetaData, pa.Schema]:
    file = pq.ParquetFile(path)
    return file.metadata, file.schema_arrow


class FileExtent(NamedTuple):
    """How many records some files hold, how many of them have a time, and from when to when, where that is known."""

    records: int
    events: int | None = None
    oldest: int | None = None
    newest: int | None = None
    source: str = FOOTERS


def extent_of_files(paths: Sequence[str], time: str) -> FileExtent | None:
    """What the footers say; None where there is no footer. Files of old writers, or of times as INT96, have no times
    in them."""
    records = events = 0
    times: list[tuple[int, int]] = []
    is_told = True
    try:
        for path in paths:
            metadata, schema = footer(path)
            scale = _to_microseconds(schema, time)
            at = next((i for i in range(metadata.num_columns) if metadata.schema.column(i).path == time), None)
            for i in range(metadata.num_row_groups):
                group = metadata.row_group(i)
                records += group.num_rows
                found = None if at is None or scale is None else _times_of(group.column(at).statistics, scale)
                is_told = is_told and (found is not None or not group.num_rows)
                if found is not None:
                    events += group.num_rows - found[0]
                    times += found[1]
    except (OSError, pa.ArrowException):
        return None
    if not is_told:
        return FileExtent(records)
    oldest, newest = min((low for low, _ in times), default=None), max((high for _, high in times), default=None)
    return FileExtent(records, events, oldest, newest)


def _to_microseconds(schema: pa.Schema, time: str) -> int | None:
    """What the numbers of a column of times are to be multiplied by."""
    at = schema.get_all_field_indices(time)
    if len(at) != 1 or not pa.types.is_timestamp(schema.field(at[0]).type):
        return None
    return {"us": 1, "ms": 1000}.get(schema.field(at[0]).type.unit)


def _times_of(statistics: pq.Statistics | None, scale: int) -> tuple[int, list[tuple[int, int]]] | None:
    """How many rows of a row group have no time, and the oldest and the newest of the others; None where it does not
    say."""
    if statistics is None or not statistics.has_null_count or statistics.physical_type != "INT64":
        return None
    if not statistics.num_values:
        return statistics.null_count, []
    if not statistics.has_min_max:
        return None
    low, high = statistics.min_raw * scale, statistics.max_raw * scale
    return (statistics.null_count, [(low, high)]) if FIRST_TIME <= low <= high <= LAST_TIME else None


def _damage(path: str, problem: Exception) -> str:
    """What is wrong with what should be a Parquet file."""
    try:
        if os.path.getsize(path) == 0:
            return "is empty: it has no byte"
        with open(path, "rb") as file:
            begins = file.read(4) == b"PAR1"
            file.seek(-4, os.SEEK_END)
            ends = file.read(4) == b"PAR1"
    except OSError as error:
        return f"cannot be read: {error.strerror or problem}"
    if not begins:
        return "is not a Parquet file"
    return (
        "is damaged: its footer cannot be read" if ends else "is cut off: it begins as a Parquet file and lacks the end"
    )


def held_types(schema: pq.ParquetSchema) -> dict[str, Type]:
    """The types that a file holds, by the columns' names in lower case."""
    leaves = {schema.column(i).path: schema.column(i) for i in range(len(schema.names))}
    types = {}
    for field in schema.to_arrow_schema():
        leaf = leaves.get(field.name)
        nested = leaf is None or pa.types.is_nested(field.type)
        types[field.name.lower()] = Type(str(field.type)) if nested else held_type(leaf)
    return types


def held_type(leaf: pq.ColumnSchema) -> Type:
    """The type of a column that is not nested."""
    logical = str(leaf.logical_type)
    match leaf.logical_type.type:
        case "INT":
            bits = next(bits for bits in (8, 16, 32, 64) if f"bitWidth={bits}," in logical)
            return _SIGNED[bits] if "isSigned=true" in logical else Type(f"uint{bits}")
        case "DECIMAL":
            return decimal(leaf.precision, leaf.scale)
        case "STRING" | "ENUM" | "JSON":
            return STRING
        case "DATE":
            return DATE
        case "TIMESTAMP":
            if "nanoseconds" in logical:
                return NANOSECONDS
            return TIMESTAMP if "isAdjustedToUTC=true" in logical else TIMESTAMP_NTZ
        case "UNKNOWN":
            return NOTHING
        case "NONE":
            return _PHYSICAL[leaf.physical_type]
        case other:
            return Type(str(other).lower())


def widens(stored: Type, declared: Type) -> bool:
    """Whether every value of the held type comes out as it is when Spark reads it as the declared one."""
    if stored in _INTEGERS and declared in _INTEGERS:
        return _INTEGERS.index(stored) <= _INTEGERS.index(declared)
    if stored in _INTEGERS and declared.kind == "decimal":
        return declared.precision - declared.scale >= (20 if stored == BIGINT else 10)
    if stored.kind == "decimal" and declared.kind == "decimal":
        wider = declared.precision - declared.scale >= stored.precision - stored.scale
        return wider and declared.scale >= stored.scale
    if _UNSIGNED.get(stored.kind) == declared:
        return True
    return (stored.kind, declared.kind) in _EXACT


_EXACT = {
    ("tinyint", "double"),
    ("smallint", "double"),
    ("int", "double"),
    ("uint8", "int"),
    ("uint8", "bigint"),
    ("uint8", "double"),
    ("uint16", "bigint"),
    ("uint16", "double"),
    ("float", "double"),
    ("string", "binary"),
    ("date", "timestamp_ntz"),
    # The time zone is UTC.
    ("timestamp", "timestamp_ntz"),
    ("timestamp_ntz", "timestamp"),
    (NANOSECONDS.kind, "bigint"),
    *((NOTHING.kind, kind) for kind in ("tinyint", "smallint", "int", "bigint", "double", "date")),
}


def _mismatch(name: str, path: str, column: str, declared: Type, stored: Type) -> SourceError:
    shown = stored.kind if stored in (NANOSECONDS, NOTHING) else str(stored).upper()
    message = f"{name}: column '{column}' of {path} holds {shown}, and {str(declared).upper()} is declared"
    return SourceError(message, hint=_advice(column, declared, stored))


def _advice(column: str, declared: Type, stored: Type) -> str:
    if stored == NANOSECONDS:
        written = "in pandas by to_parquet(..., coerce_timestamps='us', allow_truncated_timestamps=True)"
        return f"Spark has no nanoseconds: write microseconds, {written}; or declare {column} BIGINT"
    if stored == NOTHING:
        return f"give the column a type where the file is written, in pandas by astype(...) of '{column}'"
    if stored == BIGINT and declared in (TIMESTAMP, TIMESTAMP_NTZ, DATE):
        return f"declare {column} BIGINT, and make a time of it in the query or in TIMESTAMP BY"
    stored = _UNSIGNED.get(stored.kind, stored)
    if not has_arrow_type(stored):
        return f"leave the column '{column}' out: columns of this type serve no query"
    advice = f"declare it as it is: {column} {str(stored).upper()}"
    return (
        f"{advice}, and write CAST({column} AS {str(declared).upper()}) where it is used"
        if stored == BINARY
        else advice
    )
