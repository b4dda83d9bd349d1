"""Selections and aggregates of many queries over one stream: what they cost exactly, shared (ali 6; Figures 15 and 16).

The paper answers the most promising part of 20 to 200 selections, since each of them costs. Here all of them together
cost about as much as one or two: a promising part would first have to summarise each event, and then choose.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.promising_joins import ITEMS, SECOND, Load, streams, zipf
from mullion.algebra.streams import Stream
from mullion.binding import relations
from mullion.language.parse import parse_query
from mullion.language.types import INT, TIMESTAMP
from mullion.operators.kernels.join import KeyRuns, common_runs
from mullion.planner.physical import by_way
from mullion.planner.rules import make_plan
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.summaries.kinds import KINDS

STREAM = Stream("store1", (("item", INT), ("ts", TIMESTAMP)), "ts")


@dataclass(frozen=True)
class Selections:
    """Seconds of processor time for a million events, of so many queries."""

    queries: int
    shared: float
    """All of them, answered exactly, together."""
    alone: float
    """A scan for each, as SIMPLE does it."""


def selections(load: Load, queries: int, repeat: int = 3) -> Selections:
    """Sums over ranges of items that hold 5 to 10 % of them each."""
    dice = np.random.default_rng(queries)
    own = streams(load)["store1"]
    first = dice.integers(0, ITEMS * 9 // 10, queries)
    last = first + dice.integers(ITEMS // 20, ITEMS // 10, queries)
    item = "SELECT count(*) AS n, avg(item) AS mean, sum(item) AS total FROM store1 [RANGE 60 s SLIDE 10 s]"
    texts = [f"{item} WHERE item >= {a} AND item < {b}" for a, b in zip(first, last, strict=True)]
    bound = [relations.bind(parse_query(text, name=f"q{i}"), {"store1": STREAM}) for i, text in enumerate(texts)]
    plan = make_plan(STREAM, by_way(bound, {"store1": STREAM}).slices)
    items = own.items.astype(np.int32)
    table = pa.table({TIME: own.times, "item": items, "ts": pa.array(own.times).cast(pa.timestamp("us", "UTC"))})
    windows = (plan.windows,) * len(plan.groupings)
    job = Job(plan.groupings, plan.methods, windows, Input(STREAM.types), plan.slicing)
    shared, alone = [], []
    for _ in range(repeat + 1):
        began = time.thread_time()
        list(partials(table, job))
        shared.append(time.thread_time() - began)
        began = time.thread_time()
        for a, b in zip(first.tolist(), last.tolist(), strict=True):
            mask = (items >= a) & (items < b)
            np.bincount(own.times[mask] // (10 * SECOND), weights=items[mask])
        alone.append(time.thread_time() - began)
    million = len(items) / 1e6
    return Selections(queries, min(shared[1:]) / million, min(alone[1:]) / million)


@dataclass(frozen=True)
class Asking:
    """Seconds of processor time for a million."""

    summarize: float
    """Events that a count-sketch takes in."""
    estimate: float
    """Keys that it is asked about."""
    count: float
    """Keys that are counted in sorted rows."""


def asking(events: int, repeat: int = 3) -> Asking:
    """What summarising an event takes, and asking how often a key came: of a sketch, and of rows sorted by key."""
    dice = np.random.default_rng(3)
    codes = np.asarray(dice.choice(ITEMS, events, p=zipf()), np.int64)
    runs, asked = KeyRuns.of(np.sort(codes)), KeyRuns.of(np.unique(codes[: events // 10]))
    times: list[list[float]] = [[], [], []]

    def timed(which: int, work: Callable[[], object], number: int) -> None:
        began = time.thread_time()
        work()
        times[which].append((time.thread_time() - began) / number * 1e6)

    for _ in range(repeat + 1):
        sketch = KINDS["count_sketch"]()
        timed(0, partial(sketch.summarize, codes), events)
        timed(1, partial(sketch.estimate, asked.codes), len(asked.codes))
        timed(2, lambda: np.diff(runs.first)[common_runs(asked, runs)[1]], len(asked.codes))
    return Asking(*(min(some[1:]) for some in times))
