"""Joins, distinct and negation over windows, in parts: what `python -m benchmarks operators` measures.

| part | what |
|---|---|
| patterns | golab 3.6: four queries by three strategies, over windows of 2,000 to 200,000 |
| joins | golab 5.4: orders and algorithms of a join of four windows |
| index | golab 4.4: a materialised join in sub-indices on disk |
| spark | against Spark's own stream-stream join and dropDuplicatesWithinWatermark |

A part is the module `operators_<part>`. One that is not there is left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.course import draw_to, warn_if_busy
from benchmarks.operators_part import Draw, Part
from benchmarks.report import Report

PARTS = ("patterns", "joins", "index", "spark")


def run(
    console: Console,
    *,
    json: Path | None = None,
    plot: Path | None = None,
    quick: bool = False,
    parts: Sequence[str] = PARTS,
) -> Report:
    """Measure all parts. `plot` FILE.png is where FILE-orders.png and the other pictures go."""
    made = Report(judged=not quick)
    machine = report.machine()
    warn_if_busy(console, machine["load_average"])
    pictures: dict[str, Draw] = {}
    took: dict[str, float] = {}
    made.facts = {"benchmark": "operators", "machine": machine, "versions": report.versions(), "took_seconds": took}
    for name in parts:
        if find_spec(f"benchmarks.operators_{name}") is None:
            made.left_out.append(f"{name}, which is not part of this build")
            continue
        console.print(f"{name}:", highlight=False)
        began = time.perf_counter()
        found: Part = import_module(f"benchmarks.operators_{name}").measure(console, quick=quick)
        took[name] = time.perf_counter() - began
        made.add(*found.bars)
        made.grids += found.grids
        made.facts[name] = found.facts
        pictures |= found.pictures
    made.finish(console, json)
    if plot is not None:
        for name, draw in pictures.items():
            draw_to(console, picture_path(plot, name), draw)
    return made


def picture_path(plot: Path, name: str) -> Path:
    """
    >>> picture_path(Path("results/operators.png"), "orders").as_posix()
    'results/operators-orders.png'
    """
    return plot.with_name(f"{plot.stem}-{name}{plot.suffix}")
