"""The order of events: by time, then by arrival. Row windows and windows at every event stand on it.

An event's place is fixed when the watermark has passed its time; until then it waits, because an event before it may
still come. So the order, and every answer that stands on it, is the same however the events were batched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.streams import Stream
from mullion.expressions.arrays import Index, Times
from mullion.expressions.coding.canonical import in_one_piece
from mullion.expressions.vector import Vector
from mullion.language.dialect import DAY
from mullion.language.limits import FURTHEST
from mullion.slices.kernels.events import TIME


def values_on(column: str, stream: Stream, events: pa.Table) -> tuple[Times, npt.NDArray[np.bool_], int]:
    """What a window over another column goes by: its values, which of them have a place, and how many are too large or
    too small for one."""
    type_ = stream.types[column]
    vector = Vector.from_arrow(events.column(column), type_)
    unit = DAY if type_.kind == "date" else 1
    values = vector.values.astype(np.int64)
    inside = vector.valid & (values <= FURTHEST // unit) & (values >= -FURTHEST // unit)
    return np.where(inside, values, 0) * unit, inside, int((vector.valid & ~inside).sum())


class ReorderBuffer:
    """Events go in as they arrive and come out in their order, once.

    Time: O(n) for events that come in order, O(n log n) otherwise. Space: the events that wait.

    >>> order = ReorderBuffer()
    >>> order.add(pa.table({"#t": [5, 3, 9]}))
    >>> order.settle(9)["#t"].to_pylist()
    [3, 5]
    >>> order.add(pa.table({"#t": [9, 12]}))
    >>> order.settle(None)["#t"].to_pylist()
    [9, 9, 12]

    Texts may come as dictionaries in one batch and plain in the next:

    >>> order.add(pa.table({"#t": [1], "x": pa.array(["a"]).dictionary_encode()}))
    >>> order.add(pa.table({"#t": [0], "x": ["b"]}))
    >>> order.settle(None)["x"].to_pylist()
    ['b', 'a']
    """

    def __init__(self, waiting: pa.Table | None = None) -> None:
        self.waiting = waiting
        self._on_disk = 0
        """So many of the first rows lie in files that are mapped."""

    def __len__(self) -> int:
        """How many events wait."""
        return 0 if self.waiting is None else len(self.waiting)

    def add(self, events: pa.Table) -> None:
        """Events with their time in the column `t`, after all that came before."""
        if self.waiting is None or not len(self.waiting):
            self.waiting, self._on_disk = events, 0
            return
        kept = self.waiting.select([n for n in self.waiting.schema.names if n in events.schema.names])
        both = [_plain(kept, events), _plain(events, kept)]
        self.waiting = pa.concat_tables(both, promote_options="permissive").select(events.schema.names)

    def settle(self, watermark: int | None) -> pa.Table | None:
        """The events before the watermark, or all when there is none, in order; they are given out once."""
        return next(self.settle_in_portions(watermark), None)

    def settle_in_portions(self, watermark: int | None, most: int | None = None) -> Iterator[pa.Table]:
        """The same in portions of about so many events, each of which holds all of its times."""
        whole = self.waiting
        if whole is None or not len(self):
            return
        if watermark is not None and pc.min(whole.column(TIME)).as_py() >= watermark:
            return
        times = times_of(whole)
        if (times[1:] < times[:-1]).any():
            yield from self._in_disorder(whole, times, watermark, most)
            return
        before = len(times) if watermark is None else int(np.searchsorted(times, watermark))
        self.waiting = whole.slice(before)
        self._on_disk = max(0, self._on_disk - before)
        for low, high in pairwise(_cuts(times[:before], most)):
            yield whole.slice(low, high - low)

    def _in_disorder(
        self, whole: pa.Table, times: Times, watermark: int | None, most: int | None
    ) -> Iterator[pa.Table]:
        """The same where events stand as they came: those of a portion are looked for, and put in their order."""
        settled = np.sort(times if watermark is None else times[times < watermark])
        cuts = _cuts(settled, most)
        bounds = [*settled[cuts[:-1]].tolist(), int(settled[-1]) + 1]
        del settled
        self.waiting = _rows(whole, np.flatnonzero(times >= bounds[-1]))
        self._on_disk = 0
        for low, high in pairwise(bounds):
            index = np.flatnonzero((times >= low) & (times < high))
            yield _rows(whole, index).take(pa.array(np.argsort(times[index], kind="stable")))

    @property
    def size(self) -> int:
        """Bytes of the events that wait in memory."""
        if self.waiting is None or len(self) == self._on_disk:
            return 0
        return int(self.waiting.slice(self._on_disk).nbytes)

    def spill(self, mapped: Callable[[pa.Table], pa.Table]) -> None:
        """Let the events wait on the disk."""
        if self.waiting is not None and len(self.waiting) > self._on_disk:
            there, here = self.waiting.slice(0, self._on_disk), self.waiting.slice(self._on_disk)
            self.waiting, self._on_disk = pa.concat_tables([there, mapped(here)]), len(self.waiting)


def _rows(events: pa.Table, index: Index) -> pa.Table:
    """Some of the events, by their numbers in order. They are taken piece by piece: at once, all would be copied."""
    if len(index) == len(events):
        return events
    pieces, first = [], 0
    for piece in events.to_batches():
        low, high = np.searchsorted(index, (first, first + len(piece))).tolist()
        if low < high:
            pieces.append(piece.take(pa.array(index[low:high] - first)))
        first += len(piece)
    return pa.Table.from_batches(pieces, events.schema)


def _cuts(times: Times, most: int | None) -> list[int]:
    """Where portions of about so many events begin, none within a time, and where the last one ends.

    >>> _cuts(np.array([1, 2, 2, 2, 3, 4]), 2)
    [0, 1, 4, 6]
    """
    cuts = [0]
    while most is not None and cuts[-1] + most < len(times):
        at = int(np.searchsorted(times, times[cuts[-1] + most]))
        cuts.append(at if at > cuts[-1] else int(np.searchsorted(times, times[at], "right")))
    return cuts if cuts[-1] == len(times) else [*cuts, len(times)]


def _plain(events: pa.Table, others: pa.Table) -> pa.Table:
    """Events with plain texts where those of the others are no dictionaries: how a batch was read may differ."""
    for i, field in enumerate(events.schema):
        other = others.schema.field(field.name).type if field.name in others.schema.names else field.type
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(other):
            events = events.set_column(i, field.name, events.column(i).cast(field.type.value_type))
    return events


def times_of(events: pa.Table) -> Times:
    return np.asarray(in_one_piece(events.column(TIME)), np.int64)
