"""The benchmark of promising joins: its streams, what it calls rare, and how far a part is from the whole."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks.promising import run
from benchmarks.promising_joins import (
    ITEMS,
    Load,
    Told,
    dropping,
    histogram_errors,
    join,
    outliers,
    play,
    promising,
    share_of_outliers,
    streams,
    zipf,
)
from mullion.language.query import Budget

SMALL = Load(seconds=20, rate=30, window=10, change=10)


def test_the_items_are_as_selective_as_the_papers() -> None:
    assert (zipf() ** 2).sum() == pytest.approx(0.066, abs=0.002)


def test_hot_items_change() -> None:
    own = streams(SMALL)["store1"]
    before, after = (np.bincount(own.items[half]).argmax() for half in (own.times < 10**7, own.times >= 10**7))
    assert before != after


def test_without_shortage_all_pairs_are_told() -> None:
    arrived = streams(SMALL)
    whole = play(join(SMALL), arrived, SMALL)
    told = play(promising(SMALL, "desc", Budget(rows=10**9)), arrived, SMALL)
    assert (told.pairs, told.checksum, told.apart) == (whole.pairs, whole.checksum, whole.apart)
    assert told.pairs == told.tally["told"] == whole.by_item.sum() > 100
    assert play(join(SMALL), dropping(arrived, 0.2), SMALL).pairs < 0.2 * whole.pairs


def test_hist_mse_is_zero_for_a_part_with_the_same_shares() -> None:
    whole, part, other = Told(), Told(), Told()
    whole.by_step, part.by_step, other.by_step = [np.array([4, 2])], [np.array([2, 1])], [np.array([3, 0])]
    assert histogram_errors(whole, part)[0] == 0
    error, drawn = histogram_errors(whole, other)
    assert error == pytest.approx(2 / 9) and drawn == pytest.approx((2 / 9 + 2 / 9) / 3)


def test_outliers_are_the_rarest_twentieth_of_the_pairs() -> None:
    arrived = streams(SMALL)
    whole = play(join(SMALL), arrived, SMALL)
    rare = outliers(arrived, SMALL, whole.by_period)
    assert 0.02 < share_of_outliers(whole, rare) < 0.2
    told = Told(by_period=[np.where(own, 1, 0) for own in rare], pairs=sum(int(own.sum()) for own in rare))
    assert share_of_outliers(told, rare) == 1 and len(rare[0]) == ITEMS


@pytest.mark.slow
def test_it_runs(tmp_path: Path) -> None:
    made = run(Console(quiet=True), json=tmp_path / "found.json", plot=tmp_path / "found.png", quick=True)
    assert not made.judged and (tmp_path / "found.json").exists()
    assert (tmp_path / "found.png").exists() == (find_spec("matplotlib") is not None)
    same = [bar.measured for bar in made.bars if "differences" in bar.what]
    assert same == [0, 0]
