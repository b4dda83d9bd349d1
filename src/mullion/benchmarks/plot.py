"""A picture of the times: bars on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

MULLION, OTHERS, T1 = "#2a78b5", "#b8b8b8", "#555555"


def draw(path: Path, rows: Sequence[tuple[str, float]], title: str, *, reference: float) -> None:
    """One bar for each (name, seconds), in the given order from the top; a dashed line at the reference."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.42 * len(rows) + 1.4))
    names, seconds = [name for name, _ in rows], [time for _, time in rows]
    bars = axes.barh(names, seconds, color=[_colour(name) for name in names], height=0.68)
    for label in axes.bar_label(bars, labels=[_seconds(time) for time in seconds], padding=4, fontsize=9):
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
    axes.axvline(reference, color=T1, linewidth=1, linestyle="--", zorder=0)
    axes.set_xscale("log")
    axes.set_xlim(min(seconds) / 2, max(seconds) * 4)
    axes.set_xlabel("seconds, logarithmic; the dashed line is one plain Spark sum")
    axes.set_title(title, fontsize=11, loc="left")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _colour(name: str) -> str:
    return MULLION if name.startswith("Mullion") else OTHERS


def _seconds(time: float) -> str:
    return f"{time:.2f} s" if time < 10 else f"{time:,.0f} s"
