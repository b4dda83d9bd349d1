"""The query sets of krishnamurthy 2006: Query 4's template with the windows and predicates of Table 8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.market import INDEXES, Market
from benchmarks.workloads import Window, range_slide, workload_a
from mullion.errors import MullionError
from mullion.surface.trades import SECOND

TUMBLING: Window = (600 * SECOND, 600 * SECOND)

QUANTITIES = {
    "volume": "t.volume",
    "value": "t.price * t.volume",
    "change": "abs(t.price - c.cp) / c.cp",
}
"""What a predicate compares with a constant, as the template writes it."""

DECIMALS = {"volume": 0, "value": 2, "change": 6}
"""Of a quantity's constants."""

LEAST = 0.25
"""Comparisons let from so much up to all of the trades pass, so that with the indexes about 30 % do (4.3.3)."""

TABLES = "close c, idx x"
JOINED = "t.symbol = c.symbol AND t.symbol = x.symbol"


@dataclass(frozen=True)
class Predicate:
    """Whether a trade's symbol is in an index, and how one of its quantities stands to a constant."""

    index: str
    member: bool
    quantity: str
    sense: str
    constant: float

    def text(self) -> str:
        """As the template writes it.

        >>> Predicate("r2000", False, "volume", ">", 500.0).text()
        'NOT x.r2000 AND t.volume > 500'
        """
        return self._text(f"x.{self.index}", QUANTITIES[self.quantity])

    def column_text(self) -> str:
        """Over columns that are named as the quantities."""
        return self._text(self.index, self.quantity)

    def _text(self, index: str, quantity: str) -> str:
        constant = f"{self.constant:.{DECIMALS[self.quantity]}f}"
        return f"{'' if self.member else 'NOT '}{index} AND {quantity} {self.sense} {constant}"

    def holds(self, columns: Mapping[str, Any]) -> Any:
        """For every trade, given its columns: arrays, or the expressions of a library that compares as arrays do."""
        index, quantity = columns[self.index], columns[self.quantity]
        compared = quantity > self.constant if self.sense == ">" else quantity < self.constant
        return (index if self.member else ~index) & compared


@dataclass(frozen=True)
class Question:
    """The total over a window of the trades that satisfy a predicate, or of all."""

    window: Window
    predicate: Predicate | None = None

    def text(self, group: str | None = None) -> str:
        """Query 4 in Mullion's SQL."""
        first, last = (f"t.{group}, ", f" GROUP BY t.{group}") if group else ("", "")
        source = f"trades [{range_slide(self.window)}] t, {TABLES}"
        return f"SELECT {first}sum(t.price * t.volume) AS total FROM {source} WHERE {self.condition()}{last}"

    def condition(self) -> str:
        return JOINED if self.predicate is None else f"{JOINED} AND {self.predicate.text()}"


def predicates(n: int, market: Market, *, seed: int = 1) -> list[Predicate]:
    """All different. A constant is the quantile that lets a share of the trades pass, drawn uniformly."""
    rng = np.random.default_rng([seed, 2])
    ordered = {name: np.sort(market.columns[name]) for name in QUANTITIES}
    taken: set[tuple[str, float]] = set()
    found = []
    for _ in range(n):
        index, member = INDEXES[rng.integers(len(INDEXES))], bool(rng.integers(2))
        quantity, sense = tuple(QUANTITIES)[rng.integers(len(QUANTITIES))], "<>"[rng.integers(2)]
        share = rng.uniform(LEAST, 1.0)
        constant = _quantile(ordered[quantity], share if sense == "<" else 1 - share, DECIMALS[quantity])
        while (quantity, constant) in taken:
            constant = round(constant + 10.0 ** -DECIMALS[quantity], DECIMALS[quantity])
        taken.add((quantity, constant))
        found.append(Predicate(index, member, quantity, sense, constant))
    return found


def _quantile(ordered: npt.NDArray[Any], share: float, decimals: int) -> float:
    return round(float(ordered[min(int(share * len(ordered)), len(ordered) - 1)]), decimals)


def different_windows(n: int, market: Market) -> list[Question]:
    """Workload A: no predicates."""
    return [Question(window) for window in workload_a(n)]


def different_predicates(n: int, market: Market) -> list[Question]:
    """Workload B: ten minutes that follow one another."""
    return [Question(TUMBLING, predicate) for predicate in predicates(n, market)]


def regular(n: int, market: Market) -> list[Question]:
    """Workload C, regular: every combination of a few windows with as many predicates, in no order."""
    root = isqrt(n)
    if root * root != n:
        raise MullionError(f"a regular workload has a square number of queries, not {n}")
    pairs = list(product(workload_a(root), predicates(root, market)))
    return [Question(*pairs[i]) for i in np.random.default_rng(1).permutation(n)]


def low_sharing(n: int, market: Market) -> list[Question]:
    """Workload C, low sharing: no window and no predicate occurs twice."""
    return [Question(w, p) for w, p in zip(workload_a(n), predicates(n, market), strict=True)]


@dataclass(frozen=True)
class Workload:
    """Query sets that differ in their number of queries."""

    name: str
    title: str
    make: Callable[[int, Market], list[Question]]

    def called(self, n: int) -> str:
        """What a set of n queries is called, as in the paper."""
        return f"{self.name}({n:,})"


A = Workload("A", "A: different windows", different_windows)
B = Workload("B", "B: different predicates", different_predicates)
C_REGULAR = Workload("C regular", "C: regular", regular)
C_LOW = Workload("C low", "C: low sharing", low_sharing)
WORKLOADS = (A, B, C_REGULAR, C_LOW)


def signature_cardinality(questions: Sequence[Question], market: Market) -> float:
    """How many of the questions an average trade is counted in."""
    held = (q.predicate.holds(market.columns) for q in questions if q.predicate is not None)
    return sum(float(mask.mean()) for mask in held) + sum(q.predicate is None for q in questions)
