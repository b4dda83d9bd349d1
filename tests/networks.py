"""Plans at work over a few events: what a network tells in steps, and what the reference says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from changing import Heard, Life
from mullion.algebra.nodes import Columns, Node, Scan
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.expressions.vector import arrow_type
from mullion.kernels.lookup import prepare
from mullion.operators.network import Network, StepEvents
from mullion.operators.table_lookup import TableLookupOperator
from mullion.reference.relations import result_rows

Row = Mapping[str, Any]
Streams = Mapping[str, Sequence[Row]]
"""The events of each stream, in the order of time; `ts` is the time."""


class Patient(Heard):
    """Hears of rows that nobody told of before, as filters pass them on, and of ids that come again after they went."""

    def hear(self, told: Any) -> None:
        known = [tuple(numbers) in self._lives for numbers in told.retracted.ids.tolist()]
        gone = type(told.retracted)(told.retracted.ids[known], told.retracted.at[known])
        super().hear(type(told)(told.fresh, gone, told.now))


def columns_of(streams: Mapping[str, Columns], events: Streams, name: str, low: int, high: int) -> StepEvents:
    own = [row for row in events.get(name, ()) if low <= row["ts"] < high]
    rows = pa.table({column: pa.array([row[column] for row in own], arrow_type(t)) for column, t in streams[name]})
    return StepEvents(rows, np.array([row["ts"] for row in own], np.int64))


def lives_of(
    root: Node,
    events: Streams,
    times: Sequence[int],
    *,
    strategy: str = "upa",
    restarts: bool = False,
    versions: Sequence[tuple[int, Sequence[Row]]] = (),
    watch: Callable[[Network], None] = lambda network: None,
) -> list[Life]:
    """The lives that a network tells of a plan when it is told of events in steps that end at some times. `versions`
    are what the table of its lookups is from some times on."""
    streams = _columns(root)
    network = Network(strategy)
    network.set_roots([root])
    heard, before = Patient(), -(1 << 60)
    for now in times:
        for at, rows in versions:
            if before <= at < now or (restarts and at < before):
                _tell(network, rows, max(at, before))
        arrived = {name: columns_of(streams, events, name, before, now) for name in streams}
        heard.hear(network.advance(arrived, now)[root])
        watch(network)
        before = now
        if restarts:
            parts = network.parts()
            network = Network(strategy)
            network.set_roots([root])
            network.restore(parts)
    return heard.lives


def _tell(network: Network, rows: Sequence[Row], at: int) -> None:
    """Tell all lookups of a table."""
    for working in network.working.values():
        if isinstance(working.operator, TableLookupOperator):
            lookup = working.operator.node.lookup
            table = pa.table({name: pa.array([r[name] for r in rows], arrow_type(t)) for name, t in lookup.columns})
            working.operator.table_changed(prepare(lookup, table), at)


def reference_lives(root: Node, events: Streams, tables: Any = None, versions: Any = None) -> list[Life]:
    """The lives by definition."""
    streams = {name: Stream(name, columns, "ts") for name, columns in _columns(root).items()}
    rows = result_rows(Relation("q", "", root), streams, events, tables, versions)
    return [(row.values, row.start, row.end) for row in rows]


def same(lives: Sequence[Life]) -> list[Any]:
    """Lives that can be compared, NaNs and all."""
    return sorted(((_plain(values), start, end) for values, start, end in lives), key=repr)


def _plain(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple("nan" if value != value else value for value in values)


def _columns(root: Node) -> dict[str, Columns]:
    found, stack = {}, [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Scan):
            found[node.stream] = node.stream_columns
        stack += node.inputs
    return found
