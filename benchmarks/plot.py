"""Pictures of what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pane_grid import Measured
from benchmarks.panes import Extent

MULLION, OTHERS, T1 = "#2a78b5", "#b8b8b8", "#555555"


GROWTH = ("#2a78b5", "#7fb2d9", "#d1495b", "#e8a33d", "#8f8f8f")
"""The colours of lines, in their order."""

Line = Mapping[int, float]
"""Figures by a number: seconds by the number of queries, counts by the length of lists."""


def draw(path: Path, rows: Sequence[tuple[str, float]], title: str, *, reference: float) -> None:
    """One bar for each (name, seconds), in the given order from the top; a dashed line at the reference."""
    figure, axes = pyplot().subplots(figsize=(9, 0.42 * len(rows) + 1.4))
    _bars(axes, rows, reference)
    axes.set_title(title, fontsize=11, loc="left")
    save(figure, path)


def _bars(axes: Any, rows: Sequence[tuple[str, float]], reference: float) -> None:
    names, seconds = [name for name, _ in rows], [time for _, time in rows]
    bars = axes.barh(names, seconds, color=[_colour(name) for name in names], height=0.68)
    for label in axes.bar_label(bars, labels=[_seconds(time) for time in seconds], padding=4, fontsize=9):
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
    axes.axvline(reference, color=T1, linewidth=1, linestyle="--", zorder=0)
    axes.set_xscale("log")
    axes.set_xlim(min(seconds) / 2, max(seconds) * 4)
    axes.set_xlabel("seconds, logarithmic; the dashed line is one plain Spark sum")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)


def draw_growth(path: Path, panels: Mapping[str, Mapping[str, Line]], title: str, *, reference: float) -> None:
    """A panel for each workload with a line for each path; a dashed line at the reference."""
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    figure, grid = pyplot().subplots(2, 2, figsize=(11, 8), sharex=True, sharey=True)
    for axes, (workload, lines) in zip(grid.flat, panels.items(), strict=True):
        for name, line in lines.items():
            numbers = sorted(line)
            colour = GROWTH[names.index(name) % len(GROWTH)]
            axes.plot(numbers, [line[n] for n in numbers], label=name, color=colour, marker="o", markersize=3.5)
        axes.axhline(reference, color=T1, linewidth=1, linestyle="--", label="one plain Spark sum (T1)", zorder=0)
        axes.set_xscale("log", base=4)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_yscale("log")
        axes.set_title(workload, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelbottom=True)
    for axes in grid[-1]:
        axes.set_xlabel("queries")
    for axes in grid[:, 0]:
        axes.set_ylabel("seconds")
    handles, labels = max((axes.get_legend_handles_labels() for axes in grid.flat), key=lambda found: len(found[1]))
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11, x=0.06, ha="left")
    save(figure, path, bottom=0.08)


def draw_sets(path: Path, lines: Mapping[str, Line], title: str, *, measured_up_to: Mapping[str, int]) -> None:
    """Seconds by the number of queries, a line for each system; what is reckoned and not measured is dashed."""
    figure, axes = pyplot().subplots(figsize=(8, 5.5))
    others = iter(GROWTH[2:])
    for name, line in sorted(lines.items(), key=lambda item: item[1][max(item[1])], reverse=True):
        colour, width = (MULLION, 2.5) if name.startswith("Mullion") else (next(others), 1.2)
        most = measured_up_to.get(name, max(line))
        measured = [n for n in sorted(line) if n <= most]
        reckoned = [n for n in sorted(line) if n >= most]
        seconds = [line[n] for n in measured]
        axes.plot(measured, seconds, label=name, color=colour, marker="o", markersize=3.5, linewidth=width)
        axes.plot(reckoned, [line[n] for n in reckoned], color=colour, linestyle="--", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xticks(sorted({n for line in lines.values() for n in line}))
    axes.set_xlabel("queries")
    axes.set_ylabel("seconds")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    axes.set_title(title, fontsize=11, loc="left")
    save(figure, path)


def draw_curves(
    path: Path, panels: Mapping[str, Mapping[str, Line]], title: str, *, across: str, logarithmic: Sequence[str] = ()
) -> None:
    """Six panels with the same lines; those whose names begin as `logarithmic` says have a logarithmic axis."""
    figure, grid = pyplot().subplots(2, 3, figsize=(12, 7))
    for axes, (name, lines) in zip(grid.flat, panels.items(), strict=True):
        for (label, line), colour in zip(lines.items(), (GROWTH[0], GROWTH[2], GROWTH[3]), strict=True):
            numbers = sorted(line)
            axes.plot(numbers, [line[n] for n in numbers], label=label, color=colour, marker="o", markersize=3.5)
        if name.startswith(tuple(logarithmic)):
            axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_ylim(bottom=0)
        axes.set_xticks(sorted({n for line in lines.values() for n in line}))
        axes.set_xlabel(across)
        axes.set_title(name, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11, x=0.06, ha="left")
    save(figure, path, bottom=0.05)


def draw_panels(path: Path, panels: Mapping[str, Mapping[str, Line]], axes_of: Sequence[str], title: str) -> None:
    """A panel for each figure with a line for each way, and what its horizontal axis counts."""
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    figure, grid = pyplot().subplots(2, 2, figsize=(11, 8), sharey=True)
    for axes, (panel, lines), what in zip(grid.flat, panels.items(), axes_of, strict=True):
        for name, line in lines.items():
            colour = GROWTH[names.index(name) % len(GROWTH)]
            axes.plot(list(line), list(line.values()), label=name, color=colour, marker="o", markersize=3.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_yscale("log")
        axes.set_xlabel(what)
        axes.set_title(panel, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("seconds")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11, x=0.06, ha="left")
    save(figure, path, bottom=0.05)


def draw_aggregates(
    path: Path, rows: Sequence[tuple[str, float]], grids: Sequence[Measured], title: str, *, reference: float
) -> None:
    """Times above; below, what panes take of the time without: as bars like li's Figure 3, and as maps."""
    figure = pyplot().figure(figsize=(15, 0.34 * len(rows) + 10))
    parts = figure.add_gridspec(3, 2, height_ratios=(0.34 * len(rows) + 1, 3.6, 4.2))
    times = figure.add_subplot(parts[0, :])
    _bars(times, rows, reference)
    times.set_title(title, fontsize=11, loc="left")
    for i, measured in enumerate(grids):
        _ratio_bars(figure.add_subplot(parts[1, i]), measured)
        _ratio_map(figure, figure.add_subplot(parts[2, i]), measured)
    save(figure, path)


def _ratio_bars(axes: Any, measured: Measured) -> None:
    """A group for each number of tuples per pane, in it a bar for each number of panes per window."""
    across, down = measured.tuples_per_pane, measured.panes_per_window
    ratios = measured.table(lambda cell: cell.ratio)
    width = 0.8 / len(down)
    shades = pyplot().get_cmap("viridis")
    for i, panes in enumerate(down):
        places = [group + (i - (len(down) - 1) / 2) * width for group in range(len(across))]
        axes.bar(places, ratios[i], width, label=f"{panes:g} P/W", color=shades(i / max(1, len(down) - 1)))
    axes.axhline(1, color=T1, linewidth=1, linestyle="--")
    axes.set_ylim(0, min(3.0, float(ratios.max()) * 1.05))
    axes.set_xticks(range(len(across)), [f"{tuples:g}" for tuples in across])
    axes.set_xlabel("tuples per pane")
    axes.set_ylabel("time with panes / without")
    axes.set_title(f"{measured.kind.name}: as li 2005, Figure 3 (P/W: panes per window)", fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    axes.spines[["top", "right"]].set_visible(False)


def _ratio_map(figure: Any, axes: Any, measured: Measured) -> None:
    """Ratios as colours, with the lines on which panes begin to pay: measured, and as the cost formulas say."""
    import numpy as np

    across, down = measured.tuples_per_pane, measured.panes_per_window
    ratios = measured.table(lambda cell: cell.ratio)
    x, y = np.log10(across), np.log10(down)
    shown = axes.pcolormesh(x, y, np.log2(ratios), cmap="RdBu_r", vmin=-3, vmax=3, shading="nearest")
    for i, j in np.ndindex(ratios.shape):
        axes.text(x[j], y[i], f"{ratios[i, j]:.2f}", ha="center", va="center", fontsize=8)
    axes.contour(x, y, np.log(ratios), levels=[0], colors="black", linewidths=1.6)
    fine_x, fine_y = np.linspace(x[0], x[-1], 120), np.linspace(y[0], y[-1], 120)
    kind, costs = measured.kind, measured.costs
    predicted = [[kind.predicted(Extent(10**p, 10**t), costs) for t in fine_x] for p in fine_y]
    axes.contour(fine_x, fine_y, np.log(predicted), levels=[0], colors="#d1495b", linewidths=1.6, linestyles="--")
    axes.set_xticks(x, [f"{tuples:g}" for tuples in across])
    axes.set_yticks(y, [f"{panes:g}" for panes in down])
    axes.set_xlabel("tuples per pane")
    axes.set_ylabel("panes per window")
    where = "panes pay right of the line (black measured, red predicted)"
    axes.set_title(f"{kind.name}: {where}", fontsize=10, loc="left")
    figure.colorbar(shown, ax=axes, label="log2 of the ratio")


def pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, path: Path, *, bottom: float = 0.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout(rect=(0, bottom, 1, 1))
    figure.savefig(path, dpi=150)
    pyplot().close(figure)


def _colour(name: str) -> str:
    return MULLION if name.startswith("Mullion") else OTHERS


def _seconds(time: float) -> str:
    return f"{time:.2f} s" if time < 10 else f"{time:,.0f} s"
