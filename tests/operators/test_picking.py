"""Rows of several tables by their numbers: the same from one table of all as from each of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.operators import picking
from mullion.operators.picking import picked


@given(st.data(), st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_rows_come_in_the_order_that_is_asked_for_whichever_way(data: st.DataObject, sizes: list[int]) -> None:
    numbers = np.arange(sum(sizes))
    whole = pa.table({"x": numbers, "text": [str(n) if n % 3 else None for n in numbers.tolist()]})
    offsets = np.cumsum([0, *sizes])
    tables = [whole.slice(offset, size) for offset, size in zip(offsets, sizes, strict=False)]
    places = st.lists(st.integers(0, max(0, len(numbers) - 1)), max_size=20 if len(numbers) else 0)
    index = np.array(data.draw(places), np.intp)
    wanted = whole.take(pa.array(index))
    with pytest.MonkeyPatch.context() as patch:
        for copied in (0, 1 << 20):
            patch.setattr(picking, "COPIED", copied)
            patch.setattr(picking, "SORTED", copied)
            assert picked(tables, index).equals(wanted)
