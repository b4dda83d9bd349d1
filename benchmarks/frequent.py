"""Frequent items from short lists, without Spark: what `python -m benchmarks frequent` measures (golab Figure 6.3)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks import plot, report
from benchmarks.course import draw_to
from benchmarks.frequent_items import TYPES, Found, Trains, curves, plain_zipf, series
from benchmarks.report import Bar, Grid, Report

SEED = 2006
SIZES = (20, 100, 500)
"""Items of a sub-window."""
LENGTHS = tuple(range(1, 11))
TRAINS = Trains()

Curves = dict[tuple[int, int], Found]


@dataclass(frozen=True)
class FrequentSize:
    packets: int = 2_000_000
    window: int = 100_000
    windows: int = 100


FULL, QUICK = FrequentSize(), FrequentSize(packets=300_000, windows=3)


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure all curves; `quick` looks at a few windows and judges nothing."""
    size = QUICK if quick else FULL
    random = np.random.default_rng(SEED)
    starts = random.integers(0, size.packets - size.window + 1, size.windows).tolist()
    made = Report(judged=not quick)
    console.print(
        f"{size.windows} windows of {size.window:,} out of {size.packets:,} packets from {TYPES:,} senders",
        highlight=False,
    )
    found: dict[str, Curves] = {}
    streams = {"trains": TRAINS.stream(size.packets, random), "zipf": plain_zipf(TRAINS.zipf, size.packets, random)}
    for name, items in streams.items():
        chosen = starts if name == "trains" else starts[: max(1, size.windows // 10)]
        found[name] = {}
        for b, k, one in curves(items, chosen, size.window, SIZES, LENGTHS):
            found[name][b, k] = one
            if k == LENGTHS[-1]:
                console.print(f"  {name}, sub-windows of {b}: done", highlight=False)
    judge(made, found)
    made.grids = [_grid(found["trains"])]
    made.facts = {
        "benchmark": "frequent",
        "machine": report.machine(),
        "versions": report.versions(None),
        "size": asdict(size),
        "trains": asdict(TRAINS),
        "curves": {name: [{"b": b, "k": k, **f.to_json()} for (b, k), f in c.items()] for name, c in found.items()},
    }
    made.finish(console, json)
    draw_to(console, plot, partial(_draw, found["trains"], size))
    return made


def judge(made: Report, found: dict[str, Curves]) -> None:
    trains, zipf = found["trains"], found["zipf"]
    wrong = sum(f.wrong for c in found.values() for f in c.values())
    made.add(Bar("items given that are not frequent, all runs", wrong, 0, "==", ""))
    for b in SIZES:
        note = f"each drawn by itself, without trains: {_least(zipf, b):.0f} %"
        made.add(
            Bar(f"items over the threshold that are found, b = {b}, k >= 3", _least(trains, b), 80, ">=", "%", note)
        )
    most = max(100 * f.error for (b, k), f in trains.items() if b == 20 and k >= 7)
    made.add(Bar("error of their counts, b = 20, k >= 7", most, 2, "<", "%"))
    for b in SIZES:
        five = trains[b, 5]
        made.add(
            Bar(f"threshold, b = {b}, k = 5", five.delta / 1000, unit="%", note=f"{five.over:.1f} items are over it")
        )


def _least(found: Curves, size: int) -> float:
    """The smallest share of items over the threshold that were identified, for lists of three or more."""
    return min(f.percent for (b, k), f in found.items() if b == size and k >= 3)


def _grid(found: Curves) -> Grid:
    header = ("b", "k", "threshold", "over it", "found", "of them", "pairs kept", "error")
    rows: list[tuple[str, ...]] = [
        (
            *(str(b), str(k), f"{f.delta:,.0f}", f"{f.over:.1f}", f"{f.identified:.1f}"),
            *(_percent(f.percent), f"{f.pairs:,.0f}", _percent(100 * f.error)),
        )
        for (b, k), f in found.items()
    ]
    return Grid(header, rows)


def _percent(value: float) -> str:
    return f"{value:.1f} %" if value == value else "-"


def _draw(found: Curves, size: FrequentSize, path: Path) -> None:
    panels = {
        "(a) threshold, items": series(found, "delta"),
        "(b) items over the threshold": series(found, "over"),
        "(c) items found": series(found, "identified"),
        "(d) found of those over it, %": series(found, "percent"),
        "(e) pairs kept": series(found, "pairs"),
        "(f) error of their counts, %": series(found, "error", 100),
    }
    title = f"Frequent items from top-k lists: the average of {size.windows} windows of {size.window:,} packets"
    plot.draw_curves(path, panels, title, across="k", logarithmic=("(b)", "(c)", "(e)"))
