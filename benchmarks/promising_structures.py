"""What each part of a summary is worth to a join: `python -m benchmarks promising_structures` (ali 6.1; Figures 9, 10).

Tuples of one stream are in a window; those of the other look for partners among them.

| structure | what leads to the partners |
|---|---|
| T1 | nothing: tuple by tuple |
| T2 | zones of time, each with a sketch: zones that surely have none are passed over, the most promising come first |
| T3 | value buckets in each zone as well: only the tuples of the bucket are looked at |
| T4 | T3 with zones that end where the stream behaves differently |
| runs | what Mullion's joins do: tuples of a zone sorted by their keys, and no sketch |

t_ins is what a tuple takes to come in, t_hit what leads to one result, N_op = (tau - t_ins) / t_hit the results that
there is time for when a tuple comes every tau. All by processor time, the loops compiled. Needs no Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from numba import njit
from rich.console import Console

from benchmarks import report
from benchmarks.course import draw_to, warn_if_busy
from benchmarks.plot import GROWTH, pyplot, save
from benchmarks.report import Bar, Grid, Report
from mullion.errors import MullionError
from mullion.expressions.arrays import Array, Codes, Counts, Index, Times
from mullion.expressions.coding.hashes import mixed
from mullion.summaries.base import Summary
from mullion.summaries.count_sketch import CountSketch
from mullion.summaries.counts import ExactCounts
from mullion.summaries.zones import Cuts, Zones

SEED = 2005
SECOND = 1_000_000
ITEMS, EXPONENT = 3_000, 1.2
BUCKETS = 16
NEVER = 2.0
"""A drift that no zone has."""
STRUCTURES = ("T1", "T2", "T3", "T4", "runs")
INTERARRIVALS = (0.5, 1.0, 10.0, 100.0)
"""Microseconds between two tuples."""


@dataclass(frozen=True)
class Size:
    rate: int = 2_000
    """Tuples a second."""
    window: int = 60
    windows: tuple[int, ...] = (10, 30, 60, 120)
    """Seconds; Figure 10b."""
    change: int = 25
    """So many seconds the same items are hot."""
    zone: int = 5
    probes: int = 2_000
    repeat: int = 3


FULL = Size()
QUICK = Size(rate=200, window=20, windows=(10, 20), change=8, zone=4, probes=100, repeat=1)


def tuples(size: Size, window: int) -> tuple[Times, Codes, Codes]:
    """Times and keys of the tuples in a window, and the keys that look for partners, as they are hot at its end."""
    dice = np.random.default_rng(SEED)
    count, shares = size.rate * window, 1 / np.arange(1, ITEMS + 1) ** EXPONENT
    orders = np.stack([dice.permutation(ITEMS) for _ in range(window // size.change + 1)])
    times = np.sort(dice.integers(0, window * SECOND, count))
    ranks = dice.choice(ITEMS, count + size.probes, p=shares / shares.sum())
    keys = orders[times // (size.change * SECOND), ranks[:count]]
    return times, keys, orders[-1][ranks[count:]]


class Structure:
    """Tuples in cells: zone by zone, and bucket by bucket in each."""

    def __init__(self, name: str, size: Size) -> None:
        self.name, self._size = name, size
        self.buckets = BUCKETS if name in ("T3", "T4") else 1

    def insert(self, times: Times, keys: Codes) -> None:
        """Everything that a tuple takes to come in."""
        step = self._size.zone * SECOND
        whole = int(times[-1]) + 1
        self._keys, self._order = keys, np.arange(len(keys))
        self.summaries: list[Summary] = []
        firsts = [0]
        if self.name == "runs":
            firsts = np.searchsorted(times, np.arange(0, whole, step)).tolist()
        elif self.name != "T1":
            drift, longest = (0.2, whole) if self.name == "T4" else (NEVER, step)
            zones = Zones(Cuts(drift, longest, whole if self.name == "T4" else step), self._empty)
            ended = [zone for zone, _ in zones.take(times, keys, None)]
            assert zones.open is not None
            ended.append(zones.open)
            self.summaries = [zone.summary for zone in ended]
            firsts = [zone.first for zone in ended]
        self._cut(np.array([*firsts, len(keys)]))

    def _empty(self) -> Summary:
        return CountSketch(buckets=self.buckets)

    def _cut(self, zones: Index) -> None:
        """Put tuples into cells, and note where each cell begins."""
        edges = [np.zeros(1, np.int64)]
        bucket = self.bucket(self._keys)
        for first, last in pairwise(zones.tolist()):
            by = self._keys[first:last] if self.name == "runs" else bucket[first:last]
            if self.buckets > 1 or self.name == "runs":
                self._order[first:last] = first + np.argsort(by, kind="stable")
            edges.append(first + np.cumsum(np.bincount(bucket[first:last], minlength=self.buckets)))
        self._edges = np.concatenate(edges)
        self._in_cells = self._keys[self._order]
        self.zones = len(zones) - 1

    def bucket(self, keys: Codes) -> Codes:
        return mixed([keys], len(keys)) & (self.buckets - 1)

    def probe(self, keys: Codes) -> Counts:
        """How many partners each key has; all of them are looked up."""
        found, places = np.zeros(len(keys), np.int64), np.empty(len(self._keys), np.int64)
        if self.name == "runs":
            _look_up(keys, self._in_cells, self._edges, places, found)
            return found
        promises = np.ones((self.zones, len(keys)), np.int64)
        for zone, summary in enumerate(self.summaries):
            promises[zone] = np.where(summary.may_hold(keys), summary.estimate(keys) + 1, 0)
        best = np.argsort(-promises, axis=0, kind="stable")
        _visit(keys, self.bucket(keys), self.buckets, promises, best, self._in_cells, self._edges, places, found)
        return found


@njit(cache=True, nogil=True)
def _visit(
    keys: Array,
    bucket: Array,
    buckets: int,
    promises: Array,
    best: Array,
    cells: Array,
    edges: Array,
    places: Array,
    found: Array,
) -> None:
    """Go through the cells of each key, the most promising first, and note where its partners are."""
    for i in range(len(keys)):
        count = 0
        for rank in range(best.shape[0]):
            zone = best[rank, i]
            if promises[zone, i] == 0:
                break
            cell = zone * buckets + bucket[i]
            for at in range(edges[cell], edges[cell + 1]):
                if cells[at] == keys[i]:
                    places[count] = at
                    count += 1
        found[i] = count


@njit(cache=True, nogil=True)
def _look_up(keys: Array, cells: Array, edges: Array, places: Array, found: Array) -> None:
    """The run of each key in every sorted zone."""
    for i in range(len(keys)):
        count = 0
        for zone in range(len(edges) - 1):
            at = edges[zone] + np.searchsorted(cells[edges[zone] : edges[zone + 1]], keys[i])
            while at < edges[zone + 1] and cells[at] == keys[i]:
                places[count] = at
                count += 1
                at += 1
        found[i] = count


@dataclass(frozen=True)
class Costs:
    """Microseconds a tuple and a result."""

    insert: float
    hit: float
    zones: int

    def results(self, interarrival: float) -> float:
        """N_op (equation 1); nothing where there is not even the time to insert."""
        return max(interarrival - self.insert, 0.0) / self.hit


def costs(name: str, size: Size, window: int) -> Costs:
    """The best of several, over tuples of which every partner is found."""
    times, keys, probes = tuples(size, window)
    exact = ExactCounts()
    exact.summarize(keys)
    right = exact.estimate(probes)
    structure = Structure(name, size)
    structure.insert(times, keys)
    if not np.array_equal(structure.probe(probes), right):
        raise MullionError(f"{name} does not lead to all results")
    insert = min(_seconds(lambda: structure.insert(times, keys)) for _ in range(size.repeat))
    hit = min(_seconds(lambda: structure.probe(probes)) for _ in range(size.repeat))
    return Costs(1e6 * insert / len(keys), 1e6 * hit / int(right.sum()), structure.zones)


def _seconds(act: Callable[[], object]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries it on few tuples and judges nothing."""
    size = QUICK if quick else FULL
    made, machine = Report(judged=not quick), report.machine()
    warn_if_busy(console, machine["load_average"])
    found = {name: costs(name, size, size.window) for name in STRUCTURES}
    made.grids.append(
        Grid(
            (f"window {size.window} s", "zones", "t_ins, us", "t_hit, us", *(f"N_op, {t} us" for t in INTERARRIVALS)),
            [
                (
                    name,
                    str(c.zones),
                    f"{c.insert:.3f}",
                    f"{c.hit:.4f}",
                    *(f"{c.results(t):,.0f}" for t in INTERARRIVALS),
                )
                for name, c in found.items()
            ],
        )
    )
    by_window = {name: {window: costs(name, size, window) for window in size.windows} for name in STRUCTURES}
    rows = [(name, *(f"{own[w].hit:.4f}" for w in size.windows)) for name, own in by_window.items()]
    made.grids.append(Grid(("t_hit, us", *(f"{w} s" for w in size.windows)), rows))
    made.add(
        Bar("T3 against T1, t_hit: less", found["T1"].hit / found["T3"].hit),
        Bar("T4 against T3, t_hit: less", found["T3"].hit / found["T4"].hit),
        Bar("runs against T3, t_hit: less", found["T3"].hit / found["runs"].hit),
        Bar("summarizing with T4, million events a second", 1 / found["T4"].insert, 2, ">=", ""),
    )
    made.facts = {
        "benchmark": "promising_structures",
        "machine": machine,
        "versions": report.versions(),
        "size": asdict(size),
        "costs": {name: asdict(own) for name, own in found.items()},
        "by_window": {name: {w: asdict(c) for w, c in own.items()} for name, own in by_window.items()},
    }
    made.finish(console, json)
    draw_to(console, plot, partial(_draw, found, by_window))
    return made


def _draw(found: Mapping[str, Costs], by_window: Mapping[str, Mapping[int, Costs]], path: Path) -> None:
    """Beside Figures 9a, 9b and 9c, and t_hit over the window (10b)."""
    figure, axes = pyplot().subplots(1, 4, figsize=(15, 3.6))
    middle = INTERARRIVALS[-2]
    panels = {
        "t_ins, us (9a)": [own.insert for own in found.values()],
        "t_hit, us (9b)": [own.hit for own in found.values()],
        f"N_op, a tuple every {middle:g} us (9c)": [own.results(middle) for own in found.values()],
    }
    for panel, (title, values) in zip(axes[:3], panels.items(), strict=True):
        panel.bar(list(found), values, color=GROWTH)
        panel.set_title(title)
    for colour, (name, own) in zip(GROWTH, by_window.items(), strict=True):
        axes[3].plot(list(own), [costs.hit for costs in own.values()], color=colour, label=name, marker="o")
    axes[3].set_title("t_hit, us, by window, s (10b)")
    axes[3].set_yscale("log")
    axes[3].legend()
    save(figure, path)
