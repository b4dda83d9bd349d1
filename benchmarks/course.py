"""The course of a benchmark: a quiet machine, one session, its parts one after the other, a report."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from benchmarks import report
from benchmarks.lab import Lab, Size
from benchmarks.measuring import Stopwatch
from benchmarks.report import Report
from mullion.spark.session import local_session

EXTRA = "pip install --editable '.[bench]'"
COUNTED = (
    "events",
    "slices",
    "fragments",
    "partials",
    "partial_operations",
    "final_operations",
    "window_slices",
    "answers",
)

SomeSize = TypeVar("SomeSize", bound=Size)
SomeLab = TypeVar("SomeLab", bound=Lab)


def conduct(
    console: Console,
    name: str,
    make_lab: Callable[[object, SomeSize, Path, Stopwatch, Report], SomeLab],
    size: SomeSize,
    parts: Sequence[Callable[[SomeLab], None]],
    *,
    judged: bool,
    json: Path | None,
) -> SomeLab:
    """Measure all parts, show the table and write the figures."""
    made = Report(judged=judged)
    machine = report.machine()
    warn_if_busy(console, machine["load_average"])
    session = local_session(app_name="mullion-bench")
    with tempfile.TemporaryDirectory(prefix="mullion-bench-", ignore_cleanup_errors=True) as folder:
        watch = Stopwatch(console, size.repeat)
        lab = make_lab(session, size, Path(folder), watch, made)
        said = f"{size.events:,} trades of one hour, the best of {size.repeat} runs after warming up"
        console.print(said, highlight=False)
        for part in parts:
            part(lab)
    made.timings = watch.timings
    made.facts = {
        "benchmark": name,
        "machine": machine,
        "versions": report.versions(session),
        "size": asdict(size),
        "counts": report.counts_of(lab.counts, COUNTED),
        **lab.facts(),
    }
    made.finish(console, json)
    return lab


def warn_if_busy(console: Console, load: float) -> None:
    if load > 0.5:
        console.print(
            f"[yellow]The machine is busy (load {load:.1f}): times will be too long.[/yellow]", highlight=False
        )


def draw_to(console: Console, path: Path | None, draw: Callable[[Path], None]) -> None:
    """The picture, if one is wanted and can be drawn."""
    if path is None:
        return
    if find_spec("matplotlib") is None:
        console.print(f"No picture, because matplotlib is not installed: {EXTRA}", markup=False)
        return
    draw(path)
    console.print(f"Picture: {path}", highlight=False)
