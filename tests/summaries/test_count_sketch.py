"""The count-sketch: how far it is off (charikar 3), and that it is linear to the bit."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.expressions.arrays import Codes
from mullion.summaries.base import SURE
from mullion.summaries.count_sketch import CountSketch


def zipf(seed: int, events: int = 20_000, items: int = 3_000) -> Codes:
    """Items of which few are frequent, under numbers that nobody foresaw."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, items + 1) ** 1.2
    names = rng.integers(-(2**63), 2**63 - 1, items)
    return names[rng.choice(items, events, p=shares / shares.sum())]


def made(codes: Codes, **options: int) -> CountSketch:
    sketch = CountSketch(**options)
    sketch.summarize(codes)
    return sketch


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("width", [64, 256])
def test_a_row_is_near_the_count_two_times_in_three(seed: int, width: int) -> None:
    codes = zipf(seed)
    keys, counts = np.unique(codes, return_counts=True)
    bound = sqrt(3 * float(counts @ counts) / width)
    off = np.abs(made(codes, rows=1, width=width, buckets=1).estimate(keys) - counts)
    assert (off <= bound).mean() >= 2 / 3
    median = np.abs(made(codes, rows=5, width=width, buckets=1).estimate(keys) - counts)
    assert (median <= bound).mean() >= SURE


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "options", [{}, {"buckets": 1}, {"rows": 3, "width": 32}, {"rows": 4, "width": 64, "buckets": 2}]
)
def test_errors_are_as_large_as_is_told(seed: int, options: dict[str, int]) -> None:
    codes = zipf(seed)
    keys, counts = np.unique(codes, return_counts=True)
    sketch = made(codes, **options)
    off = np.abs(sketch.estimate(keys) - counts)
    assert (off <= sketch.errors(keys)).mean() >= SURE
    assert (sketch.errors(keys) <= 1.5 * sketch.confidence()).all()
    absent = np.arange(5_000)
    assert (sketch.estimate(absent) <= sketch.errors(absent)).mean() >= SURE


def test_a_frequent_key_is_told_well_however_frequent() -> None:
    """What a key adds itself does not count as an error of its estimate."""
    codes = np.concatenate([np.full(1_000_000, 7), np.arange(1_000)])
    sketch = made(codes, buckets=1)
    (estimate,), (error,) = sketch.estimate(np.array([7])), sketch.errors(np.array([7]))
    assert error < 50 and abs(estimate - 1_000_001) <= error


def test_buckets_keep_a_frequent_key_from_the_others() -> None:
    codes = np.concatenate([np.full(1_000_000, 7), np.arange(1_000)])
    rare = np.arange(1_000, dtype=np.int64)
    worst = [float(np.median(made(codes, buckets=buckets).errors(rare))) for buckets in (1, 16)]
    assert worst[1] < worst[0] / 1_000


KEYS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30).map(lambda keys: np.array(keys, np.int64))


@settings(max_examples=50)
@given(parts=st.lists(st.tuples(KEYS, st.booleans()), max_size=6), rows=st.integers(1, 6), buckets=st.integers(1, 5))
def test_linear_to_the_bit(parts: list[tuple[Codes, bool]], rows: int, buckets: int) -> None:
    options = {"rows": rows, "width": 16, "buckets": buckets}
    both, kept = CountSketch(**options), CountSketch(**options)
    for codes, _ in parts:
        both.add(made(codes, **options))
    for codes, stays in parts:
        if stays:
            kept.summarize(codes)
        else:
            both.subtract(made(codes, **options))
    assert both.events == kept.events and both.confidence() == kept.confidence()
    left = {row["at"]: row["counter"] for row in both.snapshot().to_pylist() if row["counter"]}
    assert left == {row["at"]: row["counter"] for row in kept.snapshot().to_pylist() if row["counter"]}


def test_distance_shows_a_change_and_no_chance() -> None:
    """Blocks of one stream are near to each other; other frequent keys are far."""
    codes = zipf(0)
    zone, block = made(codes[:10_000]), made(codes[10_000:11_024])
    assert block.distance(zone) < 0.1
    assert made(zipf(1)[:1_024]).distance(zone) > 0.2
