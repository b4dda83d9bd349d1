"""From a batch of events to partials, on Spark.

All ways give the same rows (`slices.kernels.partial.partial_schema`): the native way lets Spark group by the step of
the common grid, the kernel way hands Arrow batches to `slices.kernels.partial`, and the direct way tells it which
files to read. The kernel tells late events from others in the same pass; Spark makes another one for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mullion.allocation import release
from mullion.expressions.coding.dictionary import codes_of, combine, decoded_schema
from mullion.expressions.evaluate import is_kernel_only
from mullion.kernels.columns import BatchColumns
from mullion.planner.plan import FRAGMENTS, Grouping, Pass, Plan
from mullion.planner.slices import distinct
from mullion.runtime.batch import ByGrouping, Collected, Portion, collected, job_of, partials_of
from mullion.slices.answering_room import pairs_at_once
from mullion.slices.bounds import EVERYWHERE, Stretch
from mullion.slices.inputs import columns_of
from mullion.slices.kernels.layout import partial_schema
from mullion.slices.kernels.partial import Input, Job, partials, takes_order
from mullion.spark.events import SparkEvents, send
from mullion.spark.expressions import spark_text
from mullion.spark.files import RowGroup, shares
from mullion.spark.native import native_frame, native_partials
from mullion.spark.reading import FilePortions, ReadAhead, read_pieces
from mullion.storage.files import serialised

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collect_partials(events: SparkEvents, together: Pass, bounds: Stretch) -> list[Collected]:
    """The partials of each plan of the pass, on the driver."""
    if together.way != "native":
        return collected(_from_kernel(events, together, bounds), together)
    return [Collected(*own) for own in _native(events, together, bounds)]


def _native(events: SparkEvents, together: Pass, bounds: Stretch) -> Iterator[tuple[ByGrouping, ByGrouping, bool]]:
    """Spark's partials, and once more where some events do not count."""
    whole = native_partials(events, together)
    times = [_extremes(table) for table in whole[0]]
    oldest = min((low for low, _ in times if low is not None), default=None)
    newest = max((high for _, high in times if high is not None), default=None)
    late, ahead = bounds.is_passed_by(oldest, newest)
    before: list[ByGrouping] = [[] for _ in together.plans]
    if late:
        before = together.by_plan(native_partials(events.of(bounds.late), together))
    if late or ahead:
        whole = native_partials(events.of(bounds), together)
    for taken, missed in zip(together.by_plan(whole), before, strict=True):
        yield taken, missed, ahead


def partials_within(events: SparkEvents, plan: Plan) -> ByGrouping:
    """The partials of all events that are given."""
    alone = Pass((plan,))
    if plan.way == "native":
        return native_partials(events, alone)
    return collected(_from_kernel(events, alone, EVERYWHERE), alone)[0].taken


def _extremes(table: pa.Table) -> tuple[int | None, int | None]:
    return pc.min(table.column("t_min")).as_py(), pc.max(table.column("t_max")).as_py()


def partials_frame(events: SparkEvents, plan: Plan, grouping: Grouping) -> DataFrame:
    """The partials of one grouping as a DataFrame, for groupings too large for the driver;
    `native.with_partial_types` gives them their types there."""
    if plan.way == "native":
        return native_frame(events, plan.grid, grouping)
    frame, inputs = send(events, (grouping,))
    job = _job(Pass((replace(plan, groupings=(grouping,), methods=(FRAGMENTS,)),)), inputs, events)
    schema = plain_schema(partial_schema(grouping, FRAGMENTS))
    most = pairs_at_once(events.portion, events.room, grouping)  # each event may be of a group of its own
    from pyspark.sql.pandas.types import from_arrow_schema

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for low in range(0, len(batch), most):
                yield from partials(batch.slice(low, most), job)[0].cast(schema).to_batches()
        release()

    return frame.mapInArrow(run, from_arrow_schema(schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Spark knows no dictionaries, and no bytes of fixed length, which signatures are."""
    return decoded_schema(pa.schema([(f.name, pa.binary() if f.name == "signature" else f.type) for f in schema]))


def _from_kernel(events: SparkEvents, together: Pass, bounds: Stretch) -> list[Portion]:
    """One pass of the kernel for all groupings."""
    if together.way == "direct" and events.pieces is not None:
        return _from_files(events, together, events.pieces, bounds)
    frame, inputs = send(events, together.groupings)
    job = _job(together, inputs, events)
    if together.on_driver:
        return [partials_of(frame.toArrow(), job, bounds)]
    return _returned(frame.mapInArrow(partial(_run, job, bounds, events.portion), RETURNED))


def _job(together: Pass, inputs: Input, events: SparkEvents) -> Job:
    files = events.files if takes_order(together.groupings) else None
    return job_of(together, inputs, events.tables, events.number, files)


RETURNED = "kind string, payload binary"
"""The tables of a portion, serialised: `taken` and `late` in the order of groupings, and one row `end` with whether
some events are ahead."""


def _run(job: Job, bounds: Stretch, most: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in _in_chunks(batches, most):
        yield _sent_back(partials_of(table, job, bounds))


def _in_chunks(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    chunk: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        chunk.append(batch)
        rows += len(batch)
        if 2 * rows >= most:
            yield pa.Table.from_batches(chunk)
            chunk, rows = [], 0
    if chunk:
        yield pa.Table.from_batches(chunk)


def _sent_back(portion: Portion) -> pa.RecordBatch:
    kinds = ["taken"] * len(portion.taken) + ["late"] * len(portion.late) + ["end"]
    payloads = [serialised(table) for table in (*portion.taken, *portion.late)]
    return pa.RecordBatch.from_pydict({"kind": kinds, "payload": [*payloads, b"ahead" if portion.ahead else b""]})


def _returned(frame: DataFrame) -> list[Portion]:
    table = frame.toArrow()
    portions: list[Portion] = []
    taken: list[pa.Table] = []
    late: list[pa.Table] = []
    for kind, payload in zip(table["kind"].to_pylist(), table["payload"], strict=True):
        if kind == "end":
            portions.append(Portion(taken, late, ahead=payload.as_py() == b"ahead"))
            taken, late = [], []
        else:
            (taken if kind == "taken" else late).append(pa.ipc.open_stream(payload.as_buffer()).read_all())
    return portions


def _from_files(events: SparkEvents, together: Pass, pieces: Sequence[RowGroup], bounds: Stretch) -> list[Portion]:
    """From the files themselves: by the driver where the plan says so, or it has the machine to itself and works in
    threads, so that no partial goes through the JVM; else in tasks."""
    stream = events.stream
    what = FilePortions.of(stream, together.groupings, pieces, events.portion, events.thinned)
    job = _job(together, Input({name: stream.types[name] for name in what.columns}), events)
    load = _Load(job, what, events.within, bounds)
    if together.on_driver:
        return list(load.portions(pieces))
    executors = events.executors()
    if executors.are_here:
        load = load._replace(job=replace(job, threads=executors.cores))
        begun = events.begun[1] if events.begun is not None and events.begun[0] == what else None
        return list(load.partials_of(begun or ReadAhead(what.read(pieces, executors.cores))))
    parts = shares(pieces, executors.cores)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for portion in load.portions(parts[number]):
                    yield _sent_back(portion)

    tasks = events.batch.sparkSession.range(0, len(parts), 1, len(parts))
    return _returned(tasks.mapInArrow(run, RETURNED))


class _Load(NamedTuple):
    """What is read of files, and what is made of it."""

    job: Job
    what: FilePortions
    stretch: Stretch
    bounds: Stretch

    def portions(self, pieces: Sequence[RowGroup]) -> Iterator[Portion]:
        """The partials of the pieces."""
        return self.partials_of(self.what.read(pieces))

    def partials_of(self, tables: Iterable[pa.Table]) -> Iterator[Portion]:
        for table in tables:
            yield partials_of(self.stretch.of(table), self.job, self.bounds)


def sampled_groups(events: SparkEvents, plan: Plan, grouping: Grouping, most: int) -> int:
    """How many groups the first events of a batch have; few when the batch is small."""
    own = all(columns_of(key) <= events.stream.types.keys() for key in grouping.keys)
    if events.pieces and own:
        return _groups_in_files(events, events.pieces, grouping, most)
    sample = events.first(most)
    if own and not any(map(is_kernel_only, grouping.keys)):
        keys = [f"{spark_text(key)} AS k{i}" for i, key in enumerate(grouping.keys)]
        return int(sample.select(keys, before="SELECT DISTINCT * FROM (", after=")").count())
    names = [f"k{i}" for i in range(len(grouping.keys))]
    return int(partials_frame(sample, plan, grouping).select(*names).distinct().count())


def _groups_in_files(events: SparkEvents, pieces: Sequence[RowGroup], grouping: Grouping, most: int) -> int:
    names = sorted({name for key in grouping.keys for name in columns_of(key)})
    first: list[RowGroup] = []
    for piece in pieces:
        if sum(p.rows for p in first) < most:
            first.append(piece)
    types = {name: events.stream.types[name] for name in names}
    texts = [name for name, type_ in types.items() if type_.kind == "string"]
    table = pa.concat_tables(read_pieces(first, names, events.stream.time_column, texts)).slice(0, most)
    columns = BatchColumns.of(table, types)
    return len(distinct(combine([codes_of(columns.array(key)) for key in grouping.keys], len(table))[0]))
