"""Which events of a batch are kept while its run sheds: at random, or those that matter most.

    event --identity: file and row, or partition and offset--> xxhash64 --below the share's part of 2^64?--> kept

The hash is the one that Spark has, so that all ways to partials keep the same events, and a batch that is played again
too. An event that is kept at a smaller share is also kept at every larger one. Each event carries a weight, how many
events that came it stands for (Horvitz and Thompson 1952): the share may differ from batch to batch, and sums over
weights stay right when batches are combined. Where all events stay and joins do not probe with some of them, these
weigh nothing, and the others stand for all probes.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.column_names import names_read
from mullion.algebra.streams import EVENT, WEIGHT, Stream
from mullion.expressions.arrays import Real
from mullion.expressions.readonly import frozen
from mullion.kernels.columns import BatchColumns
from mullion.kernels.hashing import hash_places
from mullion.language.query import Expr
from mullion.language.types import Type


@dataclass(frozen=True)
class Thinning:
    """What of a batch is kept. `weight` events that came are one that is kept.

    >>> Thinning(4.0).share
    0.25
    >>> Thinning(2.0, least=3.0, tied=0.5).keeps(np.array([1.0, 5.0]), np.zeros(2, np.int64)).tolist()
    [False, True]
    """

    weight: float = 1.0
    least: float | None = None
    """Events above this value are kept, those below are not; None where chance decides alone."""
    tied: float = 1.0
    """The share that is kept of the events with just this value."""

    @property
    def is_whole(self) -> bool:
        """Whether all events are kept."""
        return self.weight == 1.0

    @property
    def share(self) -> float:
        return 1 / self.weight

    @property
    def limit(self) -> int:
        """Hashes below it are kept."""
        share = self.share if self.least is None else self.tied
        return max(-(1 << 63), min((1 << 63) - 1, math.floor(share * (1 << 64)) - (1 << 63)))

    def keeps(self, values: Real | None, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        chosen = hashes < self.limit
        if self.least is None or values is None:
            return chosen
        return np.asarray((values > self.least) | ((values == self.least) & chosen))

    def text(self, hashed: str, value: str | None) -> str:
        """The same as Spark SQL, of the texts of hash and value."""
        chosen = f"{hashed} < {self.limit}L" if self.limit > -(1 << 63) else "FALSE"
        if self.least is None or value is None:
            return chosen
        least = f"CAST('{self.least!r}' AS DOUBLE)".replace("inf", "Infinity")
        return f"({value} > {least} OR ({value} = {least} AND {chosen}))"

    def noted(self) -> dict[str, Any]:
        """For a journal."""
        return {"weight": self.weight, "least": self.least, "tied": self.tied}


WHOLE = Thinning()


def cut_by(values: Real, weight: float) -> Thinning:
    """What keeps the share 1 / weight of the events with the most, going by a sample of their values.

    >>> cut_by(np.array([5.0, 1.0, 2.0, 9.0]), 2.0)
    Thinning(weight=2.0, least=5.0, tied=1.0)
    >>> cut_by(np.array([7.0, 7.0, 7.0, 7.0]), 4.0).tied
    0.25
    """
    if not len(values):
        return Thinning(weight, -math.inf, 1 / weight)
    ordered = np.sort(values)
    dropped = len(ordered) * (1 - 1 / weight)
    least = float(ordered[min(len(ordered) - 1, math.floor(dropped))])
    below, tied = np.searchsorted(ordered, least), np.searchsorted(ordered, least, side="right")
    share = 1 - (dropped - below) / (tied - below)
    return Thinning(weight, least, float(min(1.0, max(0.0, share))))


def in_order_of_worth(values: Any, present: Any) -> Real:
    """Numbers that compare as worths do: NULL is the least, NaN the most."""
    numbers = np.asarray(values, np.float64)
    return np.where(present, np.where(np.isnan(numbers), np.inf, numbers), -np.inf)


def worth_text(text: str) -> str:
    """`in_order_of_worth` as Spark SQL."""
    return f"coalesce(nanvl({text}, CAST('Infinity' AS DOUBLE)), CAST('-Infinity' AS DOUBLE))"


@dataclass(frozen=True)
class Thinner:
    """A thinning at work on events whose columns are at hand. `by` tells what an event matters."""

    thinning: Thinning
    by: Expr | None
    reads: Mapping[str, Type]
    """The columns that `by` looks at."""
    stream: str = ""
    """Its name, so that streams that are joined do not lose what belongs together."""
    drops: bool = True
    """Whether events that are not chosen are lost; otherwise they stay, with the weight 0."""

    @staticmethod
    def of_stream(stream: Stream, thinning: Thinning) -> Thinner:
        shedding = stream.shedding
        by = None if shedding is None or thinning.least is None else shedding.by
        reads = {} if by is None else {name: stream.types[name] for name in names_read(by)}
        return Thinner(thinning, by, reads, stream.name, drops=shedding is None or shedding.drops_events)

    def mask(
        self, events: pa.Table, part: int | npt.NDArray[np.int64], places: npt.NDArray[np.int64], time: str
    ) -> npt.NDArray[np.bool_]:
        """Which events are kept. Records without a time are, since they are set aside by themselves."""
        return self._chosen(events, identity_hash(part, places, self.stream), time)

    def _chosen(self, events: pa.Table, hashes: npt.NDArray[np.int64], time: str) -> npt.NDArray[np.bool_]:
        values = None
        if self.by is not None:
            worth = BatchColumns.of(events, self.reads).value(self.by)
            values = in_order_of_worth(worth.values, worth.valid)
        kept = self.thinning.keeps(values, hashes)
        column = events.column(time)
        return kept | np.asarray(column.is_null()) if column.null_count else kept

    def lost(
        self, events: pa.Table, part: int | npt.NDArray[np.int64], places: npt.NDArray[np.int64], time: str
    ) -> pa.Table:
        """The events that are not kept."""
        return events.filter(pa.array(~self.mask(events, part, places, time)))

    def of(
        self, events: pa.Table, part: int | npt.NDArray[np.int64], places: npt.NDArray[np.int64], time: str
    ) -> pa.Table:
        """The events that are kept, with their weight where it is wanted."""
        if self.thinning.is_whole:
            hidden = {WEIGHT: np.ones(len(events)), EVENT: np.zeros(len(events), np.int64)}
            return _with_hidden(events, hidden)
        hashes = identity_hash(part, places, self.stream)
        chosen = self._chosen(events, hashes, time)
        if not self.drops:
            return _with_hidden(events, {WEIGHT: np.where(chosen, self.thinning.weight, 0.0), EVENT: hashes})
        kept = events.filter(pa.array(chosen))
        return _with_hidden(kept, {WEIGHT: np.full(len(kept), self.thinning.weight), EVENT: hashes[chosen]})


def _with_hidden(events: pa.Table, columns: Mapping[str, npt.NDArray[Any]]) -> pa.Table:
    """Events with their weights and numbers, if they have columns for these."""
    for name, values in columns.items():
        at = events.schema.get_field_index(name)
        events = events if at < 0 else events.set_column(at, name, pa.array(values))
    return events


def salt_of(stream: str) -> int:
    """What makes the hashes of a stream other than those of the same places in others."""
    return zlib.crc32(stream.encode()) << 31


def identity_hash(
    part: int | npt.NDArray[np.int64], places: npt.NDArray[np.int64], stream: str = ""
) -> npt.NDArray[np.int64]:
    """Spark's xxhash64(part, place) of two BIGINTs, the first with the salt of a stream."""
    parts = np.atleast_1d(np.asarray(part, np.int64)) ^ salt_of(stream)
    hashes = np.empty(len(places), np.int64)
    parts, places = frozen(parts, places)
    hash_places(parts, places, hashes)
    return hashes


def hash_text(part: str, place: str, stream: str = "") -> str:
    """`identity_hash` as Spark SQL."""
    return f"xxhash64(CAST({part} AS BIGINT) ^ {salt_of(stream)}L, CAST({place} AS BIGINT))"
