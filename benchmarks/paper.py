"""What krishnamurthy 2006 counted for 256 queries over an hour of trades (sections 6.2 to 6.4)."""

from __future__ import annotations

from typing import NamedTuple


class Operations(NamedTuple):
    """Aggregations: of events into partials, and of partials into answers."""

    partial: int
    final: int


SHARED = {
    "A": Operations(1_138_636, 1_462_391),
    "B": Operations(1_094_947, 6_677_009),
    "C regular": Operations(1_138_636, 2_256_496),
    "C low": Operations(1_294_064, 63_984_043),
}

UNSHARED = {
    "A": Operations(291_490_816, 6_813),
    "B": Operations(116_101_112, 0),
    "C regular": Operations(100_902_960, 6_955),
    "C low": Operations(120_672_210, 6_812),
}

FASTER = {"A": 50.48 / 2.63, "B": 27.25 / 3.01, "C regular": 31.19 / 3.67, "C low": 34.56 / 17.73}
"""How much sharing gained in the paper."""

FRAGMENTS = 34_327
"""Of workload B in the hour; an average window of ten minutes has 11,407 of them."""

SIGNATURE = 76
"""How many of the 256 queries an average event is counted in (4.3.3)."""
