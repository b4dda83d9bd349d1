"""Statistics of a batch before it is read: from the footers and some row groups of Parquet files, else from its head.

Files that the kernel may read cost no job: their footers tell the number of events and their times, and a bounded part
of row groups all over the batch is the sample. Of anything else Spark hands over the first events, in one job.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.streams import Stream
from mullion.expressions.vector import arrow_type
from mullion.language.types import Type
from mullion.planner.plan import Grouping
from mullion.planner.statistics import ASSUMED, FOOTERS, SAMPLE, SIZES, Statistics
from mullion.runtime.batch import BatchTables
from mullion.slices.inputs import dividing_columns, kernel_columns
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input
from mullion.slices.sampling import MOST_SAMPLED, Sample, evenly_spread, scattered, statistics_of
from mullion.spark.events import SparkEvents, send
from mullion.spark.files import MOST_FILES, RowGroup, can_tell_time, local, row_groups_of
from mullion.spark.footers import FileExtent, extent_of_files
from mullion.spark.options import reads_alike
from mullion.spark.reading import ReadAhead, heads
from mullion.spark.sources import TEXT_FORMATS, table_files
from mullion.spark.text_samples import sample_of_text
from mullion.threads import cores, in_threads

MOST_PIECES = 16
"""Row groups that a sample is taken from."""
MOST_DECODED = 2 * MOST_SAMPLED
"""Events that are read for it; half of them, evenly spread, are the sample."""
LARGE_PART = 4
"""A part of the files that holds at least one of so many events is not looked at once more."""
HEAD = 1 << 16
"""Bytes of a text file that tell how long its records are."""
MOST_HEADS = 8
CHOOSING = ("pathglobfilter", "modifiedbefore", "modifiedafter")
"""Options that leave out files which lie there."""


class LastLook:
    """What was learned of files last. A run looks at those that lie there before it begins, so that a batch fits into
    memory, and then at its first batch: often that is all of them, asked for the same, or a large part of them, of
    which the sample of all tells as well. With tables, which are not read before the first batch, the sample itself is
    looked at again."""

    def __init__(self) -> None:
        self._last: tuple[object, dict[str, int | None], Statistics] | None = None
        self._sample: tuple[object, Sample] | None = None

    def at(
        self,
        pieces: Sequence[RowGroup],
        stream: Stream,
        groupings: Sequence[Grouping],
        tables: BatchTables = (),
        begun: ReadAhead | None = None,
    ) -> Statistics:
        """Of pieces that the kernel may read all of that the groupings need."""
        files = {path: _changed(path) for path in dict.fromkeys(piece.path for piece in pieces)}
        if any(grouping.lookups for grouping in groupings):
            return statistics_of(self._sampled(pieces, stream, groupings, files, begun), groupings, tables)
        asked = stream, [(g.keys, g.predicates) for g in groupings]
        if self._last is not None and self._last[0] == asked and files.items() <= self._last[1].items():
            _, before, known = self._last
            if len(files) == len(before):
                return known
            rows = sum(piece.rows for piece in pieces)
            if known.events is not None and max(MOST_SAMPLED, known.events // LARGE_PART) < rows:
                return _of_part(known, rows, extent_of_files(list(files), stream.time_column))
        known = statistics_of(self._sampled(pieces, stream, groupings, files, begun), groupings)
        self._last = asked, files, known
        return known

    def _sampled(
        self,
        pieces: Sequence[RowGroup],
        stream: Stream,
        groupings: Sequence[Grouping],
        files: Mapping[str, int | None],
        begun: ReadAhead | None,
    ) -> Sample:
        columns = sorted(dividing_columns(groupings))
        asked = stream, columns, tuple(pieces), files
        if self._sample is None or self._sample[0] != asked:
            read = None if begun is None else begun.first()
            self._sample = asked, _from_pieces(pieces, stream, columns, read)
        return self._sample[1]


def _of_part(known: Statistics, rows: int, extent: FileExtent | None) -> Statistics:
    """Of some of the files that are known, as footers tell how many events they have, and when."""
    if extent is None or extent.oldest is None:
        return replace(known, events=rows)
    events = rows if extent.events is None else extent.events
    return replace(known, events=events, oldest=extent.oldest, newest=extent.newest)


def _changed(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None  # reading it tells why


def of_batch(
    events: SparkEvents,
    pieces: Sequence[RowGroup] | None,
    groupings: Sequence[Grouping],
    tables: BatchTables = (),
    look: LastLook | None = None,
    begun: ReadAhead | None = None,
) -> Statistics:
    """Of a batch, from its pieces where the kernel may read all that the groupings need of them. `begun`: all that the
    groupings need is being read already, as one table."""
    if pieces is None or kernel_columns(groupings) is None:
        return statistics_of(_first(events, groupings), groupings, tables)
    return (look or LastLook()).at(pieces, events.stream, groupings, tables, begun)


def of_files_now(stream: Stream, groupings: Sequence[Grouping], look: LastLook | None = None) -> Statistics:
    """Of the files that a stream would read now, without Spark: what can be known so."""
    files = table_files(stream)
    if not files or any(name in CHOOSING for name, _ in stream.options):
        return Statistics()
    paths = [os.path.abspath(path) for path, *_ in files]
    needed = kernel_columns(groupings)
    pieces = None
    if stream.format == "parquet" and can_tell_time(stream) and needed is not None and reads_alike(stream.options):
        pieces = row_groups_of(paths, stream, needed)
    if pieces is not None:
        return (look or LastLook()).at(pieces, stream, groupings)
    if stream.format in TEXT_FORMATS and needed is not None:
        sample = sample_of_text(paths, stream, sorted(dividing_columns(groupings)))
        if sample is not None:
            return statistics_of(sample, groupings)
    return _extent_alone(_extent(paths, stream))


def _extent_alone(extent: FileExtent | None) -> Statistics:
    if extent is None:
        return Statistics()
    times_from = ASSUMED if extent.oldest is None else FOOTERS
    events = extent.records if extent.events is None else extent.events
    return Statistics(events, extent.oldest, extent.newest, 0, extent.source, times_from)


def _from_pieces(
    pieces: Sequence[RowGroup], stream: Stream, columns: Sequence[str], read: pa.Table | None = None
) -> Sample:
    """Events from row groups all over the batch, or from all that was read of it."""
    rows = sum(piece.rows for piece in pieces)
    types = {name: stream.types[name] for name in columns}
    texts = [name for name, type_ in types.items() if type_.kind == "string"]
    is_whole = rows <= MOST_SAMPLED
    if read is None:
        parts = _some_rows(pieces, columns, stream.time_column, texts, is_whole=is_whole)
    else:
        own = read.select([*columns, TIME]).to_batches()
        taken = [scattered(len(batch), -(-MOST_SAMPLED * len(batch) // max(1, rows))) for batch in own]
        parts = [pa.Table.from_batches([batch]).take(pa.array(at)) for batch, at in zip(own, taken, strict=True)]
    sampled = pa.concat_tables(parts).unify_dictionaries() if parts else _nothing(types)
    dictionaries = {name: _different(sampled.column(name)) for name in texts}
    inputs = Input(types)
    extent = (
        None if is_whole else extent_of_files(list(dict.fromkeys(piece.path for piece in pieces)), stream.time_column)
    )
    sample = Sample(sampled, inputs, is_whole, rows, events_from=FOOTERS, dictionaries=dictionaries)
    return sample if extent is None else _extended(sample, extent)


def _some_rows(
    pieces: Sequence[RowGroup], columns: Sequence[str], time: str, texts: Sequence[str], *, is_whole: bool
) -> list[pa.Table]:
    """Some of the first rows of pieces all over the batch, or all rows."""
    filled = [piece for piece in pieces if piece.rows]
    chosen = filled if is_whole else [filled[at] for at in evenly_spread(len(filled), MOST_PIECES)]
    share = 1 if is_whole else len(chosen)

    def sampled_of(piece: RowGroup) -> list[pa.Table]:
        tables = heads([piece], columns, time, texts, MOST_DECODED // share)
        return [table.take(pa.array(scattered(len(table), MOST_SAMPLED // share))) for table in tables]

    with in_threads(cores()) as run:
        return [part for own in run(sampled_of, chosen) for part in own]


def _extended(sample: Sample, extent: FileExtent) -> Sample:
    """With what footers or sizes tell of the whole batch."""
    times_from = ASSUMED if extent.oldest is None else FOOTERS
    return replace(
        sample,
        records=extent.records,
        events=extent.events,
        oldest=extent.oldest,
        newest=extent.newest,
        events_from=extent.source,
        times_from=times_from,
    )


def _different(column: pa.ChunkedArray) -> int:
    """How many texts the dictionaries of a column have, NULL being one of them. A file's has all of its row group,
    also those that the sample has no event of."""
    if not column.num_chunks or not pa.types.is_dictionary(column.type):
        return 0
    return len(column.chunk(0).dictionary) + bool(column.null_count)


def _nothing(types: dict[str, Type]) -> pa.Table:
    return pa.schema([(TIME, pa.int64()), *((name, arrow_type(type_)) for name, type_ in types.items())]).empty_table()


def _first(events: SparkEvents, groupings: Sequence[Grouping]) -> Sample:
    """The first events of a batch, handed over by Spark."""
    frame, inputs = send(events.first(MOST_SAMPLED + 1), groupings)
    rows = frame.toArrow()
    if len(rows) <= MOST_SAMPLED:
        return Sample(rows, inputs, is_whole=True)
    extent = None if events.files is None else _extent_of_uris(events.files.uris, events.stream)
    if extent is None:
        return Sample(rows, inputs, is_head=True)
    sample = _extended(Sample(rows, inputs, is_head=True), extent)
    times = pc.min_max(rows.column(TIME)).as_py()
    if sample.oldest is not None or times["min"] is None:
        return sample
    # The others come after the first ones, about as densely.
    span = (times["max"] - times["min"]) * extent.records // len(rows)
    return replace(sample, oldest=times["min"], newest=times["min"] + span, times_from=SAMPLE)


def _extent_of_uris(uris: Sequence[str], stream: Stream) -> FileExtent | None:
    paths = [local(uri) for uri in uris]
    return None if None in paths else _extent([path for path in paths if path is not None], stream)


def _extent(paths: Sequence[str], stream: Stream) -> FileExtent | None:
    """How many events files hold; None where that cannot be told."""
    if len(paths) > MOST_FILES:
        return None
    if stream.format == "parquet":
        return extent_of_files(paths, stream.time_column)
    if stream.format in TEXT_FORMATS and dict(stream.options).get("multiline", "false").lower() == "false":
        return _by_sizes(paths)
    return None


def _by_sizes(paths: Sequence[str]) -> FileExtent | None:
    """The number of records by the length of the first ones."""
    try:
        total = sum(os.path.getsize(path) for path in paths)
        lines, read = 0, 0
        for head in _heads(paths):
            if head[:2] == b"\x1f\x8b":
                return None
            whole = head[: head.rfind(b"\n") + 1] if len(head) == HEAD else head
            lines += whole.count(b"\n") + (not whole.endswith(b"\n") and bool(whole))
            read += len(whole)
    except OSError:
        return None
    if total and not read:
        return None
    return FileExtent(round(total * lines / max(1, read)), source=SIZES)


def _heads(paths: Sequence[str]) -> Iterator[bytes]:
    for at in evenly_spread(len(paths), MOST_HEADS).tolist():
        with open(paths[at], "rb") as file:
            yield file.read(HEAD)
