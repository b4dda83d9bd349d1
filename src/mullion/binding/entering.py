"""How a relation enters streams that may be at work already."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import NamedTuple

from mullion.algebra.nodes import Node, Scan, nodes, scans
from mullion.algebra.relation import Relation


class Entrance(NamedTuple):
    """What entering decides of a query; each is a field of `Relation`."""

    start: int | None = None
    after: int | None = None
    tag: str = ""
    entered_after: int | None = None


def entered(relation: Relation, entrance: Entrance, materialized: Set[Node] = frozenset()) -> Relation:
    """The relation as it entered. `materialized` as in `entering_at`."""
    return replace(entering_at(relation, entrance.start, materialized), **entrance._asdict())


def entering_at(relation: Relation, start: int | None, materialized: Set[Node] = frozenset()) -> Relation:
    """The relation as it enters at an event time, whatever it was before: windows without a length in time, and those
    whose results stay, hold what comes from then on.

    `materialized` are the results of materialised queries, which are read as they are.
    """
    if start is None and relation.start is None:
        return relation

    def since(node: Node) -> Node:
        if node in materialized:
            return node
        if isinstance(node, Scan):
            has_an_end = node.window.range is not None and not node.window.internal
            return node if has_an_end or node.since == start else replace(node, since=start)
        return node.with_inputs(tuple(since(part) for part in node.inputs))

    return replace(relation, start=start, root=since(relation.root))


def needed_since(relation: Relation, after: int) -> int | None:
    """The time before which no event matters to what the relation answers after another; None where all may.

    A row is there while all its parts are, and what kept it away may have come and gone before: so all windows together
    say how far back that reaches.
    """
    windows = [scan.window for scan in scans(relation.root)]
    lengths = [0 if window.now else window.range for window in windows if not window.internal]
    if len(lengths) < len(windows) or any(node.looks_back for node in nodes(relation.root)):
        return None
    known = [length for length in lengths if length is not None]
    return after - sum(known) if len(known) == len(lengths) else None


__all__ = ["Entrance", "entered", "entering_at", "needed_since"]
