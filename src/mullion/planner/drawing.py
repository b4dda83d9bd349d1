"""Trees of boxes as SVG: plans for people who would rather look than read.

    +--------+
    | parent |        children stand below their parent, each under the lines that lead to it;
    +--------+        what flows over a line is written beside it
     /      \\
    child   child
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

LETTER, LINE, PADDING, GAP, RISE = 7.2, 17, 10, 24, 46
"""Widths and heights in pixels: of a letter, a line of text, inside a box, between boxes, between levels."""
LONGEST = 70
"""Letters of a line; what is longer is cut."""


@dataclass(frozen=True)
class Box:
    """Lines of text, and what is below. `edge` is written beside the line up to the parent."""

    lines: tuple[str, ...]
    edge: str = ""
    children: tuple[Box, ...] = ()

    @property
    def width(self) -> float:
        longest = max(len(_cut(line)) for line in (*self.lines, self.edge))
        return longest * LETTER + 2 * PADDING

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 2 * PADDING

    @property
    def span(self) -> float:
        """How wide the whole tree is."""
        below = sum(child.span for child in self.children) + GAP * max(0, len(self.children) - 1)
        return max(self.width, below)


def svg(trees: Sequence[Box]) -> str:
    """All trees, one below the other."""
    shapes: list[str] = []
    y, widest = float(RISE), 0.0
    for tree in trees:
        y = _draw(tree, GAP, y, shapes) + RISE
        widest = max(widest, tree.span + 2 * GAP)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{widest:.0f}" height="{y:.0f}" '
        f'viewBox="0 0 {widest:.0f} {y:.0f}" font-family="monospace" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>"])


def _draw(box: Box, left: float, top: float, shapes: list[str]) -> float:
    """Draw a tree into the width that it spans; returns how far down it reaches."""
    middle = left + box.span / 2
    x, bottom = middle - box.width / 2, top + box.height
    if box.edge:
        shapes.append(_line(middle, top - RISE / 2, middle, top))
        shapes.append(_text(middle + 5, top - RISE / 4, box.edge, "#2a6f97"))
    lowest = bottom
    below = sum(child.span for child in box.children) + GAP * max(0, len(box.children) - 1)
    at = middle - below / 2
    for child in box.children:
        over = at + child.span / 2
        start = top + box.height + RISE
        shapes.append(_line(middle, bottom, over, start - RISE / 2))
        if not child.edge:
            shapes.append(_line(over, start - RISE / 2, over, start))
        lowest = max(lowest, _draw(child, at, start, shapes))
        at += child.span + GAP
    shapes.append(
        f'<rect x="{x:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="4" '
        'fill="#f4f7fa" stroke="#33475b"/>'
    )
    for i, line in enumerate(box.lines):
        shapes.append(_text(x + PADDING, top + PADDING + (i + 0.75) * LINE, line, "#111111" if i == 0 else "#5a6b7b"))
    return lowest


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#33475b"/>'


def _text(x: float, y: float, text: str, color: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}">{escape(_cut(text))}</text>'


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 2] + ".."
