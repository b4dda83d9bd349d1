"""A sample of CSV and JSON files without Spark: lines from all over them, so that EXPLAIN knows what they hold.

Only plain files are sampled, those with one record a line and no option that changes how a line is read. When the batch
is read, Spark says what a line means. Here a line that does not fit is left out, and the numbers are estimates.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.expressions.evaluate import evaluate
from mullion.expressions.typing import cast
from mullion.expressions.vector import Vector
from mullion.language.query import Column
from mullion.language.types import STRING, Type
from mullion.planner.statistics import SAMPLE, SIZES
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input
from mullion.slices.sampling import Sample, evenly_spread
from mullion.spark.files import can_tell_time

MOST_BLOCKS = 16
BLOCK = 1 << 15
"""Bytes that are read at each of so many places."""
PLAIN = frozenset(("path", "header", "maxfilespertrigger", "maxbytespertrigger", "recursivefilelookup"))
"""Options that do not change how a line is read."""

Block = tuple[str, bool, bytes]
"""A file, whether these are its first lines, and the lines, whole."""
Record = dict[str, str | None]


def sample_of_text(paths: Sequence[str], stream: Stream, columns: Sequence[str]) -> Sample | None:
    """Some events of the files with these columns; None where only Spark can tell what a line means.

    >>> import tempfile
    >>> from mullion.language.types import BIGINT, TIMESTAMP
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     lines = ["1970-01-01 00:00:07,3", "1970-01-01 00:00:09,4"]
    ...     print(*lines, sep="\\n", file=file, flush=True)
    ...     options = ("path", file.name),
    ...     s = Stream("s", (("ts", TIMESTAMP), ("x", BIGINT)), "ts", format="csv", options=options)
    ...     sample = sample_of_text([file.name], s, ["x"])
    >>> sample.records, sample.rows["x"].to_pylist(), sample.newest
    (2, [3, 4], 9000000)
    """
    if not {name for name, _ in stream.options} <= PLAIN or not can_tell_time(stream):
        return None
    try:
        sizes = [os.path.getsize(path) for path in paths]
        blocks = list(_blocks(paths, sizes))
        records = _of_csv(blocks, stream) if stream.format == "csv" else _of_json(blocks)
    except (OSError, UnicodeDecodeError, ValueError, csv.Error):
        return None
    read = sum(len(block) for *_, block in blocks)
    if not records or not read:
        return None
    types = {name: stream.types[name] for name in columns}
    times = _values(records, stream.time_column, stream.types[stream.time_column])
    if not times.valid.any():
        return None
    known = times.values[times.valid]
    columns_read = {name: _values(records, name, type_).to_arrow() for name, type_ in types.items()}
    instants = pa.array(times.values.astype(np.int64), mask=~times.valid)
    return Sample(
        pa.table({**columns_read, TIME: instants}),
        Input(types),
        records=round(len(records) * sum(sizes) / read),
        oldest=int(known.min()),
        newest=int(known.max()),
        events_from=SIZES,
        times_from=SAMPLE,
    )


def _blocks(paths: Sequence[str], sizes: Sequence[int]) -> Iterator[Block]:
    """From places all over the files. The first and the last lines are among them, so that the times of files in the
    order of time are known."""
    starts = [(path, at) for path, size in zip(paths, sizes, strict=True) for at in range(0, size, BLOCK)]
    for i in evenly_spread(len(starts), MOST_BLOCKS - 1).tolist() + [len(starts) - 1] * (len(starts) >= MOST_BLOCKS):
        path, at = starts[i]
        with open(path, "rb") as file:
            file.seek(at)
            block = file.read(BLOCK)
            is_last = not file.read(1)
        if at:
            block = block[block.find(b"\n") + 1 :]
        yield path, not at, block if is_last else block[: block.rfind(b"\n") + 1]


def _of_csv(blocks: Sequence[Block], stream: Stream) -> list[Record]:
    """Fields by the names of a header, or by the order of the declared columns."""
    declared = [name for name, _ in stream.stored.shown]
    has_header = dict(stream.options).get("header", "false").strip().lower() == "true"
    names = {path: _header(path, stream) if has_header else declared for path in dict.fromkeys(p for p, *_ in blocks)}
    records: list[Record] = []
    for path, is_first, block in blocks:
        lines = block.decode().split("\n")[is_first and has_header :]
        whole = (fields for fields in csv.reader(lines) if len(fields) == len(names[path]))
        records += [dict(zip(names[path], (field or None for field in own), strict=True)) for own in whole]
    return records


def _header(path: str, stream: Stream) -> list[str]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader(file), [])
    return [stream.spelling.get(name.lower(), name) for name in names]


def _of_json(blocks: Sequence[Block]) -> list[Record]:
    """The members of objects, a line each."""
    objects = [json.loads(line) for *_, block in blocks for line in block.decode().split("\n") if line.strip()]
    return [{name: _text(value) for name, value in one.items()} for one in objects if isinstance(one, dict)]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value)


def _values(records: Sequence[Record], name: str, type_: Type) -> Vector:
    """A column of the records, as a cast makes it of text."""
    texts = Vector.of(STRING, [record.get(name) for record in records])
    return evaluate(cast(Column(name), STRING, type_, None), {name: texts}, len(records))
