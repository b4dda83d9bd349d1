"""The rows of tables as batches see them.

A table is read when it is first asked for, and again when its files have other names, sizes or times: plain Parquet
files directly, everything else through Spark. That is looked at once per batch and costs no Spark job. What lies behind
a URL (`s3://...`) or in no files at all is read once and kept, as is a DataFrame that the caller handed over.

With a directory, every version is written down before the first batch that sees it is answered:

    tables/close/000000000007       what batches from 7 on see of the table close

A batch that is played again after a crash sees what it saw: the newest version of its number or before. Events that
wait for their turn find what the batch saw that they were read with. This is no `EventLog`: a version is needed until a
newer one takes its place, however old its rows are. It is removed when no commit is left that a batch before the newer
one could be played again after, and no event waits that was read with it. Without a directory versions are in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from mullion.algebra.streams import Table
from mullion.errors import CheckpointError, MullionError, SourceError
from mullion.expressions.vector import arrow_type
from mullion.spark.failures import source_error, spark_failures
from mullion.spark.files import are_as_declared, local
from mullion.spark.footers import check_files
from mullion.spark.hadoop import head
from mullion.spark.sources import open_table, table_files
from mullion.spark.unseen import HEAD, Unseen
from mullion.storage.files import REMOVED, CommittedFiles, label_of, read_checked, serialised

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("mullion")

Files = tuple[tuple[str, int, int, int], ...] | None


@dataclass
class _ReadVersion:
    """A version in memory. `files` are those that it was read from; `fresh` is False until this run has read it."""

    rows: pa.Table
    files: Files = None
    fresh: bool = True
    warned: bool = False


class TableStore:
    """The tables that the queries of one stream join. `tables` may be changed between batches."""

    def __init__(
        self,
        session: Callable[[], SparkSession],
        tables: Mapping[str, Table],
        files: CommittedFiles | None = None,
        *,
        strict: bool = False,
    ) -> None:
        """`strict` refuses declared columns that no file has."""
        self.session, self.tables, self._files, self._strict = session, tables, files, strict
        self._unseen: dict[str, Unseen] = {}
        self.frames: dict[str, DataFrame] = {}
        self._current: dict[str, _ReadVersion] = {}
        self._read_at: dict[str, int] = {}
        """The batch for which each table was looked at last: all of it sees the same."""
        self._versions: dict[str, dict[int, str]] = {}
        self._loaded: dict[tuple[str, int], pa.Table] = {}
        """The rows of versions that are in memory."""
        self._replayed: dict[str, int] = {}
        self.changed: set[str] = set()
        """Tables whose rows have changed at least once."""

    def current(self, name: str, batch: int) -> pa.Table:
        """The rows that the batch sees, with exactly the types of the table's columns.

        A table that cannot be read any more keeps its last rows, and a warning is logged; one that never could be read
        is a SourceError.
        """
        versions = self._known_versions(name)
        before = [version for version in versions if version <= batch]
        if before and batch <= self._replayed[name]:
            return self._load(name, before[-1])
        known = self._current.get(name)
        if known is not None and self._read_at.get(name) == batch:
            return known.rows
        if known is None and before:
            known = self._current[name] = _ReadVersion(self._load(name, before[-1]), fresh=False)
        read = self._read(name, known)
        self._read_at[name] = batch
        if read is not known:
            if known is not None and not _same(read.rows, known.rows):
                self.changed.add(name)
            if known is None or not _same(read.rows, known.rows):
                self._write(name, batch, read.rows)
            else:
                read.rows = known.rows
            self._current[name] = read
        return read.rows

    def at_reading(self, name: str, batch: int) -> pa.Table:
        """The rows that a batch saw, for events that it brought. A table that no batch had looked at by then is as the
        first one found it."""
        versions = self._known_versions(name)
        before = [version for version in versions if version <= batch] or list(versions)[:1]
        return self._load(name, before[-1]) if before else self.current(name, max(batch, 0))

    def seen(self, name: str) -> pa.Table:
        """The rows that the newest batch saw, for a question. A table that no batch has looked at is read; that it was
        is not noted, for a question must not change what batches see."""
        known = self._current.get(name)
        if known is not None:
            return known.rows
        versions = list(self._known_versions(name))
        return self._load(name, versions[-1]) if versions else self._read(name, None).rows

    def _read(self, name: str, known: _ReadVersion | None) -> _ReadVersion:
        """The known version while nothing has changed, otherwise what is there now."""
        table = self.tables[name]
        files = None if name in self.frames else table_files(table)
        if known is not None and known.fresh and known.files == files:
            return known
        try:
            paths = [path for path, *_ in files or ()]
            if table.format == "parquet" and _is_all(table):
                check_files(table.name, paths, table.columns)
            rows = _read_directly(table, paths)
            if rows is None:
                frame = self.frames[name] if name in self.frames else open_table(self.session(), table)
                rows = _collected(table, frame)
            self._look_for_columns(table, paths, rows)
            return _ReadVersion(rows, files)
        except SourceError as problem:
            if known is None:
                hint = problem.hint or "check the table's format, options and columns"
                raise SourceError(f"table {problem.message}", hint=hint) from None
            if not known.warned:
                log.warning("table %s; the rows read last are used until it can be read again", problem.message)
                known.warned = True
            return known

    def _look_for_columns(self, table: Table, paths: list[str], rows: pa.Table) -> None:
        """Tell once which declared columns no file of the table has."""
        unseen = self._unseen.setdefault(table.name, Unseen(table, strict=self._strict))
        unseen.look(
            [Path(path).absolute().as_uri() for path in paths],
            head=lambda uri: head(self.session(), uri, HEAD),
            local=local,
            has_values=lambda columns: [name for name in columns if rows.column(name).null_count < len(rows)],
        )

    # Versions on the disk

    def files_after(self, batch: int) -> list[str]:
        """The files that the commit of a batch has to name: what batches after it may see."""
        if self._files is None:
            return []
        return [file for name in self.tables for file in _seen_after(batch, self._known_versions(name)).values()]

    def forget(self, batch: int) -> None:
        """Remove what only batches up to this one saw. That there was more is noted, for whoever would begin again."""
        for name in self.tables:
            versions = self._known_versions(name)
            needed = _seen_after(batch, versions)
            if len(needed) < len(versions):
                if self._files is not None:
                    self._files.write(_folder(name), REMOVED, b"")
                for version in versions.keys() - needed.keys():
                    self._loaded.pop((name, version), None)
                    if self._files is not None:
                        self._files.path(versions[version]).unlink(missing_ok=True)
                self._versions[name] = needed

    def _known_versions(self, name: str) -> dict[int, str]:
        """The versions written, in order; those of earlier runs decide what a batch that is played again sees."""
        if name not in self._versions:
            names = [] if self._files is None else self._files.names(_folder(name))
            labels = ((label_of(Path(file).name) or "", file) for file in names)
            self._versions[name] = {int(label): file for label, file in labels if label.isdigit()}
            self._replayed[name] = max(self._versions[name], default=-1)
            if len(self._versions[name]) > 1:
                self.changed.add(name)
        return self._versions[name]

    def _write(self, name: str, batch: int, rows: pa.Table) -> None:
        label = f"{batch:012d}"
        written = label if self._files is None else self._files.write(_folder(name), label, serialised(rows))
        self._versions[name] = dict(sorted({**self._versions[name], batch: written}.items()))
        self._loaded[name, batch] = rows

    def _load(self, name: str, version: int) -> pa.Table:
        """A version is the same table each time, so that others know it again."""
        if (name, version) not in self._loaded:
            self._loaded[name, version] = self._load_anew(name, version)
        return self._loaded[name, version]

    def _load_anew(self, name: str, version: int) -> pa.Table:
        assert self._files is not None
        path = self._files.path(self._versions[name][version])
        rows = pa.ipc.open_stream(read_checked(path)).read_all()
        if rows.schema != _schema(self.tables[name]):
            hint = "declare the columns as they were, or start with a new checkpoint directory"
            raise CheckpointError(f"table '{name}' has other columns than the checkpoint {path} knows", hint=hint)
        return rows


def _seen_after(batch: int, versions: dict[int, str]) -> dict[int, str]:
    """The versions that batches after one may see, and the one before them, which tells that the table has changed."""
    before = [version for version in versions if version <= batch]
    return {version: file for version, file in versions.items() if version not in before[:-2]}


def _folder(name: str) -> str:
    return f"tables/{quote(name, safe=' ')}"


def static_frame(session: SparkSession, name: str, rows: Any) -> DataFrame:
    """Rows of the caller's, a DataFrame or a pyarrow or pandas table, as a DataFrame."""
    from pyspark.sql import DataFrame

    frame = rows if isinstance(rows, DataFrame) else session.createDataFrame(rows)
    if frame.isStreaming:
        hint = "a table is a static DataFrame: name this one with Engine.stream"
        raise MullionError(f"'{name}' is a streaming DataFrame", hint=hint)
    return frame


def _collected(table: Table, frame: DataFrame) -> pa.Table:
    schema = _schema(table)
    try:
        rows = frame.select(*(f"`{name.replace('`', '``')}`" for name in schema.names)).toArrow()
    except spark_failures() as problem:
        raise source_error(table.name, problem) from None
    return rows.cast(schema).combine_chunks()


def _read_directly(table: Table, paths: list[str]) -> pa.Table | None:
    """Parquet files that need no Spark job; None where Spark had better read them."""
    if table.format != "parquet" or not _is_all(table) or not paths or not are_as_declared(paths, table.types):
        return None
    schema = _schema(table)
    try:
        parts = [pq.read_table(path, columns=schema.names, partitioning=None) for path in paths]
    except (OSError, pa.ArrowException):
        return None
    return pa.concat_tables([part.select(schema.names).cast(schema) for part in parts]).combine_chunks()


def _is_all(table: Table) -> bool:
    """Whether the table is all files at its path, read in the plain way: no option says otherwise."""
    return [name for name, _ in table.options] == ["path"]


def _schema(table: Table) -> pa.Schema:
    return pa.schema([(name, arrow_type(type_)) for name, type_ in table.columns])


def _same(a: pa.Table, b: pa.Table) -> bool:
    """By their bytes, for NaN is not equal to itself."""
    return a.num_rows == b.num_rows and serialised(a.combine_chunks()) == serialised(b.combine_chunks())
