"""Streams of items with few frequent ones, and how well lists of the most frequent find them (golab 6.3).

The trace of the paper, TCP packets by their source, is not public. Its stand-in is made of packet trains (Jain,
Routhier, 1986): at any moment a few senders are active, each sends packets at its own rate until its train ends, and
then another sender comes. Who comes is drawn by Zipf's law; trains are mostly short and some very long.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.aggregates.top_lists import TopLists
from mullion.expressions.vector import Vector
from mullion.language.types import INT

Items = npt.NDArray[np.int32]

TYPES = 1_647
"""Different sources in the paper's trace."""


@dataclass(frozen=True)
class Trains:
    """What makes a stream of packet trains."""

    zipf: float = 1.3
    """The i-th most popular sender starts a train in proportion to i^-zipf."""
    active: int = 10
    """Trains under way at any moment."""
    mean: float = 100
    """Packets of a train, on average; Pareto with exponent 1.5."""
    spread: float = 1.2
    """Rates are lognormal: the standard deviation of their logarithm."""

    def stream(self, length: int, random: np.random.Generator) -> Items:
        """Packets by their sender, of whom there are TYPES; numbers say nothing of popularity."""
        most = length // 2 + self.active
        sender = plain_zipf(self.zipf, most, random).tolist()
        packets = np.ceil(1 + random.pareto(1.5, most) * self.mean / 2).astype(np.int64).tolist()
        rate = np.exp(random.normal(0, self.spread, most)).tolist()
        drawn = random.random(length).tolist()
        slots, comes = list(range(self.active)), self.active
        bounds = list(accumulate(rate[train] for train in slots))
        items = np.empty(length, np.int32)
        for at in range(length):
            slot = min(bisect(bounds, drawn[at] * bounds[-1]), self.active - 1)
            train = slots[slot]
            items[at] = sender[train]
            packets[train] -= 1
            if not packets[train]:
                slots[slot], comes = comes, comes + 1
                bounds = list(accumulate(rate[train] for train in slots))
        return items


def plain_zipf(exponent: float, length: int, random: np.random.Generator) -> Items:
    """Items drawn by Zipf's law, each by itself."""
    share = np.arange(1, TYPES + 1) ** -exponent
    names = random.permutation(TYPES).astype(np.int32)
    drawn: Items = names[random.choice(TYPES, length, p=share / share.sum())]
    return drawn


@dataclass(frozen=True)
class Found:
    """What one window gives, or the average of many."""

    delta: float
    """The threshold."""
    over: float
    """Items whose true count exceeds it."""
    identified: float
    """Items whose listed count exceeds it."""
    wrong: float
    """Of these, the ones whose true count does not; of many windows their sum."""
    pairs: float
    """Pairs of item and count that are kept."""
    error: float
    """What is missing of the counts of items over the threshold: the average of 1 - listed / true; NaN of none."""

    @property
    def percent(self) -> float:
        return 100 * self.identified / self.over if self.over else float("nan")

    def to_json(self) -> dict[str, float | None]:
        told = {**asdict(self), "percent": self.percent}
        return {name: value if value == value else None for name, value in told.items()}


def measure(items: Items, starts: Sequence[int], window: int, size: int, most: int) -> Found:
    """The average over windows that begin at `starts`, of sub-windows of `size` items with lists of `most`."""
    found = [_window(items[start : start + window], size, most) for start in starts]
    return Found(
        delta=_mean([f.delta for f in found]),
        over=_mean([f.over for f in found]),
        identified=_mean([f.identified for f in found]),
        wrong=sum(f.wrong for f in found),
        pairs=_mean([f.pairs for f in found]),
        error=_mean([f.error for f in found]),
    )


def _window(items: Items, size: int, most: int) -> Found:
    partial = TopLists(INT, most)
    events = Vector(INT, items, np.ones(len(items), np.bool_))
    lists = partial.load(partial.gather(events, np.arange(0, len(items), size)))
    summed, (delta,), _ = partial.reduce(lists, np.array([0]))
    true = np.bincount(items, minlength=TYPES)
    listed = np.zeros(TYPES, np.int64)
    for text, count in summed[0].items():
        listed[int(text)] = count
    over, identified = true > delta, listed > delta
    return Found(
        delta=float(delta),
        over=float(over.sum()),
        identified=float(identified.sum()),
        wrong=float((identified & ~over).sum()),
        pairs=float(sum(map(len, lists[0]))),
        error=_mean((1 - listed[over] / true[over]).tolist()),
    )


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if value == value]
    return float(np.mean(known)) if known else float("nan")


def curves(
    items: Items, starts: Sequence[int], window: int, sizes: Sequence[int], lengths: Sequence[int]
) -> Iterator[tuple[int, int, Found]]:
    """What is found for each size of sub-windows and each length of lists."""
    for size in sizes:
        for most in lengths:
            yield size, most, measure(items, starts, window, size, most)


def series(found: dict[tuple[int, int], Found], field: str, scale: float = 1.0) -> dict[str, dict[int, float]]:
    """A curve for each size of sub-windows, by the length of lists, without what is not known."""
    lines: dict[str, dict[int, float]] = {}
    for (size, most), one in found.items():
        value: Any = getattr(one, field)
        if value == value:
            lines.setdefault(f"b = {size}", {})[most] = value * scale
    return lines
