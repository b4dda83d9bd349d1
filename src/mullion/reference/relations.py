"""The meaning of a query over relations, computed the slow way: every operator by its definition, in plain Python.

No state, no deltas, no strategies. A relation is the list of its rows with the times from when until when they are
there. At every moment the rows that are there are what the relational operator makes of those of its inputs (golab,
Definitions 2.1 and 3.1); operators whose rows end for other reasons than their windows are evaluated anew on the
snapshot at each moment, and a row that is there in consecutive moments is one row.

Whatever the engine does must give these answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Filter,
    Join,
    JoinView,
    Node,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
    Union,
    nodes,
)
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.language.query import Expr
from mullion.language.types import DATE
from mullion.reference import DAY, Answer, Rows, Tables
from mullion.reference.duplicates import distinct
from mullion.reference.expressions import equal, one_value, values_of
from mullion.reference.grouping import at_changes, at_instants
from mullion.reference.instants import Instants
from mullion.reference.lives import lives
from mullion.reference.outputs import held_from_to, told
from mullion.reference.patterns import is_strict, stays
from mullion.reference.rows import Row
from mullion.reference.subtraction import difference, negation
from mullion.reference.table_versions import looked_up

Versions = Mapping[str, Sequence[tuple[int, Rows]]]
"""What a table is from a time on, by the table's name; the times ascend. Before the first it is as it was given."""


def answer_relation(
    relation: Relation,
    streams: Mapping[str, Stream],
    events: Mapping[str, Rows],
    tables: Tables | None = None,
    versions: Versions | None = None,
) -> Answer:
    """The answer of a query over relations to bounded input: the events of each stream in the order of arrival."""
    relation = _windowed(relation)
    world = World(relation, streams, events, tables or {}, versions or {})
    windows = [
        row for node in nodes(relation.root) if isinstance(node, Scan | ResultWindow) for row in world.rows(node)
    ]
    return told(relation, world.rows(relation.root), windows, world.newest)


def result_rows(
    relation: Relation,
    streams: Mapping[str, Stream],
    events: Mapping[str, Rows],
    tables: Tables | None = None,
    versions: Versions | None = None,
) -> list[Row]:
    """The rows of the query's result, with the times from when until when they are there."""
    relation = _windowed(relation)
    return World(relation, streams, events, tables or {}, versions or {}).rows(relation.root)


def _windowed(relation: Relation) -> Relation:
    """The relation with its output window, if it has one, as a part of its plan."""
    if relation.output != "wstream" or isinstance(relation.root, ResultWindow):
        return relation
    assert relation.output_window is not None
    return replace(relation, root=ResultWindow(relation.root, relation.output_window))


class World:
    """All that happened, and the rows of every relation over it."""

    def __init__(
        self,
        relation: Relation,
        streams: Mapping[str, Stream],
        events: Mapping[str, Rows],
        tables: Tables,
        versions: Versions,
    ) -> None:
        self.tables, self.versions = tables, versions
        self.events = {name: _in_order(streams[name], events.get(name, ())) for name in relation.streams}
        self.newest = max((time for events in self.events.values() for time, _ in events), default=None)
        self.known: dict[Node, list[Row]] = {}
        self.relation = relation

    def last(self, every: Instants) -> int:
        """The last instant at which a window of the query holds an event. What never leaves is asked for until all else
        has happened, and at least until the first instant after the newest event."""
        assert self.newest is not None
        held = [row for node in nodes(self.relation.root) if isinstance(node, Scan) for row in self.rows(node)]
        return held_from_to(every, held, self.newest)[1]

    def rows(self, node: Node) -> list[Row]:
        if node not in self.known:
            self.known[node] = self._rows(node)
        return self.known[node]

    def _rows(self, node: Node) -> list[Row]:
        match node:
            case Scan():
                return self._scan(node)
            case ResultWindow():
                return self._rewindowed(node)
            case TableLookup():
                return self._looked_up(node)
            case Filter():
                return self._filter(node)
            case Project():
                return self._project(node)
            case Union(parts=parts):
                return [replace(row, id=(i, *row.id)) for i, part in enumerate(parts) for row in self.rows(part)]
            case Join():
                return self._join(node)
            case JoinView():
                return self._join(node.meaning)
            case Distinct(input=below):
                return distinct(self.rows(below), strict=is_strict(below))
            case AntiJoin(left=left, right=right):
                left_keys, right_keys = self._keys(left, node.left_keys), self._keys(right, node.right_keys)
                return negation(self.rows(left), self.rows(right), left_keys, right_keys)
            case Difference(left=left, right=right):
                return difference(self.rows(left), self.rows(right))
            case Aggregated():
                return self._aggregated(node)
            case _:
                raise AssertionError(node.kind_name())

    def _keys(self, node: Node, keys: Sequence[Expr]) -> list[tuple[Any, ...]]:
        """The keys of each row of a node."""
        found = [self._values(node, key) for key in keys]
        return [tuple(values[i] for values in found) for i in range(len(self.rows(node)))]

    def _values(self, node: Node, expr: Expr) -> list[Any]:
        return values_of(expr, node.columns, [row.values for row in self.rows(node)])

    def _scan(self, node: Scan) -> list[Row]:
        events = self.events[node.stream]
        values = [tuple(event[name] for name, _ in node.stream_columns) for _, event in events]
        keys = [values_of(key, node.stream_columns, values) for key in node.partition]
        partitions = [one_value([of[i] for of in keys]) for i in range(len(events))]
        spans = lives(node.window, [time for time, _ in events], partitions)
        found = []
        for number, ((time, _), (start, end)) in enumerate(zip(events, spans, strict=True)):
            if start < end and (node.since is None or time >= node.since):
                shown = FOREVER if node.window.internal else end
                found.append(Row(values[number], (number,), start, shown, end))
        return found

    def _rewindowed(self, node: ResultWindow) -> list[Row]:
        """New results are the events of a stream, in the order in which they start."""
        results = sorted(self.rows(node.input), key=lambda row: (row.start, row.id))
        found = []
        for row, (start, end) in zip(results, lives(node.window, [row.start for row in results]), strict=True):
            if start < end:
                found.append(replace(row, start=start, end=end, held=end))
        return found

    def _filter(self, node: Filter) -> list[Row]:
        true = self._values(node.input, node.predicate)
        return [row for row, passes in zip(self.rows(node.input), true, strict=True) if passes is True]

    def _project(self, node: Project) -> list[Row]:
        values = self._keys(node.input, [expr for _, expr, _ in node.items])
        return [replace(row, values=new) for row, new in zip(self.rows(node.input), values, strict=True)]

    def _join(self, node: Join) -> list[Row]:
        """By nested loops: rows that are held at the same time and have equal keys."""
        keyed = [
            list(zip(self.rows(part), self._keys(part, keys), strict=True))
            for part, keys in zip(node.parts, node.keys, strict=True)
        ]
        found = []
        for combination in product(*keyed):
            (_, keys), *others = combination
            if all(all(map(equal, keys, other)) for _, other in others):
                rows = [row for row, _ in combination]
                start, held = max(row.start for row in rows), min(row.held for row in rows)
                if start < held:
                    values = tuple(value for row in rows for value in row.values)
                    id_ = tuple(number for row in rows for number in row.id)
                    found.append(Row(values, id_, start, min(row.end for row in rows), held))
        if node.residual is None:
            return found
        true = values_of(node.residual, node.columns, [row.values for row in found])
        return [row for row, passes in zip(found, true, strict=True) if passes is True]

    def _aggregated(self, node: Aggregated) -> list[Row]:
        rows, stay = self.rows(node.input), stays(node)
        windows = [below for below in nodes(node) if isinstance(below, Scan | ResultWindow)]
        held = [row for window in windows for row in self.rows(window)]
        if not held:
            return []
        assert self.newest is not None
        first, last = min(row.start for row in held), max(row.held for row in held)
        if node.slide is None:
            return at_changes(node, rows, first, max(last, self.newest), stay=stay)
        every = Instants(node.slide, node.offset)
        endless = last == FOREVER
        last = self.last(every) if endless else every.until(last)
        instants = [t for t in every.between(first, last) if any(row.is_held_at(t - 1) for row in held)]
        if instants and not node.keys:
            instants = list(every.between(instants[0], max(instants[-1], self.newest)))
        return at_instants(node, rows, instants, stay=stay, endless=endless)

    def _looked_up(self, node: TableLookup) -> list[Row]:
        later = self.versions.get(node.lookup.table, ())
        return looked_up(node, self.rows(node.input), [(EVER_BEFORE, self.tables[node.lookup.table][1]), *later])


def _in_order(stream: Stream, events: Rows) -> list[tuple[int, Mapping[str, Any]]]:
    """Events with their times, by time and then arrival."""
    unit = DAY if stream.types[stream.time_column] == DATE else 1
    timed = [(event[stream.time_column] * unit, event) for event in events if event[stream.time_column] is not None]
    return sorted(timed, key=lambda found: found[0])


__all__ = ["Versions", "answer_relation", "result_rows"]
