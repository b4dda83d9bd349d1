"""The meaning of a query, computed the slow way: every window by itself, from all events, in plain Python.

No slices, no partials, no synopses, no state, no deltas, no sharing. Whatever the engine does must give these rows.
Aggregates over the window of one stream are computed window by window, everything else operator by operator
(`reference.relations`).

>>> from mullion.language.parse import parse_query
>>> from mullion.language.types import DOUBLE, STRING, TIMESTAMP
>>> trades = Stream("trades", (("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE)), "ts")
>>> events = [
...     {"ts": 1, "symbol": "A", "price": 10.0},
...     {"ts": 4, "symbol": "B", "price": 20.0},
...     {"ts": 12, "symbol": "A", "price": 40.0},
... ]
>>> def show(text):
...     for row in answer(parse_query(text), trades, events).rows:
...         print(row)

Windows of 4 us end at 3, 6, 9, 12, 15; the one that ends at 9 reaches back to 5 and is empty, and so is the one that
ends at 12, for an event at 12 is not before it:

>>> show("SELECT count(*) AS n, sum(price) AS total FROM trades [RANGE 4 us SLIDE 3 us]")
(-1, 3, 1, 10.0)
(2, 6, 1, 20.0)
(5, 9, 0, None)
(8, 12, 0, None)
(11, 15, 1, 40.0)

With GROUP BY, the groups that are present:

>>> show("SELECT symbol, max(price) AS top FROM trades [RANGE 5 us SLIDE 5 us] GROUP BY symbol")
(0, 5, 'A', 10.0)
(0, 5, 'B', 20.0)
(10, 15, 'A', 40.0)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mullion.algebra.nodes import scans
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.algebra.window_aggregate import window_aggregate
from mullion.binding.one_window import groups_one_window
from mullion.binding.relations import bind
from mullion.language.query import Query
from mullion.reference.answer import Answer, Rows, TablesWithRows
from mullion.reference.relations import answer_relation
from mullion.reference.window_aggregates import answer_windows
from mullion.reference.windows import WindowContent, answered, answered_at, newest
from mullion.reference.world import VersionedTables


def answer(
    asked: Query | Relation,
    streams: Stream | Mapping[str, Stream],
    events: Rows | Mapping[str, Rows],
    tables: TablesWithRows | None = None,
    versions: VersionedTables | None = None,
    event_time: int | None = None,
    shed: Sequence[int] = (),
) -> Answer:
    """The answer of a standing query over a bounded input: a stream and its events in the order of arrival, or several
    by name; tables as (table, rows) by name, and how they changed. A relation, which was bound before, is answered
    operator by operator; `event_time` is how far heartbeats have brought any of its streams. `shed` are the times of
    events that a stream has lost, for aggregates over its windows.

    Values are as in `Vector`: times in microseconds, dates in days.
    """
    known = {streams.name: streams} if isinstance(streams, Stream) else streams
    given = events if isinstance(events, Mapping) else dict.fromkeys(known, events)
    rows_of_tables = tables or {}
    if isinstance(asked, Relation):
        return answer_relation(asked, known, given, rows_of_tables, versions, event_time)
    declared = {name: table for name, (table, _) in rows_of_tables.items()}
    relation = bind(asked, known, declared)
    if not groups_one_window(asked, known, declared, {}):
        return answer_relation(relation, known, given, rows_of_tables, versions)
    parts = window_aggregate(relation.root)
    assert parts is not None
    stream = known[parts.scan.stream]
    return answer_windows(relation, stream, given[stream.name], rows_of_tables, answered, shed)


def answer_at(
    asked: Query | Relation,
    streams: Stream | Mapping[str, Stream],
    events: Rows | Mapping[str, Rows],
    instants: Collection[int],
    tables: TablesWithRows | None = None,
) -> Answer:
    """The answer of a query with SLIDE AT MOST over a bounded input at the instants that were chosen for it. What
    operators run is chosen some of the instants of SLIDE, and then answers what it would answer without AT MOST."""

    def at_instants(relation: Relation, times: Sequence[int], partitions: Any) -> list[WindowContent]:
        return answered_at(relation, times, instants)

    known = {streams.name: streams} if isinstance(streams, Stream) else streams
    given = events if isinstance(events, Mapping) else dict.fromkeys(known, events)
    rows_of_tables, relation = tables or {}, asked
    if isinstance(relation, Query):
        relation = bind(relation, known, {name: table for name, (table, _) in rows_of_tables.items()})
    scanned = scans(relation.root)
    if any(scan.window.at_most for scan in scanned):
        (scan,) = scanned
        return answer_windows(relation, known[scan.stream], given[scan.stream], rows_of_tables, at_instants)
    every = answer_relation(relation, known, given, rows_of_tables)
    return Answer(every.names, every.types, [row for row in every.rows if row[1] in instants])


def ask(
    query: Query, stream: Stream, events: Rows, tables: TablesWithRows | None = None, event_time: int | None = None
) -> Answer:
    """The answer of a question that is asked once, at the end of the input: now is the time of the newest event, or
    `event_time`, if shed ones have brought the stream so far."""

    def only_newest(relation: Relation, times: Sequence[int], partitions: Any) -> list[WindowContent]:
        view = newest(relation, times, partitions, event_time)
        return [] if view is None else [view]

    given = tables or {}
    relation = bind(query, {stream.name: stream}, {name: table for name, (table, _) in given.items()})
    return answer_windows(relation, stream, events, given, only_newest)


__all__ = ["Answer", "answer", "answer_at", "ask"]
