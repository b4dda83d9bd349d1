"""Questions about whole plans."""

from __future__ import annotations

from mullion.algebra.nodes.aggregated import Aggregated
from mullion.algebra.nodes.base import Node, nodes
from mullion.algebra.nodes.result_window import ResultWindow
from mullion.algebra.nodes.scan import Scan
from mullion.algebra.nodes.table_lookup import TableLookup


def is_aggregates(root: Node) -> bool:
    """Whether the rows are those of aggregates, perhaps filtered: new ones replace the old."""
    return isinstance(root.selected_from, Aggregated)


def has_total(root: Node) -> bool:
    """Whether an aggregate without GROUP BY is a part of it: it has a row also where no window holds an event. A window
    over its results holds such rows as any others."""
    match root:
        case Aggregated(keys=()):
            return True
        case ResultWindow():
            return False
        case _:
            return any(map(has_total, root.inputs))


def comes_at_instants(root: Node) -> bool:
    """Whether all its rows are made of results of periodic aggregates. These live from just before their instant, so
    that it sees them; they have come at the instant itself."""
    if isinstance(root, Aggregated):
        return root.slide is not None
    return bool(root.inputs) and all(map(comes_at_instants, root.inputs))


def scans(root: Node) -> list[Scan]:
    """The windows that the relation stands on, from left to right."""
    return [node for node in nodes(root) if isinstance(node, Scan)]


def tables_read(root: Node, stream: str) -> list[str]:
    """The tables that events of a stream are looked up in as they are read, each once."""
    lookups = [node for node in nodes(root) if isinstance(node, TableLookup) and not node.retroactive]
    return list(dict.fromkeys(node.lookup.table for node in lookups if node.stream == stream))


def tables_of(root: Node) -> list[str]:
    """The tables that rows of the relation are looked up in, each once."""
    return list(dict.fromkeys(node.lookup.table for node in nodes(root) if isinstance(node, TableLookup)))
