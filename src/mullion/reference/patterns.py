"""Whether the ends of a relation's rows are known when they come, and whether they end at all."""

from __future__ import annotations

from mullion.algebra.nodes import Distinct, Filter, Join, Node, Project, ResultWindow, Scan, TableLookup, Union, scans


def is_strict(node: Node) -> bool:
    """Whether rows end at times that depend on what comes later (golab 3.2.1): not those of windows of time and of what
    is made of them row by row."""
    match node:
        case Scan(window=window) | ResultWindow(window=window):
            return window.rows is not None and not window.internal
        case Filter() | Project() | Distinct() | Union() | Join() | TableLookup(retroactive=False):
            return any(map(is_strict, node.inputs))
        case _:
            return True


def stays(node: Node) -> bool:
    """Whether all windows are INTERNAL, so that results don't expire (golab 3.3.2)."""
    return all(scan.window.internal for scan in scans(node))


__all__ = ["is_strict", "stays"]
