"""Reading the needed columns of row groups: portion by portion, by several threads, ahead of who works on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mullion.algebra.streams import EVENT, HIDDEN, WEIGHT, Stream
from mullion.allocation import give_back
from mullion.errors import SourceError
from mullion.kernels.arrival import ARRIVAL
from mullion.kernels.thinning import Thinner
from mullion.language.limits import FIRST_TIME, LAST_TIME
from mullion.memory import AT_ONCE
from mullion.planner.plan import Grouping
from mullion.slices.bounds import Stretch
from mullion.slices.inputs import kernel_columns
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import takes_order
from mullion.spark.files import RowGroup
from mullion.spark.footers import WHOLE, footer

SHORT = 16
"""Bytes a row, as they lie uncompressed in a file, up to which the texts of a column are short."""
PARTS = 8
"""Where several threads read a portion, each takes such a part of it at a time, or a row group."""


def read_pieces(
    pieces: Sequence[RowGroup],
    columns: Sequence[str],
    time: str,
    texts: Sequence[str],
    *,
    arrival: bool = False,
    most: int = AT_ONCE,
    thinned: ThinnedFiles | None = None,
    threads: int = 1,
) -> Iterator[pa.Table]:
    """The columns of the pieces, with the event time as `t` in microseconds and, if asked for, the place within the
    batch. Each portion holds some pieces or, of a large row group, a part: less than twice `most` rows. Portions are
    about equal: a small one costs a kernel with many queries nearly as much as a large one. So many threads read."""
    chunk: list[pa.Table] = []
    rows, total = 0, sum(piece.rows for piece in pieces)
    enough = max(1, -(-total // max(1, total // most)))
    part = most if enough <= most or total < 2 * most else most // 2
    texts = _short(pieces, texts)
    also = () if thinned is None else [name for name in thinned.thinner.reads if name not in columns]
    wanted = list({*columns, *also, time} - HIDDEN)

    def tables_of(read: _FilePart) -> Iterator[pa.Table]:
        portions = _portions(read.path, read.groups, wanted, texts, part)
        return (_with_time(table, [*columns, *also], time) for table in portions)

    together = max(most // PARTS, *(piece.rows for piece in pieces), 1) if pieces else 1
    # What is read and waits for its turn stays within one portion; a large row group is gone through part by part.
    threads = max(1, min(threads, most // together - 1))
    parts = _by_file(pieces, most if threads == 1 else together)
    for (path, _, first, row), tables in _side_by_side(parts, tables_of, threads):
        for events in tables:
            number = len(events)
            if arrival:
                events = events.append_column(ARRIVAL, pa.array(np.arange(first, first + number)))
            if thinned is not None:
                events = thinned.of(events, path, row).drop_columns(also)
            chunk.append(events)
            first, row, rows = first + number, row + number, rows + number
            if rows >= enough:
                yield pa.concat_tables(chunk)
                chunk, rows = [], 0
                give_back()
    if chunk:
        yield pa.concat_tables(chunk)


def _short(pieces: Sequence[RowGroup], texts: Sequence[str]) -> list[str]:
    """Those of the columns whose texts are short, or codes, wherever they lie. They are read as codes. Long texts that
    differ would be coded with a dictionary that grows from portion to portion, up to all of a row group."""
    left = list(texts)
    places: dict[str, dict[str, int]] = {}
    for path, number, rows in [(piece.path, piece.group, piece.rows) for piece in pieces] if left else ():
        try:
            metadata = footer(path)[0]
        except (OSError, pa.ArrowException):
            continue
        if path not in places:
            places[path] = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
        group = metadata.row_group(number)
        for name in [name for name in left if name in places[path]]:
            if group.column(places[path][name]).total_uncompressed_size > SHORT * rows:
                left.remove(name)
    return left


def read_outside(
    pieces: Sequence[RowGroup], columns: Sequence[str], time: str, bounds: Stretch, thinned: ThinnedFiles | None
) -> pa.Table:
    """The records before and after a stretch of time, or without a time. All columns are read of the row groups alone
    that have some."""
    holding = [
        piece for piece in pieces if any(len(bounds.outside(times)) for times in read_pieces([piece], [], time, []))
    ]
    records = read_pieces(holding or pieces[:1], columns, time, [], thinned=thinned)
    return pa.concat_tables([bounds.outside(table) for table in records])


class FilePortions(NamedTuple):
    """What is read of files, for all that the kernel does with a batch."""

    pieces: tuple[RowGroup, ...]
    columns: tuple[str, ...]
    time: str
    texts: tuple[str, ...]
    arrival: bool
    most: int
    thinned: ThinnedFiles | None = None

    @staticmethod
    def of(
        stream: Stream,
        groupings: Sequence[Grouping],
        pieces: Sequence[RowGroup],
        most: int,
        thinned: ThinnedFiles | None,
    ) -> FilePortions:
        """What groupings need, of which the kernel may read everything."""
        needed = kernel_columns(groupings)
        assert needed is not None
        columns = tuple(name for name in stream.types if name in needed)
        texts = tuple(name for name in columns if stream.types[name].kind == "string")
        return FilePortions(tuple(pieces), columns, stream.time_column, texts, takes_order(groupings), most, thinned)

    @property
    def is_one(self) -> bool:
        """Whether all of them make one portion, and nothing is left out."""
        return self.thinned is None and sum(piece.rows for piece in self.pieces) < 2 * self.most

    def read(self, pieces: Sequence[RowGroup], threads: int = 1) -> Iterator[pa.Table]:
        """Of some of the pieces."""
        what = list(self.columns), self.time, self.texts
        return read_pieces(pieces, *what, arrival=self.arrival, most=self.most, thinned=self.thinned, threads=threads)


class ReadAhead:
    """The same tables; the first one is read from now on, and the next one while one is worked on."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self._tables = tables
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="mullion-read")
        self._coming: Future[pa.Table | None] = self._reader.submit(next, tables, None)

    def first(self) -> pa.Table | None:
        """The first table, for who looks at it before others work on it."""
        return self._coming.result()

    def __iter__(self) -> Iterator[pa.Table]:
        with self._reader:
            while (table := self._coming.result()) is not None:
                self._coming = self._reader.submit(next, self._tables, None)
                yield table


@dataclass(frozen=True)
class ThinnedFiles:
    """What is kept of the rows of files. Files are told apart by checksums of their names as Spark spells them."""

    thinner: Thinner
    parts: Mapping[str, int]
    """By their paths."""
    lost: bool = False
    """Whether the other rows are meant."""

    def of(self, events: pa.Table, path: str, row: int) -> pa.Table:
        """Those of the rows from a number on that are kept, or the others."""
        taken = self.thinner.lost if self.lost else self.thinner.of
        return taken(events, self.parts[path], np.arange(row, row + len(events)), TIME)


def heads(
    pieces: Sequence[RowGroup], columns: Sequence[str], time: str, texts: Sequence[str], most: int
) -> Iterator[pa.Table]:
    """The first rows of each piece, at most so many; texts come with the dictionary of the whole piece."""
    for piece in pieces:
        try:
            file = pq.ParquetFile(piece.path, memory_map=True, read_dictionary=list(texts))
            wanted = list({*columns, time} - HIDDEN)
            batch = next(file.iter_batches(most, [piece.group], wanted, use_threads=False), None)
        except (OSError, pa.ArrowException) as problem:
            raise _unreadable(piece.path, problem) from None
        if batch is not None:
            yield _with_time(pa.Table.from_batches([batch]), columns, time)


def _with_time(table: pa.Table, columns: Sequence[str], time: str) -> pa.Table:
    """The columns, and the event time as `t` in microseconds."""
    at = _in_years(table.column(time).cast(pa.timestamp("us", table.schema.field(time).type.tz)).cast(pa.int64()))
    if WEIGHT in columns:
        table = table.append_column(WEIGHT, pa.array(np.ones(len(table))))
    if EVENT in columns:
        table = table.append_column(EVENT, pa.array(np.zeros(len(table), np.int64)))
    return table.select(list(columns)).append_column(TIME, at)


def _in_years(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Event times lie in the years 1 to 9999; others are NULL, no place in time."""
    extremes = pc.min_max(times).as_py()
    if extremes["min"] is None or FIRST_TIME <= extremes["min"] <= extremes["max"] <= LAST_TIME:
        return times
    inside = pc.and_(pc.greater_equal(times, FIRST_TIME), pc.less_equal(times, LAST_TIME))
    return pc.if_else(inside, times, pa.scalar(None, pa.int64()))


def _portions(path: str, groups: list[int], columns: list[str], texts: Sequence[str], most: int) -> Iterator[pa.Table]:
    """The row groups in parts of bounded length; at least one, perhaps empty."""
    empty = True
    try:
        file = pq.ParquetFile(path, memory_map=True, read_dictionary=list(texts))
        for batch in file.iter_batches(most, groups, columns, use_threads=False):
            empty = False
            yield pa.Table.from_batches([batch])
        if empty:
            yield file.read_row_groups(groups, columns=columns, use_threads=False)
    except (OSError, pa.ArrowException) as problem:
        raise _unreadable(path, problem) from None


def _unreadable(path: str, problem: Exception) -> SourceError:
    return SourceError(f"{path} cannot be read: {str(problem).splitlines()[0]}", hint=WHOLE)


class _FilePart(NamedTuple):
    """Neighbouring row groups of a file."""

    path: str
    groups: list[int]
    first: int
    """The place of the first row in the batch."""
    row: int
    """Its place in the file."""


def _side_by_side(
    parts: Iterator[_FilePart], read: Callable[[_FilePart], Iterator[pa.Table]], threads: int
) -> Iterator[tuple[_FilePart, Iterable[pa.Table]]]:
    """The parts in their order with what is read of them: the next ones are read meanwhile, one by each thread."""
    if threads <= 1:
        for part in parts:
            yield part, read(part)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="mullion-decode") as pool:
        coming: deque[tuple[_FilePart, Future[list[pa.Table]]]] = deque()
        for part in parts:
            coming.append((part, pool.submit(lambda own: list(read(own)), part)))
            if len(coming) > threads:
                first, tables = coming.popleft()
                yield first, tables.result()
        for first, tables in coming:
            yield first, tables.result()


def _by_file(pieces: Sequence[RowGroup], most: int) -> Iterator[_FilePart]:
    """Neighbouring row groups of the same file, up to so many rows."""
    at: list[RowGroup] = []
    for piece in pieces:
        if at and (
            piece.path != at[0].path or sum(p.rows for p in at) + piece.rows > most or not _follows(at[-1], piece)
        ):
            yield _FilePart(at[0].path, [p.group for p in at], at[0].first, at[0].row)
            at = []
        at.append(piece)
    if at:
        yield _FilePart(at[0].path, [p.group for p in at], at[0].first, at[0].row)


def _follows(before: RowGroup, piece: RowGroup) -> bool:
    return piece.first == before.first + before.rows
