"""Pictures of isolation, in the order of the paper's: Figures 7.8 to 7.14."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.plot import GROWTH, pyplot, save

Lines = Mapping[str, Mapping[int, float]]
"""Figures by scheduler and number of sub-windows."""


def draw(path: Path, panels: Mapping[str, tuple[Lines, str]]) -> None:
    """A panel for each figure: its lines, and what they count."""
    figure, grid = pyplot().subplots(3, 4, figsize=(17, 11), squeeze=False)
    for axes, (title, (lines, unit)) in zip(grid.flat, panels.items(), strict=False):
        _panel(axes, lines, title, unit)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle("Windows that slide while they are read (golab 7.5)", fontsize=11, x=0.06, ha="left")
    save(figure, path)


def _panel(axes: Any, lines: Lines, title: str, unit: str) -> None:
    for i, (name, line) in enumerate(lines.items()):
        numbers = sorted(line)
        axes.plot(numbers, [line[n] for n in numbers], label=name, color=GROWTH[i], marker="o", markersize=3.5)
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel("sub-windows")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
