"""The native way to partials: Spark groups by the step of the common grid.

Each pass is one SQL statement, generated from checked expressions only. Building the same plan from Column objects
takes hundreds of calls into the JVM, which cost as much as the pass itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.grid import Grid
from mullion.expressions.coding.canonical import in_one_piece
from mullion.language.query import Expr
from mullion.planner.plan import FRAGMENTS, Grouping, Pass, StateColumn
from mullion.planner.slices import is_inside
from mullion.slices.kernels.layout import partial_schema, signature_array
from mullion.slices.kernels.signature import WORD, from_words, same_rows, words_for
from mullion.spark.events import TIME, SparkEvents
from mullion.spark.expressions import bad_text, spark_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_OF_SLICE = "s0_0"
"""How many events a row of partials has for queries; a row without any is not kept."""
MOST_HOPPING = 16
"""Different hopping windows of a key set that a statement asks about. With more, few events lie in none of them."""


def native_partials(events: SparkEvents, together: Pass) -> list[list[pa.Table]]:
    """The partials of each grouping of the pass, on the driver. A large batch is gone through once for each part."""
    parts = events.parts()
    if len(parts) > 1:
        made = [native_partials(part, together) for part in parts]
        return [[table for tables in of_grouping for table in tables] for of_grouping in zip(*made, strict=True)]
    if len(together.groupings) == 1:
        (grouping,), (grid,) = together.groupings, together.grids
        return [[with_partial_types(native_frame(events, grid, grouping).toArrow(), grouping)]]
    return [[table] for table in _collect_grouping_sets(events, together)]


def native_frame(events: SparkEvents, grid: Grid, grouping: Grouping) -> DataFrame:
    return _grouped(events, [grid], [grouping], _wire_names([grouping], 0))


def _collect_grouping_sets(events: SparkEvents, together: Pass) -> list[pa.Table]:
    """Several key sets in one pass: GROUPING SETS, each with its own steps, signature and keys."""
    groupings = together.groupings
    wires = [_wire_names(groupings, g) for g in range(len(groupings))]
    every = list(dict.fromkeys(name for g in range(len(groupings)) for name in _key_names(groupings, g)))
    wanted = {name: name for wire in wires for name in wire} | {"grouping_id()": "`#set`"}
    table = _grouped(events, together.grids, groupings, wanted).toArrow()
    tables = []
    for g, (grouping, wire) in enumerate(zip(groupings, wires, strict=True)):
        own = _key_names(groupings, g)
        absent = sum(1 << (len(every) - 1 - i) for i, n in enumerate(every) if n not in own)
        rows = table.filter(pc.equal(table.column("#set"), absent))
        tables.append(with_partial_types(rows.select(list(wire)).rename_columns(list(wire.values())), grouping))
    return tables


def _grouped(
    events: SparkEvents, grids: Sequence[Grid], groupings: Sequence[Grouping], names: dict[str, str]
) -> DataFrame:
    """One statement: an inner SELECT evaluates each different expression once, the outer one groups and aggregates."""
    inner = [TIME]
    for g, (grouping, (step, origin)) in enumerate(zip(groupings, grids, strict=True)):
        inner.append(f"{TIME} - pmod({TIME} - {origin}L, {step}L) AS slice{g}")
        words = signature_texts(grouping)
        inner += [f"{text} AS sig{g}_{w}" for w, text in enumerate(words)]
        needed = _needed_text(grouping, words)
        for i, key in enumerate(grouping.keys):
            text = spark_text(key)
            inner.append(f"CASE WHEN {needed} THEN {text} END AS k{g}_{i}" if needed else f"{text} AS k{g}_{i}")
    inner += [f"{spark_text(argument)} AS a{a}" for a, argument in enumerate(_arguments(groupings))]
    types = groupings[0].types
    inner += [f"{bad_text(check, types) or 'FALSE'} AS c{c}" for c, check in enumerate(_checks(groupings))]
    sets = [_key_names(groupings, g) for g in range(len(groupings))]
    by = ", ".join(sets[0])
    if len(sets) > 1:
        by = "GROUPING SETS ({})".format(", ".join(f"({', '.join(names)})" for names in sets))
    aggregates = _aggregates(groupings)
    outer = ", ".join(f"{aggregates.get(ours, ours)} AS {wire}" for ours, wire in names.items())
    return events.select(inner, before=f"SELECT {outer} FROM (", after=f") GROUP BY {by}")


def _needed_text(grouping: Grouping, words: Sequence[str]) -> str:
    """Whether a query may need an event, as Spark SQL; nothing where one needs them all. Others have no key, so that
    they make no groups."""
    wanted = []
    if grouping.selective and words:
        wanted.append(" OR ".join(f"({text}) <> 0" for text in words))
    if 0 < len(grouping.all_hopping) <= MOST_HOPPING:
        inside = (f"pmod({TIME} - {p.offset - p.range}L, {p.slide}L) < {p.range}L" for p in grouping.all_hopping)
        wanted.append(" OR ".join(inside))
    return " AND ".join(f"({text})" for text in wanted)


def _key_names(groupings: Sequence[Grouping], g: int) -> list[str]:
    """What grouping g groups by."""
    words = words_for(len(groupings[g].bits))
    return [f"slice{g}", *(f"sig{g}_{w}" for w in range(words)), *(f"k{g}_{i}" for i in range(len(groupings[g].keys)))]


def _aggregates(groupings: Sequence[Grouping]) -> dict[str, str]:
    """The aggregates of the pass by the names of their columns."""
    arguments = {argument: f"a{a}" for a, argument in enumerate(_arguments(groupings))}
    aggregates = {"events": "count(1)", "t_min": f"min({TIME})", "t_max": f"max({TIME})"}
    for s, state in enumerate(_states(groupings)):
        texts = state.partial.spark("1" if state.argument is None else arguments[state.argument])
        aggregates |= {f"s{s}_{j}": text for j, text in enumerate(texts)}
    return aggregates | {f"bad{c}": f"count_if(c{c})" for c in range(len(_checks(groupings)))}


def _wire_names(groupings: Sequence[Grouping], g: int) -> dict[str, str]:
    """The columns of the pass that are grouping g's, and what `partial_schema` calls them."""
    grouping = groupings[g]
    states, checks = _states(groupings), _checks(groupings)
    names = {f"slice{g}": "slice"}
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


def with_partial_types(table: pa.Table, grouping: Grouping) -> pa.Table:
    """Partials with exactly the types of `partial_schema`: Spark's timestamps and decimals differ in detail, and its
    signatures are words or plain bytes."""
    schema = partial_schema(grouping, FRAGMENTS)
    if "signature" not in table.schema.names:
        words = [_numbers(table.column(f"sig{w}")) for w in range(words_for(len(grouping.bits)))]
        bits = from_words(words, len(grouping.bits)) if words else np.zeros((len(table), 1), np.uint8)
        same, first = same_rows(bits)
        table = table.append_column("signature", signature_array(same, bits[first]))
    return _without_gaps(as_schema(table, schema), grouping)


def _without_gaps(partials: pa.Table, grouping: Grouping) -> pa.Table:
    """Slices between all windows of hopping queries only say that they hold events, and which are the oldest and the
    newest of them: event time goes on in gaps too."""
    if not grouping.all_hopping:
        return partials
    slices, at = in_one_piece(partials.column("slice")), partials.schema.get_field_index(ROWS_OF_SLICE)
    inside = is_inside(np.asarray(slices.fill_null(0), np.int64), grouping.all_hopping)
    rows = pc.if_else(pa.array(inside), partials.column(at), pa.scalar(0, pa.int64()))
    return partials.set_column(at, partials.schema.field(at), rows)


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
    return np.asarray(in_one_piece(column).fill_null(0), np.int64)
