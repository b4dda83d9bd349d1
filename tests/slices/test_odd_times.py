"""Event times that look like another unit are told, and times that are merely old or new are not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mullion.slices.odd_times import EARLIEST, FAR, count_far, odd_times

NOW = 1_790_000_000_000_000


def warned(times: list[int | None], counted: list[int], unit: str = "us") -> str | None:
    """What is told of a batch with these times set aside as too far ahead, and these counted."""
    scale = {"us": 1, "ms": 1000}[unit]
    aside = pa.chunked_array([pa.array([t if t is None else t // scale for t in times], pa.timestamp(unit, "UTC"))])
    return odd_times("s", len(counted), max(counted, default=None), count_far(aside, NOW))


@pytest.mark.parametrize("unit", ["us", "ms"])
def test_most_events_far_ahead(unit: str) -> None:
    far = NOW + FAR + 1000
    told = warned([far, far], [NOW], unit)
    assert told is not None and told.startswith("event times of s lie more than ten years ahead of the clock")
    assert "timestamp_millis" in told
    assert warned([far], [], unit)
    assert warned([far, None], [NOW], unit) is None, "as many that count"
    assert warned([NOW + FAR] * 5, [NOW], unit) is None, "ten years and no more"
    assert warned([], [], unit) is None


def test_whole_numbers_have_no_clock() -> None:
    assert count_far(pa.chunked_array([pa.array([NOW + 2 * FAR])]), NOW) == 0


def test_before_1971() -> None:
    assert "before 1971" in (warned([], [5, EARLIEST - 1]) or "")
    assert warned([], [5, EARLIEST]) is None
