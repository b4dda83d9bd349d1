"""Files of answers, each there whole or not at all, whose names say which commits they hold.

    000000000007.0.parquet                   what batch 7 answered
    000000000007.0.000000001.parquet         what a heartbeat after it made due
    000000000007.0-shard-3.parquet           the part of it that a shard wrote by itself
    000000000007.0-shard-3.part-000001.parquet  the next part of what a shard wrote
    000000000007.0.part-000001.parquet       the next part of what is too much to be written at once
    000000000000.0-000000000063.0.parquet    batches 0 to 63, merged
    trades.000000000007.0.parquet            records of a stream that were put aside

A merged file notes how many rows the newest of its commits have, so that it can be cut back to a commit.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mullion.errors import CheckpointError
from mullion.expressions.coding.dictionary import decoded_schema
from mullion.storage.files import write_whole
from mullion.storage.marks import PATTERN, Mark
from mullion.storage.syncing import Syncing

NAME = re.compile(
    rf"^((?P<stream>.+)\.)?(?P<first>{PATTERN})(-(?P<last>{PATTERN})"
    r"|-shard-(?P<shard>\d+))?(\.part-(?P<part>\d+))?\.parquet$"
)
ROWS_OF = b"mullion.rows"
"""The note of a merged file: pairs of a commit and the rows up to it, in this file."""
NOTED = 128
"""The commits whose rows are noted one by one; a checkpoint never goes back further."""
SCHEMA = b"ARROW:schema"
"""The note by which pyarrow knows types that Parquet does not tell apart."""
CODES_AT_ONCE = 16_384
GROUP_BYTES = 64 << 20
"""How much of a merged file is held in memory at once: a row group."""


@dataclass(frozen=True)
class AnswerFile:
    path: Path
    stream: str | None
    first: Mark
    last: Mark
    part: int = 0
    shard: int | None = None
    """The shard that wrote it by itself."""

    @staticmethod
    def of(path: Path) -> AnswerFile | None:
        """None for a file that is not of Mullion."""
        match = NAME.match(path.name)
        if match is None:
            return None
        first = Mark.parse(match["first"])
        last = Mark.parse(match["last"]) if match["last"] else first
        shard = None if match["shard"] is None else int(match["shard"])
        return AnswerFile(path, match["stream"], first, last, int(match["part"] or 0), shard)

    @property
    def order(self) -> tuple[str, Mark, int, int]:
        return self.stream or "", self.first, -1 if self.shard is None else self.shard, self.part

    def read(self) -> pa.Table:
        return pq.read_table(self.path, partitioning=None)

    def rows(self, until: Mark | None = None) -> int:
        """How many rows it has, perhaps of commits up to one."""
        metadata = pq.read_metadata(self.path)
        if until is None or self.last <= until:
            return int(metadata.num_rows)
        return max((rows for mark, rows in _notes(self, metadata) if mark <= until), default=0)

    def notes(self) -> list[tuple[Mark, int]]:
        """The commits in it that are told apart, each with the rows up to it."""
        return _notes(self, pq.read_metadata(self.path))


def files_in(folder: Path, stream: str | None = None) -> list[AnswerFile]:
    """Mullion's files in a folder, oldest first; of the records put aside perhaps those of one stream."""
    files = (AnswerFile.of(path) for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted((f for f in files if f is not None and stream in (None, f.stream)), key=lambda f: f.order)


def file_name(mark: Mark, *, stream: str | None = None, shard: int | None = None, part: int = 0) -> str:
    name = mark.text if stream is None else f"{stream}.{mark.text}"
    if shard is not None:
        name = f"{name}-shard-{shard}"
    return f"{name}.part-{part:06}.parquet" if part else f"{name}.parquet"


def write_table(path: Path, table: pa.Table, later: Syncing | None = None) -> None:
    """Codes of texts, into one dictionary of different values, are written as they are; readers see texts."""
    buffer = pa.BufferOutputStream()
    if any(map(pa.types.is_dictionary, table.schema.types)):
        _write_codes(table, buffer)
    else:
        pq.write_table(table, buffer, **_encodings(table.schema))
    write_whole(path, bytes(buffer.getvalue()), later)


def _write_codes(table: pa.Table, to: pa.BufferOutputStream) -> None:
    seen = decoded_schema(table.schema)
    how = {"store_schema": False, "write_batch_size": _at_once(table), **_encodings(seen)}
    with pq.ParquetWriter(to, table.schema, **how) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({SCHEMA: b64encode(seen.serialize())})


def _at_once(table: pa.Table) -> int:
    """How many rows Parquet writes before it looks at the size of a page. For so many at once it also finds the
    smallest and the largest of the values that codes stand for: a third of the time, with few."""
    widths = {pa.types.is_primitive(kind) or pa.types.is_dictionary(kind) for kind in table.schema.types}
    return CODES_AT_ONCE if widths == {True} else 1024


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """How columns are written: whole numbers and times as differences, which are small in answers, others by Parquet's
    default, a dictionary. 43,000 answers of times and keys took 2.0 ms and half a MB instead of 12.2 ms and 1.5 MB."""
    if any(map(pa.types.is_nested, schema.types)):
        return {}
    whole = [field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_temporal(field.type)]
    others = [name for name in schema.names if name not in whole]
    return {"use_dictionary": others, "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED")}


def write_merged(files: Sequence[AnswerFile], folder: Path) -> AnswerFile:
    """The rows of all files, in their order, as one file in a folder that is not yet visible to readers."""
    first, last = files[0], files[-1]
    prefix = "" if first.stream is None else f"{first.stream}."
    path = folder / f"{prefix}{first.first.text}-{last.last.text}.parquet"
    with pq.ParquetFile(first.path) as source:
        schema = source.schema_arrow.remove_metadata()
    notes: list[tuple[Mark, int]] = []
    rows = 0
    with pq.ParquetWriter(path, schema, **_encodings(schema)) as writer:
        waiting: list[pa.Table] = []
        for file in files:
            with pq.ParquetFile(file.path) as source:
                if source.schema_arrow.remove_metadata() != schema:
                    raise pa.ArrowInvalid(f"{file.path.name} has other columns than {first.path.name}")
                own = _notes(file, source.metadata)
                notes = [*(note for note in notes if note[0] != file.first), *((m, rows + n) for m, n in own)]
                for batch in source.iter_batches(use_threads=False):
                    waiting.append(pa.Table.from_batches([batch]))
                    rows += len(batch)
                    if sum(table.nbytes for table in waiting) > GROUP_BYTES:
                        writer.write_table(pa.concat_tables(waiting))
                        waiting = []
        writer.write_table(pa.concat_tables([schema.empty_table(), *waiting]))
        writer.add_key_value_metadata({ROWS_OF: _noted(notes)})
    with open(path, "rb") as file_:
        os.fsync(file_.fileno())
    return AnswerFile(path, first.stream, first.first, last.last)


def cut_back(file: AnswerFile, until: Mark) -> None:
    """Replace a merged file by its rows of commits up to one."""
    commits = [(mark, rows) for mark, rows in file.notes() if mark <= until]
    if not commits:
        hint = "remove the file by hand if its answers may be lost, or start with a new checkpoint and other answers"
        message = (
            f"{file.path} holds answers of batch {until.batch} and of later ones, which the checkpoint does not know"
        )
        raise CheckpointError(message, hint=hint)
    last, rows = commits[-1]
    prefix = "" if file.stream is None else f"{file.stream}."
    table = file.read().slice(0, rows)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), ROWS_OF: _noted(commits)})
    write_table(file.path.with_name(f"{prefix}{file.first.text}-{last.text}.parquet"), table)
    file.path.unlink()


def _notes(file: AnswerFile, footer: pq.FileMetaData) -> list[tuple[Mark, int]]:
    noted = json.loads((footer.metadata or {}).get(ROWS_OF, b"[]"))
    return [(Mark.parse(mark), rows) for mark, rows in noted] or [(file.last, int(footer.num_rows))]


def _noted(notes: Iterable[tuple[Mark, int]]) -> bytes:
    return json.dumps([[mark.text, rows] for mark, rows in list(notes)[-NOTED:]]).encode()
