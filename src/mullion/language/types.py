"""The types of Mullion SQL: Spark's, by Spark's names."""

from __future__ import annotations

from typing import NamedTuple


class Type(NamedTuple):
    """A Spark SQL type. `str(type)` is Spark's simple string, such as `decimal(10,2)`."""

    kind: str
    precision: int = 0
    scale: int = 0
    item: Type | None = None
    """Of a list of counted values, the type of the values."""

    def __str__(self) -> str:
        if self.kind == "counted":
            return f"array<struct<item:{self.item},count:bigint>>"
        return f"decimal({self.precision},{self.scale})" if self.kind == "decimal" else self.kind

    @property
    def is_integer(self) -> bool:
        return self.kind in ("tinyint", "smallint", "int", "bigint")

    @property
    def is_fractional(self) -> bool:
        return self.kind in ("float", "double")

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_fractional or self.kind == "decimal"


BOOLEAN = Type("boolean")
TINYINT = Type("tinyint")
SMALLINT = Type("smallint")
INT = Type("int")
BIGINT = Type("bigint")
FLOAT = Type("float")
DOUBLE = Type("double")
STRING = Type("string")
BINARY = Type("binary")
DATE = Type("date")
TIMESTAMP = Type("timestamp")
TIMESTAMP_NTZ = Type("timestamp_ntz")
INTERVAL = Type("interval")
"""A day-time interval; its values are whole microseconds."""
NULL = Type("void")
"""The type of a bare NULL."""


def decimal(precision: int, scale: int) -> Type:
    return Type("decimal", precision, scale)


def counted(item: Type) -> Type:
    """A list of values, each with how often it occurs: what top_k answers."""
    return Type("counted", item=item)


NAMES = {
    "boolean": BOOLEAN,
    "bool": BOOLEAN,
    "tinyint": TINYINT,
    "byte": TINYINT,
    "smallint": SMALLINT,
    "short": SMALLINT,
    "int": INT,
    "integer": INT,
    "bigint": BIGINT,
    "long": BIGINT,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "decimal": decimal(10, 0),
    "dec": decimal(10, 0),
    "numeric": decimal(10, 0),
}
"""Every name that a type may be written by; decimal takes (precision, scale) after it."""
