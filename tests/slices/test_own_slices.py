"""Rows of predicates by their own slices: by hand, and at random against plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_slices import bind
from mullion.aggregates.exact_sums import nearest_double
from mullion.algebra.streams import Stream
from mullion.expressions.evaluate import evaluate
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP
from mullion.options import Options
from mullion.planner.plan import Grouping, Plan
from mullion.planner.rules import make_plan
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.fields import ADD, LEAST, MOST, FoldedColumn
from mullion.slices.kernels.groups import Groups
from mullion.slices.kernels.layout import SLOT
from mullion.slices.kernels.own_slices import own_rows
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.kernels.slicing import Cut, slice_starts

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("n", INT), ("b", BIGINT), ("x", DOUBLE)), "ts")
SECOND = 1_000_000
QUERIES = (
    "SELECT k, count(*) AS c, sum(n) AS s, min(b) AS l, max(x) AS h FROM s {w} WHERE {p} GROUP BY k",
    "SELECT k, n, sum(x) AS s, sum(b) AS t FROM s {w} WHERE {p} GROUP BY k, n",
    "SELECT x, avg(b) AS a, min(x) AS l FROM s {w} WHERE {p} GROUP BY x",
    "SELECT sum(n) AS s, max(n) AS h, sum(x) AS t FROM s {w} WHERE {p}",
    "SELECT k, count(n) AS c FROM s {w} GROUP BY k",
)
PREDICATES = (
    "n > 0", "n > 100", "NOT (k = 'a')", "k LIKE 'b%' OR n < 2", "k IN ('a', 'c') AND n >= 1", "n * 2 > b",
    "k < 'b'", "k LIKE '%b%'", "x >= 0 AND (n <> 1 OR k IS NULL)", "n IS NULL OR NOT (n > 1 AND k = 'b')",
)  # fmt: skip
WINDOWS = ("[RANGE 10 sec SLIDE 10 sec]", "[RANGE 18 sec SLIDE 15 sec]", "[RANGE 3 sec SLIDE 7 sec]")


def test_rows_by_hand() -> None:
    cut = Cut(np.array([0, 10]), np.array([0, 3, 6]))
    groups = Groups(np.array([0, 0, 1, 0, 1, 1], np.int32), 2, ())
    values = np.array([1, 2, 4, 8, 16, -32])
    columns = [FoldedColumn.of(op, values) for op in (ADD, LEAST, MOST)]
    rows = own_rows(cut, np.array([1, 0, 1, 1, 1, 1], np.uint8), groups, columns)
    assert rows.group is not None
    found = list(zip(rows.slices.tolist(), rows.group.tolist(), rows.rows.tolist(), strict=True))
    assert found == [(0, 0, 1), (0, 1, 1), (10, 0, 1), (10, 1, 2)]
    assert [column.tolist() for column in rows.columns] == [[1, 4, 8, -16], [1, 4, 8, -32], [1, 4, 8, 16]]
    assert len(own_rows(cut, False, groups, columns)) == 0
    assert own_rows(cut, np.array([0, 0, 0, 1, 0, 0], np.uint8), None, columns).columns[0].tolist() == [8]


def plan_of(text: str, **options: Any) -> Plan:
    return make_plan(STREAM, [bind(parse_query(text), {"s": STREAM})], Options.of(**options))


def together(plans: list[Plan], groupings: tuple[Grouping, ...]) -> Job:
    methods = tuple(method for plan in plans for method in plan.methods)
    windows = tuple(plan.windows for plan in plans for _ in plan.groupings)
    return Job(groupings, methods, windows, Input(STREAM.types))


def table_of(events: list[dict[str, Any]]) -> pa.Table:
    columns = {name: Vector.of(t, [e[name] for e in events]).to_arrow() for name, t in STREAM.columns}
    return pa.table({TIME: pa.array([e["ts"] for e in events], pa.int64()), **columns})


Row = dict[str, tuple[Any, ...]]


def found_rows(table: pa.Table, grouping: Grouping) -> dict[tuple[Any, ...], Row]:
    """State by state, what each row of a slot holds."""
    rows = table.filter(pa.compute.is_valid(table.column(SLOT)))
    keys = [_plain(rows.column(f"k{i}").to_pylist()) for i in range(len(grouping.keys))]
    identity = zip(rows.column("slice").to_pylist(), *keys, strict=True)
    found: dict[tuple[Any, ...], Row] = {key: {} for key in identity}
    assert len(found) == len(rows)
    for i, state in enumerate(grouping.states):
        stored = [rows.column(f"s{i}_{j}").to_pylist() for j in range(len(state.partial.stored))]
        for key, *fields in zip(found, *stored, strict=True):
            found[key][state.name] = tuple(_plain(fields))
    return found


def _plain(values: list[Any]) -> list[Any]:
    return ["NaN" if isinstance(v, float) and math.isnan(v) else v for v in values]


def wanted_rows(events: list[dict[str, Any]], plan: Plan, grouping: Grouping) -> dict[tuple[Any, ...], Row]:
    """The same from the events of each row, each lifted and combined by the definition of its state."""
    table = table_of(events)
    columns = {name: Vector.from_arrow(table.column(name), type_) for name, type_ in STREAM.columns}
    (query,) = grouping.queries
    inside = np.ones(len(events), np.bool_)
    if query.predicate is not None:
        truth = evaluate(query.predicate, columns, len(events))
        inside = truth.values & truth.valid
    slices = slice_starts(np.array([e["ts"] for e in events], np.int64), (query.window,))
    range_, slide, _ = query.window
    inside &= (slices % slide >= slide - range_) | (range_ >= slide)
    keys = [_plain([0.0 if v == 0 else v for v in evaluate(k, columns, len(events)).to_list()]) for k in grouping.keys]
    members = defaultdict(list)
    for i in np.flatnonzero(inside):
        members[int(slices[i]), *(key[i] for key in keys)].append(int(i))
    wanted: dict[tuple[Any, ...], Row] = {}
    for key, own in members.items():
        wanted[key] = {}
        for state in grouping.states:
            ones = Vector(BIGINT, np.ones(len(events), np.int64), np.ones(len(events), np.bool_))
            values = ones if state.argument is None else evaluate(state.argument, columns, len(events))
            stored = state.partial.gather(values.take(np.array(own)), np.zeros(1, np.intp))
            wanted[key][state.name] = tuple(_plain([vector.to_list()[0] for vector in stored]))
    return wanted


numbers = st.one_of(st.none(), st.integers(-3, 3))
doubles = st.sampled_from([None, 0.0, -0.0, 0.1, 2.5, -1e300, math.inf, math.nan])
wide = st.one_of(st.none(), st.sampled_from([2**63 - 1, -(2**63), 2**62, 5]))
events_of = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(-60, 60).map(lambda t: t * SECOND),
            "k": st.sampled_from([None, "a", "b", "bb", "c"]),
            "n": numbers,
            "b": st.one_of(numbers, wide),
            "x": doubles,
        }
    ),
    max_size=30,
)

texts = st.tuples(*map(st.sampled_from, (QUERIES, PREDICATES, WINDOWS)))


@settings(max_examples=40)
@given(events=events_of, chosen=st.lists(texts, min_size=1, max_size=5), workers=st.booleans())
def test_many_groupings_of_one_job(
    events: list[dict[str, Any]], chosen: list[tuple[str, str, str]], workers: bool
) -> None:
    plans = [plan_of(query.format(p=predicate, w=window), method="rows") for query, predicate, window in chosen]
    groupings = tuple(g for plan in plans for g in plan.groupings)
    slim = tuple(g.for_workers("rows") for g in groupings) if workers else groupings
    plans = [replace(plan, methods=("rows",) * len(plan.groupings)) for plan in plans]
    job = together(plans, slim)
    for threads in (1, 2):
        tables = partials(table_of(events), replace(job, threads=threads))
        for plan, grouping, table in zip(plans, groupings, tables, strict=True):
            assert found_rows(table, grouping) == wanted_rows(events, plan, grouping)
            assert sum(n or 0 for n in table.column("events").to_pylist()) == len(events)


def test_sums_of_doubles_do_not_depend_on_the_order() -> None:
    plan = plan_of("SELECT k, sum(x) AS s FROM s [RANGE 10 sec SLIDE 10 sec] WHERE n >= 0 GROUP BY k", method="rows")
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.normal(size=5000) * 1e-9, rng.normal(size=5000)])
    for order in (np.arange(10_000), rng.permutation(10_000)):
        events = [{"ts": 5, "k": "a", "n": 1, "b": 0, "x": float(x)} for x in values[order]]
        ((state,),) = [
            found_rows(partials(table_of(events), together([plan], plan.groupings))[0], plan.groupings[0]).values()
        ]
        (coarse, fine), (residue,) = (state[f"{name}(x)"] for name in ("sum_coarse", "sum_residue"))
        assert nearest_double(np.array([coarse]), np.array([fine]), np.array([residue]))[0] == math.fsum(values)


def test_a_million_groups_take_one_row_each() -> None:
    length = 200_000
    plan = plan_of("SELECT b, count(*) AS c FROM s [RANGE 10 sec SLIDE 10 sec] WHERE n = 1 GROUP BY b", method="rows")
    table = pa.table(
        {
            TIME: np.arange(length) * 1000,
            "ts": pa.array(np.arange(length) * 1000, pa.timestamp("us", "UTC")),
            "k": pa.nulls(length, pa.string()),
            "n": np.ones(length, np.int32),
            "b": np.arange(length),
            "x": np.zeros(length),
        }
    )
    (found,) = partials(table, together([plan], plan.groupings))
    assert len(found) == length + 20


@pytest.mark.parametrize("predicate", ["k = 'nobody'", "n > 1000", "k LIKE '%z%' AND n > 0"])
def test_what_nobody_satisfies_leaves_only_the_counts_of_slices(predicate: str) -> None:
    plan = plan_of(
        f"SELECT k, sum(n) AS s FROM s [RANGE 10 sec SLIDE 10 sec] WHERE {predicate} GROUP BY k", method="rows"
    )
    events = [{"ts": i * SECOND, "k": "a", "n": i, "b": 0, "x": 0.5} for i in range(25)]
    (table,) = partials(table_of(events), together([plan], plan.groupings))
    assert table.column("events").to_pylist() == [10, 10, 5]
