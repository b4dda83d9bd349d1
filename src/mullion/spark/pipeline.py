"""From a batch of events to partials, on Spark.

All ways give the same rows (`slices.kernels.partial.partial_schema`): the native way lets Spark group by the step of
the common grid, the kernel way hands Arrow batches to `slices.kernels.partial`, and the direct way tells it which
files to read.

Each pass is one SQL statement, generated from checked expressions only. Building the same plan from Column objects
takes hundreds of calls into the JVM, which cost as much as the pass itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from mullion.algebra.streams import Stream
from mullion.expressions.coding.dictionary import codes_of, combine
from mullion.expressions.evaluate import is_event_only, is_kernel_only, is_vectorised
from mullion.expressions.typing import type_of
from mullion.kernels.arrival import ARRIVAL, FILE, FileOrder, in_order, place_text
from mullion.kernels.columns import Columns
from mullion.kernels.lookup import Prepared
from mullion.language.limits import FIRST_TIME, LAST_TIME
from mullion.language.query import Column, Expr, walk
from mullion.language.render import render
from mullion.language.types import BOOLEAN, Type
from mullion.planner.plan import FRAGMENTS, Grouping, Plan, StateColumn
from mullion.planner.slices import distinct
from mullion.slices.bounds import Stretch
from mullion.slices.kernels.partial import Input, Job, partial_schema, partials, signature_array, takes_order
from mullion.slices.kernels.signature import WORD, from_words, same_rows, words_for
from mullion.spark.expressions import bad_text, identifier, spark_text
from mullion.spark.files import Piece, read, shares
from mullion.spark.sources import BLOCK, CORRUPT, OFFSET, PARTITION, SOURCE
from mullion.storage.files import serialised

TIME = "`#t`"
"""`slices.kernels.partial.TIME` as Spark's text: the event time in microseconds; NULL for a record that has no place
in time, or none in the years 1 to 9999."""

EVERYWHERE = Stretch()
_views = count()


@dataclass(frozen=True)
class Events:
    """A batch of a stream, perhaps only a part of it."""

    batch: DataFrame
    stream: Stream
    within: Stretch = EVERYWHERE
    """Only events of this stretch of time."""
    pieces: tuple[Piece, ...] | None = None
    """The row groups that the batch consists of, where the kernel may read them."""
    tables: tuple[Prepared, ...] = ()
    """The tables that events are looked up in, as this batch finds them."""
    number: int = 0
    """The number of the batch."""
    files: FileOrder | None = None
    """The files of the batch in their order, where its rows say which they stand in."""

    def read(self, columns: Sequence[str]) -> pa.Table:
        """SELECT columns FROM the events, in the order of arrival."""
        return in_order(self.select([*columns, *self.places()]).toArrow(), self.files)

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
        view = f"mullion_batch_{next(_views)}"
        self.batch.createOrReplaceTempView(view)
        session = self.batch.sparkSession
        try:
            timed = f"(SELECT *, {self._time()} AS {TIME}{self._computed()} FROM {view})"
            selected = f"SELECT {', '.join(columns)} FROM {timed} WHERE {self.within.where(TIME)}"
            return session.sql(f"{before}{selected}{after}")
        finally:
            session.catalog.dropTempView(view)

    def _computed(self) -> str:
        """The time column, where it is no column of the source."""
        stream = self.stream
        if stream.time is None or stream.time_column in self.batch.columns:
            return ""
        return f", {spark_text(stream.time)} AS {identifier(stream.time_column)}"

    def _time(self) -> str:
        name = self.stream.time_column
        told = (
            identifier(name) if self.stream.time is None or name in self.batch.columns else spark_text(self.stream.time)
        )
        time = f"unix_micros(CAST({told} AS TIMESTAMP))"
        time = f"CASE WHEN {time} BETWEEN {FIRST_TIME}L AND {LAST_TIME}L THEN {time} END"
        if CORRUPT not in self.batch.columns:
            return time
        # The hash makes every column a needed one: else whether a record counts as malformed would depend on which
        # columns the present queries read.
        columns = ", ".join(identifier(c) for c in self.batch.columns if c not in (CORRUPT, SOURCE, BLOCK))
        return f"CASE WHEN {CORRUPT} IS NULL OR xxhash64({columns}) = 0 THEN {time} END"

    def of(self, stretch: Stretch) -> Events:
        """The events of a stretch of time."""
        return replace(self, within=stretch)

    def malformed(self) -> Events:
        """The records without a time."""
        return replace(self, batch=self.batch.where(f"{self._time()} IS NULL"))

    def first(self, number: int) -> Events:
        return replace(self, batch=self.batch.limit(number))


def collect_partials(events: Events, plan: Plan, *, expected: int | None = None) -> list[list[pa.Table]]:
    """The partials of each grouping of the plan, on the driver. About so many events are expected."""
    if plan.way != "native":
        return _collect_from_kernel(events, plan, expected)
    if len(plan.groupings) == 1:
        return [[typed(_native(events, plan, plan.groupings[0]).toArrow(), plan.groupings[0])]]
    return [[table] for table in _collect_grouping_sets(events, plan)]


def partials_frame(events: Events, plan: Plan, grouping: Grouping) -> DataFrame:
    """The partials of one grouping as a DataFrame, for groupings too large for the driver; `typed` gives them their
    types there."""
    if plan.way == "native":
        return _native(events, plan, grouping)
    frame, inputs = send(events, (grouping,))
    alone = replace(plan, groupings=(grouping,), methods=(FRAGMENTS,))
    job = _job(alone, inputs, events)
    schema = plain_schema(partial_schema(grouping, FRAGMENTS))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from partials(batch, job)[0].cast(schema).to_batches()

    return frame.mapInArrow(run, from_arrow_schema(schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Spark knows no dictionaries."""
    return pa.schema([(f.name, pa.binary() if pa.types.is_dictionary(f.type) else f.type) for f in schema])


# The native way


def _native(events: Events, plan: Plan, grouping: Grouping) -> DataFrame:
    return _grouped(events, plan, [grouping], _wire_names([grouping], 0))


def _collect_grouping_sets(events: Events, plan: Plan) -> list[pa.Table]:
    """Several key sets in one pass: GROUPING SETS, each with its own signature and keys."""
    groupings = plan.groupings
    wires = [_wire_names(groupings, g) for g in range(len(groupings))]
    every = list(dict.fromkeys(name for g in range(len(groupings)) for name in _key_names(groupings, g)))
    wanted = {name: name for wire in wires for name in wire} | {"grouping_id()": "`#set`"}
    table = _grouped(events, plan, groupings, wanted).toArrow()
    found = []
    for g, (grouping, wire) in enumerate(zip(groupings, wires, strict=True)):
        own = _key_names(groupings, g)
        absent = sum(1 << (len(every) - 1 - i) for i, n in enumerate(every) if n not in own)
        rows = table.filter(pc.equal(table.column("#set"), absent))
        found.append(typed(rows.select(list(wire)).rename_columns(list(wire.values())), grouping))
    return found


def _grouped(events: Events, plan: Plan, groupings: Sequence[Grouping], names: dict[str, str]) -> DataFrame:
    """One statement: an inner SELECT evaluates each different expression once, the outer one groups and aggregates."""
    step, origin = plan.grid
    inner = [f"{TIME}", f"{TIME} - pmod({TIME} - {origin}L, {step}L) AS slice"]
    for g, grouping in enumerate(groupings):
        words = signature_texts(grouping)
        inner += [f"{text} AS sig{g}_{w}" for w, text in enumerate(words)]
        anyone = " OR ".join(f"({text}) <> 0" for text in words)
        for i, key in enumerate(grouping.keys):
            text = spark_text(key)
            if grouping.selective and words:
                text = f"CASE WHEN {anyone} THEN {text} END"
            inner.append(f"{text} AS k{g}_{i}")
    inner += [f"{spark_text(argument)} AS a{a}" for a, argument in enumerate(_arguments(groupings))]
    types = groupings[0].types
    inner += [f"{bad_text(check, types) or 'FALSE'} AS c{c}" for c, check in enumerate(_checks(groupings))]
    sets = [_key_names(groupings, g) for g in range(len(groupings))]
    by = ", ".join(sets[0])
    if len(sets) > 1:
        by = "GROUPING SETS ({})".format(", ".join(f"({', '.join(names)})" for names in sets))
    made = _aggregates(groupings)
    outer = ", ".join(f"{made.get(ours, ours)} AS {wire}" for ours, wire in names.items())
    return events.select(inner, before=f"SELECT {outer} FROM (", after=f") GROUP BY {by}")


def _key_names(groupings: Sequence[Grouping], g: int) -> list[str]:
    """What grouping g groups by."""
    words = words_for(len(groupings[g].bits))
    return ["slice", *(f"sig{g}_{w}" for w in range(words)), *(f"k{g}_{i}" for i in range(len(groupings[g].keys)))]


def _aggregates(groupings: Sequence[Grouping]) -> dict[str, str]:
    """The aggregates of the pass by the names of their columns."""
    arguments = {argument: f"a{a}" for a, argument in enumerate(_arguments(groupings))}
    made = {"events": "count(1)", "t_min": f"min({TIME})", "t_max": f"max({TIME})"}
    for s, state in enumerate(_states(groupings)):
        texts = state.partial.spark("1" if state.argument is None else arguments[state.argument])
        made |= {f"s{s}_{j}": text for j, text in enumerate(texts)}
    return made | {f"bad{c}": f"count_if(c{c})" for c in range(len(_checks(groupings)))}


def _wire_names(groupings: Sequence[Grouping], g: int) -> dict[str, str]:
    """The columns of the pass that are grouping g's, and what `partial_schema` calls them."""
    grouping = groupings[g]
    states, checks = _states(groupings), _checks(groupings)
    names = {"slice": "slice"}
    names |= {f"sig{g}_{w}": f"sig{w}" for w in range(words_for(len(grouping.bits)))}
    names |= {f"k{g}_{i}": f"k{i}" for i in range(len(grouping.keys))}
    names |= {"events": "events", "t_min": "t_min", "t_max": "t_max"}
    for i, state in enumerate(grouping.states):
        at = states.index(state)
        names |= {f"s{at}_{j}": f"s{i}_{j}" for j in range(len(state.partial.stored))}
    return names | {f"bad{checks.index(check)}": f"bad{i}" for i, check in enumerate(grouping.checks)}


def signature_texts(grouping: Grouping) -> list[str]:
    """The words of the signature as Spark SQL."""
    words: list[list[str]] = [[] for _ in range(words_for(len(grouping.bits)))]
    for bit, predicate in enumerate(grouping.predicates):
        words[bit // WORD].append(f"CASE WHEN {spark_text(predicate)} THEN {1 << (bit % WORD)}L ELSE 0L END")
    return [" | ".join(word) for word in words]


def _arguments(groupings: Sequence[Grouping]) -> list[Expr]:
    return list(dict.fromkeys(s.argument for g in groupings for s in g.states if s.argument is not None))


def _states(groupings: Sequence[Grouping]) -> list[StateColumn]:
    return list(dict.fromkeys(s for g in groupings for s in g.states))


def _checks(groupings: Sequence[Grouping]) -> list[Expr]:
    return list(dict.fromkeys(c for g in groupings for c in g.checks))


def typed(table: pa.Table, grouping: Grouping) -> pa.Table:
    """Partials with exactly the types of `partial_schema`: Spark's timestamps and decimals differ in detail, and its
    signatures are words or plain bytes."""
    schema = partial_schema(grouping, FRAGMENTS)
    if "signature" not in table.schema.names:
        words = [_numbers(table.column(f"sig{w}")) for w in range(words_for(len(grouping.bits)))]
        bits = from_words(words, len(grouping.bits)) if words else np.zeros((len(table), 1), np.uint8)
        same, first = same_rows(bits)
        table = table.append_column("signature", signature_array(same, bits[first]))
    return as_schema(table, schema)


def as_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of the schema with its types; plain bytes become a dictionary again."""
    columns = []
    for f in schema:
        column = table.column(f.name)
        if pa.types.is_dictionary(f.type) and not pa.types.is_dictionary(column.type):
            column = column.cast(f.type.value_type).dictionary_encode()
        columns.append(column.cast(f.type))
    return pa.table(columns, schema=schema)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(column.combine_chunks().fill_null(0), np.int64)


# The kernel way and the direct way

SMALL = 100_000
"""Events that the driver takes by itself: a job costs more than the work."""
AT_ONCE = 500_000
"""Rows that the kernel is given together."""


def kernel_columns(groupings: Sequence[Grouping]) -> set[str] | None:
    """The columns of events that the kernel needs to evaluate everything by itself; None when it cannot."""
    needed: set[str] = set()
    for grouping in groupings:
        wanted = [*_wanted([grouping]), *grouping.checks]
        if not all(_in_kernel(expr, grouping) for expr in wanted):
            return None
        needed |= {name for expr in wanted for name in columns_of(expr)} - _looked_up(grouping)
    return needed


def columns_of(expr: Expr) -> set[str]:
    return {node.name for node in walk(expr) if isinstance(node, Column)}


def _looked_up(grouping: Grouping) -> set[str]:
    """The columns that lookups add."""
    return {name for lookup in grouping.lookups for name in lookup.types()}


def table_columns(grouping: Grouping) -> set[str]:
    """The columns of tables that the grouping reads."""
    return {name for expr in _wanted([grouping]) for name in columns_of(expr)} & _looked_up(grouping)


def _wanted(groupings: Sequence[Grouping]) -> list[Expr]:
    """Everything that is computed of an event: each expression once."""
    compared = (a.expr for g in groupings for a in g.index.attributes)
    found = (key for g in groupings for lookup in g.lookups for key, _ in lookup.keys)
    states = (expr for g in groupings for state in g.states for expr in state.expressions())
    return list(dict.fromkeys([*compared, *(k for g in groupings for k in g.keys), *states, *found]))


def _in_kernel(expr: Expr, grouping: Grouping) -> bool:
    """Whether the kernel computes the expression: on whole arrays, once for each different text, or because Spark does
    not know the columns of tables. What it might compute otherwise than Spark is left to Spark."""
    if is_event_only(expr):
        return False
    if is_kernel_only(expr):
        return True
    if is_vectorised(expr, grouping.types):
        return True
    read = columns_of(expr)
    return bool(read & _looked_up(grouping)) or (len(read) == 1 and grouping.types[next(iter(read))].kind == "string")


def send(events: Events, groupings: Sequence[Grouping], also: Sequence[str] = ()) -> tuple[DataFrame, Input]:
    """Few, narrow columns: those that the kernel computes with, and what only Spark can compute."""
    selected, inputs = columns_sent(events.stream, groupings, also)
    if takes_order(groupings):
        selected = [*selected, *events.places()]
    return events.select(selected), inputs


def columns_sent(stream: Stream, groupings: Sequence[Grouping], also: Sequence[str] = ()) -> tuple[list[str], Input]:
    """The columns of events that the kernel gets, as Spark's text and as what it finds in them."""
    evaluated: dict[Expr, str] = {}
    bad: dict[Expr, str] = {}
    columns: dict[str, Type] = {}
    selected = [TIME]

    def add(name: str, type_: Type, text: str) -> None:
        if name not in columns:
            columns[name] = type_
            selected.append(f"{text} AS {identifier(name)}")

    for name in also:
        add(name, stream.types[name], identifier(name))
    for grouping in groupings:
        own = stream.types
        for expr in _wanted([grouping]):
            if _in_kernel(expr, grouping):
                for name in sorted(columns_of(expr) & own.keys()):
                    add(name, own[name], identifier(name))
            else:
                name = evaluated.setdefault(expr, _lasting_name("e", expr))
                add(name, type_of(expr, own), spark_text(expr))
        for check in grouping.checks:
            if _in_kernel(check, grouping):
                for name in sorted(columns_of(check) & own.keys()):
                    add(name, own[name], identifier(name))
            else:
                name = bad.setdefault(check, _lasting_name("b", check))
                add(name, BOOLEAN, bad_text(check, own) or "FALSE")
    return selected, Input(columns, evaluated, bad)


def _lasting_name(kind: str, expr: Expr) -> str:
    """A name that stays the same while queries come and go, for what Spark computes of an expression. The text itself
    would not do: Spark takes a dot in a name for a field."""
    return f"#{kind}{sha256(render(expr).encode()).hexdigest()[:16]}"


def _collect_from_kernel(events: Events, plan: Plan, expected: int | None) -> list[list[pa.Table]]:
    """One pass of the kernel for all groupings."""
    groupings = plan.groupings
    if plan.way == "direct" and events.pieces is not None:
        payloads = _from_files(events, plan, events.pieces)
    else:
        frame, inputs = send(events, groupings)
        job = _job(plan, inputs, events)
        if expected is not None and expected <= SMALL:
            payloads = [partials(frame.toArrow(), job)]
        else:
            payloads = _returned(frame.mapInArrow(partial(_run, job), RETURNED), len(groupings))
    return [
        _alike([tables[g] for tables in payloads], partial_schema(grouping, method))
        for g, (grouping, method) in enumerate(zip(groupings, plan.methods, strict=True))
    ]


def _job(plan: Plan, inputs: Input, events: Events) -> Job:
    slim = tuple(g.for_workers(method) for g, method in zip(plan.groupings, plan.methods, strict=True))
    files = events.files if takes_order(plan.groupings) else None
    return Job(slim, plan.methods, plan.windows, inputs, plan.slicing, events.tables, events.number, files)


RETURNED = "grouping long, payload binary"


def _run(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in _in_chunks(batches):
        yield _sent_back(partials(table, job))


def _in_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += len(batch)
        if rows >= AT_ONCE:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _sent_back(tables: Sequence[pa.Table]) -> pa.RecordBatch:
    """Partials of all groupings, each serialised under its grouping's number."""
    return pa.RecordBatch.from_pydict(
        {"grouping": list(range(len(tables))), "payload": [serialised(table) for table in tables]}
    )


def _returned(frame: DataFrame, groupings: int) -> list[list[pa.Table]]:
    table = frame.toArrow()
    tables = [pa.ipc.open_stream(payload.as_buffer()).read_all() for payload in table["payload"]]
    return [tables[at : at + groupings] for at in range(0, len(tables), groupings)]


def _from_files(events: Events, plan: Plan, pieces: Sequence[Piece]) -> list[list[pa.Table]]:
    stream = events.stream
    needed = kernel_columns(plan.groupings)
    assert needed is not None
    types = {name: stream.types[name] for name in stream.types if name in needed}
    job = _job(plan, Input(types), events)
    texts = [name for name, type_ in types.items() if type_.kind == "string"]
    load = partial(_load, job, list(types), stream.time_column, texts, events.within)
    if sum(piece.rows for piece in pieces) <= SMALL:
        return list(load(pieces))
    session = events.batch.sparkSession
    parts = shares(pieces, session.sparkContext.defaultParallelism)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for tables in load(parts[number]):
                    yield _sent_back(tables)

    tasks = session.range(0, len(parts), 1, len(parts))
    return _returned(tasks.mapInArrow(run, RETURNED), len(plan.groupings))


def groups_in_files(events: Events, grouping: Grouping, most: int) -> int:
    """How many groups the first events of the batch have."""
    assert events.pieces is not None
    names = sorted({name for key in grouping.keys for name in columns_of(key)})
    first: list[Piece] = []
    for piece in events.pieces:
        if sum(p.rows for p in first) < most:
            first.append(piece)
    types = {name: events.stream.types[name] for name in names}
    texts = [name for name, type_ in types.items() if type_.kind == "string"]
    table = pa.concat_tables(read(first, names, events.stream.time_column, texts)).slice(0, most)
    columns = Columns.of(table, types)
    return len(distinct(combine([codes_of(columns.array(key)) for key in grouping.keys], len(table))[0]))


def groups_in_sample(sample: Events, grouping: Grouping) -> int:
    """How many groups the sample has, by Spark."""
    keys = [f"{spark_text(key)} AS k{i}" for i, key in enumerate(grouping.keys)]
    return int(sample.select(keys, before="SELECT DISTINCT * FROM (", after=")").count())


def _load(
    job: Job,
    columns: Sequence[str],
    time: str,
    texts: Sequence[str],
    stretch: Stretch,
    pieces: Sequence[Piece],
) -> Iterator[list[pa.Table]]:
    for table in read(pieces, columns, time, texts, arrival=takes_order(job.groupings)):
        yield partials(stretch.of(table), job)


def _alike(tables: Sequence[pa.Table], schema: pa.Schema) -> list[pa.Table]:
    """The tables of each layout together; at least one, perhaps empty."""
    by_layout: dict[pa.Schema, list[pa.Table]] = {}
    for table in tables:
        by_layout.setdefault(table.schema, []).append(table)
    return [pa.concat_tables(alike) for alike in by_layout.values()] or [schema.empty_table()]
