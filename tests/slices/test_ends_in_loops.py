"""First and last by the rank of events, against every event compared with every other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.aggregates.base import Places
from mullion.aggregates.first_last import Earliest, EarliestValue, End, Latest, LatestValue
from mullion.expressions.vector import Vector
from mullion.language.types import STRING
from mullion.slices.kernels.fields import lift_end
from mullion.slices.kernels.own_slices import own_rows
from mullion.slices.kernels.slicing import Cut

EVENTS = st.lists(
    st.tuples(
        st.integers(-2, 2), st.integers(0, 1), st.integers(0, 3), st.booleans(), st.sampled_from(["a", "b", None])
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda event: event[:3],
)


@pytest.mark.parametrize("kind", [Earliest, Latest, EarliestValue, LatestValue])
@given(EVENTS, st.integers(0, 12), st.booleans())
def test_the_end_of_each_slice(
    kind: type[End], events: list[tuple[int, int, int, bool, str | None]], at: int, coded: bool
) -> None:
    partial, at = kind(STRING), min(at, len(events) - 1)
    time, part, arrival, present, texts = zip(*events, strict=True)
    values = Vector.of(STRING, texts)
    values = Vector.coded_from_arrow(values.to_arrow(), STRING) if coded else values
    places = Places(*(np.array(p, np.int64) for p in (time, part, arrival)), np.array(present))
    bounds = np.unique([0, at, len(events)])
    lifted = lift_end(partial, values, places)
    rows = own_rows(Cut(np.arange(len(bounds) - 1), bounds), True, None, lifted.columns)
    found = lifted.stored(rows.rows, rows.columns)
    gathered = partial.gather(values, bounds[:-1], places)
    assert [found[i].to_list() for i in (0, 4)] == [gathered[i].to_list() for i in (0, 4)]
    for i, (low, high) in enumerate(pairwise(bounds)):
        left = [e for e in events[low:high] if e[3] and (e[4] is not None or not partial.ignores_nulls)]
        best = (min if partial.sign > 0 else max)(left, key=lambda e: e[:3], default=None)
        assert found[0].to_list()[i] == (best is not None)
        if best is not None:
            assert tuple(column.to_list()[i] for column in found[1:]) == (*best[:3], best[4])
            assert found[4].to_arrow().to_pylist()[i] == best[4]


@given(st.lists(st.lists(st.sampled_from(["a", "b", "ä", None]), max_size=4), min_size=1, max_size=4), st.data())
def test_texts_with_codes_one_after_the_other(parts: list[list[str | None]], data: st.DataObject) -> None:
    vectors = [Vector.coded_from_arrow(Vector.of(STRING, part).to_arrow(), STRING) for part in parts]
    together, texts = Vector.concat(vectors), [text for part in parts for text in part]
    assert together.coded is not None and together.to_list() == together.to_arrow().to_pylist() == texts
    index = np.array(data.draw(st.lists(st.integers(0, max(0, len(texts) - 1)), max_size=4 if texts else 0)), np.intp)
    assert together.take(index).to_arrow().to_pylist() == [texts[i] for i in index]
