"""The meaning of a query over relations, computed the slow way: every operator by its definition, in plain Python.

No state, no deltas, no strategies. A relation is the list of its rows with the times from when until when they are
there. At every moment, the rows that are there are the operator's result over those of its inputs (golab,
Definitions 2.1 and 3.1). Operators whose rows end for other reasons than their windows are evaluated anew at each
moment, on what is there then. A row that is there in consecutive moments is one row.

Whatever the engine does must give these answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mullion.algebra.nodes import ResultWindow, nodes
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.reference import bounded, meanings, promising  # noqa: F401
from mullion.reference.answer import Answer, Rows, TablesWithRows
from mullion.reference.outputs import answer_of
from mullion.reference.rows import Row
from mullion.reference.world import VersionedTables, World


def answer_relation(
    relation: Relation,
    streams: Mapping[str, Stream],
    events: Mapping[str, Rows],
    tables: TablesWithRows | None = None,
    versions: VersionedTables | None = None,
    event_time: int | None = None,
) -> Answer:
    """The answer of a query over relations to bounded input: the events of each stream in the order of arrival."""
    relation = _windowed(relation)
    world = World(relation, streams, events, tables or {}, versions or {}, event_time)
    windows = [row for node in nodes(relation.root) if node.own_window is not None for row in world.rows(node)]
    return answer_of(relation, world.rows(relation.root), windows, world.newest)


def result_rows(
    relation: Relation,
    streams: Mapping[str, Stream],
    events: Mapping[str, Rows],
    tables: TablesWithRows | None = None,
    versions: VersionedTables | None = None,
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
