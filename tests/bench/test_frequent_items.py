"""The benchmark of frequent items: its streams, and what it counts."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import frequent, plot
from benchmarks.frequent_items import TYPES, Found, Trains, measure, plain_zipf, series


def test_a_stream_of_trains_is_skewed_and_bursty() -> None:
    random = np.random.default_rng(1)
    trains, plain = Trains().stream(60_000, random), plain_zipf(1.3, 60_000, random)
    for items in (trains, plain):
        shares = np.sort(np.bincount(items, minlength=TYPES))[::-1] / len(items)
        assert len(shares) == TYPES and 0.1 < shares[0] < 0.6 and shares[:10].sum() > 0.4
    few, many = (np.mean([len(np.unique(part)) for part in np.split(items, 600)]) for items in (trains, plain))
    assert few < Trains().active and many > 2 * few


def test_what_is_measured_of_a_window() -> None:
    """Sub-windows 0 0 0 1 1 2 | 0 3 3 3 4 4 with lists of two: 0 3, 1 2 and 3 3, 4 2; delta 4."""
    items = np.array([0, 0, 0, 1, 1, 2, 0, 3, 3, 3, 4, 4], np.int32)
    assert measure(items, [0], 12, 6, 1) == Found(
        delta=6, over=0, identified=0, wrong=0, pairs=2, error=pytest.approx(float("nan"), nan_ok=True)
    )
    found = measure(np.concatenate([items, np.zeros(6, np.int32)]), [0], 18, 6, 2)
    assert (found.delta, found.over, found.identified, found.wrong, found.pairs) == (4, 1, 1, 0, 5)
    assert found.error == pytest.approx(1 / 10) and found.percent == 100


def test_nothing_over_the_threshold_has_no_percentage() -> None:
    found = {(20, 1): Found(9, 0, 0, 0, 1, float("nan")), (20, 2): Found(5, 2, 1, 0, 2, 0.5)}
    assert found[20, 1].to_json()["percent"] is None and found[20, 1].to_json()["error"] is None
    assert series(found, "percent") == {"b = 20": {2: 50.0}}
    assert series(found, "error", 100) == {"b = 20": {2: 50.0}}


@pytest.mark.slow
def test_a_short_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequent, "QUICK", frequent.FrequentSize(packets=30_000, window=10_000, windows=2))
    made = frequent.run(Console(file=io.StringIO()), json=tmp_path / "f.json", quick=True)
    assert made.bars[0].measured == 0 and made.bars[0].what.startswith("items given that are not frequent")
    told = json.loads((tmp_path / "f.json").read_text())
    assert len(told["curves"]["trains"]) == len(told["curves"]["zipf"]) == 30
    assert told["judged"] is False and told["trains"]["active"] == 10


def test_the_figures_that_are_kept_meet_their_bars() -> None:
    kept = Path(__file__).parents[2] / "benchmarks" / "results" / "frequent.json"
    told = json.loads(kept.read_text())
    assert told["passed"] is True and told["size"]["windows"] == 100
    assert all(one["wrong"] == 0 for curve in told["curves"].values() for one in curve)


@pytest.mark.slow
def test_a_picture_of_curves(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = {f"b = {b}": {1: 1.0, 2: 20.0 + b} for b in (20, 100, 500)}
    plot.draw_curves(tmp_path / "p.png", {f"({c})": lines for c in "abcdef"}, "title", across="k", logarithmic=("(b)",))
    assert (tmp_path / "p.png").stat().st_size > 10_000
