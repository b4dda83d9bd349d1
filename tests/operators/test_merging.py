"""The rule by which sub-windows are merged: few of them, and few copies of each row."""

from __future__ import annotations

from itertools import pairwise
from math import log, log2

from hypothesis import given
from hypothesis import strategies as st

from mullion.operators.merging import FRACTION, SMALL, is_merged, most_merged


@given(st.lists(st.integers(1, 50), max_size=300))
def test_sub_windows_and_copies_grow_with_the_logarithm(fresh: list[int]) -> None:
    windows: list[int] = []
    copied = 0
    for size in fresh:
        while windows and is_merged(windows[-1], size):
            size += windows.pop()
            copied += size
        windows.append(size)
    total = sum(fresh)
    assert sum(windows) == total
    assert all(before > 2 * after for before, after in pairwise(windows))
    assert len(windows) <= log2(total + 1) + 1
    # A row of an older sub-window sees its own grow by half; a new row meets those before it, each twice the last.
    assert copied <= total * (log(total + 1, 1.5) + log2(total + 1) + 2)


def test_where_rows_are_seldom_looked_for_they_are_copied_less() -> None:
    windows: list[int] = []
    total, copied = 0, 0
    for size in [1000] * 1000:
        while windows and is_merged(windows[-1], size, most=most_merged(total)):
            size += windows.pop()
            copied += size
        assert size <= max(SMALL, total // FRACTION)
        windows.append(size)
        total += 1000
    assert sum(windows) == total
    assert len(windows) < 30
    assert copied < 7 * total
