"""Synopses fed with events in their order, while the newest events still wait for theirs."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.catalog.synopses import Synopsis
from mullion.expressions.vector import Vector
from mullion.language.types import DOUBLE, INT, Type
from mullion.slices.column_synopses import ColumnSynopsis
from mullion.slices.kernels.partial import TIME
from mullion.slices.order import Order
from mullion.storage.files import serialised

ROWS = 8
ALL_WAIT = 30
"""A lag beyond all times: no event has its place yet."""
KINDS = {
    "timegram": Synopsis("t", "s", "x", "timegram", ROWS, 4),
    "timegram with bounds": Synopsis("t", "s", "x", "timegram", ROWS, None, (-2.0, 0.0, 1.0, 50.0)),
    "ordered sharing": Synopsis("o", "s", "x", "ordered_sharing", ROWS),
}
doubles = st.sampled_from((0.0, -0.0, 0.25, 1.0, -1.5, 2.75, 100.0, 1e300, None, math.nan, math.inf, -math.inf))
whole = st.sampled_from((0, 1, 5, -7, 2**31 - 1, -(2**31), None))
events = st.lists(st.tuples(st.integers(0, 20), doubles | whole.map(lambda v: v and float(v))), max_size=30)


def table(rows: list[tuple[int, Any]], type_: Type = DOUBLE) -> pa.Table:
    times = pa.array([t for t, _ in rows], pa.int64())
    return pa.table({TIME: times, "x": Vector.of(type_, [v for _, v in rows]).to_arrow()})


def fed_with(
    fed: ColumnSynopsis, order: Order, rows: list[tuple[int, Any]], batches: int, lag: int
) -> list[tuple[int, Any]]:
    """Feed in batches, the last `lag` instants waiting; returns all rows in their order."""
    newest = None
    for i in range(batches):
        part = rows[len(rows) * i // batches : len(rows) * (i + 1) // batches]
        order.add(table(part))
        newest = max([t for t, _ in part] + ([] if newest is None else [newest]), default=None)
        settled = None if newest is None else order.settle(newest - lag)
        if settled is not None:
            fed.take(settled, DOUBLE)
    return sorted(rows, key=lambda row: row[0])


def exact(function: str, values: list[float]) -> float | None:
    """As SQL has it: NaN is larger than any number, and of no value there is NULL."""
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("max", "min"):
        ranked = sorted(values, key=lambda v: (math.isnan(v), v))
        return ranked[-1 if function == "max" else 0]
    special = sum(v for v in values if not math.isfinite(v))
    total = special if math.isnan(special) or math.isinf(special) else math.fsum(values)
    return total if function == "sum" else total / len(values)


def assert_between(low: Any, right: float | None, high: Any) -> None:
    if right is None or low is None or high is None:
        assert (low, right, high) == (None, None, None)
    elif math.isnan(right):
        assert math.isnan(high)
    else:
        assert low <= right, (low, right, high)
        assert math.isnan(high) or right <= high, (low, right, high)


@pytest.mark.parametrize("kind", ["timegram", "timegram with bounds"])
@settings(max_examples=25)
@given(rows=events, batches=st.integers(1, 4), lag=st.sampled_from((0, 2, ALL_WAIT)))
def test_the_bounds_hold_the_exact_answer(kind: str, rows: list[tuple[int, Any]], batches: int, lag: int) -> None:
    rows = rows if lag == ALL_WAIT else sorted(rows, key=lambda row: row[0])
    fed, order = ColumnSynopsis(KINDS[kind]), Order()
    ordered = fed_with(fed, order, rows, batches, lag)
    for asked in range(1, ROWS + 1):
        held = ordered[-asked:]
        values = [v for _, v in held if v is not None]
        assert fed.holds(asked, order.waiting)
        assert fed.opens(asked, order.waiting) == (held[0][0] if held else None)
        assert fed.bounds("count", asked, order.waiting, DOUBLE) == (len(values), len(values))
        for function in ("max", "min", "sum", "avg"):
            low, high = fed.bounds(function, asked, order.waiting, DOUBLE)
            assert_between(low, exact(function, values), high)


@settings(max_examples=30)
@given(rows=events, batches=st.integers(1, 4), lag=st.sampled_from((0, 2, ALL_WAIT)), restart=st.booleans())
def test_extremes_are_exact(rows: list[tuple[int, Any]], batches: int, lag: int, restart: bool) -> None:
    rows = rows if lag == ALL_WAIT else sorted(rows, key=lambda row: row[0])
    fed, order = ColumnSynopsis(KINDS["ordered sharing"]), Order()
    ordered = fed_with(fed, order, rows, batches, lag)
    if restart:
        fed = restarted(fed)
    for asked in range(1, ROWS + 1):
        values = [v for _, v in ordered[-asked:] if v is not None]
        for function in ("max", "min"):
            found, wanted = fed.exact(function, asked, order.waiting, DOUBLE), exact(function, values)
            assert found == wanted or (math.isnan(found or 0.0) and math.isnan(wanted or 0.0)), (asked, values)


def restarted(fed: ColumnSynopsis) -> ColumnSynopsis:
    """As a commit keeps it: JSON and Arrow."""
    states, tables = fed.snapshot()
    again = ColumnSynopsis(fed.definition)
    read = [pa.ipc.open_stream(serialised(one)).read_all() for one in tables]
    again.restore(json.loads(json.dumps(states)), read)
    return again


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_changes_nothing(kind: str) -> None:
    rng = np.random.default_rng(3)
    rows = [(t, None if t % 5 == 2 else float(v)) for t, v in enumerate(rng.normal(size=40))]
    fed, again = ColumnSynopsis(KINDS[kind], since=-1), ColumnSynopsis(KINDS[kind], since=-1)
    for at in range(0, 40, 8):
        part = table(rows[at : at + 8])
        fed.take(part, DOUBLE)
        again = restarted(again)
        again.take(part, DOUBLE)
        for asked in (1, 3, ROWS):
            assert again.opens(asked, None) == fed.opens(asked, None) == rows[at + 8 - asked][0]
            for function in ("max", "min"):
                if fed.shared:
                    assert again.exact(function, asked, None, DOUBLE) == fed.exact(function, asked, None, DOUBLE)
                else:
                    assert again.bounds(function, asked, None, DOUBLE) == fed.bounds(function, asked, None, DOUBLE)
    assert restarted(again).since == -1


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_missed_events_says_what_it_has_not_seen(kind: str) -> None:
    fed = ColumnSynopsis(KINDS[kind], since=0)
    waiting = table([(5, 1.0), (6, 2.0)])
    assert not fed.holds(1, None)
    assert fed.holds(2, waiting) and not fed.holds(3, waiting)
    fed.take(table([(1, 1.0), (2, 2.0), (3, 3.0)]), DOUBLE)
    assert fed.holds(5, waiting) and not fed.holds(6, waiting)
    later = ColumnSynopsis(KINDS[kind], since=5)
    later.take(table([(4, 8.0), (5, 9.0), (7, 3.0)]), DOUBLE)
    assert later.holds(1, None) and not later.holds(2, None)
    assert not later.holds(2, table([(5, 1.0)]))
    assert ColumnSynopsis(KINDS[kind]).holds(6, waiting)
    assert not ColumnSynopsis(KINDS[kind]).holds(ROWS + 1, waiting)


def test_whole_numbers() -> None:
    fed = ColumnSynopsis(KINDS["ordered sharing"])
    fed.take(table([(1, 5), (2, None), (3, -7)], INT), INT)
    waiting = table([(4, 2**31 - 1), (4, None)], INT)
    assert fed.exact("max", 4, waiting, INT) == 2**31 - 1
    assert fed.exact("max", 1, waiting, INT) is None
    assert fed.exact("min", 3, waiting, INT) == -7
    assert fed.exact("max", 5, waiting, INT) == 2**31 - 1
    assert fed.exact("min", 8, None, INT) == -7
