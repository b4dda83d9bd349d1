"""From a batch of events to partials, on Spark.

Both ways give the same rows (`kernels.partial.partial_schema`): the native way lets Spark group by the step of the
common grid, the kernel way hands Arrow batches to `kernels.partial`. Text of Spark SQL is generated from checked
expressions only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from mullion.catalog.journal import serialised
from mullion.kernels.partial import Input, partial_schema, partials
from mullion.kernels.signature import BITS, words_for
from mullion.language.evaluate import is_vectorised
from mullion.language.query import Column, Expr, walk
from mullion.language.types import BOOLEAN, Type
from mullion.language.typing import resolve
from mullion.planner.cost import MOST_NATIVE_PREDICATES
from mullion.planner.plan import Grouping, Plan, StateColumn
from mullion.spark.expressions import bad_text, spark_text
from mullion.spark.sources import CORRUPT
from mullion.spark.types import columns_from_spark

TIME = "#t"
"""The event time in microseconds; NULL for a record that has no place in time."""


def with_time(batch: DataFrame, time_column: str) -> DataFrame:
    """The batch with its event time, NULL where the record did not parse."""
    time = f"unix_micros(CAST({_quoted(time_column)} AS TIMESTAMP))"
    if CORRUPT in batch.columns:
        # The hash makes every column a needed one: else whether a record counts as malformed would depend on which
        # columns the present queries read.
        columns = ", ".join(_quoted(c) for c in batch.columns if c != CORRUPT)
        time = f"CASE WHEN `{CORRUPT}` IS NULL OR xxhash64({columns}) = 0 THEN {time} END"
    return batch.withColumn(TIME, F.expr(time))


def collect_partials(events: DataFrame, plan: Plan) -> list[pa.Table]:
    """The partials of each grouping of the plan, on the driver."""
    if plan.way == "kernel":
        return _collect_from_kernel(events, plan)
    if len(plan.groupings) == 1:
        return [_typed(_native(events, plan, plan.groupings[0]).toArrow(), plan.groupings[0])]
    return _collect_grouping_sets(events, plan)


def partials_frame(events: DataFrame, plan: Plan, grouping: Grouping) -> DataFrame:
    """The partials of one grouping as a DataFrame, for groupings too large for the driver."""
    if plan.way == "native":
        return _native(events, plan, grouping)
    sent = _send(events, (grouping,))
    windows, slicing, slim = plan.windows, plan.slicing, _slim(grouping)
    inputs = sent.inputs

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield partials(batch, slim, windows, inputs, slicing=slicing)

    return sent.frame.mapInArrow(run, _spark_schema(grouping))


# The native way


def _native(events: DataFrame, plan: Plan, grouping: Grouping) -> DataFrame:
    projected, columns = _project(events, plan, [grouping])
    grouped = projected.groupBy(*columns[0]).agg(*_aggregates([grouping]))
    names = _wire_names([grouping], 0)
    return grouped.select(*(F.col(f"`{ours}`").alias(wire) for ours, wire in names.items()))


def _collect_grouping_sets(events: DataFrame, plan: Plan) -> list[pa.Table]:
    """Several key sets in one pass: GROUPING SETS, each with its own signature and keys."""
    projected, columns = _project(events, plan, plan.groupings)
    every = list(dict.fromkeys(name for names in columns for name in names))
    sets = [[F.col(f"`{n}`") for n in names] for names in columns]
    grouped = projected.groupingSets(sets, *(F.col(f"`{n}`") for n in every))
    table = grouped.agg(F.grouping_id().alias("#set"), *_aggregates(plan.groupings)).toArrow()
    ids = table.column("#set")
    found = []
    for g, (grouping, names) in enumerate(zip(plan.groupings, columns, strict=True)):
        absent = sum(1 << (len(every) - 1 - i) for i, n in enumerate(every) if n not in names)
        rows = table.filter(pa.compute.equal(ids, absent))
        wire = _wire_names(plan.groupings, g)
        found.append(_typed(rows.select(list(wire)).rename_columns(list(wire.values())), grouping))
    return found


def _project(events: DataFrame, plan: Plan, groupings: Sequence[Grouping]) -> tuple[DataFrame, list[list[str]]]:
    """Slice, signatures, keys and arguments as columns, and the names that each grouping groups by."""
    step, origin = plan.grid
    time = F.col(f"`{TIME}`")
    selected: list[SparkColumn] = [
        time.alias(TIME),
        F.expr(f"`{TIME}` - pmod(`{TIME}` - {origin}L, {step}L)").alias("slice"),
    ]
    columns = []
    for g, grouping in enumerate(groupings):
        words = signature_texts(grouping)
        names = ["slice", *(f"sig{g}_{w}" for w in range(len(words)))]
        selected += [F.expr(text).alias(f"sig{g}_{w}") for w, text in enumerate(words)]
        anyone = " OR ".join(f"({text}) <> 0" for text in words)
        for i, key in enumerate(grouping.keys):
            text = spark_text(key)
            if grouping.selective and words:
                text = f"CASE WHEN {anyone} THEN {text} END"
            selected.append(F.expr(text).alias(f"k{g}_{i}"))
            names.append(f"k{g}_{i}")
        columns.append(names)
    for a, argument in enumerate(_arguments(groupings)):
        selected.append(F.expr(spark_text(argument)).alias(f"a{a}"))
    for c, check in enumerate(_checks(groupings)):
        selected.append(F.expr(bad_text(check, plan.stream.types) or "false").alias(f"c{c}"))
    return events.select(*selected), columns


def _aggregates(groupings: Sequence[Grouping]) -> list[SparkColumn]:
    arguments = {argument: f"`a{a}`" for a, argument in enumerate(_arguments(groupings))}
    made = [F.min(f"`{TIME}`").alias("t_min"), F.max(f"`{TIME}`").alias("t_max")]
    for s, state in enumerate(_states(groupings)):
        texts = state.partial.spark("1" if state.argument is None else arguments[state.argument])
        made += [F.expr(text).alias(f"s{s}_{j}") for j, text in enumerate(texts)]
    made += [F.expr(f"count_if(`c{c}`)").alias(f"bad{c}") for c in range(len(_checks(groupings)))]
    return made


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
    names |= {f"bad{checks.index(check)}": f"bad{i}" for i, check in enumerate(grouping.checks)}
    return names


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


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# The kernel way


@dataclass(frozen=True)
class _Sent:
    frame: DataFrame
    inputs: Input


def _send(events: DataFrame, groupings: Sequence[Grouping]) -> _Sent:
    """Few, narrow columns: what Spark evaluates, and for many predicates the columns that they read.

    A handful of predicates is cheapest as Spark's generated code. Hundreds would make that code too large, so those
    that the kernel can evaluate by itself are left to it.
    """
    types = _schema_types(events)
    predicates = list(dict.fromkeys(p for g in groupings for p in g.predicates))
    left = [p for p in predicates if is_vectorised(p, types)] if len(predicates) > MOST_NATIVE_PREDICATES else []
    checks = _checks(groupings)
    expressions = [*predicates, *(k for g in groupings for k in g.keys), *_arguments(groupings)]
    evaluated: dict[Expr, str] = {}
    columns: dict[str, Type] = {}
    selected = [F.col(f"`{TIME}`").alias("t")]
    for expr in dict.fromkeys(expressions):
        if expr in left:
            for node in walk(expr):
                if isinstance(node, Column) and node.name not in columns:
                    columns[node.name] = types[node.name]
                    selected.append(F.col(_quoted(node.name)))
        elif not (isinstance(expr, Column) and expr.name in columns):
            name = f"#e{len(evaluated)}"
            evaluated[expr] = name
            columns[name] = BOOLEAN if expr in predicates else resolve(expr, types)[1]
            selected.append(F.expr(spark_text(expr)).alias(name))
    bad: dict[Expr, str] = {}
    for check in checks:
        bad[check] = f"#b{len(bad)}"
        columns[bad[check]] = BOOLEAN
        selected.append(F.expr(bad_text(check, types) or "false").alias(bad[check]))
    return _Sent(events.select(*selected), Input(columns, evaluated, bad))


def _schema_types(events: DataFrame) -> dict[str, Type]:
    return dict(columns_from_spark(events.schema))


def _collect_from_kernel(events: DataFrame, plan: Plan) -> list[pa.Table]:
    """One pass of the kernel for all groupings; partials come back serialised, each under its grouping's number."""
    sent = _send(events, plan.groupings)
    groupings = [_slim(g) for g in plan.groupings]
    windows, slicing, inputs = plan.windows, plan.slicing, sent.inputs

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = [partials(batch, g, windows, inputs, slicing=slicing) for g in groupings]
            payloads = [serialised(pa.Table.from_batches([m])) for m in made]
            yield pa.RecordBatch.from_pydict({"grouping": list(range(len(made))), "payload": payloads})

    table = sent.frame.mapInArrow(run, "grouping long, payload binary").toArrow()
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


def _spark_schema(grouping: Grouping) -> StructType:
    return from_arrow_schema(partial_schema(grouping))
