"""Aggregates over the window of one stream: the one form of plan that slices can run.

    Project(items) over Filter(having) over Aggregated(keys, aggregates) over Filter(where) over TableLookup* over Scan

Both filters may be missing. Tables are not retroactive: what an event found stays with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import Aggregated, Filter, Node, Project, Scan, TableLookup
from mullion.language.query import Expr
from mullion.language.types import BIGINT, TIMESTAMP, Type


@dataclass(frozen=True)
class WindowAggregate:
    """The parts of such a plan. The items, and `having`, may use window_start and window_end besides its columns."""

    project: Project
    having: Expr | None
    aggregated: Aggregated
    where: Expr | None
    lookups: tuple[Lookup, ...]
    scan: Scan


def window_aggregate(root: Node) -> WindowAggregate | None:
    """The parts of a plan of this form; None for any other."""
    if not isinstance(root, Project):
        return None
    having, aggregated = _unfiltered(root.input)
    if not isinstance(aggregated, Aggregated):
        return None
    where, node = _unfiltered(aggregated.input)
    lookups: list[Lookup] = []
    while isinstance(node, TableLookup) and not node.retroactive:
        lookups.insert(0, node.lookup)
        node = node.input
    if not isinstance(node, Scan):
        return None
    return WindowAggregate(root, having, aggregated, where, tuple(lookups), node)


def _unfiltered(node: Node) -> tuple[Expr | None, Node]:
    return (node.predicate, node.input) if isinstance(node, Filter) else (None, node)


def type_of_bounds(scan: Scan) -> Type:
    """The type of window_start and window_end: a window over a column of whole numbers has such bounds."""
    attribute = scan.window.attribute
    return BIGINT if attribute is not None and scan.types[attribute].is_integer else TIMESTAMP
