"""Spark's types as Mullion's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mullion.language.types import NAMES, Type, decimal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession
    from pyspark.sql.types import DataType, StructType


def type_from_spark(type_: DataType) -> Type:
    """The type by Spark's simple string; nested types keep their name and serve no expression."""
    text = type_.simpleString()
    if text.startswith("decimal("):
        precision, scale = text[8:-1].split(",")
        return decimal(int(precision), int(scale))
    if text.startswith(("varchar(", "char(")):
        return NAMES["string"]
    return NAMES.get(text, Type(text))


def columns_from_spark(schema: StructType) -> tuple[tuple[str, Type], ...]:
    return tuple((field.name, type_from_spark(field.dataType)) for field in schema.fields)


def schema_text(columns: tuple[tuple[str, Type], ...]) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{name.replace('`', '``')}` {type_}" for name, type_ in columns)
