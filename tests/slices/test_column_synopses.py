"""Synopses fed with events in their order, while the newest events still wait for theirs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.catalog.synopses import StreamSynopsis
from mullion.expressions.vector import Vector
from mullion.language.types import DOUBLE, INT, Type
from mullion.slices.column_synopses import ColumnSynopsis
from mullion.slices.kernels.events import TIME
from mullion.slices.order import ReorderBuffer
from mullion.slices.waiting_values import WaitingValues
from mullion.storage.files import serialised

ROWS = 8
NONE = WaitingValues(None, "x", DOUBLE)
ALL_WAIT = 30
"""A lag beyond all times: no event has its place yet."""
KINDS = {
    "timegram": StreamSynopsis("t", "s", "x", "timegram", ROWS, 4),
    "timegram with bounds": StreamSynopsis("t", "s", "x", "timegram", ROWS, None, (-2.0, 0.0, 1.0, 50.0)),
    "ordered sharing": StreamSynopsis("o", "s", "x", "ordered_sharing", ROWS),
}
doubles = st.sampled_from((0.0, -0.0, 0.25, 1.0, -1.5, 2.75, 100.0, 1e300, None, math.nan, math.inf, -math.inf))
whole = st.sampled_from((0, 1, 5, -7, 2**31 - 1, -(2**31), None))
events = st.lists(st.tuples(st.integers(0, 20), doubles | whole.map(lambda v: v and float(v))), max_size=30)


def table(rows: list[tuple[int, Any]], type_: Type = DOUBLE) -> pa.Table:
    times = pa.array([t for t, _ in rows], pa.int64())
    return pa.table({TIME: times, "x": Vector.of(type_, [v for _, v in rows]).to_arrow()})


def fed_with(
    fed: ColumnSynopsis, order: ReorderBuffer, rows: list[tuple[int, Any]], batches: int, lag: int
) -> list[tuple[int, Any]]:
    """Feed in batches, the last `lag` instants waiting; returns all rows in their order."""
    newest = None
    for i in range(batches):
        part = rows[len(rows) * i // batches : len(rows) * (i + 1) // batches]
        order.add(table(part))
        newest = max([t for t, _ in part] + ([] if newest is None else [newest]), default=None)
        settled = None if newest is None else order.settle(newest - lag)
        if settled is not None:
            fed.add_events(settled, DOUBLE)
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
    fed, order = ColumnSynopsis(KINDS[kind]), ReorderBuffer()
    ordered = fed_with(fed, order, rows, batches, lag)
    waiting = WaitingValues(order.waiting, "x", DOUBLE)
    for asked in range(1, ROWS + 1):
        held = ordered[-asked:]
        values = [v for _, v in held if v is not None]
        assert fed.holds(asked, waiting)
        assert fed.opens(asked, waiting) == (held[0][0] if held else None)
        assert fed.bounds("count", asked, waiting) == (len(values), len(values))
        for function in ("max", "min", "sum", "avg"):
            low, high = fed.bounds(function, asked, waiting)
            assert_between(low, exact(function, values), high)


@settings(max_examples=30)
@given(rows=events, batches=st.integers(1, 4), lag=st.sampled_from((0, 2, ALL_WAIT)), restart=st.booleans())
def test_extremes_are_exact(rows: list[tuple[int, Any]], batches: int, lag: int, restart: bool) -> None:
    rows = rows if lag == ALL_WAIT else sorted(rows, key=lambda row: row[0])
    fed, order = ColumnSynopsis(KINDS["ordered sharing"]), ReorderBuffer()
    ordered = fed_with(fed, order, rows, batches, lag)
    waiting = WaitingValues(order.waiting, "x", DOUBLE)
    if restart:
        fed = restarted(fed)
    for asked in range(1, ROWS + 1):
        values = [v for _, v in ordered[-asked:] if v is not None]
        for function in ("max", "min"):
            found, wanted = fed.exact(function, asked, waiting), exact(function, values)
            assert found == wanted or (math.isnan(found or 0.0) and math.isnan(wanted or 0.0)), (asked, values)


def restarted(fed: ColumnSynopsis, saved: dict[str, list[pa.Table]] | None = None) -> ColumnSynopsis:
    """As commits keep it: JSON and Arrow. `saved` are the parts of the commits before."""
    parts = {} if saved is None else saved
    for part, is_whole, table in fed.tables(whole=saved is None):
        read = pa.ipc.open_stream(serialised(table)).read_all()
        parts[part] = [read] if is_whole else [*parts[part], read]
    again = ColumnSynopsis(fed.definition)
    again.restore(json.loads(json.dumps(fed.snapshot())), parts)
    return again


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_restart_changes_nothing(kind: str, whole: bool) -> None:
    rng = np.random.default_rng(3)
    rows = [(t, None if t % 5 == 2 else float(v)) for t, v in enumerate(rng.normal(size=400) + np.arange(400))]
    fed, again = ColumnSynopsis(KINDS[kind], since=-1), ColumnSynopsis(KINDS[kind], since=-1)
    saved: dict[str, list[pa.Table]] = {}
    for at in range(0, 400, 8):
        part = table(rows[at : at + 8])
        fed = fed.copy()
        fed.add_events(part, DOUBLE)
        again = restarted(again, None if whole else saved)
        again.add_events(part, DOUBLE)
        for asked in (1, 3, ROWS):
            assert again.opens(asked, NONE) == fed.opens(asked, NONE) == rows[at + 8 - asked][0]
            for function in ("max", "min"):
                if fed.shared:
                    assert again.exact(function, asked, NONE) == fed.exact(function, asked, NONE)
                else:
                    assert again.bounds(function, asked, NONE) == fed.bounds(function, asked, NONE)
    assert restarted(again).since == -1


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_has_what_is_new(kind: str) -> None:
    rng = np.random.default_rng(5)
    fed = ColumnSynopsis(replace(KINDS[kind], rows=5000))
    fed.add_events(table([(t, float(v)) for t, v in enumerate(rng.normal(size=4000))]), DOUBLE)
    first = sum(part.nbytes for _, _, part in fed.tables(whole=False))
    fed = fed.copy()
    fed.add_events(table([(4000, 0.5), (4001, 0.25)]), DOUBLE)
    assert first > 30_000 and sum(part.nbytes for _, _, part in fed.tables(whole=False)) < 200
    assert sum(part.nbytes for _, _, part in fed.tables(whole=False)) == 0
    assert sum(part.nbytes for _, _, part in fed.tables(whole=True)) > 30_000


@pytest.mark.parametrize("kind", KINDS)
def test_events_later_than_a_time(kind: str) -> None:
    fed = ColumnSynopsis(KINDS[kind], since=0)
    waiting = WaitingValues(table([(6, 1.0), (5, 2.0), (6, None)]), "x", DOUBLE)
    assert fed.rows_later_than(0, waiting) == 3 and fed.rows_later_than(5, waiting) == 2
    assert fed.rows_later_than(6, waiting) == 0
    assert fed.rows_later_than(-1, waiting) is None, "events before it are not known"
    fed.add_events(table([(t, 1.0) for t in (1, 1, 2, 3, 4, 4, 4, 4, 5)]), DOUBLE)
    assert fed.rows_later_than(3, waiting) == 8
    assert fed.rows_later_than(1, waiting) == 10
    assert fed.rows_later_than(0, waiting) is None, "one of them has left"


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_missed_events_says_what_it_has_not_seen(kind: str) -> None:
    fed = ColumnSynopsis(KINDS[kind], since=0)
    waiting = WaitingValues(table([(5, 1.0), (6, 2.0)]), "x", DOUBLE)
    assert not fed.holds(1, NONE)
    assert fed.holds(2, waiting) and not fed.holds(3, waiting)
    fed.add_events(table([(1, 1.0), (2, 2.0), (3, 3.0)]), DOUBLE)
    assert fed.holds(5, waiting) and not fed.holds(6, waiting)
    later = ColumnSynopsis(KINDS[kind], since=5)
    later.add_events(table([(4, 8.0), (5, 9.0), (7, 3.0)]), DOUBLE)
    assert later.holds(1, NONE) and not later.holds(2, NONE)
    assert not later.holds(2, WaitingValues(table([(5, 1.0)]), "x", DOUBLE))
    assert ColumnSynopsis(KINDS[kind]).holds(6, waiting)
    assert not ColumnSynopsis(KINDS[kind]).holds(ROWS + 1, waiting)


def test_whole_numbers() -> None:
    fed = ColumnSynopsis(KINDS["ordered sharing"])
    fed.add_events(table([(1, 5), (2, None), (3, -7)], INT), INT)
    waiting = WaitingValues(table([(4, 2**31 - 1), (4, None)], INT), "x", INT)
    assert fed.exact("max", 4, waiting) == 2**31 - 1
    assert fed.exact("max", 1, waiting) is None
    assert fed.exact("min", 3, waiting) == -7
    assert fed.exact("max", 5, waiting) == 2**31 - 1
    assert fed.exact("min", 8, NONE) == -7
