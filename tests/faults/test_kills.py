"""A run that is killed for real and started again answers as one that was not. `make campaign` kills it more often."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.kills import lane

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_killed_for_real(tmp_path: Path) -> None:
    with lane(tmp_path) as drivers:
        kills = sum(drivers.trial(seed) for seed in (1, 2))
    assert kills >= 6
