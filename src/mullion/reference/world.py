"""All that happened, and the rows of every relation over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mullion.algebra.nodes import Node, Scan, nodes
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.language.query import Expr
from mullion.language.types import DATE
from mullion.reference.answer import DAY, Rows, TablesWithRows
from mullion.reference.expressions import values_of
from mullion.reference.instants import Instants
from mullion.reference.outputs import held_from_to
from mullion.reference.registry import MEANINGS
from mullion.reference.rows import Row

VersionedTables = Mapping[str, Sequence[tuple[int, Rows]]]
"""What a table is from a time on, by the table's name; the times ascend. Before the first it is as it was given."""


class World:
    """All that happened, and the rows of every relation over it that was asked for."""

    def __init__(
        self,
        relation: Relation,
        streams: Mapping[str, Stream],
        events: Mapping[str, Rows],
        tables: TablesWithRows,
        versions: VersionedTables,
        event_time: int | None = None,
    ) -> None:
        """`event_time` is how far event time has come in any stream, where that is further than the newest event."""
        self.tables, self.versions = tables, versions
        self.events = {name: _in_order(streams[name], events.get(name, ())) for name in relation.streams}
        newest = max((time for events in self.events.values() for time, _ in events), default=None)
        self.newest = newest if newest is None or event_time is None else max(newest, event_time)
        self.known: dict[Node, list[Row]] = {}
        self.relation = relation

    def last(self, every: Instants) -> int:
        """The last instant at which a window of the query holds an event. What never leaves is asked for until all else
        has happened, and at least until the first instant after the newest event."""
        assert self.newest is not None
        in_windows = [row for node in nodes(self.relation.root) if isinstance(node, Scan) for row in self.rows(node)]
        return held_from_to(every, in_windows, self.newest)[1]

    def rows(self, node: Node) -> list[Row]:
        if node not in self.known:
            self.known[node] = MEANINGS[type(node)].rows(self, node)
        return self.known[node]

    def keys(self, node: Node, keys: Sequence[Expr]) -> list[tuple[Any, ...]]:
        """The keys of each row of a node."""
        columns = [self.values(node, key) for key in keys]
        return [tuple(values[i] for values in columns) for i in range(len(self.rows(node)))]

    def values(self, node: Node, expr: Expr) -> list[Any]:
        return values_of(expr, node.columns, [row.values for row in self.rows(node)])


def _in_order(stream: Stream, events: Rows) -> list[tuple[int, Mapping[str, Any]]]:
    """Events with their times, by time and then arrival."""
    unit = DAY if stream.types[stream.time_column] == DATE else 1
    timed = [(event[stream.time_column] * unit, event) for event in events if event[stream.time_column] is not None]
    return sorted(timed, key=lambda timed_event: timed_event[0])
