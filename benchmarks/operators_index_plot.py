"""Pictures of the index on disk, in the order of the paper's: Figures 4.4 to 4.11."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.lifetime_records import Measured
from benchmarks.operators_plot import COLOURS
from benchmarks.plot import pyplot, save

Found = Mapping[str, Measured]

MEASURES = ("update", "probe", "scan")
SHAPES = ("Rebuild4x4", "Rebuild2x8", "Rebuild8x2")
KINDS = ("R-ins", "D-ins", "Rebuild", "NoRebuild", "Rebuild chr", "NoRebuild chr")


def draw(path: Path, small: Found, bursts: Found, large: Found) -> None:
    """A panel for each figure; those of the large data set only if it was measured."""
    figure, grid = pyplot().subplots(3 if large else 2, 3, figsize=(15, 12 if large else 8), squeeze=False)
    _shapes(grid[0, 0], small)
    size = _size(small)
    for axes, measure, number in zip((grid[0, 1], grid[0, 2], grid[1, 0]), MEASURES, (5, 6, 7), strict=True):
        _lines(axes, small, measure, f"Figure 4.{number}: {measure}s, {size}")
    _bursts(grid[1, 1], small, bursts)
    _spread(grid[1, 2], small)
    if large:
        for axes, measure, number in zip(grid[2], MEASURES, (9, 10, 11), strict=True):
            _lines(axes, large, measure, f"Figure 4.{number}: {measure}s, {_size(large)}")
    figure.suptitle("An index of rows with different lifetimes on disk (golab 4.4)", fontsize=11, x=0.06, ha="left")
    save(figure, path)


def _size(found: Found) -> str:
    return f"{next(iter(found.values())).workload.megabytes:,} MB"


def _shapes(axes: Any, found: Found) -> None:
    """Figure 4.4: as parts of what the first shape takes."""
    for i, name in enumerate(SHAPES):
        values = [getattr(found[name], measure) / getattr(found[SHAPES[0]], measure) for measure in MEASURES]
        axes.bar([group + (i - 1) * 0.27 for group in range(3)], values, 0.27, label=name, color=COLOURS[i])
    axes.set_xticks(range(3), MEASURES)
    axes.margins(y=0.35)
    _finish(axes, "Figure 4.4: G and E, against 4x4", "", "times 4x4")


def _lines(axes: Any, found: Found, measure: str, title: str) -> None:
    for i, kind in enumerate(KINDS):
        if measure != "update" and "chr" in kind:
            continue
        line = {
            one.technique.sub_indices: getattr(one, measure)
            for one in found.values()
            if one.technique.kind == kind and (one.technique.insertions == one.technique.expiries or "-" in kind)
        }
        if line:
            numbers = sorted(line)
            axes.plot(numbers, [line[n] for n in numbers], label=kind, color=COLOURS[i], marker="o", markersize=3.5)
    _finish(axes, title, "sub-indices", "seconds")


def _bursts(axes: Any, steady: Found, bursts: Found) -> None:
    """Figure 4.8: what a fluctuating rate adds is dark."""
    names = list(bursts)
    before = [steady[name].update for name in names]
    added = [max(0.0, bursts[name].update - steady[name].update) for name in names]
    axes.barh(names, before, color=COLOURS[0], label="steady rate")
    axes.barh(names, added, left=before, color="#333333", label="more with a fluctuating rate")
    axes.invert_yaxis()
    _finish(axes, "Figure 4.8: updates, rates varying by up to 4", "seconds", "")


def _spread(axes: Any, found: Found) -> None:
    """Theorem 4.1 as a picture."""
    for i, kind in enumerate(("Rebuild", "Rebuild chr")):
        line = {
            one.technique.sub_indices: one.spread
            for one in found.values()
            if one.technique.kind == kind and one.technique.insertions == one.technique.expiries
        }
        numbers = sorted(line)
        label = "chronological" if "chr" in kind else "round-robin"
        axes.plot(numbers, [line[n] for n in numbers], label=label, color=COLOURS[i], marker="o", markersize=3.5)
    _finish(axes, "Theorem 4.1: how sizes of sub-indices differ", "sub-indices", "standard deviation / mean")


def _finish(axes: Any, title: str, across: str, up: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if up:
        axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
