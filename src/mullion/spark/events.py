"""A batch of a stream as Spark's SQL sees it: its own columns, the event time, and the order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.streams import EVENT, WEIGHT, Stream
from mullion.kernels.arrival import ARRIVAL, FILE, FileOrder, checksum_text, in_order_of_arrival, place_text
from mullion.kernels.lookup import Prepared
from mullion.kernels.thinning import WHOLE, Thinner, Thinning, hash_text, worth_text
from mullion.language.limits import FIRST_TIME, LAST_TIME
from mullion.memory import AT_ONCE
from mullion.planner.plan import Grouping
from mullion.runtime.batch import Outside, Timed
from mullion.slices.bounds import EVERYWHERE, Stretch
from mullion.slices.inputs import input_for
from mullion.slices.kernels.partial import Input, takes_order
from mullion.slices.tally import Tally
from mullion.spark.expressions import bad_text, identifier, spark_text
from mullion.spark.files import RowGroup, local
from mullion.spark.own_session import Executors
from mullion.spark.reading import FilePortions, ReadAhead, ThinnedFiles
from mullion.spark.sources import BLOCK, CORRUPT, OFFSET, PARTITION, ROW, SOURCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME = "`#t`"
"""`slices.kernels.partial.TIME` as Spark's text: the event time in microseconds; NULL for a record that has no place
in time, or none in the years 1 to 9999."""

HASH, WORTH = "`#hash`", "`#worth`"
"""What an event is told apart by, and what it matters."""

MALFORMED = ("source", "record", "reason")
"""What is told of a record without a time."""
NO_MALFORMED = pa.schema([(name, pa.string()) for name in MALFORMED]).empty_table()

_views = count()


@dataclass(frozen=True)
class SparkEvents:
    """A batch of a stream, perhaps only a part of it."""

    opened: Callable[[], DataFrame]
    """The batch as a DataFrame. It is not asked for where the kernel reads all that is needed from files."""
    stream: Stream
    executors: Callable[[], Executors]
    within: Stretch = EVERYWHERE
    """Only events of this stretch of time."""
    pieces: tuple[RowGroup, ...] | None = None
    """The row groups that the batch consists of, where the kernel may read them."""
    begun: tuple[FilePortions, ReadAhead] | None = None
    """What is being read of them already."""
    tables: tuple[Prepared, ...] = ()
    """The tables that events are looked up in, as this batch finds them."""
    number: int = 0
    """The number of the batch."""
    files: FileOrder | None = None
    """The files of the batch in their order, where its rows say which they stand in."""
    portion: int = AT_ONCE
    """Rows that the kernel takes at once."""
    room: int | None = None
    """Bytes that a task may take for what it makes of a portion."""
    most: Callable[[Collection[str]], int] | None = None
    """Rows with some columns that the driver can hold."""
    thinning: Thinning = WHOLE
    """What is kept of the events."""
    lost: bool = False
    """Whether those are meant that are not kept."""
    cuts: tuple[int, ...] = ()
    """Times at which Spark cuts the batch, so that it hands over so many partials at once that they fit."""

    @property
    def batch(self) -> DataFrame:
        return self.opened()

    def read(self, columns: Sequence[str]) -> pa.Table:
        """SELECT columns FROM the events, in the order of arrival."""
        return in_order_of_arrival(self.select([*columns, *self.places()]).toArrow(), self.files)

    def places(self) -> list[str]:
        """What tells the order of arrival: file and row, or partition and offset, or where Spark hands events over."""
        if self.files is not None:
            part, place = self.files.text(SOURCE), place_text(BLOCK)
        elif PARTITION in self.batch.columns:
            part, place = PARTITION, OFFSET
        else:
            return [f"monotonically_increasing_id() AS {identifier(ARRIVAL)}"]
        return [f"{part} AS {identifier(FILE)}", f"{place} AS {identifier(ARRIVAL)}"]

    def select(self, columns: Sequence[str], *, before: str = "", after: str = "") -> DataFrame:
        """SELECT columns FROM the events, which have their own columns and TIME; text may stand around it."""
        view, batch = f"mullion_batch_{next(_views)}", self.batch
        batch.createOrReplaceTempView(view)
        session = batch.sparkSession
        try:
            timed = f"(SELECT *, {self._time()} AS {TIME}{self._computed()}{self._weight()} FROM {view})"
            selected = f"SELECT {', '.join(columns)} FROM {timed} WHERE {self.within.where(TIME)}{self._kept()}"
            return session.sql(f"{before}{selected}{after}")
        finally:
            session.catalog.dropTempView(view)

    def _computed(self) -> str:
        """The time column, where it is no column of the source."""
        stream = self.stream
        if stream.time is None or stream.time_column in self.batch.columns:
            return ""
        return f", {spark_text(stream.time)} AS {identifier(stream.time_column)}"

    @property
    def thinned(self) -> ThinnedFiles | None:
        """What is kept of its files' rows, for whoever reads them; None where all of them are."""
        if self.thinning.is_whole or self.files is None:
            return None
        thinner = Thinner.of_stream(self.stream, self.thinning)
        return ThinnedFiles(thinner, self.files.checksums_of(local), self.lost)

    def _weight(self) -> str:
        """The weight of the events of a stream that may shed; while it does, with what tells which are kept."""
        shedding, thinning = self.stream.shedding, self.thinning
        if shedding is None:
            return ""
        weight = f"CAST({thinning.weight!r} AS DOUBLE)"
        if not thinning.is_whole and not shedding.drops_events:
            chosen = thinning.text(self._identity(), None)
            weight = f"CASE WHEN {chosen} THEN {weight} ELSE CAST(0 AS DOUBLE) END"
        event = "CAST(0 AS BIGINT)" if thinning.is_whole else self._identity()
        weight = f", {weight} AS {identifier(WEIGHT)}, {event} AS {identifier(EVENT)}"
        if thinning.is_whole or not shedding.drops_events:
            return weight
        worth = "" if shedding.by is None else f", {worth_text(spark_text(shedding.by))} AS {WORTH}"
        return f"{weight}, {self._identity()} AS {HASH}{worth}"

    def _kept(self) -> str:
        """Whether an event is kept. Records without a time are: they are set aside by themselves."""
        shedding = self.stream.shedding
        if shedding is None or not shedding.drops_events or self.thinning.is_whole:
            return ""
        kept = f"({TIME} IS NULL OR {self.thinning.text(HASH, WORTH)})"
        return f" AND NOT {kept}" if self.lost else f" AND {kept}"

    def _identity(self) -> str:
        """A hash of what an event is told apart by: file and row, or partition and offset."""
        if self.files is not None:
            place = ROW if ROW in self.batch.columns else place_text(BLOCK)
            return hash_text(checksum_text(SOURCE), place, self.stream.name)
        if PARTITION in self.batch.columns:
            return hash_text(PARTITION, OFFSET, self.stream.name)
        return hash_text("0", "monotonically_increasing_id()", self.stream.name)

    def _time(self) -> str:
        name = self.stream.time_column
        expression = (
            identifier(name) if self.stream.time is None or name in self.batch.columns else spark_text(self.stream.time)
        )
        time = f"unix_micros(CAST({expression} AS TIMESTAMP))"
        time = f"CASE WHEN {time} BETWEEN {FIRST_TIME}L AND {LAST_TIME}L THEN {time} END"
        if CORRUPT not in self.batch.columns:
            return time
        # The hash makes every column a needed one: else whether a record counts as malformed would depend on which
        # columns the present queries read.
        columns = ", ".join(identifier(c) for c in self.batch.columns if c not in (CORRUPT, SOURCE, BLOCK, ROW))
        return f"CASE WHEN {CORRUPT} IS NULL OR xxhash64({columns}) = 0 THEN {time} END"

    def of(self, stretch: Stretch) -> SparkEvents:
        """The events of a stretch of time."""
        return replace(self, within=stretch)

    def parts(self) -> list[SparkEvents]:
        """The same events between the cuts, each in one part; records without a time are in the first."""
        within, cuts = self.within, self.cuts
        inside = [
            cut for cut in cuts if within.low is None or cut > within.low if within.high is None or cut < within.high
        ]
        ends = [within.low, *inside, within.high]
        return [
            replace(self, within=Stretch(low, high, timeless=within.timeless and not i), cuts=())
            for i, (low, high) in enumerate(pairwise(ends))
        ]

    def times(self, bounds: Stretch) -> Timed:
        """What is known of the events by their times alone."""
        taken = f"CASE WHEN {bounds.where(TIME)} THEN {TIME} END"
        of_taken = [f"{call}({taken})" for call in ("count", "min", "max")]
        row = self.select([*of_taken, f"count_if({TIME} IS NULL)", f"min({TIME})", f"max({TIME})"]).first()
        assert row is not None
        counted = Tally(events=row[0], oldest=row[1], newest=row[2], malformed=row[3])
        return Timed(counted, *bounds.is_passed_by(row[4], row[5]))

    def outside(self, bounds: Stretch) -> Outside:
        """The records before and after a stretch of time, or without a time. What is told of these is computed for them
        alone."""
        told = [f"CASE WHEN {TIME} IS NULL THEN {text} END AS `#{name}`" for name, text in self._told_of_malformed()]
        columns = [TIME, *(identifier(name) for name, _ in self.stream.shown), *told]
        before, after = bounds.late.where(TIME), bounds.ahead.where(TIME)
        parts = [part for part, bound in ((before, bounds.low), (after, bounds.high)) if bound is not None]
        records = self.select(columns).where(" OR ".join([*parts, f"{TIME} IS NULL"])).toArrow()
        missing = pc.is_null(records.column(TIME.strip("`")))
        malformed = records.filter(missing).select([f"#{name}" for name in MALFORMED]).rename_columns(list(MALFORMED))
        return Outside(records.filter(pc.invert(missing)).select(records.schema.names[: -len(MALFORMED)]), malformed)

    def _told_of_malformed(self) -> list[tuple[str, str]]:
        """Where a record without a time is from, what it holds, and why it has none."""
        columns = ", ".join(identifier(name) for name, _ in self.stream.shown)
        record = f"to_json(struct({columns}), map('ignoreNullFields', 'false'))"
        time = f"CAST({identifier(self.stream.time_column)} AS TIMESTAMP)"
        reason = f"CASE WHEN {time} IS NULL THEN 'no event time' ELSE 'an event time outside the years 1 to 9999' END"
        if CORRUPT in self.batch.columns:
            record = f"coalesce({CORRUPT}, {record})"
            reason = f"CASE WHEN {CORRUPT} IS NULL THEN {reason} ELSE 'does not parse' END"
        source = SOURCE if SOURCE in self.batch.columns else "CAST(NULL AS STRING)"
        return list(zip(MALFORMED, (source, record, reason), strict=True))

    def first(self, number: int) -> SparkEvents:
        head = self.batch.limit(number)
        return replace(self, opened=lambda: head)


def send(events: SparkEvents, groupings: Sequence[Grouping], also: Sequence[str] = ()) -> tuple[DataFrame, Input]:
    """Few, narrow columns: those that the kernel computes with, and what only Spark can compute."""
    inputs = input_for(events.stream, groupings, also)
    selected = selection(inputs, events.stream)
    if takes_order(groupings):
        selected = [*selected, *events.places()]
    return events.select(selected), inputs


def evaluated_by_spark(
    session: SparkSession, stream: Stream, events: pa.Table, groupings: Sequence[Grouping]
) -> tuple[pa.Table, Input]:
    """Events with all their columns and with what only Spark can evaluate of them."""
    frame = session.createDataFrame(events)
    batch = SparkEvents(lambda: frame, stream, lambda: Executors.of(session))
    sent, inputs = send(batch, groupings, also=[name for name, _ in stream.columns])
    return sent.toArrow(), inputs


def selection(inputs: Input, stream: Stream) -> list[str]:
    """The time and the columns of the input, as Spark's text."""
    computed = {name: spark_text(expr) for expr, name in inputs.evaluated.items()}
    computed |= {name: bad_text(check, stream.types) or "FALSE" for check, name in inputs.bad.items()}
    return [TIME, *(f"{computed.get(name) or identifier(name)} AS {identifier(name)}" for name in inputs.columns)]
