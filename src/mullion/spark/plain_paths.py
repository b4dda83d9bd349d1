"""Parquet files of which Spark need not be asked: nothing can be meant but one of them, or those of a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import pyarrow as pa

from mullion.algebra.nodes.base import Columns
from mullion.expressions.vector import has_arrow_type
from mullion.language.types import TIMESTAMP_NTZ
from mullion.spark.footers import footer, held_types
from mullion.spark.listed_files import is_data

PLAIN_PATH = re.compile(r"/[\w./-]*", re.ASCII)
"""A path that is no pattern, and that is spelt one way only when it is written as a URI."""
OF_SPARK = b"org.apache.spark.sql.parquet.row.metadata"
"""Where Spark notes in a file which types it has written."""


def plain_path(format_: str, options: Mapping[str, str]) -> str | None:
    """The path of a plain file of this machine, or of a folder that holds such files alone, where it is all that the
    options say."""
    path = os.path.abspath(options.get("path", ""))
    if format_ != "parquet" or [*options] != ["path"]:
        return None
    if os.path.isfile(path):
        name = os.path.basename(path)
        return None if _is_special(name) or not is_data(name) else path
    if not os.path.isdir(path):
        return None
    return path if all(entry.is_file() and not _is_special(entry.name) for entry in os.scandir(path)) else None


def _is_special(name: str) -> bool:
    """Whether a name means something to Spark, beyond that hidden files are no data."""
    return "=" in name or name.endswith("._COPYING_") or name in ("_metadata", "_common_metadata")


def carried_columns(format_: str, options: Mapping[str, str]) -> Columns | None:
    """The columns of a file, or of a folder as Spark finds them: those of its first file. None where Spark had better
    say."""
    path = plain_path(format_, options)
    if path is not None and os.path.isdir(path):
        path = min((os.path.join(path, name) for name in os.listdir(path) if is_data(name)), default=None)
    if path is None or not PLAIN_PATH.fullmatch(path):
        return None
    try:
        metadata, schema = footer(path)
    except (OSError, pa.ArrowException):
        return None
    types = held_types(metadata.schema)
    columns = tuple((name, types[name.lower()]) for name in schema.names)
    is_known = all(has_arrow_type(type_) and type_ != TIMESTAMP_NTZ for _, type_ in columns)
    is_old = any(metadata.schema.column(i).physical_type == "INT96" for i in range(metadata.num_columns))
    if not is_known or is_old or len(types) < len(columns) or OF_SPARK in (metadata.metadata or {}):
        return None
    return columns
