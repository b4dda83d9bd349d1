"""Joins of two Zipf streams in steps, and what promising ones tell of them (ali 6; Figures 9 to 14).

Items are drawn by Zipf's law with exponent 1.2 from 3,000, whose square sum, 0.066, is near the paper's selectivity of
6.7 %. Which items are hot changes every few minutes. Budgets are shares of the whole work, since the milliseconds of
2005 mean nothing now. Operators run as in a run, without Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.nodes import Join, Node, Promising, Scan
from mullion.algebra.nodes.promising import ESTIMATE
from mullion.expressions.typing import resolve
from mullion.language.query import Budget, Cast, Column, Expr, Literal, Window
from mullion.language.types import BIGINT, DOUBLE, INT, TIMESTAMP
from mullion.operators.base import Operator
from mullion.operators.join import JoinOperator
from mullion.operators.network import Network, StepEvents
from mullion.operators.promise_memory import window_size
from mullion.operators.promising_join import PromisingJoinOperator

SECOND = 1_000_000
ITEMS, EXPONENT = 3_000, 1.2
COLUMNS = (("item", INT), ("ts", TIMESTAMP))
STREAMS = ("store1", "store2")
INTERVALS = 100
"""Of equal width, for Hist-MSE (formula 1)."""

ESTIMATED: Expr = resolve(Cast(Column(ESTIMATE), DOUBLE), {ESTIMATE: BIGINT})[0]
ANY: Expr = Literal(1.0, DOUBLE)
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    seconds: int = 240
    rate: int = 200
    """Events of each stream a second, after one another at random times."""
    window: int | None = 60
    """Seconds; None: the whole stream so far."""
    change: int = 80
    """Seconds after which other items are hot."""
    step: int = 1
    seed: int = 7

    @property
    def steps(self) -> int:
        return self.seconds // self.step

    @property
    def events_a_step(self) -> int:
        return 2 * self.rate * self.step


@dataclass(frozen=True)
class Arrived:
    """Events of one stream."""

    times: Numbers
    items: Numbers

    def between(self, low: int, high: int) -> StepEvents:
        first, last = np.searchsorted(self.times, (low, high))
        own = slice(int(first), int(last))
        columns = {"item": pa.array(self.items[own].astype(np.int32)), "ts": pa.array(self.times[own])}
        table = pa.table(columns)
        return StepEvents(table.set_column(1, "ts", table["ts"].cast(pa.timestamp("us", "UTC"))), self.times[own])


def zipf() -> npt.NDArray[np.float64]:
    weight = 1 / np.arange(1, ITEMS + 1) ** EXPONENT
    return np.asarray(weight / weight.sum())


def streams(load: Load) -> dict[str, Arrived]:
    """Both have the same items hot at the same time."""
    dice = np.random.default_rng(load.seed)
    orders = [dice.permutation(ITEMS) for _ in range(load.seconds // load.change + 1)]
    found = {}
    for name in STREAMS:
        count = load.seconds * load.rate
        times = np.sort(dice.integers(0, load.seconds * SECOND, count))
        ranks = dice.choice(ITEMS, count, p=zipf())
        items = np.stack(orders)[times // (load.change * SECOND), ranks]
        found[name] = Arrived(times, items)
    return found


def join(load: Load) -> Join:
    window = Window(unbounded=True) if load.window is None else Window(range=load.window * SECOND)
    parts = tuple(Scan(name, window, COLUMNS) for name in STREAMS)
    return Join(parts, ((Column("item"),), (Column("item"),)))


def promising(load: Load, order: str, budget: Budget, *, by: Expr = ESTIMATED, fade: float = 1.0) -> Promising:
    """Granularities are those of GRANULARITY '2 s' AND COLLAPSE (2, 8): 2, 4, 8 seconds and so on."""
    ages: tuple[int, ...] = ()
    if fade < 1:
        ages = tuple(2 * SECOND * (2**i - 1) for i in range(1, 8))
    return Promising(join(load), order, (by, by), budget, fade, (ages, ages))


@dataclass
class Told:
    """What a plan told, in numbers: pairs by item, and of promising ones the rest of the tally."""

    pairs: int = 0
    seconds: float = 0.0
    by_item: Numbers = field(default_factory=lambda: np.zeros(ITEMS, np.int64))
    by_period: list[Numbers] = field(default_factory=list)
    """The same, of each period with its own hot items."""
    by_step: list[Numbers] = field(default_factory=list)
    """Pairs by interval of items, of each step."""
    checksum: int = 0
    apart: float = 0.0
    slowest: float = 0.0
    """Seconds of the step that took longest."""
    most_kept: int = 0
    """Bytes that were kept after a step, at the most."""
    tally: dict[str, Any] = field(default_factory=dict)

    @property
    def mean_apart(self) -> float:
        """Seconds between the rows of a pair."""
        return self.apart / max(self.pairs, 1) / SECOND


def play(node: Node, arrived: dict[str, Arrived], load: Load, *, details: bool = True) -> Told:
    """All steps of a load, on the processor time of the operators."""
    network = Network()
    network.set_roots([node])
    told = Told(by_period=[np.zeros(ITEMS, np.int64) for _ in range(load.seconds // load.change + 1)])
    for now, events in _steps(arrived, load):
        began = time.thread_time()
        fresh = network.advance(events, now)[node].fresh
        took = time.thread_time() - began
        told.seconds += took
        told.slowest = max(told.slowest, took)
        told.pairs += len(fresh)
        told.most_kept = max(told.most_kept, _kept_bytes(network.operator(node)))
        if details and not len(fresh):
            told.by_step.append(np.zeros(INTERVALS, np.int64))
        elif details:
            items = np.bincount(fresh.rows.column("0.item").to_numpy(), minlength=ITEMS)
            told.by_item += items
            told.by_step.append(_intervals(items))
            told.by_period[min((now - 1) // (load.change * SECOND), len(told.by_period) - 1)] += items
            times = [arrived[name].times[fresh.ids[:, i]] for i, name in enumerate(STREAMS)]
            told.apart += float(np.abs(times[0] - times[1]).sum())
            told.checksum += int((fresh.ids[:, 0] * 1_000_003 + fresh.ids[:, 1]).sum() % (1 << 61))
    operator = network.operator(node)
    if isinstance(operator, PromisingJoinOperator):
        told.tally = operator.tally.facts()
    return told


def _kept_bytes(operator: Operator) -> int:
    if isinstance(operator, PromisingJoinOperator):
        return operator.tally.bytes
    stores = operator.stores if isinstance(operator, JoinOperator) else ()
    return sum(window_size(window) for store in stores for window in store.windows)


def _steps(arrived: dict[str, Arrived], load: Load) -> Iterator[tuple[int, dict[str, StepEvents]]]:
    for number in range(load.steps):
        low, high = number * load.step * SECOND, (number + 1) * load.step * SECOND
        yield high, {name: own.between(low, high) for name, own in arrived.items()}


def dropping(arrived: dict[str, Arrived], share: float, seed: int = 1) -> dict[str, Arrived]:
    """What is left when tuples are dropped as they come: what a plain symmetric join does in overload (ali 6)."""
    dice = np.random.default_rng(seed)
    kept = {name: np.flatnonzero(dice.random(len(own.times)) < share) for name, own in arrived.items()}
    return {name: Arrived(own.times[kept[name]], own.items[kept[name]]) for name, own in arrived.items()}


def histogram_errors(whole: Told, part: Told) -> tuple[float, float]:
    """Hist-MSE of formula 1, over intervals of equal width, by shares; and what it is on average when as many pairs are
    drawn at random. Both are means over the steps in which something was left out: a budget is that of a step."""
    found, drawn = [], []
    for first, second in zip(whole.by_step, part.by_step, strict=True):
        if 0 < second.sum() < first.sum():
            shares = first / first.sum()
            found.append(float(((shares - second / second.sum()) ** 2).sum()))
            drawn.append(float((shares * (1 - shares)).sum() / second.sum()))
    return (float(np.mean(found)), float(np.mean(drawn))) if found else (0.0, 0.0)


def _intervals(by_item: Numbers) -> Numbers:
    return np.asarray(by_item.reshape(INTERVALS, -1).sum(axis=1))


def outliers(arrived: dict[str, Arrived], load: Load, whole: Sequence[Numbers], lowest: float = 0.05) -> list[Any]:
    """Of each period, which items are rare: those whose frequency in both streams is among the lowest 5 % of the
    frequencies that the pairs of the whole join have."""
    found = []
    for period, pairs in enumerate(whole):
        low, high = period * load.change * SECOND, (period + 1) * load.change * SECOND
        counts = np.zeros(ITEMS, np.int64)
        for own in arrived.values():
            first, last = np.searchsorted(own.times, (low, high))
            counts += np.bincount(own.items[first:last], minlength=ITEMS)
        order = np.argsort(counts, kind="stable")
        passed = np.cumsum(pairs[order])
        most = counts[order[min(int(np.searchsorted(passed, lowest * passed[-1])), ITEMS - 1)]] if passed[-1] else 0
        found.append(counts <= most)
    return found


def share_of_outliers(told: Told, rare: Sequence[Any]) -> float:
    """Of all pairs that were told, those of rare items."""
    of_rare = sum(int(items[own].sum()) for items, own in zip(told.by_period, rare, strict=True))
    return of_rare / max(told.pairs, 1)


def smaller(load: Load) -> Load:
    return replace(load, seconds=60, rate=30, change=20, window=None if load.window is None else 20)
