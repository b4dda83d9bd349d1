"""A join over a day in an eighth of the memory that it needs: how much is found, and whether that is told rightly.

The question is a window of 24 hours in 256 MB that needs 2 GB. It is asked on a 64th of that: 4 MB and 32 MB, two days
of two streams of 2.5 events a second each, in steps of 15 minutes. Keys are drawn by Zipf's law with exponent 0.7 from
200,000: what is let go costs many rare pairs and few hot ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.promising_joins import SECOND, STREAMS, Arrived, Load, Told, join, play, promising
from mullion.language.query import Budget

KEYS, EXPONENT = 200_000, 0.7
SCALE = 64
"""The whole is so many times larger."""
DAY = 86_400
SHARE = 8
"""The memory is such a part of what is needed."""
AGES = tuple(minutes * 60 * SECOND for minutes in (15, 75, 315))
"""Of GRANULARITY '15 min' AND COLLAPSE (4, 4)."""
PLENTY = Budget(rows=1_000_000_000)


@dataclass(frozen=True)
class Kept:
    """What a preference finds within the memory."""

    order: str
    memory: int
    most: int
    """Bytes kept after a step, at the most."""
    share: float
    """Of all pairs those that were told."""
    told_share: float
    """The share as it is told, in which what was missed is estimated."""
    seconds: float


@dataclass(frozen=True)
class Day:
    needed: int
    """Bytes that the join keeps."""
    pairs: int
    seconds: float
    kept: tuple[Kept, ...]


def load_of(rows: int) -> Load:
    """Two days with so many rows of each stream in a window."""
    return Load(seconds=2 * DAY, rate=0, window=DAY, step=900, seed=rows)


def days(load: Load, rows: int) -> dict[str, Arrived]:
    dice = np.random.default_rng(load.seed)
    weight = 1 / np.arange(1, KEYS + 1) ** EXPONENT
    found = {}
    for name in STREAMS:
        times = np.sort(dice.integers(0, load.seconds * SECOND, 2 * rows))
        found[name] = Arrived(times, dice.choice(KEYS, 2 * rows, p=weight / weight.sum()))
    return found


def measured(rows: int) -> Day:
    load = load_of(rows)
    arrived = days(load, rows)
    whole = play(join(load), arrived, load, details=False)
    memory = whole.most_kept // SHARE
    kept = []
    for order in ("desc", "weighted", "asc"):
        node = replace(promising(load, order, PLENTY), ages=(AGES, AGES), memory=memory)
        kept.append(_kept(order, memory, whole, play(node, arrived, load, details=False)))
    return Day(whole.most_kept, whole.pairs, whole.seconds, tuple(kept))


def _kept(order: str, memory: int, whole: Told, told: Told) -> Kept:
    share = told.pairs / whole.pairs
    return Kept(order, memory, told.most_kept, share, told.tally["share"], told.seconds)
