"""From a batch of events to partials, on Spark.

Both ways give the same rows (`kernels.partial.partial_schema`): the native way lets Spark group by the step of the
common grid, the kernel way hands Arrow batches to `kernels.partial`.

Each pass is one SQL statement, generated from checked expressions only. Building the same plan from Column objects
takes hundreds of calls into the JVM, which cost as much as the pass itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from mullion.catalog.journal import serialised
from mullion.catalog.streams import Stream
from mullion.kernels.partial import Input, partial_schema, partials
from mullion.kernels.signature import BITS, words_for
from mullion.language.evaluate import is_vectorised
from mullion.language.query import Column, Expr, walk
from mullion.language.types import BOOLEAN, Type
from mullion.language.typing import type_of
from mullion.planner.cost import MOST_NATIVE_PREDICATES
from mullion.planner.plan import Grouping, Plan, StateColumn
from mullion.spark.expressions import bad_text, identifier, spark_text
from mullion.spark.sources import CORRUPT

TIME = "`#t`"
"""The event time in microseconds; NULL for a record that has no place in time."""

_views = count()


@dataclass(frozen=True)
class Events:
    """A batch of a stream, perhaps only the part of it that satisfies `where`."""

    batch: DataFrame
    stream: Stream
    where: str = "TRUE"

    def select(self, columns: Sequence[str], *, before: str = "", after: str = "") -> DataFrame:
        """SELECT columns FROM the events, which have their own columns and TIME; text may stand around it."""
        view = f"mullion_batch_{next(_views)}"
        self.batch.createOrReplaceTempView(view)
        session = self.batch.sparkSession
        try:
            timed = f"(SELECT *, {self._time()} AS {TIME} FROM {view})"
            selected = f"SELECT {', '.join(columns)} FROM {timed} WHERE {self.where}"
            return session.sql(f"{before}{selected}{after}")
        finally:
            session.catalog.dropTempView(view)

    def _time(self) -> str:
        time = f"unix_micros(CAST({identifier(self.stream.time_column)} AS TIMESTAMP))"
        if CORRUPT not in self.batch.columns:
            return time
        # The hash makes every column a needed one: else whether a record counts as malformed would depend on which
        # columns the present queries read.
        columns = ", ".join(identifier(c) for c in self.batch.columns if c != CORRUPT)
        return f"CASE WHEN {CORRUPT} IS NULL OR xxhash64({columns}) = 0 THEN {time} END"

    def before(self, time: int) -> Events:
        return replace(self, where=f"{TIME} < {time}L")

    def since(self, time: int) -> Events:
        """Events from that time on, and records without one."""
        return replace(self, where=f"({TIME} >= {time}L OR {TIME} IS NULL)")

    def malformed(self) -> Events:
        return replace(self, where=f"{TIME} IS NULL")

    def first(self, number: int) -> Events:
        return replace(self, batch=self.batch.limit(number))


def collect_partials(events: Events, plan: Plan) -> list[pa.Table]:
    """The partials of each grouping of the plan, on the driver."""
    if plan.way == "kernel":
        return _collect_from_kernel(events, plan)
    if len(plan.groupings) == 1:
        return [_typed(_native(events, plan, plan.groupings[0]).toArrow(), plan.groupings[0])]
    return _collect_grouping_sets(events, plan)


def partials_frame(events: Events, plan: Plan, grouping: Grouping) -> DataFrame:
    """The partials of one grouping as a DataFrame, for groupings too large for the driver."""
    if plan.way == "native":
        return _native(events, plan, grouping)
    frame, inputs = _send(events, (grouping,))
    windows, slicing, slim = plan.windows, plan.slicing, _slim(grouping)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield partials(batch, slim, windows, inputs, slicing=slicing)

    return frame.mapInArrow(run, from_arrow_schema(partial_schema(grouping)))


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
        found.append(_typed(rows.select(list(wire)).rename_columns(list(wire.values())), grouping))
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
    types = plan.stream.types
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
    words = words_for(len(groupings[g].predicates))
    return ["slice", *(f"sig{g}_{w}" for w in range(words)), *(f"k{g}_{i}" for i in range(len(groupings[g].keys)))]


def _aggregates(groupings: Sequence[Grouping]) -> dict[str, str]:
    """The aggregates of the pass by the names of their columns."""
    arguments = {argument: f"a{a}" for a, argument in enumerate(_arguments(groupings))}
    made = {"t_min": f"min({TIME})", "t_max": f"max({TIME})"}
    for s, state in enumerate(_states(groupings)):
        texts = state.partial.spark("1" if state.argument is None else arguments[state.argument])
        made |= {f"s{s}_{j}": text for j, text in enumerate(texts)}
    return made | {f"bad{c}": f"count_if(c{c})" for c in range(len(_checks(groupings)))}


def _wire_names(groupings: Sequence[Grouping], g: int) -> dict[str, str]:
    """The columns of the pass that are grouping g's, and what `partial_schema` calls them."""
    grouping = groupings[g]
    states, checks = _states(groupings), _checks(groupings)
    names = {"slice": "slice"}
    names |= {f"sig{g}_{w}": f"sig{w}" for w in range(words_for(len(grouping.predicates)))}
    names |= {f"k{g}_{i}": f"k{i}" for i in range(len(grouping.keys))}
    names |= {"t_min": "t_min", "t_max": "t_max"}
    for i, state in enumerate(grouping.states):
        at = states.index(state)
        names |= {f"s{at}_{j}": f"s{i}_{j}" for j in range(len(state.partial.stored))}
    return names | {f"bad{checks.index(check)}": f"bad{i}" for i, check in enumerate(grouping.checks)}


def signature_texts(grouping: Grouping) -> list[str]:
    """The words of the signature as Spark SQL."""
    words: list[list[str]] = [[] for _ in range(words_for(len(grouping.predicates)))]
    for bit, predicate in enumerate(grouping.predicates):
        words[bit // BITS].append(f"CASE WHEN {spark_text(predicate)} THEN {1 << (bit % BITS)}L ELSE 0L END")
    return [" | ".join(word) for word in words]


def _arguments(groupings: Sequence[Grouping]) -> list[Expr]:
    return list(dict.fromkeys(s.argument for g in groupings for s in g.states if s.argument is not None))


def _states(groupings: Sequence[Grouping]) -> list[StateColumn]:
    return list(dict.fromkeys(s for g in groupings for s in g.states))


def _checks(groupings: Sequence[Grouping]) -> list[Expr]:
    return list(dict.fromkeys(c for g in groupings for c in g.checks))


def _typed(table: pa.Table, grouping: Grouping) -> pa.Table:
    """The partials with exactly the types of `partial_schema`; Spark's timestamps and decimals differ in detail."""
    return table.cast(partial_schema(grouping))


# The kernel way


def _send(events: Events, groupings: Sequence[Grouping]) -> tuple[DataFrame, Input]:
    """Few, narrow columns: what Spark evaluates, and for many predicates the columns that they read.

    A handful of predicates is cheapest as Spark's generated code. Hundreds would make that code too large, so those
    that the kernel can evaluate by itself are left to it.
    """
    types = events.stream.types
    predicates = dict.fromkeys(p for g in groupings for p in g.predicates)
    many = len(predicates) > MOST_NATIVE_PREDICATES
    left = {p for p in predicates if is_vectorised(p, types)} if many else set()
    evaluated: dict[Expr, str] = {}
    columns: dict[str, Type] = {}
    selected = [f"{TIME} AS t"]
    for expr in dict.fromkeys([*predicates, *(k for g in groupings for k in g.keys), *_arguments(groupings)]):
        if expr in left:
            for node in walk(expr):
                if isinstance(node, Column) and node.name not in columns:
                    columns[node.name] = types[node.name]
                    selected.append(identifier(node.name))
        elif not (isinstance(expr, Column) and expr.name in columns):
            evaluated[expr] = f"#e{len(evaluated)}"
            columns[evaluated[expr]] = BOOLEAN if expr in predicates else type_of(expr, types)
            selected.append(f"{spark_text(expr)} AS `{evaluated[expr]}`")
    bad = {check: f"#b{i}" for i, check in enumerate(_checks(groupings))}
    for check, name in bad.items():
        columns[name] = BOOLEAN
        selected.append(f"{bad_text(check, types) or 'FALSE'} AS `{name}`")
    return events.select(selected), Input(columns, evaluated, bad)


def _collect_from_kernel(events: Events, plan: Plan) -> list[pa.Table]:
    """One pass of the kernel for all groupings; partials come back serialised, each under its grouping's number."""
    frame, inputs = _send(events, plan.groupings)
    groupings = [_slim(g) for g in plan.groupings]
    windows, slicing = plan.windows, plan.slicing

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = [partials(batch, g, windows, inputs, slicing=slicing) for g in groupings]
            payloads = [serialised(pa.Table.from_batches([m])) for m in made]
            yield pa.RecordBatch.from_pydict({"grouping": list(range(len(made))), "payload": payloads})

    table = frame.mapInArrow(run, "grouping long, payload binary").toArrow()
    found: list[list[pa.Table]] = [[] for _ in plan.groupings]
    for g, payload in zip(table["grouping"].to_pylist(), table["payload"], strict=True):
        found[g].append(pa.ipc.open_stream(payload.as_buffer()).read_all())
    return [
        pa.concat_tables([*parts, partial_schema(g).empty_table()])
        for parts, g in zip(found, plan.groupings, strict=True)
    ]


def _slim(grouping: Grouping) -> Grouping:
    """What a worker needs: queries stay on the driver."""
    return replace(grouping, queries=())
