"""Sums over boxes: the rows of many predicates from cells that they share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_slices import bind
from mullion import reference
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from mullion.options import Options
from mullion.planner.rules import make_plan
from mullion.runtime import planning
from mullion.slices.kernels import boxes, rows
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.layout import SLOT
from mullion.slices.kernels.partial import Input, Job, partials
from without_spark import local_engine

STREAM = Stream("s", (("ts", TIMESTAMP), ("x", BIGINT), ("y", BIGINT), ("z", DOUBLE), ("k", STRING)), "ts")
SECOND = 1_000_000


def made(texts: list[str], events: pa.Table, *, threads: int = 1) -> list[dict[str, Any]]:
    """The sums of each slot and slice."""
    plan = make_plan(STREAM, [bind(parse_query(text), {"s": STREAM}) for text in texts], Options.of(method="rows"))
    job = Job(plan.groupings, plan.methods, (plan.windows,), Input(STREAM.types), threads=threads)
    (table,) = partials(events, job)
    found = table.filter(pa.compute.is_valid(table.column(SLOT)))
    names = [name for name in found.column_names if name.startswith(("s0", "s1", "s2", "bad"))]
    # A slice may come in several rows.
    sums = found.group_by([SLOT, "slice"], use_threads=False).aggregate([(name, "sum") for name in names])
    return sums.sort_by([(SLOT, "ascending"), ("slice", "ascending")]).to_pylist()


def events_of(x: list[int | None], y: list[int | None]) -> pa.Table:
    times = np.arange(len(x)) * SECOND
    z = [None if a is None else a / 8 for a in y]
    columns = {"x": pa.array(x, pa.int64()), "y": pa.array(y, pa.int64()), "z": pa.array(z, pa.float64())}
    keys = pa.array([f"k{i % 3}" for i in range(len(x))])
    return pa.table({TIME: times, "ts": pa.array(times, pa.timestamp("us", "UTC")), **columns, "k": keys})


def test_a_box_by_hand() -> None:
    """Of the predicate x > 1 AND y <= 2, the only one of sixteen that any event satisfies."""
    wanted = "SELECT sum(x) AS t FROM s [RANGE 2 s SLIDE 2 s] WHERE x > 1 AND y <= 2"
    others = [f"SELECT sum(x) AS t FROM s [RANGE 2 s SLIDE 2 s] WHERE x > {9 + i} AND y <= 2" for i in range(20)]
    events = events_of([1, 2, 3, 4, 5], [0, 3, 2, 1, None])
    assert [(row[SLOT], row["slice"], row["s0_0_sum"], row["s1_1_sum"]) for row in made([wanted, *others], events)] == [
        (0, 2 * SECOND, 2, 7)
    ]


CONDITIONS = (
    "x > {a}",
    "x <= {a} AND y > {b}",
    "x BETWEEN {a} AND {c} AND z < {b} / 8.0",
    "x <> {a}",
    "x IN ({a}, {b}, {c})",
    "x IS NULL AND y >= {b}",
    "x > {a} OR y = {b}",
    "NOT (x > {a} AND y < {b}) AND k = 'k1'",
    "y > {a} AND k <> 'k2' AND x < {c}",
    "k = 'k{a}'",
    "x + y > {c}",
)


@st.composite
def query_sets(draw: st.DrawFn) -> list[str]:
    found = []
    for _ in range(draw(st.integers(16, 40))):
        a, b, c = (draw(st.integers(-2, 12)) for _ in range(3))
        condition = draw(st.sampled_from(CONDITIONS[: draw(st.integers(1, len(CONDITIONS)))])).format(a=a, b=b, c=c)
        where = draw(st.sampled_from([f" WHERE {condition}"] * 9 + [""]))
        window = draw(st.sampled_from(["RANGE 5 s SLIDE 5 s", "RANGE 7 s SLIDE 3 s", "RANGE 2 s SLIDE 11 s"]))
        found.append(f"SELECT sum(x) AS t, sum(z) AS d FROM s [{window}]{where}")
    return found


VALUES = st.lists(st.tuples(*[st.one_of(st.none(), st.integers(-3, 13))] * 2), max_size=60)


@given(query_sets(), VALUES, st.sampled_from([5, 1 << 21]), st.sampled_from([0, 4, 10**9]))
def test_boxes_give_the_rows_of_dense_rows(texts: list[str], values: list[Any], most: int, dear: int) -> None:
    events = events_of([x for x, _ in values], [y for _, y in values])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes, "MOST_CELLS", 0)
        wanted = made(texts, events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes, "MEMBER", 1e9)
        patch.setattr(boxes, "MOST_EVENTS", most)
        patch.setattr(boxes, "DEAR", dear)
        patch.setattr(rows, "dense_rows", None)
        assert made(texts, events, threads=2) == wanted


@settings(max_examples=30)
@given(query_sets(), VALUES, st.integers(1, 4), st.sampled_from(["auto", "rows"]))
def test_engines_answer_from_boxes_what_the_reference_does(
    texts: list[str], values: list[Any], batches: int, method: str
) -> None:
    events = [
        {"ts": i * SECOND, "x": x, "y": y, "z": None if y is None else y / 8, "k": f"k{i % 3}"}
        for i, (x, y) in enumerate(values)
    ]
    columns = "ts TIMESTAMP, x BIGINT, y BIGINT, z DOUBLE, k STRING"
    queries = "; ".join(f"CREATE QUERY q{i} AS {text}" for i, text in enumerate(texts))
    script = f"CREATE STREAM s ({columns}) USING parquet OPTIONS (path '/none') TIMESTAMP BY ts; {queries}"
    with pytest.MonkeyPatch.context() as patch, local_engine(script, method=method, sharing="on") as engine:
        patch.setattr(boxes, "MEMBER", 1e9)
        patch.setattr(planning, "MANY_PREDICATES", 2)
        for number in range(batches):
            engine.deliver("s", events[len(events) * number // batches : len(events) * (number + 1) // batches], number)
        engine.end("s")
        for i, text in enumerate(texts):
            wanted = reference.answer(parse_query(text), STREAM, events).rows
            found = engine.results(f"q{i}").to_arrow()
            sums = zip(found["t"].to_pylist(), found["d"].to_pylist(), strict=True)
            assert sorted(map(repr, sums)) == sorted(repr(row[-2:]) for row in wanted), text
