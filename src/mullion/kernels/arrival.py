"""The order of events that came together in one batch: by file, in the order of the stream, then by the row in it.

Spark reads the files of a batch in pieces and deals these out to tasks by their sizes, so the order in which it hands
events over says little. Therefore each event comes with the file that it stands in, by a checksum of its name, and with
its place: where its piece of the file begins, and how many events its task has handed over before. A task reads a piece
from its beginning to its end, so within one file this is the order of rows.

    place   30 bits: where the piece begins, in kB    33 bits: the number of the event in its task
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.errors import SourceError
from mullion.expressions.arrays import Whole
from mullion.lazy import cached_property

ARRIVAL = "#a"
"""The place of an event within its file, or within its batch."""
FILE = "#f"
"""The file of an event, or the partition of a source without files."""

PLACES = 33
"""The bits of a number that Spark counts the events of a task with."""
PIECE = 1024
"""The fewest bytes of a file that a task may read; the beginnings of two pieces differ by as much."""
FILES = 24
"""The bits of the number of a file in its batch."""


@dataclass(frozen=True)
class FileOrder:
    """The files of a batch in the order of the stream.

    >>> order = FileOrder(("file:///b", "file:///a"))
    >>> order.text("name")
    'crc32(name)'
    >>> order.numbers(pa.array([zlib.crc32(b"file:/a"), zlib.crc32(b"file:///b")])).tolist()
    [1, 0]
    """

    uris: tuple[str, ...]

    def text(self, column: str) -> str:
        """What tells the files apart, as Spark SQL, of the column with their names: a checksum, if all differ."""
        return f"crc32({column})" if self._has_checksums else column

    def numbers(self, files: pa.Array | pa.ChunkedArray) -> Whole:
        """The places of files in the order."""
        known = self._keys.get
        coded = pc.dictionary_encode(files)
        chunks = coded.chunks if isinstance(coded, pa.ChunkedArray) else [coded]
        found = [np.empty(0, np.int64)]
        for chunk in chunks:
            places = [known(name, -1) for name in chunk.dictionary.to_pylist()]
            found.append(np.array(places, np.int64)[np.asarray(chunk.indices)])
        numbers = np.concatenate(found)
        if (numbers < 0).any():
            raise SourceError("Spark handed over events of a file that it has not listed as one of the batch")
        return numbers

    def checksums_of(self, path: Callable[[str], str | None]) -> dict[str, int]:
        """`checksum_text` of the files, by their paths."""
        return {own: zlib.crc32(_spelt(uri).encode()) for uri in self.uris if (own := path(uri)) is not None}

    @cached_property
    def _spellings(self) -> list[tuple[str, int]]:
        """All names of the files: Spark writes file:///path in one place and file:/path in another."""
        return [(name, i) for i, uri in enumerate(self.uris) for name in {uri, _spelt(uri)}]

    @cached_property
    def _checksums(self) -> dict[int, int]:
        return {zlib.crc32(name.encode()): i for name, i in self._spellings}

    @property
    def _has_checksums(self) -> bool:
        return len(self._checksums) == len(self._spellings)

    @cached_property
    def _keys(self) -> dict[int, int] | dict[str, int]:
        return self._checksums if self._has_checksums else dict(self._spellings)


def _spelt(uri: str) -> str:
    """One of the two spellings of a local file."""
    return re.sub("^file:///", "file:/", uri)


def checksum_text(column: str) -> str:
    """A checksum of the name of a file, however it is spelt, as Spark SQL."""
    return f"crc32(regexp_replace({column}, '^file:///', 'file:/'))"


def place_text(begins: str) -> str:
    """The place of an event in its file, as Spark SQL, of the column that tells where its piece of the file begins."""
    number = f"(monotonically_increasing_id() & {(1 << PLACES) - 1}L)"
    return f"shiftleft({begins} div {PIECE}, {PLACES}) | {number}"


def parts_of(events: pa.RecordBatch | pa.Table, order: FileOrder | None) -> Whole | None:
    """The numbers of the events' files in the batch, or of their partitions; None where they have none."""
    if FILE not in events.schema.names:
        return None
    files = events.column(FILE)
    return np.asarray(files, np.int64) if order is None else order.numbers(files)


def in_order_of_arrival(events: pa.Table, order: FileOrder | None) -> pa.Table:
    """Events in the order of arrival, without the columns that gave it."""
    parts, places = parts_of(events, order), np.asarray(events.column(ARRIVAL), np.int64)
    sorted_ = np.argsort(places, kind="stable") if parts is None else np.lexsort((places, parts))
    events = events.drop_columns([name for name in (FILE, ARRIVAL) if name in events.schema.names])
    return events if (sorted_[1:] > sorted_[:-1]).all() else events.take(pa.array(sorted_))
