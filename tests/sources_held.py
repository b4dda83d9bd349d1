"""Parquet columns of every type, and the declared types that read them as they are."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

from mullion.language.parse import parse_script
from mullion.language.script import CreateStream
from mullion.language.types import Type

_SCALARS = "boolean tinyint smallint int bigint float double string binary date timestamp timestamp_ntz"
_DECIMALS = "decimal(9,2) decimal(10,0) decimal(12,2) decimal(12,4) decimal(20,0) decimal(38,10)"


def _type(name: str) -> Type:
    (made,) = parse_script(f"CREATE STREAM s (x {name}) USING parquet OPTIONS (path 'x') TIMESTAMP BY x")
    assert isinstance(made, CreateStream)
    return made.columns[0][1]


DECLARED = {name: _type(name) for name in f"{_SCALARS} {_DECIMALS}".split()}

_T = dt.datetime(2024, 1, 2, 3, 4, 5, 678000)
_TEXT = ["1", "ä", None]
_CENTS = [Decimal("1.23"), Decimal("-9999999.99"), None]

HELD: dict[str, pa.Array] = {
    "bool": pa.array([True, False, None]),
    "int8": pa.array([1, -128, 127], pa.int8()),
    "int16": pa.array([1, -300, 30000], pa.int16()),
    "int32": pa.array([1, -70000, 2**31 - 1], pa.int32()),
    "int64": pa.array([1, -(2**62), 3], pa.int64()),
    "uint8": pa.array([1, 255, 128], pa.uint8()),
    "uint16": pa.array([1, 65535, 40000], pa.uint16()),
    "uint32": pa.array([1, 2**32 - 1, 3], pa.uint32()),
    "uint64": pa.array([1, 2**64 - 1, 3], pa.uint64()),
    "float": pa.array([1.1, 2.5, None], pa.float32()),
    "double": pa.array([1.1, 1e300, None], pa.float64()),
    "decimal_9_2": pa.array(_CENTS, pa.decimal128(9, 2)),
    "decimal_18_2": pa.array(_CENTS, pa.decimal128(18, 2)),
    "string": pa.array(_TEXT),
    "large_string": pa.array(_TEXT, pa.large_string()),
    "dictionary": pa.array(_TEXT).dictionary_encode(),
    "binary": pa.array([b"1", b"\xff", None]),
    "fixed": pa.array([b"12", b"\xff1", None], pa.binary(2)),
    "date": pa.array([1, -1, 20000], pa.date32()),
    "us_utc": pa.array([_T] * 3, pa.timestamp("us", "UTC")),
    "ms_utc": pa.array([_T] * 3, pa.timestamp("ms", "UTC")),
    "us": pa.array([_T] * 3, pa.timestamp("us")),
    "s": pa.array([1] * 3, pa.timestamp("s")),
    "vienna": pa.array([_T] * 3, pa.timestamp("us", "Europe/Vienna")),
    "ns": pa.array([_T] * 3, pa.timestamp("ns")),
    "ns_utc": pa.array([_T] * 3, pa.timestamp("ns", "UTC")),
    "time_ms": pa.array([1] * 3, pa.time32("ms")),
    "time_us": pa.array([1] * 3, pa.time64("us")),
    "half": pa.array([1.5, None, None], pa.float16()),
    "null": pa.nulls(3),
    "list": pa.array([[1], [2], None]),
    "struct": pa.array([{"a": 1}] * 3),
}

_WIDE = "decimal(20,0) decimal(38,10)"
_TIMES = "timestamp timestamp_ntz"
ALLOWED: dict[str, list[str]] = {
    "bool": ["boolean"],
    "int8": f"tinyint smallint int bigint double decimal(10,0) decimal(12,2) {_WIDE}".split(),
    "int16": f"smallint int bigint double decimal(10,0) decimal(12,2) {_WIDE}".split(),
    "int32": f"int bigint double decimal(10,0) decimal(12,2) {_WIDE}".split(),
    "int64": f"bigint {_WIDE}".split(),
    "uint8": ["smallint", "int", "bigint", "double"],
    "uint16": ["int", "bigint", "double"],
    "uint32": ["bigint"],
    "uint64": ["decimal(20,0)"],
    "float": ["float", "double"],
    "double": ["double"],
    "decimal_9_2": ["decimal(9,2)", "decimal(12,2)", "decimal(12,4)", "decimal(38,10)"],
    "decimal_18_2": ["decimal(38,10)"],
    "string": ["string", "binary"],
    "large_string": ["string", "binary"],
    "dictionary": ["string", "binary"],
    "binary": ["binary"],
    "fixed": ["binary"],
    "date": ["date", "timestamp_ntz"],
    "us_utc": _TIMES.split(),
    "ms_utc": _TIMES.split(),
    "us": _TIMES.split(),
    "s": _TIMES.split(),
    "vienna": _TIMES.split(),
    "ns": ["bigint"],
    "ns_utc": ["bigint"],
    "time_ms": [],
    "time_us": [],
    "half": [],
    "null": ["tinyint", "smallint", "int", "bigint", "double", "date"],
    "list": [],
    "struct": [],
}
"""What Spark reads without changing a value; it reads much more than that."""
