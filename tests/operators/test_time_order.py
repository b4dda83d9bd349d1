"""Rows in the order of time: as one number or key by key, it is the same order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.instants import EVER_BEFORE, FOREVER
from mullion.operators.timed_rows import in_time_order

times = st.sampled_from([EVER_BEFORE, -(2**40), -1, 0, 1, 2, 3, 2**40, FOREVER])
ids = st.sampled_from([0, 1, 2, 3, 2**20, 2**62])


@given(st.integers(1, 3), st.data())
@settings(max_examples=200, deadline=None)
def test_the_order_is_that_of_all_keys(width: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(times, *[ids] * width), max_size=12))
    start = np.array([row[0] for row in rows], np.int64)
    numbers = np.array([row[1:] for row in rows], np.int64).reshape(len(rows), width)
    order = in_time_order(start, numbers)
    found = rows if order is None else [rows[i] for i in order]
    assert found == sorted(rows)
    assert sorted(range(len(rows)) if order is None else order.tolist()) == list(range(len(rows)))
