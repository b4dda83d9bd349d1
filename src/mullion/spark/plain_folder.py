"""Folders of Parquet files of which Spark need not be asked: nothing can be meant but the files that lie there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import pyarrow as pa

from mullion.algebra.nodes.base import Columns
from mullion.expressions.vector import has_arrow_type
from mullion.language.types import TIMESTAMP_NTZ
from mullion.spark.footers import footer, held_types

PLAIN_PATH = re.compile(r"/[\w./-]*", re.ASCII)
"""A path that is no pattern, and that is spelt one way only when it is written as a URI."""
OF_SPARK = b"org.apache.spark.sql.parquet.row.metadata"
"""Where Spark notes in a file which types it has written."""


def plain_folder(format_: str, options: Mapping[str, str]) -> str | None:
    """The path of a folder of this machine that holds plain files alone, where it is all that the options say."""
    path = os.path.abspath(options.get("path", ""))
    if format_ != "parquet" or [*options] != ["path"] or not os.path.isdir(path):
        return None
    return path if all(entry.is_file() and not _is_special(entry.name) for entry in os.scandir(path)) else None


def _is_special(name: str) -> bool:
    """Whether a name means something to Spark, beyond that hidden files are no data."""
    return "=" in name or name.endswith("._COPYING_") or name in ("_metadata", "_common_metadata")


def carried_columns(format_: str, options: Mapping[str, str]) -> Columns | None:
    """The columns of a folder as Spark finds them: those of its first file. None where Spark had better say."""
    folder = plain_folder(format_, options)
    names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "_"))) if folder is not None else []
    if folder is None or not names or not PLAIN_PATH.fullmatch(path := os.path.join(folder, names[0])):
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
