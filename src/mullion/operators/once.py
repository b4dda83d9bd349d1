"""A question over relations that is asked once: the result as it is now, at the time of the newest event.

It is computed from the events that the streams keep, by the operators of standing queries in a network of its own. One
that reads materialised queries is computed from their kept results in the same way, as if these were streams. It is one
step: a PREFERENCE chooses among all that is there at the instant, with the budget of one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import conjuncts
from mullion.algebra.nodes import Aggregated, Filter, Node, Scan, TableLookup, nodes, scans
from mullion.algebra.relation import Relation
from mullion.expressions.vector import arrow_type
from mullion.instants import EVER_BEFORE
from mullion.kernels.lookup import prepare
from mullion.language.query import Call, Column, Literal, Window
from mullion.language.types import TIMESTAMP
from mullion.operators.aggregated import AggregatedOperator
from mullion.operators.materialized import KeptResult
from mullion.operators.network import Network, StepEvents
from mullion.operators.promising_network import begin_at
from mullion.operators.result import Result
from mullion.operators.table_lookup import TableLookupOperator
from mullion.operators.timed_rows import TimedRows
from mullion.planner.answer_schema import answer_schema
from mullion.storage.lifetime_index import START


def answer_now(
    relation: Relation, events: Mapping[str, StepEvents], now: int, table: Callable[[str], pa.Table]
) -> pa.Table:
    """The rows that are there at the time `now`. `events` are those of each stream up to it, in their order."""
    network = Network()
    network.set_roots([relation.root])
    for node, working in network.working.items():
        if isinstance(node, TableLookup):
            assert isinstance(working.operator, TableLookupOperator)
            working.operator.table_changed(prepare(node.lookup, table(node.lookup.table)), EVER_BEFORE)
    once = _at_one_instant(relation, now)
    assert once.stop is not None
    _begin_total(network, network.plans[relation.root], once.stop)
    if begin_at(once.stop - 1, (working.operator for working in network.working.values())):
        events = {stream: _before(once.stop, own) for stream, own in events.items()}
    result = Result(once, relation.root.pattern, answer_schema(once), asked_once=True)
    result.apply(network.advance(events, now + 1)[relation.root])
    rows = result.answers(once.stop)
    return rows if relation.slide is not None else _as_of(rows, relation.longest, now)


def _before(stop: int, events: StepEvents) -> StepEvents:
    """Those that came before an instant: a budget is not spent on others."""
    count = int(np.searchsorted(events.times, stop))
    numbers = None if events.numbers is None else events.numbers[:count]
    return replace(events, rows=events.rows.slice(0, count), times=events.times[:count], numbers=numbers)


def _begin_total(network: Network, root: Node, instant: int) -> None:
    """A total has a row at the instant of the question, also where no window has held an event by then."""
    total = root.selected_from
    if isinstance(total, Aggregated) and not total.keys:
        operator = network.working[total].operator
        assert isinstance(operator, AggregatedOperator)
        nothing = pa.table({"x": pa.nulls(1)})
        operator.widen(TimedRows(nothing, np.zeros((1, 1), np.int64), np.array([instant - 1]), np.array([instant])))


@dataclass(frozen=True)
class FromKept:
    """A question that reads results of materialised queries and nothing else, as one over streams of their rows."""

    relation: Relation
    reads: tuple[str, ...]
    """The names of the queries."""

    def asked_of(self, name: str) -> dict[str, Any]:
        """The values that the question asks of columns of a result."""
        values: dict[str, Any] = {}
        for node in nodes(self.relation.root):
            if isinstance(node, Filter) and isinstance(node.input, Scan) and node.input.stream == _rows_of(name):
                for condition in conjuncts(node.predicate):
                    match condition:
                        case Call(function="eq", args=(Column(name=column), Literal(value=value))):
                            values[column] = value
        return {column: value for column, value in values.items() if value is not None and value == value}


def reading_kept(relation: Relation, materialized: Mapping[str, Relation]) -> FromKept | None:
    """The question over the kept results; None when it reads streams too."""
    read: dict[str, None] = {}

    def replaced(node: Node) -> Node:
        for name, materialized_relation in materialized.items():
            if node == materialized_relation.root:
                read[name] = None
                return Scan(_rows_of(name), Window(unbounded=True), materialized_relation.root.columns)
        return node.with_inputs(tuple(map(replaced, node.inputs)))

    root = replaced(relation.root)
    if not read or {scan.stream for scan in scans(root)} != {_rows_of(name) for name in read}:
        return None
    return FromKept(replace(relation, root=root, longest=None), tuple(read))


def are_in_step(kept: Mapping[str, KeptResult]) -> bool:
    """Whether all results are known up to one time. Those of other streams may be ahead, and what was there before is
    kept no more."""
    return len({result.now for result in kept.values()}) <= 1


def by_key(asked: FromKept, name: str, result: KeptResult) -> tuple[str | None, Any]:
    """The key of a result and what the question asks of it; None where it asks for all rows."""
    columns = [column for column, _ in result.relation.root.columns]
    by = {result.relation.names[columns.index(c)]: value for c, value in asked.asked_of(name).items()}
    return (result.key, by[result.key]) if result.key in by else (None, None)


def answer_from_kept(
    asked: FromKept, kept: Mapping[str, KeptResult], read: Mapping[str, pa.Table] | None = None
) -> tuple[pa.Table, str, int | None]:
    """The rows, from what they were read, and up to when that is known. `read`: rows of the results that were read
    before."""
    now = max((result.now for result in kept.values()), default=EVER_BEFORE)
    if now == EVER_BEFORE:
        return answer_schema(asked.relation).empty_table(), "no events", None
    events, sources = {}, []
    for name, result in kept.items():
        columns = [column for column, _ in result.relation.root.columns]
        key, value = by_key(asked, name, result)
        rows = result.read(key=key, value=value) if read is None else read[name]
        items = rows.select(result.relation.names).rename_columns(columns[: len(result.relation.names)])
        order = np.argsort(rows[START].to_numpy(), kind="stable")
        events[_rows_of(name)] = StepEvents(items.take(pa.array(order)), rows[START].to_numpy()[order])
        sources.append(f"the materialised result of '{name}'{'' if key is None else ', found by its key'}")
    return answer_now(asked.relation, events, now - 1, no_table), " and ".join(sources), now - 1


def _rows_of(name: str) -> str:
    """Rows of a result as a stream, called as no stream can be."""
    return f"#{name}"


def no_table(name: str) -> pa.Table:
    raise AssertionError(f"table '{name}' is looked up below a kept result")


def _at_one_instant(relation: Relation, now: int) -> Relation:
    """The last instant of a periodic question; otherwise the next microsecond, which sees what lives at `now`."""
    slide, offset, instant = relation.slide or 1, relation.offset, last_instant(relation, now)
    start = instant - (relation.longest or 0)
    return replace(relation, output="rstream", slide=slide, offset=offset, start=start, stop=instant)


def last_instant(relation: Relation, now: int) -> int:
    """The instant of a question at the time `now`."""
    slide, offset = relation.slide, relation.offset
    return now + 1 if slide is None else (now - offset) // slide * slide + offset


def _as_of(rows: pa.Table, longest: int | None, now: int) -> pa.Table:
    time = arrow_type(TIMESTAMP)
    start = pa.nulls(len(rows), time) if longest is None else _times(now - longest, len(rows)).cast(time)
    rows = rows.set_column(0, rows.schema.field(0), start)
    return rows.set_column(1, rows.schema.field(1), _times(now, len(rows)).cast(time))


def _times(time: int, length: int) -> pa.Array:
    return pa.array(np.full(length, time, np.int64))
