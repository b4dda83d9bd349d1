"""Pictures of the operators' benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.plot import pyplot, save

COLOURS = ("#2a78b5", "#d1495b", "#e8a33d", "#8f8f8f", "#3c8d5a", "#7d5ba6")

Lines = Mapping[str, Mapping[float, float]]
"""Figures by a number, for each name."""


def draw_groups(
    path: Path, groups: Mapping[str, Mapping[str, float]], labels: Sequence[str], title: str, up: str
) -> None:
    """A group of bars for each name; the labels name the bars of every group, in order."""
    figure, axes = pyplot().subplots(figsize=(12, 5))
    width = 0.8 / len(labels)
    for i, label in enumerate(labels):
        places = [group + (i - (len(labels) - 1) / 2) * width for group in range(len(groups))]
        axes.bar(places, [list(bars.values())[i] for bars in groups.values()], width, label=label, color=COLOURS[i])
    axes.set_xticks(range(len(groups)), [name.replace(", ", ",\n") for name in groups], fontsize=9)
    axes.set_ylabel(up)
    axes.legend(frameon=False, fontsize=9)
    axes.set_title(title, fontsize=11, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def draw_lines(
    path: Path,
    panels: Mapping[str, Lines],
    title: str,
    *,
    across: str,
    up: str,
    logarithmic: bool = False,
    columns: int = 2,
) -> None:
    """A panel for each name with its lines; a line's colour is the same in all panels."""
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    rows = -(-len(panels) // columns)
    figure, grid = pyplot().subplots(rows, columns, figsize=(6.4 * columns, 4 * rows), squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (panel, lines) in zip(grid.flat, panels.items(), strict=False):
        for name, line in lines.items():
            numbers = sorted(line)
            colour = COLOURS[names.index(name) % len(COLOURS)]
            dashes = "-" if names.index(name) < len(COLOURS) else "--"
            axes.plot(numbers, [line[n] for n in numbers], dashes, label=name, color=colour, marker="o", markersize=3.5)
        _label(axes, panel, across, up, logarithmic)
    figure.suptitle(title, fontsize=11, x=0.06, ha="left")
    save(figure, path)


def _label(axes: Any, panel: str, across: str, up: str, logarithmic: bool) -> None:
    if logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_title(panel, fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
