"""Windows that are folded: of single states first, of intervals when these are worth it."""

from __future__ import annotations

import numpy as np
import pytest

from mullion.aggregates.extremes import Largest
from mullion.language.types import INT
from mullion.slices.folded import Folded


def test_places_may_be_narrow_numbers() -> None:
    """The product of two of them needs more room."""
    values = np.random.default_rng(1).integers(0, 1 << 30, 70_000)
    low = np.arange(0, 70_000, dtype=np.int32)
    high = np.minimum(low + 2, 70_000).astype(np.int32)
    (found,) = Folded(Largest(INT), (values,)).between(low, high)
    assert found.tolist() == np.maximum(values, np.append(values[1:], 0)).tolist()


@pytest.mark.parametrize("length", [1, 2, 7, 64])
@pytest.mark.parametrize("calls", [1, 5])
def test_single_states_and_intervals_give_the_same(length: int, calls: int) -> None:
    random = np.random.default_rng(length)
    values = random.integers(-50, 50, length)
    folded, grown = Folded(Largest(INT), (values,)), Folded(Largest(INT), (values,))
    grown._grow()
    for _ in range(calls):
        low = random.integers(0, length, 9)
        high = np.minimum(random.integers(0, length + 1, 9), length)
        assert folded.between(low, high)[0].tolist() == grown.between(low, high)[0].tolist()
    if length > 1 and calls > 1:
        folded.between(np.zeros(3, np.intp), np.full(3, length))
        assert len(folded._levels) > 1
