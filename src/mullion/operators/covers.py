"""Which windows must hold an event for an aggregate to have an answer: those below it; and which others its queries
have, for as long as these hold an event is what never leaves aggregated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mullion.algebra.nodes import Aggregated, Filter, JoinView, Node, ResultWindow, Scan, nodes
from mullion.operators.timed_rows import TimedRows


@dataclass(frozen=True)
class Covered:
    """An aggregate, and how long events stay in one window of its query; None: as the window itself says."""

    aggregated: Aggregated
    length: int | None
    is_below: bool


def lives_in(fresh: TimedRows, length: int | None) -> TimedRows:
    """The lives of events in a window that they stay in for that long."""
    return fresh if length is None else replace(fresh, end=fresh.start + length)


def covers(plans: Iterable[Node]) -> dict[Node, list[Covered]]:
    """Whom to tell of what comes into each window."""
    found: dict[Node, dict[Covered, None]] = {}
    for plan in plans:
        everywhere = dict.fromkeys(windows_of(plan))
        for node in nodes(plan):
            if isinstance(node, Aggregated):
                below = set(windows_of(node))
                for window, length in everywhere:
                    is_below = (window, length) in below
                    if is_below or isinstance(window, Scan):
                        found.setdefault(window, {})[Covered(node, length, is_below)] = None
    return {window: list(covered) for window, covered in found.items()}


def windows_of(node: Node) -> Iterator[tuple[Node, int | None]]:
    """The windows of a plan, and how long events stay in them."""
    match node:
        case JoinView(input=join, ranges=ranges):
            for part, length in zip(join.parts, ranges, strict=True):
                yield _scan(part), length
        case Scan() | ResultWindow():
            yield node, _length(node)
            for below in node.inputs:
                yield from windows_of(below)
        case _:
            for below in node.inputs:
                yield from windows_of(below)


def _scan(node: Node) -> Node:
    return _scan(node.input) if isinstance(node, Filter) else node


def _length(node: Scan | ResultWindow) -> int | None:
    """Also where the window does not promise when events leave."""
    window = node.window
    if window.is_endless or window.rows is not None:
        return None
    return 1 if window.now else window.range


__all__ = ["Covered", "covers", "lives_in", "windows_of"]
