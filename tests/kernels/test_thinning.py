"""Which events are kept: as many as asked, the same ones again, and fewer of the same at a smaller share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.kernels.thinning import Thinning, cut_by, identity_hash

PLACES = np.arange(200_000)


@pytest.mark.parametrize("weight", [1.5, 2.0, 4.0, 10.0, 100.0])
def test_the_share_is_kept(weight: float) -> None:
    kept = Thinning(weight).keeps(None, identity_hash(7, PLACES)).mean()
    assert kept == pytest.approx(1 / weight, abs=4 * np.sqrt(1 / weight / len(PLACES)))


def test_a_smaller_share_keeps_a_part_of_a_larger_one() -> None:
    hashes = identity_hash(7, PLACES)
    many, few = (Thinning(weight).keeps(None, hashes) for weight in (2.0, 3.0))
    assert not (few & ~many).any()


def test_files_are_independent_of_each_other() -> None:
    one, other = (Thinning(2.0).keeps(None, identity_hash(part, PLACES)) for part in (1, 2))
    assert (one == other).mean() == pytest.approx(0.5, abs=0.01)


def test_neighbours_are_independent_of_each_other() -> None:
    kept = Thinning(2.0).keeps(None, identity_hash(3, PLACES))
    assert (kept[1:] == kept[:-1]).mean() == pytest.approx(0.5, abs=0.01)


@given(st.lists(st.sampled_from((-1.0, 0.0, 1.0, 5.0, np.inf)), min_size=50, max_size=200), st.floats(1.1, 20.0))
def test_shed_by_keeps_its_share_of_the_most(values: list[float], weight: float) -> None:
    worths = np.array(values)
    thinning = cut_by(worths, weight)
    assert thinning.least is not None
    above, tied = (worths > thinning.least).sum(), (worths == thinning.least).sum()
    assert above + thinning.tied * tied == pytest.approx(len(values) / weight, abs=1.01)
    kept = thinning.keeps(worths, identity_hash(0, np.arange(len(values))))
    assert not kept[worths < thinning.least].any() and kept[worths > thinning.least].all()
