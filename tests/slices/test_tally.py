"""What partials tell of a batch: how many different values were counted, exactly or about."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mullion.slices import tally
from mullion.slices.kernels.groups import Groups


@pytest.mark.parametrize("texts", [False, True])
def test_about_how_many_values_differ(texts: bool) -> None:
    dice = np.random.default_rng(5)
    parts, pairs = [], set[tuple[int, int]]()
    for _ in range(3):
        groups, values = dice.integers(0, 50, 40_000), dice.integers(0, 2000, 40_000)
        pairs |= set(zip(groups.tolist(), values.tolist(), strict=True))
        of = pa.array([f"v{v}" for v in values]).dictionary_encode() if texts else pa.array(values / 7)
        parts.append(pa.record_batch({"k0": groups, "k1": of}))
    assert tally._number_of_groups(parts) == len(pairs)
    assert tally._about_how_many(parts) == pytest.approx(len(pairs), rel=0.06)


def test_null_and_nan_are_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at all rows, hashes tell apart what keys do."""
    monkeypatch.setattr(tally, "ONE_IN", 1)
    part = pa.record_batch({"k0": pa.array([0.0, -0.0, float("nan"), None, float("nan"), None])})
    assert tally._number_of_groups([part]) == 3
    assert tally._about_how_many([part, part]) == 3


def test_pairs_that_are_too_many_for_a_table_are_numbered_as_they_occur() -> None:
    a, b = np.array([70_000, 3, 70_000, 9], np.int32), np.array([5, 80_000, 5, 5], np.int32)
    groups = Groups(a, 100_000, ()).with_others(Groups(b, 100_000, ()))
    assert (groups.codes.tolist(), groups.size) == ([0, 1, 0, 2], 3)
