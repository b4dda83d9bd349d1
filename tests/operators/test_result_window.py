"""Windows over the results of a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lives_in_steps import Life, Source, deltas, lives_of, one, relations, steps
from mullion.algebra.nodes import ResultWindow, Scan
from mullion.instants import FOREVER, THE_END
from mullion.language.query import Window
from mullion.language.types import BIGINT
from mullion.operators.result_window import ResultWindowOperator
from mullion.reference.lifetimes import lifetimes
from mullion.storage.files import serialised

SCHEMA = pa.schema([("n", pa.int64())])
SCAN = Scan("s", Window(range=10), (("n", BIGINT),))
INPUT = [one(1, at=(2, 9), id=7), one(2, at=(3, 4), id=3), one(3, at=(7, 8), id=1), one(4, at=(7, 20), id=2)]


def run(
    window: Window, rows: Sequence[Life], nows: Sequence[int] = (THE_END,), *, restart: bool = False
) -> list[tuple[Any, ...]]:
    node, found = ResultWindow(SCAN, window), []
    operator = ResultWindowOperator(node, [Source(SCHEMA)])
    for delta in deltas(rows, SCHEMA, nows):
        if restart:
            parts = operator.parts()
            saved = {name: [pa.ipc.open_stream(serialised(t)).read_all() for t in ts] for name, ts in parts.items()}
            operator = ResultWindowOperator(node, [Source(SCHEMA)])
            operator.restore(saved)
        found.append(operator.advance([delta], delta.now))
    return lives_of(found)


def test_a_window_of_time_forgets_when_rows_end() -> None:
    assert run(Window(range=4), INPUT) == [(1, 2, 6), (2, 3, 7), (3, 7, 11), (4, 7, 11)]


@pytest.mark.parametrize("nows", [[THE_END], [3, 7, 8, THE_END]])
def test_a_window_of_rows_is_pushed_on_by_new_results(nows: list[int]) -> None:
    assert run(Window(rows=2), INPUT, nows) == [(1, 2, 7), (2, 3, 7), (3, 7, FOREVER), (4, 7, FOREVER)]
    by_twos = [(1, 3, 7), (2, 3, 7), (3, 7, FOREVER), (4, 7, FOREVER)]
    assert run(Window(rows=2, slide_rows=2), INPUT, nows) == by_twos


def test_only_rows_that_wait_are_kept() -> None:
    operator = ResultWindowOperator(ResultWindow(SCAN, Window(rows=1000, slide_rows=4)), [Source(SCHEMA)])
    for delta in deltas([one(i, at=(i, i + 9), id=i) for i in range(50)], SCHEMA, range(1, 51)):
        operator.advance([delta], delta.now)
        assert operator.rows_held <= 3


windows = st.one_of(
    st.builds(lambda n, m: Window(rows=n, slide_rows=m), st.integers(1, 5), st.integers(1, 4)),
    st.builds(lambda r: Window(range=r), st.integers(1, 9)),
    st.sampled_from((Window(now=True), Window(unbounded=True), Window(since=9))),
)


@given(windows, relations(st.tuples(st.integers(0, 3))), steps, st.booleans())
def test_results_are_events_of_a_stream(window: Window, rows: list[Life], nows: list[int], restart: bool) -> None:
    ordered = sorted(rows, key=lambda row: (row.start, row.id))
    found = zip(ordered, lifetimes(window, [row.start for row in ordered]), strict=True)
    expected = [(*row.values, start, end) for row, (start, end) in found if start < end]
    assert sorted(run(window, rows, nows, restart=restart)) == sorted(expected)
